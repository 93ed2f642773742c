"""The atlas: its recorded numbers can be had again, and its figure can be read."""

import pytest
from book.atlas import RECORDED
from book.atlas_plots import atlas_figure
from book.record_positions import drafts
from readability import unreadable

from minispec import load_pair
from minispec.evidence.atlas.atlas import chain_means, measure
from minispec.evidence.atlas.family import positions, recorded
from minispec.evidence.atlas.rules import RULES
from minispec.io.files import read_json

FOUND = read_json(RECORDED)


def test_what_was_recorded_comes_out_again():
    """Every rule is in it with each number of candidates; those with one are measured anew."""
    assert FOUND["passed"] and FOUND["seed"] == 0
    found = {(one["name"], one["candidates"]): one for one in FOUND["rules"]}
    assert list(found) == [(rule.name, k) for rule in RULES for k in rule.candidates]
    for rule in RULES:
        if rule.candidates == (1,):
            again = measure(rule, 1, *positions())
            for name in ("accepted", "optimum", "total_variation", "draws"):
                assert getattr(again, name) == pytest.approx(found[rule.name, 1][name], abs=1e-9)
    assert [one.block for one in chain_means()] == pytest.approx([one["block"] for one in FOUND["chains"]])


def test_the_pair_still_says_what_was_recorded():
    """The first draft, up to rounding; all drafts are distributions."""
    first = next(drafts(load_pair()))
    kept = recorded()
    for name, dists in (("p", kept.target_probs[0]), ("q", kept.draft.probs[0])):
        for ours, theirs in zip(first[name], dists.tolist(), strict=True):
            assert ours == pytest.approx(theirs, abs=1e-4)
    assert kept.target_probs.shape == (40, 5, 9) and float(kept.target_probs.min()) >= 0


def test_the_figure_can_be_read_and_says_the_same_in_words():
    picture = atlas_figure(FOUND["rules"])
    assert unreadable(picture.figure) == {}
    assert picture.twin.startswith(picture.title) and picture.alt.startswith(picture.title)
    assert "greedy-drafting                3           0       0.904     0.904" in picture.twin
    assert "recursive-with-replacement" in picture.twin and "lenient" in picture.twin
