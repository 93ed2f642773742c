"""Measure costs: how long the parts of a round take on this machine, with these models.

Forwards and draft steps are measured alone, in turns, as medians. What is left of a step or a round, the
bookkeeping, is what short runs of both loops take more than their forwards.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from statistics import fmean, median
from time import perf_counter
from typing import TypeVar

import torch

from minispec.core.draft import ModelDrafter
from minispec.core.loop import generate, speculate
from minispec.core.model import LanguageModel
from minispec.core.prefill import check_prompts, device_of, prefill
from minispec.core.records import Round
from minispec.core.rng import BlockRng
from minispec.core.verify import Verifier
from minispec.core.warp import Warp
from minispec.drafters.costs import Costs
from minispec.native.backend import TORCH, Backend

ALL = tuple(range(1, 18))  # values of n: those of every K up to 16
FEW = (1, 2, 3, 5, 9, 17)
PARTS = tuple(field.name for field in fields(Costs) if field.name != "t_target")
RUNS = 3  # of both loops
WARM_UP = 2  # turns that are not counted
STREAK = 5  # runs in a turn

Prompts = Sequence[Sequence[int]]
T = TypeVar("T")


def measure_costs(
    target: LanguageModel,
    draft: LanguageModel,
    prompts: Prompts,
    *,
    warp: Warp,
    verifier: Verifier,
    tokens: Sequence[int] = ALL,
    cached: int = 112,
    new_tokens: int = 160,
    repeats: int = 15,
    backend: Backend = TORCH,
) -> Costs:
    """Measures all parts, for as many rows as there are prompts.

    Args:
        target: the target.
        draft: the draft model.
        prompts: token ids, one list per row; the short runs continue them.
        warp: as in `speculate`.
        verifier: as in `speculate`.
        tokens: values of n for t(n), 1 among them; what the context cannot hold is left out.
        cached: how many tokens the caches hold before a forward, as far as they fit.
        new_tokens: of each short run.
        repeats: how often each forward is measured.
        backend: makes the random number generator and the drafter.

    Raises:
        ValueError: if there is nothing to measure, or as `speculate`.
    """
    if 1 not in tokens or repeats < 1 or new_tokens < 1:
        raise ValueError("t(n) needs n = 1 among its numbers, 1 or more repeats, and 1 or more new tokens")
    if target.vocab_size != draft.vocab_size:
        raise ValueError(
            f"draft and target must share one vocabulary: the draft has {draft.vocab_size} tokens, "
            f"the target {target.vocab_size}"
        )
    context = min(target.max_length, draft.max_length)
    check_prompts(prompts, target.vocab_size, context)
    fitting = sorted({n for n in tokens if n < max(context, 2)})
    forwards = measure_forwards(
        target, draft, prompts, warp, fitting, min(cached, context - fitting[-1]), repeats, backend
    )
    most = min(forwards.most, max(new_tokens // 4, 1))  # several rounds as wide as this fit a run
    loops = Loops(target, draft, prompts, warp, verifier, new_tokens, backend)
    steps: list[float] = []
    rest: dict[int, list[float]] = {1: [], most: []}
    for _ in range(RUNS):  # in turns: what slows down one of them slows down the others
        steps += loops.steps()
        for k, left in rest.items():
            left += loops.bookkeeping(k, forwards)
    narrow, wide = (median(left) if left else 0.0 for left in (rest[1], rest[most]))
    place = max(wide - narrow, 0.0) / (most - 1) if most > 1 else 0.0
    step = median(steps) - forwards.t_target[1] if steps else 0.0
    # Nothing takes less than no time; where noise says so, it is noise.
    return replace(forwards, round=max(narrow - place, 0.0), place=place, step=max(step, 0.0))


@dataclass(frozen=True)
class Loops:
    """Short runs of both loops.

    Attributes:
        target: as in `measure_costs`.
        draft: as in `measure_costs`.
        prompts: as in `measure_costs`.
        warp: as in `measure_costs`.
        verifier: as in `measure_costs`.
        new_tokens: of each run.
        backend: makes the random number generator and the drafter.
    """

    target: LanguageModel
    draft: LanguageModel
    prompts: Prompts
    warp: Warp
    verifier: Verifier
    new_tokens: int
    backend: Backend

    def steps(self) -> list[float]:
        """Returns the seconds of each step of the target alone, but for the first."""
        run = generate(
            self.target,
            self.prompts,
            max_new_tokens=self.new_tokens,
            warp=self.warp,
            rng=self.backend.rng(0),
        )
        return [lap for lap, _ in laps(run)]

    def bookkeeping(self, k: int, forwards: Costs) -> list[float]:
        """Returns what each round that drafts K tokens takes beside its forwards."""
        rounds = speculate(
            self.target,
            self.backend.drafter(self.draft),
            self.prompts,
            k=k,
            verifier=self.verifier,
            max_new_tokens=self.new_tokens,
            warp=self.warp,
            rng=self.backend.rng(0),
        )
        return bookkeeping(laps(rounds), k, forwards)


def middle(found: Sequence[Costs]) -> Costs:
    """Returns the median of several measurements, part by part.

    Args:
        found: of the same setting, with the same values of n.
    """
    one = {name: median(getattr(costs, name) for costs in found) for name in PARTS}
    return Costs(t_target={n: median(costs.t_target[n] for costs in found) for n in found[0].t_target}, **one)


def measure_forwards(
    target: LanguageModel,
    draft: LanguageModel,
    prompts: Prompts,
    warp: Warp,
    tokens: Sequence[int],
    cached: int,
    repeats: int,
    backend: Backend = TORCH,
) -> Costs:
    """Measures forwards, draft steps and prefill alone; bookkeeping is left at 0.

    Args:
        target: as in `measure_costs`.
        draft: as in `measure_costs`.
        prompts: as in `measure_costs`.
        warp: as in `measure_costs`.
        tokens: values of n for t(n), in order.
        cached: how many tokens the caches hold before a forward.
        repeats: how often each is measured.
        backend: makes the random number generator and the drafter.
    """
    rows, width = len(prompts), max(tokens[-1] - 1, 1)
    seconds = in_turns(
        {
            **{f"t({n})": call(target, rows, cached, n) for n in tokens},
            "draft": draft_steps(draft, rows, cached, width, warp, backend),
            "catch up": call(draft, rows, cached, 1, head=False),
            "prefill": lambda: prefill(target, prompts),
            "draft prefill": lambda: prefill(draft, prompts),
        },
        repeats,
    )
    return Costs(
        seconds["draft"] / width,
        dict(zip(tokens, rising([seconds[f"t({n})"] for n in tokens]), strict=True)),
        seconds["catch up"],
        prefill=seconds["prefill"],
        draft_prefill=seconds["draft prefill"],
    )


def rising(values: Sequence[float]) -> list[float]:
    """Returns the closest numbers that never fall: a forward over more tokens takes no less time.

    Neighbours that noise has put into the wrong order get their mean: pool adjacent violators (Ayer et al.
    1955).
    """
    pools: list[list[float]] = []
    for value in values:
        pools.append([value])
        while len(pools) > 1 and fmean(pools[-2]) > fmean(pools[-1]):
            pools[-2:] = [pools[-2] + pools[-1]]
    return [fmean(pool) for pool in pools for _ in pool]


@torch.inference_mode()
def in_turns(tasks: Mapping[str, Callable[[], object]], repeats: int) -> dict[str, float]:
    """Lets tasks take turns, and returns the median seconds of each.

    Each runs several times in its turn, and the last run counts. In a loop a forward follows itself, and
    finds its weights and its code in the processor's caches; behind the other tasks it would not.
    """
    seconds: dict[str, list[float]] = {name: [] for name in tasks}
    for turn in range(repeats + WARM_UP):
        for name, task in tasks.items():
            for _ in range(STREAK - 1):
                task()
            started = perf_counter()
            task()
            if turn >= WARM_UP:
                seconds[name].append(perf_counter() - started)
    return {name: median(values) for name, values in seconds.items()}


@torch.inference_mode()
def call(
    model: LanguageModel, rows: int, cached: int, tokens: int, head: bool = True
) -> Callable[[], object]:
    """Returns a task: one forward over some tokens a row, as the loop does it.

    Args:
        model: any.
        rows: of the batch.
        cached: how many tokens each row of the cache holds.
        tokens: n.
        head: whether logits are wanted; the forward that catches up wants none.
    """
    device, cache = device_of(model), model.new_cache(rows)
    ids = (torch.arange(max(cached, tokens)) % model.vocab_size).expand(rows, -1).to(device)
    if cached:
        model.hidden(ids[:, :cached], cache)

    def task() -> None:
        forward = model if head else model.hidden
        forward(ids[:, :tokens], cache)[0, -1, 0].item()  # asking for a number waits for a GPU
        cache.truncate([cached] * rows)

    return task


@torch.inference_mode()
def draft_steps(
    model: LanguageModel, rows: int, cached: int, width: int, warp: Warp, backend: Backend = TORCH
) -> Callable[[], object]:
    """Returns a task: the shipped drafter proposes `width` tokens a row."""
    drafter, rng = backend.drafter(model), backend.rng(0)
    assert isinstance(drafter, ModelDrafter)
    ids = [token % model.vocab_size for token in range(cached + 1)]
    drafter.start([ids] * rows)
    pending = torch.tensor(ids[-1:] * rows, device=device_of(model))
    chance = BlockRng(rng, [cached + 1] * rows, [width] * rows, pending.device)

    def task() -> None:
        drafter.propose(pending, width, warp, chance).tokens[0, -1].item()
        drafter.cache.truncate([cached] * rows)

    return task


def laps(items: Iterable[T]) -> list[tuple[float, T]]:
    """Returns items with the seconds that each took to come, but for the first, which waits for prefill."""

    def timed() -> Iterator[tuple[float, T]]:
        last = perf_counter()
        for item in items:
            yield perf_counter() - last, item
            last = perf_counter()

    return list(timed())[1:]


def bookkeeping(rounds: Sequence[tuple[float, Round]], k: int, forwards: Costs) -> list[float]:
    """Returns what each round that drafts K tokens takes beside its forwards."""
    left = []
    for seconds, r in rounds:
        if r.draft.k == k:
            full = any(r.accepted(row) == k for row, live in enumerate(r.live) if live)
            left.append(seconds - forwards.of_round(k, float(full)))
    return left
