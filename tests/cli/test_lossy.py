"""`--verifier`: rules that are lossy say so; those that look beyond a rejection count no tested tokens."""

import pytest
from native_models import has_compiler

from minispec.drafters.registry import DRAFTERS

# Those that the shipped pair has all parts of.
CHAINS = [name for name, entry in DRAFTERS.items() if not (entry.proposes_trees or "eagle3" in name)]
LOSSY = "--verifier {} is lossy: this text is not distributed as the target's own"
BACKENDS = ["torch", "native"] if has_compiler() else ["torch"]
SHIPPED = "generate --prompt 'Once there were two friends. The cat' --max-new-tokens 12 --ignore-eos"


@pytest.mark.parametrize("drafter", CHAINS)
def test_every_drafter_of_chains_can_be_verified_so(document, drafter):
    """The document and standard error say what it costs."""
    result, err = document(f"{SHIPPED} --verifier typical --drafter {drafter}")
    assert len(result["tokens"]) == 12 and result["lossless"] is False
    assert LOSSY.format("typical") in err.splitlines()


@pytest.mark.parametrize("rule", ["block", "compare", "relaxed", "mixture", "lenient"])
def test_backends_emit_the_same_by_every_rule(document, rule):
    """The same texts from the same numbers, and the same counts."""
    tokens = []
    for backend in BACKENDS:
        result, err = document(f"{SHIPPED} --verifier {rule} --backend {backend}")
        assert result["lossless"] == (LOSSY.format(rule) not in err) == (rule in ("block", "compare"))
        assert (result["acceptance"] is None) == (rule == "block")
        tokens.append(result["tokens"])
    assert tokens[0] == tokens[-1] and len(tokens[0]) == 12


@pytest.mark.parametrize(
    ("settings", "lossless"),
    [
        ("mixture --temperature 0", False),  # the draft's most probable token comes out as well
        ("typical --temperature 0", True),
        ("typical --target-only", True),
        ("typical --k 0", True),
        ("coupled", True),
    ],
)
def test_where_nothing_is_lost_nothing_is_said(document, settings, lossless):
    """At temperature 0 it is the greedy rule; without a draft there is nothing to accept."""
    result, err = document(f"{SHIPPED} --verifier {settings}")
    assert result["lossless"] is lossless is ("lossy" not in err)
