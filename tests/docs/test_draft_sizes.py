"""Drafts of several sizes: trained for their target, and kept."""

from dataclasses import replace

import pytest
import torch
from book import draft_sizes
from book.draft_sizes import recipe_of, train_drafts
from pairs import build_pair, tiny_recipe

from minispec import load_pair
from minispec.evidence.bench.sections import drafts_of, find_drafts

TWO = {"1×8": (1, 8, 4, 2, 24), "1×16": (1, 16, 4, 2, 24)}


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pairs") / "tiny"
    return load_pair(build_pair(folder, max_length=256, recipe=tiny_recipe().to_json()))


@pytest.fixture
def short(monkeypatch, minispec_home):
    monkeypatch.setattr(draft_sizes, "PLAIN_STEPS", 4)
    monkeypatch.setattr(draft_sizes, "DISTILL_STEPS", 2)
    monkeypatch.setattr(draft_sizes, "SIZES", TWO)


def test_drafts_are_trained_and_kept(pair, short):
    """One per size, with the target's vocabulary and context; a second call trains nothing."""
    told = []
    trained = train_drafts(pair, told.append)
    assert sorted(trained) == ["1×16", "1×8"] and find_drafts(pair).keys() == trained.keys()
    assert [trained[name].config.width for name in TWO] == [8, 16]
    assert all((d.vocab_size, d.max_length) == (pair.target.vocab_size, 256) for d in trained.values())
    assert "draft 1×16: draft, step 2 of 2" in told
    told.clear()
    again = train_drafts(pair, told.append)
    assert told == [] and all(torch.equal(again[n].norm.weight, trained[n].norm.weight) for n in TWO)


def test_a_pair_that_does_not_say_how_it_was_trained(tmp_path, minispec_home):
    """Nothing is trained for it; the bench compares the drafts that are there."""
    bare = load_pair(build_pair(tmp_path / "bare"))
    with pytest.raises(ValueError, match="does not say how the pair was trained"):
        train_drafts(bare)
    with pytest.raises(ValueError, match="no recipe"):
        recipe_of(replace(bare, info={**bare.info, "recipe": {"corpus": "stories"}}))
    found = drafts_of(bare)
    assert list(found)[0] == "untrained" and list(found)[-1] == "the target"
    assert found["the target"] is bare.target and found["the pair's"] is bare.draft
    assert {draft.vocab_size for draft in found.values()} == {bare.target.vocab_size}
    half = found["the pair's, bfloat16"]
    assert half.dtype == torch.bfloat16 and bare.draft.dtype == torch.float32
    assert torch.equal(half.norm.weight, bare.draft.norm.weight.bfloat16())
    rounded = replace(bare, target=half, draft=half)  # a pair that is in bfloat16 itself has no second one
    assert "the pair's, bfloat16" not in drafts_of(rounded)
