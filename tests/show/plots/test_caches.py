"""What the caches hold at each moment, and what they save: by hand, and against runs of real models."""

import pytest
import torch
from figures import tiny_run
from tiny import gpt_pair

from minispec.core.loop import generate
from minispec.core.rng import SeededRng
from minispec.core.warp import Warp
from minispec.show.plots.caches import (
    MOMENTS,
    cache_slots,
    positions,
    steps_with_cache,
    steps_without_cache,
)


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


class Counting:
    """A model that notes, of each forward, how many positions were kept and how many computed."""

    def __init__(self, model):
        self.model, self.steps = model, []

    def __getattr__(self, name):
        return getattr(self.model, name)

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
