"""`--verifier typical`: with every drafter of chains, and it says that the text is not the target's."""

import json

import pytest
from native_models import has_compiler
from pairs import call

from minispec.native.drafters import DRAFTERS

CHAINS = [name for name, kind in DRAFTERS.items() if kind.rules is None]
SAID = "--verifier typical is lossy: this text is not distributed as the target's own"


def generate(capsys, *arguments):
    """Returns the document, and what stands on standard error."""
    prompt = ("--prompt", "Once there were two friends. The cat", "--max-new-tokens", 12)
    status, out, err = call(capsys, "generate", *prompt, "--json", *arguments)
    assert status == 0, err
    return json.loads(out), err


@pytest.mark.parametrize("drafter", CHAINS)
def test_every_drafter_of_chains_can_be_verified_so(capsys, drafter):
    """The document and standard error say what it costs."""
    found, err = generate(capsys, "--verifier", "typical", "--drafter", drafter, "--ignore-eos")
    assert len(found["tokens"]) == 12 and found["lossless"] is False
    assert SAID in err.splitlines()


def test_the_text_itself_stays_clean(capsys):
    """What another program may read has no remark in it."""
    prompt = ("--prompt", "The cat", "--max-new-tokens", 5, "--verifier", "typical")
    for backend in ["torch", "native"] if has_compiler() else ["torch"]:
        status, out, err = call(capsys, "generate", *prompt, "--backend", backend)
        assert status == 0 and out.startswith("The cat") and "lossy" not in out and SAID in err


@pytest.mark.parametrize(
    "arguments",
    [
        ("--verifier", "typical", "--temperature", 0),
        ("--verifier", "typical", "--target-only"),
        ("--verifier", "typical", "--k", 0),
        ("--verifier", "rejection"),
        ("--verifier", "coupled"),
    ],
)
def test_where_nothing_is_lost_nothing_is_said(capsys, arguments):
    """At temperature 0 it is the greedy rule; without a draft there is nothing to accept."""
    found, err = generate(capsys, *arguments)
    assert found["lossless"] is True and "lossy" not in err


def test_a_tree_is_refused_in_one_line(capsys):
    """Its rules are others."""
    status, out, err = call(
        capsys, "generate", "--prompt", "The cat", "--drafter", "tree", "--verifier", "typical"
    )
    assert status == 2 and "the typical rule verifies chains" in err and len(err.strip().splitlines()) == 1
