"""The field guide to bugs has every bug of the zoo, once, and what it advises works.

Facts on the page come from the zoo and its record when the book is built. The prose is the page's own.
`RECIPES` are what it advises for any implementation: its list of six, as a few lines of code each, that
assert something of the code as it is. They are tried on the shipped code, and on bugs that they find.
"""

import re
from pathlib import Path

import pytest
import tiny
import torch
from field_guide import linked, recorded

from minispec import ModelDrafter, Warp, check_verifier, observe, verify_coupled, verify_rejection
from minispec.evidence.checker.instances import standard_instances
from minispec.evidence.proof.cases import Case
from minispec.evidence.proof.distributions import (
    exact_distributions,
    speculative_distributions,
    total_variation,
)
from minispec.evidence.proof.first_token import first_token
from minispec.evidence.proof.models import table_pair
from minispec.evidence.zoo.mutants import FAMILIES, MUTANTS, mutant_named
from minispec.evidence.zoo.mutation import planted
from minispec.verifiers.block import verify_block
from minispec.verifiers.coupled import KeyedRng

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "pitfalls.md").read_text(encoding="utf-8")
ENTRY = re.compile(r"^```\{bug\} ([^\n]+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FAMILY = re.compile(r"^```\{made\} bugs (\S+)\n", re.MULTILINE)
LEADS = ("**Symptom.** ", "**Why.** ", "**See it.** ")


def entries():
    """Returns per family of the page the bugs that are described after its table."""
    parts = FAMILY.split(PAGE)
    return {
        name: [bug for bugs, _ in ENTRY.findall(text) for bug in bugs.split()]
        for name, text in zip(parts[1::2], parts[2::2], strict=True)
    }


def test_every_bug_has_its_entry_in_its_family():
    """Families are those of the code, entries stand in its order, and the families are the whole zoo."""
    found = entries()
    assert found == {name: [mutant.name for mutant in FAMILIES[name]] for name in found}
    assert [bug for bugs in found.values() for bug in bugs] == [mutant.name for mutant in MUTANTS]


def test_entries_say_symptom_reason_and_remedy():
    """Each in a paragraph of its own, in this order, and short; bugs that are alike share an entry."""
    for names, text in ENTRY.findall(PAGE):
        paragraphs = text.strip().split("\n\n")
        assert [lead for lead, words in zip(LEADS, paragraphs, strict=True) if words.startswith(lead)] == [
            *LEADS
        ]
        assert max(len(words.split()) for words in paragraphs) <= 80 * len(names.split()), names


def test_the_record_is_of_this_zoo():
    """What the page says of damage and finders was recorded for the bugs that there are now."""
    effects = {name: row.effect for name, (row, *_) in recorded().items()}
    assert [*effects.items()] == [(mutant.name, mutant.effect) for mutant in MUTANTS]


GITHUB = "https://github.com"
LINK = re.compile(r"\[([^]]+)\]\(([^)]+)\)")


@pytest.mark.parametrize(
    ("seen", "urls"),
    [
        (
            "huggingface/transformers #32867 and #47932",
            [f"{GITHUB}/huggingface/transformers{end}" for end in ("", "/issues/32867", "/issues/47932")],
        ),
        ("vllm-metal #716", [f"{GITHUB}/vllm-project/vllm-metal{end}" for end in ("", "/issues/716")]),
        (
            "vLLM advisory GHSA-8wr5-jm2h-8r4f: an id at or beyond V",
            [f"{GITHUB}/vllm-project/vllm{end}" for end in ("", "/security/advisories/GHSA-8wr5-jm2h-8r4f")],
        ),
        ("Medusa (arXiv 2401.10774), where it is meant", ["https://arxiv.org/abs/2401.10774"]),
        ("not seen in other code", []),
    ],
)
def test_where_a_bug_was_seen_becomes_links(seen, urls):
    """Issues belong to the repository named before them; the words stay as they were."""
    assert [url for _, url in LINK.findall(linked(seen))] == urls
    assert LINK.sub(r"\1", linked(seen)) == seen
    for mutant in MUTANTS:  # no number of an issue stays plain text
        assert not re.search(r"#\d+", LINK.sub("", linked(mutant.seen)))


PROMPTS = [[1], [0, 2]]


def play(target, draft, prompts=PROMPTS, **changes):
    """Plays a run, of two rows unless told otherwise."""
    return list(tiny.decode(target, ModelDrafter(draft), prompts, observe, **{"max_new_tokens": 9} | changes))


def distribution_is_kept(p, q):
    """The distribution of the first token is p, up to rounding; weights come in."""
    p, q = (torch.tensor(weights).double() / sum(weights) for weights in (p, q))
    assert first_token(verify_rejection, p, q).distribution == pytest.approx(p, abs=1e-9)


def own_draft_is_accepted():
    """The target as its own draft: every token is accepted, also in round 2."""
    target, _ = tiny.table_pair(5, 0)
    rounds = play(target, target, [[1]], max_new_tokens=30)
    assert all(r.accepted(0) == r.drafted(0) for r in rounds) and len(rounds) > 1


def own_draft_writes_the_greedy_text():
    target, _ = tiny.table_pair(5, 0)
    tiny.targets_own_text(target, ModelDrafter(target), PROMPTS, verifier=verify_rejection, max_new_tokens=9)


def lengths_are_right():
    """Committed minus 1, in both caches, after each round."""
    lengths = [1, 2]
    for r in play(*tiny.table_pair(5, 0, 0.4), max_new_tokens=20):
        lengths = [n + len(emitted) for n, emitted in zip(lengths, r.emitted, strict=True)]
        assert list(r.target_cache.after) == list(r.draft_cache.after) == [n - 1 for n in lengths]


def ends_end(cap):
    """Texts are cut at the first end, for the reason that it is one."""
    settings = {"prompts": [[1]], "max_new_tokens": cap, "warp": Warp(0)}
    pair = tiny.table_pair(5, 0, 0.1)
    (whole,), _ = tiny.outcome(play(*pair, **settings))
    for end in set(whole):
        cut = whole[: whole.index(end) + 1]
        assert tiny.outcome(play(*pair, **settings, eos=end)) == ([cut], ["eos"])


def rows_are_as_if_alone():
    """Coupled, since its noise belongs to row and position: a row alone emits what it emits in a batch."""
    target, draft = tiny.gpt_pair()
    prompts = [[1], [0, 2, 3, 4]]
    settings = {"max_new_tokens": 12, "rng": KeyedRng(0)}
    together, _ = tiny.outcome(play(target, draft, prompts, verifier=verify_coupled, **settings), 2)
    assert together == tiny.alone(target, prompts, **settings)
    assert together[:1] == tiny.alone(target, prompts[:1], **settings)


def joint_distribution_is_right(**changes):
    case = Case("small", *table_pair(3), ((0,),), 2, 3, **changes)
    (came,) = speculative_distributions(case).distributions
    (should,) = exact_distributions(case)
    assert total_variation(came, should) < 1e-9


def rule_is_lossless():
    several = [one for one in standard_instances() if one.k > 1 and one.vocab_size < 5]
    assert check_verifier(verify_block, instances=several[::2]).passed


RECIPES = {
    rule_is_lossless: "block-ends-at-the-first-no block-residual-of-a-token",
    lambda: distribution_is_kept((3, 2, 1), (1, 1, 4)): (
        "accept-if-a-fresh-draw-agrees test-reuses-the-draw correction-from-p"
    ),
    lambda: distribution_is_kept((1, 1), (1, 0)): "ratio-inverted drafts-support-for-p",
    joint_distribution_is_right: (
        "greedy-draft-soft-q stored-q-rounded one-number-for-all-places rounded-ratio "
        "going-on-after-a-rejection residual-of-the-last-place"
    ),
    lambda: joint_distribution_is_right(warp=Warp(top_k=2)): "unwarped-q",
    lambda: joint_distribution_is_right(warp=Warp(0.7)): "q-without-temperature",
    own_draft_is_accepted: "token-missing-in-the-drafts-cache pending-read-again",
    own_draft_writes_the_greedy_text: "bonus-from-the-place-before bonus-from-the-draft",
    lengths_are_right: "rollback-one-short rejected-stay-in-the-drafts-cache drafts-rollback-one-too-far",
    lambda: [ends_end(cap) for cap in range(2, 10)]: "stop-inside-the-draft-ignored cap-hides-a-stop",
    rows_are_as_if_alone: "rows-cut-to-the-shortest prompt-padding-stays leftovers-seen",
}


@pytest.mark.parametrize(("recipe", "bugs"), RECIPES.items())
def test_what_the_guide_advises_finds_bugs(recipe, bugs):
    """The advice says nothing of the shipped code, and something of each bug, which may do anything."""
    recipe()
    for name in bugs.split():
        with planted(mutant_named(name)), pytest.raises(Exception):  # noqa: B017
            recipe()
