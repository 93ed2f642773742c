"""What the caches hold at each moment, and what they save: by hand, and against runs of real models."""

import re

import pytest
import torch
from book.layout import overlapping_texts, small_texts
from figures import WORDS, by_hand, readable, shipped_run, tiny_run
from matplotlib.colors import to_hex
from tiny import gpt_pair

from minispec.core.loop import generate
from minispec.core.rng import SeededRng
from minispec.core.warp import Warp
from minispec.show.plots.caches import (
    MOMENTS,
    cache_grid,
    cache_slots,
    positions,
    recomputation,
    steps_with_cache,
    steps_without_cache,
)
from minispec.show.signs import STATES
from minispec.show.text import needs_catch_up

LETTERS = {
    "prompt": "p",
    "committed": "=",
    "pending": ">",
    "drafted": "?",
    "accepted": "+",
    "rolled back": "-",
    "empty": "_",
}


def drawn(trace, index, moment, row=0):
    """Returns the states of each owner as a string of letters."""
    slots = cache_slots(trace, index, moment, row)
    owners = dict.fromkeys(slot.owner for slot in slots)
    return {o: "".join(LETTERS[slot.state] for slot in slots if slot.owner == o) for o in owners}


def states(trace, index):
    return {moment: tuple(drawn(trace, index, moment).values()) for moment in MOMENTS}


def test_a_round_with_a_rejection():
    """One of three kept: the slots of the other two are rolled back; the draft had not read the last one."""
    assert states(by_hand([0, 1, 3], ([5, 6, 7], 1, 8)), 0) == {
        "before": ("pp>", "pp____", "pp____"),
        "drafted": ("pp>???", "pp____", "ppp??_"),
        "verified": ("pp>???", "ppp???", "ppp??_"),
        "rolled back": ("ppp+>", "ppp+--", "ppp+-_"),
        "caught up": ("ppp+>", "ppp+--", "ppp+-_"),
    }


def test_a_round_with_a_bonus_needs_a_catch_up():
    """All kept: nothing is rolled back, and the draft's cache lacks a token until it catches up."""
    trace = by_hand([0, 3], ([5], 0, 8), ([5, 6], 2, 7))
    assert states(trace, 1) == {
        "before": ("pp>", "pp___", "pp___"),
        "drafted": ("pp>??", "pp___", "pp=?_"),
        "verified": ("pp>??", "pp=??", "pp=?_"),
        "rolled back": ("pp=++>", "pp=++", "pp=+_"),
        "caught up": ("pp=++>", "pp=++", "pp=++"),
    }
    assert needs_catch_up(trace.rounds[1]) and not needs_catch_up(trace.rounds[0])


def test_a_round_cut_inside_the_draft():
    """At an end inside the accepted draft its last token is pending; what comes after it is rolled back."""
    trace = by_hand([0, 3], ([5, 10, 7], 3, 8, 2))
    assert states(trace, 0)["rolled back"] == ("pp+>", "pp+--", "pp+-_")


def test_a_drafter_without_a_cache_has_no_slots():
    """Only the text and the target are there."""
    trace = by_hand([0, 3], ([5], 1, 8), draft_cache=False)
    assert {slot.owner for slot in cache_slots(trace, 0, "verified")} == {"text", "target"}
    assert not needs_catch_up(trace.rounds[0])


def test_slots_name_the_token_that_stands_there():
    """A slot that was rolled back still names the rejected token, while the text has the correction there."""
    slots = cache_slots(by_hand([0, 1, 3], ([5, 6, 7], 1, 8)), 0, "rolled back")
    tokens = {o: [s.token for s in slots if s.owner == o] for o in ("text", "target", "draft")}
    assert tokens == {
        "text": [0, 1, 3, 5, 8],
        "target": [0, 1, 3, 5, 6, 7],
        "draft": [0, 1, 3, 5, 6, None],
    }


