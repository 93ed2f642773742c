"""Drafts of several sizes: trained for their target, kept, taken up where a run was cut."""

import pytest
import torch
from pairs import build_pair, tiny_config, tiny_recipe

from minispec import load_pair
from minispec.evidence.bench.draft_sizes import SIZES, find_drafts, folder_of, main, recipe_of, train_drafts
from minispec.evidence.bench.sections.drafts import drafts_of
from minispec.evidence.bench.settings import draft_sizes

TWO = {"1×8": tiny_config(1, width=8), "1×16": tiny_config(1, width=16)}


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pairs") / "tiny"
    return load_pair(build_pair(folder, max_length=256, recipe=tiny_recipe().to_json()))


@pytest.fixture
def short(monkeypatch):
    monkeypatch.setattr(draft_sizes, "PLAIN_STEPS", 4)
    monkeypatch.setattr(draft_sizes, "DISTILL_STEPS", 2)


def test_drafts_are_trained_and_kept(pair, short, tmp_path):
    """One per size, with the target's vocabulary and context; a second call trains nothing."""
    told = []
    drafts = train_drafts(pair, tmp_path, TWO, tell=lambda share, text: told.append((share, text)))
    assert list(drafts) == ["1×8", "1×16"]
    assert [draft.config.width for draft in drafts.values()] == [8, 16]
    assert all((d.vocab_size, d.max_length) == (pair.target.vocab_size, 256) for d in drafts.values())
    assert any("1×16: draft, step 2" in text for _, text in told) and told == sorted(told, key=lambda t: t[0])
    told.clear()
    again = train_drafts(pair, tmp_path, TWO, tell=lambda share, text: told.append(text))
    assert told == [] and all(torch.equal(again[n].norm.weight, drafts[n].norm.weight) for n in TWO)


def test_a_cut_training_goes_on(pair, short, tmp_path, monkeypatch):
    """Cut in its last run, and taken up, it ends with the same weights as one in one go."""
    whole = train_drafts(pair, tmp_path / "whole", {"1×8": TWO["1×8"]})["1×8"]
    keep = draft_sizes._keep
    monkeypatch.setattr(draft_sizes, "_keep", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        train_drafts(pair, tmp_path / "cut", {"1×8": TWO["1×8"]})
    assert find_drafts(pair, tmp_path / "cut", TWO) == {}
    monkeypatch.setattr(draft_sizes, "_keep", keep)
    steps = []
    taken_up = train_drafts(
        pair, tmp_path / "cut", {"1×8": TWO["1×8"]}, tell=lambda _, text: steps.append(text)
    )["1×8"]
    assert not any("step 1" in text for text in steps)  # no step was taken again
    for name, weight in whole.state_dict().items():
        assert torch.equal(weight, taken_up.state_dict()[name])


def test_the_recipe_is_the_pairs_own(pair):
    """The same corpus and curricula, with the steps of this purpose."""
    recipe = recipe_of(pair)
    assert (recipe.corpus, recipe.seed, recipe.stories) == ("stories", 0, 40)
    assert sum(stage.steps for stage in recipe.draft_stages) == draft_sizes.PLAIN_STEPS
    assert sum(stage.steps for stage in recipe.distill_stages) == draft_sizes.DISTILL_STEPS
    assert recipe_of(pair, 0.5).distill_stages[0].steps == draft_sizes.DISTILL_STEPS // 2


def test_the_shipped_pair_says_how_it_was_trained():
    """Its recipe is read back; at least five sizes are trained, from under the draft's up."""
    pair = load_pair()
    assert recipe_of(pair).draft_stages[-1].window == 256
    assert len(SIZES) >= 5 and [c.width for c in SIZES.values()][0] < pair.draft.config.width
    assert folder_of(pair) != folder_of(pair, 0.1)


def test_the_drafts_that_are_compared(pair, minispec_home):
    """From one that guesses at random to the target itself, which is last."""
    drafts = drafts_of(pair)
    assert list(drafts)[0] == "untrained" and list(drafts)[-1] == "the target"
    assert drafts["the target"] is pair.target and drafts["the pair's"] is pair.draft
    assert {draft.vocab_size for draft in drafts.values()} == {pair.target.vocab_size}


def test_what_cannot_be_trained_is_one_line(tmp_path, capsys, minispec_home):
    """A pair that does not say how it was trained, and options that are none."""
    bare = load_pair(build_pair(tmp_path / "bare"))
    with pytest.raises(ValueError, match="how the pair was trained"):
        train_drafts(bare, tmp_path / "drafts", TWO)
    for arguments, words in ((["--pair"], "usage"), (["--scale", "0"], "--scale"), (["--scale", "x"], "x")):
        assert main(arguments) == 2
        error = capsys.readouterr().err
        assert words in error and error.count("\n") == 1
