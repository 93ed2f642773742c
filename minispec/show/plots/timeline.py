"""Serial against speculative decoding over time: who works when, and which tokens come out of it."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Any, Literal

from matplotlib.ticker import MaxNLocator

from minispec.io.trace import Trace
from minispec.show.plots.board import Board, in_order, legend_height, shown, widest, worded
from minispec.show.plots.caches import needs_catch_up
from minispec.show.plots.style import DRAFTER, TARGET, Picture
from minispec.show.signs import STATES, State
from minispec.show.text import kinds

MARGIN = 0.25  # inches, around the page
WIDTH = 15.0  # of the page; more where tokens would overlap
LANE = 0.55  # height of a lane
WORD = 0.4  # height of a token under it
WORKS = {
    "step": State(TARGET.colour, "", ink="white", word="a pass of the target"),
    "verify": State(TARGET.colour, "", ink="white", word="a pass of the target"),
    "draft": State(DRAFTER.colour, "", hatch="//", word="a step of the draft"),
    "catch-up": State("#FFFFFF", "", hatch="//", word="the draft catches up"),
}


@dataclass(frozen=True)
class WorkTimes:
    """What each piece of work takes, in target passes."""

    target: float = 1.0  #: one token by the target alone
    draft: float = 0.1  #: one step of the draft model
    verify: float = 1.0  #: one pass of the target over K + 1 tokens

    def __post_init__(self) -> None:
        if min(self.target, self.verify) <= 0 or self.draft < 0:
            raise ValueError("times must be above 0 (the draft's may be 0)")


@dataclass(frozen=True)
class Span:
    """One piece of work."""

    work: Literal["step", "draft", "verify", "catch-up"]  #: of the target alone, or of a round
    start: float  #: when it begins
    end: float  #: when it ends
    yields: tuple[tuple[int, str], ...] = ()  #: the tokens that are known when it ends, as (id, state)


def serial_spans(tokens: Sequence[int], times: WorkTimes) -> list[Span]:
    """Returns one target step per token."""
    return [
        Span("step", i * times.target, (i + 1) * times.target, ((token, "target"),))
        for i, token in enumerate(tokens)
    ]


def speculative_spans(trace: Trace, times: WorkTimes, rounds: int | None = None, row: int = 0) -> list[Span]:
    """Returns the draft steps and the verify pass of each round, and the catch-up after full acceptance.

    Of the first so many `rounds`, by default of all, until the row is done.
    """
    spans: list[Span] = []
    now = 0.0
    for r in trace.rounds[:rounds]:
        if not r.live[row]:
            break
        work = [Span("draft", 0, times.draft)] * r.draft.k
        work.append(Span("verify", 0, times.verify, tuple(zip(r.emitted[row], kinds(r, row), strict=True))))
        if any(needs_catch_up(r, each) for each, live in enumerate(r.live) if live):
            work.append(Span("catch-up", 0, times.draft))
        for span in work:
            spans.append(Span(span.work, now, now + span.end, span.yields))
            now += span.end
    return spans


def timeline(trace: Trace, words: Sequence[str], times: WorkTimes | None = None, tokens: int = 12) -> Picture:
    """Draws the same tokens of a trace's first row twice: one per target step, and several per round.

    By default a target pass takes 1 and a draft step a tenth of it. Whole rounds are drawn that yield no more
    than so many tokens, one round at the least; `words` has the text of every token id.
    """
    times = times or WorkTimes()
    known = accumulate(len(r.emitted[0]) for r in trace.rounds)
    fast = speculative_spans(trace, times, max(1, sum(total <= tokens for total in known)))
    slow = serial_spans([token for span in fast for token, _ in span.yields], times)
    passes = [span for span in fast if span.work == "verify"]
    page = _Timeline(slow, fast, words).draw()
    twin = ["target alone, when each token is known:"]
    twin += [f"{span.end:6.2f}  {shown(words[span.yields[0][0]])}" for span in slow]
    twin.append("speculative, when its tokens are known:")
    twin += [f"{span.end:6.2f}  {' '.join(_said(*y, words) for y in span.yields)}" for span in passes]
    ends: dict[str, Any] = {"slow": slow[-1].end, "fast": fast[-1].end, "gain": slow[-1].end / fast[-1].end}
    counts = {"count": len(slow), "calls": len(passes), "passes": _passes(len(passes))}
    return worded("timeline", page.figure, "\n".join(twin), ends | counts)


def _passes(count: int) -> str:
    return f"{count} {'pass' if count == 1 else 'passes'}"


def _said(token: int, state: str, words: Sequence[str]) -> str:
    """How a token stands under a pass: after the glyph of its state."""
    return f"{STATES[state].glyph}{shown(words[token])}"


class _Timeline:
    """Where things stand on the page, in inches."""

    def __init__(self, slow: Sequence[Span], fast: Sequence[Span], words: Sequence[str]) -> None:
        self.slow, self.fast, self.words = slow, fast, words
        self.passes = [span for span in fast if span.work == "verify"]
        self.left = MARGIN + widest(["target", "draft"]) + 0.15
        self.total = max(slow[-1].end, fast[-1].end)
        stack = widest(_said(*y, words) for span in self.passes for y in span.yields) + 0.2
        rounds = [b.end - a.end for a, b in pairwise(self.passes)]
        fit = [(WIDTH - self.left - MARGIN) / self.total, stack / min([*rounds, fast[-1].end])]
        self.scale = max(*fit, 0.34 / slow[0].end)
        self.width = self.left + self.total * self.scale + max(MARGIN, stack / 2)
        self.names = [shown(words[token]) for span in slow for token, _ in span.yields]
        self.upright = widest(self.names) + 0.1 > slow[0].end * self.scale
        self.under = widest(self.names) + 0.15 if self.upright else WORD
        self.high = max(len(span.yields) for span in self.passes) * WORD + 0.1

    def draw(self) -> Board:
        """Draws both runs over one axis of time."""
        present = {span.work for span in self.fast}
        states = [WORKS[work] for work in ("verify", "draft", "catch-up") if work in present]
        states += in_order(state for span in self.passes for _, state in span.yields)
        below = legend_height(states, self.width - 2 * MARGIN) + 0.3
        height = below + 0.95 + self.high + 2 * LANE + 0.6 + self.under + LANE + 0.6 + MARGIN
        page = Board(self.width, height)
        y = self.speculative(page, self.serial(page, height - MARGIN)) - 0.1
        page.axes.plot([self.left, self.at(self.total)], [y, y], color="black", linewidth=1.2)
        for time in MaxNLocator(6).tick_values(0, self.total):
            if 0 <= time <= self.total * (1 + 1e-9):
                page.axes.plot([self.at(time)] * 2, [y, y - 0.08], color="black", linewidth=1.2)
                page.write(self.at(time), y - 0.28, f"{time:g}", ha="center")
        page.write(self.left, y - 0.62, "time, in target passes")
        page.legend(states, MARGIN, below - 0.15)
        return page

    def at(self, time: float) -> float:
        """Where a time stands."""
        return self.left + time * self.scale

    def serial(self, page: Board, top: float) -> float:
        """Draws the target alone from a height downwards; returns where it ends."""
        count = len(self.slow)
        page.write(MARGIN, top - 0.25, f"Target alone: {count} tokens, {_passes(count)}", weight="bold")
        y = top - 0.6 - LANE
        self.lane(page, y, "target", self.slow)
        for span, name in zip(self.slow, self.names, strict=True):
            x = self.at((span.start + span.end) / 2)
            page.write(x, y - 0.08, name, ha="center", va="top", rotation=90 if self.upright else 0)
        return y - self.under

    def speculative(self, page: Board, top: float) -> float:
        """Draws both lanes and the tokens under each pass; returns where they end."""
        title = f"Speculative: the same tokens, {_passes(len(self.passes))}"
        page.write(MARGIN, top - 0.35, title, weight="bold")
        y = top - 0.6 - 2 * LANE
        self.lane(page, y + LANE, "draft", [span for span in self.fast if span.work != "verify"])
        self.lane(page, y, "target", self.passes)
        for span in self.passes:
            x = self.at((span.start + span.end) / 2)
            for line, token in enumerate(span.yields):
                page.write(x, y - (line + 0.5) * WORD - 0.05, _said(*token, self.words), ha="center")
        return y - self.high

    def lane(self, page: Board, y: float, name: str, spans: Sequence[Span]) -> None:
        """Draws the bars of one model."""
        page.write(self.left - 0.15, y + LANE / 2, name, ha="right")
        for span in spans:
            size = ((span.end - span.start) * self.scale, LANE - 0.08)
            page.tile((self.at(span.start), y + 0.04), size, WORKS[span.work])
