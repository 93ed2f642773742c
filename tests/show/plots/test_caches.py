"""What the caches hold at each moment, and what they save: by hand, and against runs of real models."""

import pytest
import torch
from figures import TARGET, tiny_recording
from tiny import Spied

from minispec.core.loop import generate
from minispec.core.rng import SeededRng
from minispec.core.warp import Warp
from minispec.show.plots.caches import (
    cache_slots,
    positions,
    steps_with_cache,
    steps_without_cache,
)
from minispec.show.stepper import steps

DURING = {"verify": "verified", "rollback": "rolled back", "catch up": "caught up"}


def tokens_of(slots, owner):
    return [slot.token for slot in slots if slot.owner == owner and slot.held]


@pytest.mark.parametrize("prompts", [[(3, 1, 4)], [(3,), (1, 4, 1, 0), (2, 0, 3, 1, 4)]])
@pytest.mark.parametrize("k", [1, 4])
def test_held_slots_are_what_the_caches_held(prompts, k):
    """In runs of real models, row by row: what the steps hold, and before a round all but the pending one."""
    recording = tiny_recording(prompts, k=k)
    trace = recording.trace
    for row, prompt in enumerate(prompts):
        text = list(prompt)
        for step in steps(recording, row):
            if step.phase in DURING:
                slots = cache_slots(trace, step.round, DURING[step.phase], row)
                for owner, held in (("target", step.target_cache), ("draft", step.draft_cache)):
                    assert [token.id for token in held] == tokens_of(slots, owner)
            if step.phase == "rollback":
                slots = cache_slots(trace, step.round, "before", row)
                before = tokens_of(slots, "target")
                assert before == text[:-1]
                text += trace.rounds[step.round].emitted[row]
                assert [token.id for token in step.text] == text


class Counting(Spied):
    """Notes of each forward how many positions were kept and how many computed."""

    def __init__(self, model):
        super().__init__(model)
        self.steps = []

    def hidden(self, tokens, cache=None, tree=None):
        self.steps.append((cache.row_lengths[0] if cache is not None else 0, tokens.shape[1]))
        return super().hidden(tokens, cache, tree)


def test_the_steps_with_a_cache_are_those_of_the_loop():
    """The loop computes exactly the positions that are drawn; it only splits the prompt's last one off."""
    model = Counting(TARGET)
    list(generate(model, [[1, 4, 1, 0]], max_new_tokens=6, warp=Warp(0.0), rng=SeededRng(0)))
    drawn = steps_with_cache(4, 6)
    assert positions(model.steps) == positions(drawn) == 4 + 6 - 1
    assert model.steps[0] == (0, 3) and model.steps[1] == (3, 1)
    assert model.steps[2:] == drawn[1:]


@torch.inference_mode()
def test_the_steps_without_a_cache_are_those_of_plain_forwards():
    """A model that is called without a cache reads the whole text each time."""
    model = Counting(TARGET)
    text = [1, 4, 1, 0]
    for _ in range(6):
        text.append(int(model.head(model.hidden(torch.tensor([text])))[0, -1].argmax()))
    assert model.steps == steps_without_cache(4, 6)
