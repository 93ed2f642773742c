"""Observing: what is seen of a run from outside, and that being watched changes nothing."""

import time
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


def slowly(call, wait):
    """Returns a function that waits, and then does what another one does."""

    def waits(*arguments):
        time.sleep(wait)
        return call(*arguments)

    return waits


@pytest.mark.parametrize(
    ("phase", "waits"),
    [
        ("draft", {(ModelDrafter, "propose"): 0.02, (ModelDrafter, "commit"): 0.01}),
        ("verify", {(Spied, "hidden"): 0.02}),
        ("prefill", {(Spied, "hidden"): 0.03, (ModelDrafter, "start"): 0.02}),
    ],
)
def test_seconds_go_to_the_phase_that_takes_them(phase, waits, monkeypatch):
    """Each phase is slowed in its turn and has at least that; all together have no more than there was."""
    for (owner, name), wait in waits.items():
        monkeypatch.setattr(owner, name, slowly(getattr(owner, name), wait))
    in_rule = 0.03 if phase == "verify" else 0.0
    target, draft = PAIRS["table"]
    settings = SETTINGS | {"verifier": slowly(verify_rejection, in_rule), "max_new_tokens": 8}
    began = time.perf_counter()
    trace = record(Spied(target), ModelDrafter(draft), [[1, 2, 3]], rng=SeededRng(0), **settings)
    took = time.perf_counter() - began
    seconds = trace.statistics().seconds
    count = 1 if phase == "prefill" else len(trace.rounds)
    assert seconds[phase] >= (in_rule + sum(waits.values())) * count
    assert sum(seconds.values()) <= took


def test_what_the_reader_does_between_rounds_is_not_counted():
    """The clock stands still while a round is in the reader's hands."""
    target, draft = PAIRS["table"]
    settings = SETTINGS | {"rng": SeededRng(0), "max_new_tokens": 6}
    counted = 0.0
    slept = 0.0
    began = time.perf_counter()
    for r in observe(target, ModelDrafter(draft), [[1]], **settings):
        counted += sum(r.seconds.values())
        time.sleep(0.05)
        slept += 0.05
    assert counted <= time.perf_counter() - began - slept