@pytest.mark.parametrize("prompts", [[(3, 1, 4)], [(3,), (1, 4, 1, 0), (2, 0, 3, 1, 4)]])
@pytest.mark.parametrize("k", [1, 4])
def test_held_slots_are_what_the_caches_held(prompts, k):
    """In runs of real models, row by row: what the loop measured; at last all but the pending one."""
    trace = tiny_run(prompts=prompts, k=k)
    assert {trace.rounds[i].kind(0) for i in range(len(trace.rounds))} >= {"correction", "bonus"}
    for row, prompt in enumerate(prompts):
        text = list(prompt)
        for r in (r for r in trace.rounds if r.live[row]):
            held = {(moment, owner): [] for moment in MOMENTS for owner in ("text", "target", "draft")}
            for moment in MOMENTS:
                for slot in cache_slots(trace, r.index, moment, row):
                    if slot.held:
                        held[moment, slot.owner].append(slot.token)
            whole = [*text, *r.draft.tokens[row, : r.drafted(row)].tolist()]
            full = min(r.target_cache.verified[row], len(whole))
            assert held["before", "target"] == whole[: r.target_cache.before[row]] == text[:-1]
            assert held["drafted", "draft"] == whole[: min(r.draft_cache.verified[row], len(whole))]
            assert held["verified", "target"] == whole[:full]
            text += r.emitted[row]
            assert held["rolled back", "target"] == held["caught up", "draft"] == text[:-1]
            assert held["caught up", "text"] == text


@pytest.mark.parametrize(
    ("index", "moment", "row", "said"),
    [
        (9, "before", 0, "no round 9"),
        (-1, "before", 0, "no round -1"),
        (0, "later", 0, "'later' is unknown"),
        (2, "before", 1, "row 1 was done"),
    ],
)
def test_what_is_not_there_is_refused(index, moment, row, said):
    """A round, a moment or a row that is not there ends in one clear line."""
    trace = tiny_run(prompts=[(3, 1), (2, 2)], new=9)
    done = trace.rounds[2].__class__(**{**vars(trace.rounds[2]), "live": (True, False)})
    trace = trace.__class__(trace.prompts, {}, (*trace.rounds[:2], done))
    with pytest.raises(ValueError, match=said):
        cache_slots(trace, index, moment, row)


@pytest.mark.parametrize("index", [0, 1])
def test_the_figure_can_be_read(index):
    """Text is large, nothing overlaps, and each moment stands in the twin."""
    trace, words = shipped_run()
    picture = cache_grid(trace, words, index)
    readable(picture)
    titles = [text.get_text() for text in picture.figure.axes[0].texts]
    assert ("5  After the draft has caught up" in titles) == needs_catch_up(trace.rounds[index])
    assert picture.twin.count("target ") == 4 + needs_catch_up(trace.rounds[index])
    assert str(trace.rounds[index].target_cache.after[0]) in picture.caption


@pytest.mark.parametrize("moment", MOMENTS)
def test_one_moment_alone_can_be_drawn(moment):
    """Each moment has a figure of its own, from the first token of a short prompt on."""
    trace = by_hand([0, 3], ([5, 6], 2, 7), ([5], 0, 9))
    picture = cache_grid(trace, WORDS, 0, [moment])
    readable(picture)
    assert "…" not in picture.twin and "a" in picture.twin.split()


def test_a_long_prefix_shares_one_column():
    """Tokens far left of the pending one are not drawn one by one, but they count."""
    trace = by_hand([0] * 20 + [3], ([5], 1, 9))
    texts = [t.get_text() for t in cache_grid(trace, WORDS, 0, ["verified"]).figure.axes[0].texts]
    assert (
        texts.count("17 tokens") == 3
        and "holds 22" in texts
        and "21 tokens" in texts
        and texts.count("a") == 9
    )


def test_the_targets_line_alone():
    """Text and target's cache at one moment: the pending token stands outside, the draft nowhere."""
    trace = by_hand([0, 1, 3], ([5, 6], 1, 7), draft_cache=False)
    picture = cache_grid(trace, WORDS, 0, ["before"])
    readable(picture)
    assert picture.title == "The cache holds every token but the pending one"
    lines = picture.twin.splitlines()[2:]
    assert [line.split()[0] for line in lines] == ["text", "target"]
    assert "→the" in lines[0] and lines[1].split()[1:5] == ["a", "bb", "_", "(2"]
    texts = [text.get_text() for text in picture.figure.axes[0].texts]
    assert "draft's cache" not in texts and texts.count("a") == texts.count("bb") == 2


