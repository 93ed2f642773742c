"""Serial against speculative: who works when, and which tokens come out of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Literal

from minispec.io.trace import Trace
from minispec.show.plots.caches import needs_catch_up
from minispec.show.text import kinds

Lane = Literal["target", "draft"]
Work = Literal["step", "draft", "verify", "catch-up"]


@dataclass(frozen=True)
class Costs:
    """What each piece of work takes, all in one unit.

    Attributes:
        target: one token by the target alone.
        draft: one step of the draft model.
        verify: one pass of the target over K + 1 tokens.
        unit: what they are counted in.
    """

    target: float = 1.0
    draft: float = 0.1
    verify: float = 1.0
    unit: str = "target passes"

    def __post_init__(self) -> None:
        if min(self.target, self.verify) <= 0 or self.draft < 0:
            raise ValueError("costs must be above 0 (the draft's may be 0)")


@dataclass(frozen=True)
class Span:
    """One piece of work.

    Attributes:
        lane: which model works.
        work: a `step` of the target alone, a `draft` step, a `verify` pass, or the draft's `catch-up`.
        start: when it begins.
        end: when it ends.
        yields: the tokens that are known when it ends, as (id, state).
    """

    lane: Lane
    work: Work
    start: float
    end: float
    yields: tuple[tuple[int, str], ...] = ()


def measured_costs(trace: Trace) -> Costs:
    """Returns the medians over a trace's rounds, in milliseconds.

    A step of the target alone is taken to last as long as a pass over K + 1 tokens, which is nearly so where
    reading the weights is what takes the time.

    Raises:
        ValueError: if no round drafted anything, or the trace has no times.
    """
    rounds = [r for r in trace.rounds if r.draft.k and r.seconds.get("verify")]
    if not rounds:
        raise ValueError("this trace has no timed round that drafted anything")
    verify = median(r.seconds["verify"] for r in rounds) * 1e3
    steps = [r.seconds["draft"] / (r.draft.k + _lacking(trace, r.index)) for r in rounds]
    return Costs(verify, median(steps) * 1e3, verify, "milliseconds")


def serial_spans(tokens: Sequence[int], costs: Costs) -> list[Span]:
    """Returns one target step per token.

    Args:
        tokens: what comes out.
        costs: what a step takes.
    """
    return [
        Span("target", "step", i * costs.target, (i + 1) * costs.target, ((token, "target"),))
        for i, token in enumerate(tokens)
    ]


def speculative_spans(trace: Trace, costs: Costs, rounds: int | None = None, row: int = 0) -> list[Span]:
    """Returns the draft steps and the verify pass of each round, and the catch-up after full acceptance.

    Args:
        trace: any.
        costs: what each piece of work takes.
        rounds: the first so many; by default all.
        row: which row; the rounds after it was done are left out.
    """
    spans: list[Span] = []
    now = 0.0
    for r in trace.rounds[:rounds]:
        if not r.live[row]:
            break
        for _ in range(r.draft.k):
            spans.append(Span("draft", "draft", now, now + costs.draft))
            now += costs.draft
        yields = tuple(zip(r.emitted[row], kinds(r, row), strict=True))
        spans.append(Span("target", "verify", now, now + costs.verify, yields))
        now += costs.verify
        if _lacking(trace, r.index):
            spans.append(Span("draft", "catch-up", now, now + costs.draft))
            now += costs.draft
    return spans


def _lacking(trace: Trace, index: int) -> bool:
    live = [row for row, on in enumerate(trace.rounds[index].live) if on]
    return any(needs_catch_up(trace, index, row) for row in live)
