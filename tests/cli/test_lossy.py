"""`--verifier`: rules that are lossy say so; those that look beyond a rejection count no tested tokens."""

import json

import pytest
from native_models import has_compiler
from pairs import call

from minispec.native.drafters import DRAFTERS

CHAINS = [name for name, kind in DRAFTERS.items() if kind.rules is None]
LOSSY = "--verifier {} is lossy: this text is not distributed as the target's own"
SAID = LOSSY.format("typical")
BACKENDS = ["torch", "native"] if has_compiler() else ["torch"]


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
    for backend in BACKENDS:
        status, out, err = call(capsys, "generate", *prompt, "--backend", backend)
        assert status == 0 and out.startswith("The cat") and "lossy" not in out and SAID in err


@pytest.mark.parametrize("rule", ["block", "compare", "relaxed", "mixture", "lenient"])
def test_backends_say_the_same_by_every_rule(capsys, rule):
    """The same texts from the same numbers, and the same counts."""
    found = [generate(capsys, "--verifier", rule, "--backend", one, "--ignore-eos") for one in BACKENDS]
    for document, err in found:
        assert document["lossless"] == (LOSSY.format(rule) not in err) == (rule in ("block", "compare"))
        assert (document["acceptance"] is None) == (rule == "block")
        assert document["tokens"] == found[0][0]["tokens"] and len(document["tokens"]) == 12


def test_a_mixture_is_lossy_at_temperature_0_too(capsys):
    """There the draft's most probable token comes out as well as the target's."""
    found, err = generate(capsys, "--verifier", "mixture", "--temperature", 0)
    assert found["lossless"] is False and LOSSY.format("mixture") in err


def test_the_demo_shows_one_rule(pair, capsys):
    """Each on every backend, labelled; without a name the two usual ones."""
    options = ("--pair", pair, "--prompt", "The cat", "--no-train", "--k", 2, "--max-new-tokens", 4, "--json")
    for rule in ("block", "coupled", "mixture"):
        status, out, err = call(capsys, "demo", "--verifier", rule, *options)
        (runs,) = [one["runs"] for one in json.loads(out)["pairs"]]
        assert status == 0 and {run["verifier"] for run in runs} == {rule} and len(runs) == len(BACKENDS)
        assert {run["lossless"] for run in runs} == {rule != "mixture"} == {LOSSY.format(rule) not in err}
    for more in (("--html", "page.html"), ("--drafter", "tree")):
        status, _, err = call(capsys, "demo", "--verifier", "block", *more, *options)
        assert status == 2 and len(err.strip().splitlines()) == 1


@pytest.mark.parametrize(
    "arguments",
    [
        ("--verifier", "typical", "--temperature", 0),
        ("--verifier", "lenient", "--temperature", 0),
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