def test_a_rollback_is_shown():
    """Slots that are cut stay, grey and hatched, under their own sign, and the key says what that means."""
    picture = cache_grid(by_hand([0, 1, 3], ([5, 6, 7], 1, 8)), WORDS, 0, ["rolled back"])
    readable(picture)
    (axes,), gone = picture.figure.axes, STATES["rolled back"]
    cut = [patch for patch in axes.patches if patch.get_hatch() == gone.hatch]
    assert len(cut) == 2 + 1 + 1  # the target's, the draft's, and one in the key
    assert {to_hex(patch.get_facecolor()).upper() for patch in cut} == {gone.colour}
    texts = [text.get_text() for text in axes.texts]
    assert sum(text.startswith(gone.glyph) for text in texts) == 4 and any(
        "no longer counts" in text for text in texts
    )
    assert len(re.findall(rf"{gone.glyph}\w", picture.twin)) == 3
    assert picture.title == "Rollback cuts both caches to 4 tokens"


class Counting:
    """A model that notes, of each forward, how many positions were kept and how many computed."""

    def __init__(self, model):
        self.model, self.steps = model, []
        self.vocab_size, self.max_length = model.vocab_size, model.max_length
        self.new_cache, self.head = model.new_cache, model.head

    def hidden(self, tokens, cache=None):
        self.steps.append((cache.row_lengths[0] if cache is not None else 0, tokens.shape[1]))
        return self.model.hidden(tokens, cache)

    def __call__(self, tokens, cache=None):
        return self.head(self.hidden(tokens, cache))


def test_the_steps_with_a_cache_are_those_of_the_loop():
    """The loop computes exactly the positions that are drawn; it only splits the prompt's last one off."""
    model = Counting(gpt_pair()[0])
    list(generate(model, [[1, 4, 1, 0]], max_new_tokens=6, warp=Warp(0.0), rng=SeededRng(0)))
    drawn = steps_with_cache(4, 6)
    assert positions(model.steps) == positions(drawn) == 4 + 6 - 1
    assert model.steps[0] == (0, 3) and model.steps[1] == (3, 1)
    assert model.steps[2:] == drawn[1:]


@torch.inference_mode()
def test_the_steps_without_a_cache_are_those_of_plain_forwards():
    """A model that is called without a cache reads the whole text each time."""
    model, text = Counting(gpt_pair()[0]), [1, 4, 1, 0]
    for _ in range(6):
        text.append(int(model(torch.tensor([text]))[0, -1].argmax()))
    assert model.steps == steps_without_cache(4, 6)


def test_counts_by_hand():
    """10 tokens and 20 more: 10 + 11 + … + 29 = 390 without a cache, 10 + 19 with one."""
    assert positions(steps_without_cache(10, 20)) == 390
    assert positions(steps_with_cache(10, 20)) == 29
    assert steps_with_cache(7, 1) == steps_without_cache(7, 1) == [(0, 7)]


@pytest.mark.parametrize("guess", [None, 200])
def test_recomputation_is_readable(guess):
    """Caption and twin have the numbers; texts are large enough and apart; the guess is there if given."""
    picture = recomputation(steps_without_cache(3, 4), steps_with_cache(3, 4), guess)
    assert overlapping_texts(picture.figure) == [] and small_texts(picture.figure) == []
    assert "18 positions, with one 6" in picture.caption
    assert [line.strip() for line in picture.twin.splitlines()[2:6]] == [
        "1 ###",
        "2 ####",
        "3 #####",
        "4 ######",
    ]
    assert picture.twin.splitlines()[-1].endswith(".....#")
    texts = [text.get_text() for legend in picture.figure.legends for text in legend.get_texts()]
    assert any("guess: 200" in text for text in texts) == (guess is not None)
