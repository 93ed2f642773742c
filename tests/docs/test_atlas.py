"""The page of the atlas: what the generator writes is what is committed, and its numbers can be had again."""

from pathlib import Path

import pytest
from book.atlas import RECORDED, main, page
from book.atlas_plots import atlas_figure
from book.layout import cut_texts, overlapping_texts, small_texts
from book.record_positions import drafts

from minispec import load_pair
from minispec.evidence.atlas.atlas import chain_means, measure
from minispec.evidence.atlas.family import positions, recorded
from minispec.evidence.atlas.rules import RULES
from minispec.io.files import read_json

PAGE = Path(__file__).resolve().parents[2] / "docs" / "atlas.md"
FOUND = read_json(RECORDED)


def test_the_committed_page_is_what_the_generator_makes(tmp_path):
    assert main([str(tmp_path / "atlas.md")]) == 0
    assert (tmp_path / "atlas.md").read_text(encoding="utf-8") == PAGE.read_text(encoding="utf-8")
    assert page(FOUND) == PAGE.read_text(encoding="utf-8") and main([]) == 2


def test_what_was_recorded_comes_out_again():
    """Every rule is in it with each number of candidates; those with one are measured anew."""
    assert FOUND["passed"] and FOUND["seed"] == 0
    found = {(one["name"], one["candidates"]): one for one in FOUND["rules"]}
    assert list(found) == [(rule.name, k) for rule in RULES for k in rule.candidates]
    for rule in RULES:
        if rule.candidates == (1,):
            again, before = measure(rule, 1, *positions()), found[rule.name, 1]
            for name in ("accepted", "optimum", "total_variation", "draws"):
                assert getattr(again, name) == pytest.approx(before[name], abs=1e-9)
    assert [one.block for one in chain_means()] == pytest.approx([one["block"] for one in FOUND["chains"]])


def test_the_pair_still_says_what_was_recorded():
    """The first draft, up to rounding; all drafts are distributions."""
    first, kept = next(drafts(load_pair())), recorded()
    for name, dists in (("p", kept.target_probs[0]), ("q", kept.draft.probs[0])):
        for ours, theirs in zip(first[name], dists.tolist(), strict=True):
            assert ours == pytest.approx(theirs, abs=1e-4)
    assert kept.target_probs.shape == (40, 5, 9) and float(kept.target_probs.min()) >= 0


def test_the_figure_can_be_read_and_says_the_same_in_words():
    picture = atlas_figure(FOUND["rules"])
    assert not (cut_texts(picture.figure) or overlapping_texts(picture.figure) or small_texts(picture.figure))
    assert picture.twin.startswith(picture.title) and picture.alt.startswith(picture.title)
    assert "greedy-drafting                3           0       0.904     0.904" in picture.twin
