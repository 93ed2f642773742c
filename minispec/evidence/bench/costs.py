"""Measure costs: how long the parts of a round take on this machine, with these models.

Forwards and draft steps are measured alone, interleaved, as medians. What is left of a step or a round, the
bookkeeping, is what short runs of both loops take more than their forwards.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from itertools import pairwise
from statistics import median
from time import perf_counter
from typing import Any, TypeVar

import torch

from minispec.core.batch import checked_prompt
from minispec.core.model import LanguageModel
from minispec.core.prefill import prefill
from minispec.core.records import Round
from minispec.core.rng import RoundPlan, RoundRng
from minispec.core.verify import Verifier
from minispec.core.warp import Warp
from minispec.drafters.costs import Costs
from minispec.evidence.bench.interleaved import Setting
from minispec.evidence.bench.machine import using_threads
from minispec.evidence.bench.measure import forward_task, interleaved_seconds
from minispec.native.backend import Backend, Models

WIDTHS = (1, 2, 3, 5, 9, 17)  # values of n for t(n): enough to choose K by
RUNS = 3  # of both loops

T = TypeVar("T")


def measure_costs(
    models: Models,
    prompt: Sequence[int],
    *,
    warp: Warp,
    verifier: Verifier,
    tokens: Sequence[int] = WIDTHS,
    cached: int = 112,
    new_tokens: int = 24,
    repeats: int = 5,
) -> Costs:
    """Measures all parts, for one row; as it stands, in a fraction of a second.

    t(n) is measured for some `tokens` n, 1 among them, as far as the context holds them, `repeats` times
    each, after so many `cached` ones. Short runs of `new_tokens` continue the prompt, as by `speculate`.

    Raises:
        ValueError: as `speculate`.
    """
    target = models.target
    draft = models.draft
    backend = models.backend
    context = min(target.max_length, draft.max_length)
    checked_prompt(0, prompt, target.vocab_size, context)
    fitting = sorted({n for n in tokens if n < max(context, 2)})
    cached = min(cached, context - fitting[-1])
    width = max(fitting[-1] - 1, 1)
    tasks: dict[Any, Callable[[], object]] = {
        **{n: forward_task(target, cached, n) for n in fitting},
        "draft": draft_task(draft, cached, width, warp, backend),
        "catch_up": forward_task(draft, cached, 1, head=False),
        "restart": forward_task(draft, 0, max(cached, 1), head=False),
        "prefill": lambda: prefill(target, [prompt]),
        "draft_prefill": lambda: prefill(draft, [prompt]),
    }
    seconds = {name: median(values) for name, values in interleaved_seconds(tasks, repeats).items()}
    forwards = Costs(
        seconds["draft"] / width,
        # A forward over more tokens takes no less time; where it seems to, that is noise.
        dict(zip(fitting, sorted(seconds[n] for n in fitting), strict=True)),
        **{name: seconds[name] for name in ("catch_up", "prefill", "draft_prefill", "restart")},
    )
    settings: dict[str, Any] = {"max_new_tokens": new_tokens, "warp": warp}
    widest = min(forwards.most, max(new_tokens // 4, 1))  # several rounds as wide as this fit a run
    steps: list[float] = []
    overheads: dict[int, list[float]] = {1: [], widest: []}
    for _ in range(RUNS):  # interleaved: what slows down one of them slows down the others
        steps += [lap for lap, _ in laps(backend.generate(target, [prompt], rng=backend.rng(0), **settings))]
        for k, overhead in overheads.items():
            drafter = backend.drafter(draft)
            rounds = backend.observe(
                target, drafter, [prompt], k=k, verifier=verifier, rng=backend.rng(0), **settings
            )
            overhead += bookkeeping(laps(rounds), k, forwards)
    narrow, wide = (median(overheads[k] or [0.0]) for k in (1, widest))
    place = max(wide - narrow, 0.0) / (widest - 1) if widest > 1 else 0.0
    step = median(steps) - forwards.t_target[1] if steps else 0.0
    # Nothing takes less than no time; where it seems to, that is noise.
    return replace(forwards, round=max(narrow - place, 0.0), place=place, step=max(step, 0.0))


def measure_forwards(target: LanguageModel, cached: int = 112, repeats: int = 5) -> Costs:
    """Measures t(n) alone, for one row: what a round takes whose draft was looked up, but for bookkeeping.

    A wide draft is chosen by small differences, so t(n) is measured for every n. Arguments are those of
    `measure_costs`.
    """
    fitting = range(1, min(18, max(target.max_length, 2)))
    cached = max(min(cached, target.max_length - fitting[-1]), 0)
    tasks = {n: forward_task(target, cached, n) for n in fitting}
    seconds = {n: median(values) for n, values in interleaved_seconds(tasks, repeats).items()}
    # More tokens take no less time: where a measurement says so, it was disturbed.
    return Costs(0.0, dict(zip(fitting, sorted(seconds.values()), strict=True)))


def costs_of(setting: Setting, prompt: Sequence[int], **settings: Any) -> Costs:
    """Measures the costs of a setting, with its number of threads; `settings` are as in `measure_costs`."""
    backend = setting.models.backend
    settings |= {"warp": backend.warp(setting.temperature), "verifier": backend.verifiers[setting.verifier]}
    with using_threads(setting.threads):
        return measure_costs(setting.models, prompt, **settings)


def median_costs(measured: Sequence[Costs]) -> Costs:
    """Returns the median of several measurements of a setting, with the same values of n, part by part."""
    t_target = {n: median(costs.t_target[n] for costs in measured) for n in measured[0].t_target}
    parts = {
        name: median(vars(costs)[name] for costs in measured)
        for name in vars(measured[0])
        if name != "t_target"
    }
    return Costs(t_target=t_target, **parts)


@torch.inference_mode()
def draft_task(
    model: LanguageModel, cached: int, width: int, warp: Warp, backend: Backend
) -> Callable[[], object]:
    """Returns a task: the backend's drafter proposes `width` tokens for one row."""
    drafter = backend.drafter(model)
    ids = [token % model.vocab_size for token in range(cached + 1)]
    drafter.start([ids], torch.empty(1, cached, model.hidden_size))  # it needs no hidden states
    pending = torch.tensor(ids[-1:], device=model.device)
    rng = RoundRng(backend.rng(0), RoundPlan((0,), (cached + 1,), (width,), model.device))

    def task() -> None:
        drafter.propose(pending, width, warp, rng).tokens[0, -1].item()
        drafter.cache.truncate([cached])

    return task


def laps(items: Iterable[T]) -> list[tuple[float, T]]:
    """Returns items with the seconds that each took to come, but for the first, which waits for prefill."""
    arrivals = [(perf_counter(), item) for item in items]
    return [(after - before, item) for (before, _), (after, item) in pairwise(arrivals)]


def bookkeeping(rounds: Sequence[tuple[float, Round]], k: int, forwards: Costs) -> list[float]:
    """Returns what each round of one row that drafts K tokens takes besides its forward passes."""
    return [
        seconds - forwards.of_round(k, float(r.accepted(0) == k)) for seconds, r in rounds if r.draft.k == k
    ]
