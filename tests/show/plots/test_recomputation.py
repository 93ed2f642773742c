"""The picture of recomputation: its numbers are those of real forwards, and nothing overlaps."""

import pytest
import torch
from book.layout import overlapping_texts, small_texts
from tiny import gpt_pair

from minispec.core.loop import generate
from minispec.core.rng import SeededRng
from minispec.core.warp import Warp
from minispec.show.plots.recomputation import positions, recomputation, steps_with_cache, steps_without_cache


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
def test_the_picture_is_readable(guess):
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
