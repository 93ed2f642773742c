"""Observing: what is seen of a run from outside, and that being watched changes nothing."""

from dataclasses import fields

import pytest
import torch
from tiny import PAIRS, PROMPTS, Spied

from minispec import ModelDrafter, SeededRng, Warp, observe, record, speculate, verify_rejection
from minispec.core.records import Round

SETTINGS = {"k": 3, "verifier": verify_rejection, "max_new_tokens": 20, "warp": Warp(0.9, 4, 0.95)}


def test_a_trace_counts_the_targets_forwards():
    """Target calls are all forward passes but prefill; seconds are there for each phase; so is the header."""
    target = Spied(PAIRS["table"][0])
    draft = PAIRS["table"][1]
    trace = record(target, ModelDrafter(draft), PROMPTS, rng=SeededRng(0), **SETTINGS)
    statistics = trace.statistics()
    assert statistics.target_calls == len(trace.rounds) == target.calls - 1
    assert trace.prefill_lengths == (0, 3, 8)
    assert statistics.seconds["prefill"] > 0
    assert set(statistics.seconds) == {"prefill", "draft", "verify", "rollback", "other"}
    assert all("prefill" not in r.seconds and min(r.seconds.values()) >= 0 for r in trace.rounds[1:])
    assert trace.prompts == tuple(map(tuple, PROMPTS))
    wanted = {"k": 3, "verifier": "rejection", "temperature": 0.9, "top_k": 4, "top_p": 0.95}
    assert wanted.items() <= trace.config.items()


@pytest.mark.parametrize("k", [0, 1, 4])
@pytest.mark.parametrize("name", PAIRS)
def test_observing_changes_nothing(name, k):
    """Every field of every round is what `speculate` yields, and the drafter's cache is where it would be."""
    target, draft = PAIRS[name]
    drafters = ModelDrafter(draft), ModelDrafter(draft)
    plain, seen = (
        list(run(target, drafter, PROMPTS, rng=SeededRng(2), **SETTINGS | {"k": k}))
        for run, drafter in zip((speculate, observe), drafters, strict=True)
    )
    assert len(plain) == len(seen) > 2
    for one, other in zip(plain, seen, strict=True):
        for name in (field.name for field in fields(Round)):
            assert_same(getattr(one, name), getattr(other, name))
    if k:
        assert drafters[0].cache_lengths == drafters[1].cache_lengths == plain[-1].lengths


def assert_same(one, other):
    """Asserts that two fields of a round are equal, tensors and records of tensors included."""
    if isinstance(one, torch.Tensor):
        assert torch.equal(one, other)
    elif hasattr(one, "__dataclass_fields__"):
        for name, value in vars(one).items():
            assert_same(value, getattr(other, name))
    else:
        assert one == other


class Clock:
    """Tells the seconds that it was given; calls that take time move it."""

    def __init__(self):
        self.now = 0.0

    def perf_counter(self):
        return self.now

    def taking(self, seconds, call):
        """Returns a function that takes so long, and does what another one does."""

        def takes(*arguments):
            self.now += seconds
            return call(*arguments)

        return takes


@pytest.mark.parametrize(
    ("phase", "takes"),
    [
        ("draft", {(ModelDrafter, "propose"): 2, (ModelDrafter, "commit"): 1}),
        ("verify", {(Spied, "hidden"): 2}),
        ("prefill", {(Spied, "hidden"): 3, (ModelDrafter, "start"): 2}),
    ],
)
def test_seconds_go_to_the_phase_that_takes_them(phase, takes, monkeypatch):
    """By a clock of our own; what the reader does between rounds is not counted."""
    clock = Clock()
    monkeypatch.setattr("minispec.io.observe.perf_counter", clock.perf_counter)
    for (owner, name), seconds in takes.items():
        monkeypatch.setattr(owner, name, clock.taking(seconds, getattr(owner, name)))
    target, draft = PAIRS["table"]
    seen = []
    for r in observe(Spied(target), ModelDrafter(draft), [[1, 2, 3]], rng=SeededRng(0), **SETTINGS):
        seen.append(r.seconds)
        clock.now += 100
    total = sum(one.get(phase, 0) for one in seen)
    assert total == sum(takes.values()) * (1 if phase == "prefill" else len(seen))
