"""Who works when, and which tokens come out of it: over time; and over rounds, the rows of a batch."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, chain, groupby, pairwise
from typing import Any, Literal

from matplotlib import colormaps
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from minispec.io.trace import ObservedRound, Trace
from minispec.show.plots.board import MARGIN, Board, in_order, text_width, titled, widest, worded
from minispec.show.plots.style import Picture, aligned
from minispec.show.signs import DRAFTER, STATES, State
from minispec.show.text import check_chain, kinds, needs_catch_up, shown

WIDTH = 15.0  # of the page, in inches; more where tokens would overlap
LANE = 0.55  # height of a lane
WORD = 0.4  # height of a token under it
WORKS = {
    "verify": State("#595959", "", ink="white", word="a pass of the target"),
    "draft": State(DRAFTER.colour, "", hatch="//", word="a step of the draft"),
    "catch-up": State("#FFFFFF", "", hatch="//", word="the draft catches up"),
}
ROW, ROUND = 0.5, 0.42  # of slots, in inches: a row's height, a round's width for two digits
IDLE, NOTHING = State("#FFFFFF", "", hatch="///", word="a slot that does nothing"), "-"
Slots = Sequence[Sequence[int | None]]


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

    work: Literal["draft", "verify", "catch-up"]
    start: float  #: when it begins
    end: float  #: when it ends
    yields: tuple[tuple[int, str], ...] = ()  #: the tokens that are known when it ends, as (id, state)
    dropped: tuple[tuple[int, str], ...] = ()  #: the guesses that it rejects or does not test, likewise

    @property
    def judged(self) -> tuple[tuple[int, str], ...]:
        """All guesses and the target's token, by position; a correction stands after what it replaces."""
        place = len(self.yields) - 1 if self.dropped else len(self.yields)
        return (*self.yields[:place], *self.dropped[:1], *self.yields[place:], *self.dropped[1:])


def speculative_spans(
    trace: Trace, times: WorkTimes, rounds: int | None = None, prompt: int = 0
) -> list[Span]:
    """Returns the draft steps and the verify pass of each round, and the catch-up after full acceptance.

    Of the rounds that a prompt takes part in, from its first on: so many, by default all.

    Raises:
        ValueError: if there is no such prompt, or a tree was drafted.
    """
    spans: list[Span] = []
    now = 0.0
    live = [(r, row) for r, row in trace.rounds_of(prompt) if r.live[row]]
    for r, row in live[:rounds]:
        check_chain(r, row)
        work = [Span("draft", 0, times.draft)] * r.draft.k
        yields = tuple(zip(r.emitted[row], kinds(r, row), strict=True))
        work.append(Span("verify", 0, times.verify, yields, _dropped(r, row)))
        if any(needs_catch_up(r, each) for each, on in enumerate(r.live) if on):
            work.append(Span("catch-up", 0, times.draft))
        for span in work:
            spans.append(replace(span, start=now, end=now + span.end))
            now += span.end
    return spans


def _dropped(r: ObservedRound, row: int) -> tuple[tuple[int, str], ...]:
    """Returns the guesses after the accepted ones, where a correction replaces the first of them."""
    if r.kind(row) != "correction":
        return ()
    tokens = r.draft.tokens[row, r.accepted(row) : r.drafted(row)].tolist()
    return tuple((token, "untested" if i else "rejected") for i, token in enumerate(tokens))


def timeline(trace: Trace, words: Sequence[str], times: WorkTimes | None = None, tokens: int = 12) -> Picture:
    """Draws the same tokens of a trace's first prompt twice: one per target step, and several per round.

    By default a target pass takes 1 and a draft step a tenth of it. Whole rounds are drawn that yield no more
    than so many tokens, one round at the least; `words` has the text of every token id.

    Raises:
        ValueError: if nothing was decoded, or a tree was drafted.
    """
    times = times or WorkTimes()
    known = accumulate(len(r.emitted[row]) for r, row in trace.rounds_of(0) if r.live[row])
    fast = speculative_spans(trace, times, max(1, sum(total <= tokens for total in known)))
    if not fast:
        raise ValueError("nothing was decoded for the trace's first prompt; there is no time to show")
    passes = [span for span in fast if span.yields]
    emitted = [token for span in passes for token, _ in span.yields]
    alone, end = len(emitted) * times.target, fast[-1].end
    twin = ["target alone, when each token is known:"]
    twin += [f"{i * times.target:6.2f}  {shown(words[token])}" for i, token in enumerate(emitted, 1)]
    twin.append("speculative, when its tokens are known:")
    twin += [f"{span.end:6.2f}  {' '.join(_signed(*y, words) for y in span.judged)}" for span in passes]
    values = {"slow": alone, "fast": end, "gain": alone / end, "count": len(emitted), "calls": len(passes)}
    figure = _Timeline([shown(words[token]) for token in emitted], fast, times.target, words).draw()
    return worded("timeline", figure, "\n".join(twin), passes=_passes(len(passes)), **values)


def _passes(count: int) -> str:
    return f"{count} {'pass' if count == 1 else 'passes'}"


def _signed(token: int, state: str, words: Sequence[str]) -> str:
    """How a token stands under a pass: after the glyph of its state."""
    return f"{STATES[state].glyph} {shown(words[token])}"


class _Timeline:
    """A page, and where times stand on it, in inches."""

    def __init__(self, names: Sequence[str], fast: Sequence[Span], step: float, words: Sequence[str]) -> None:
        self.names, self.fast, self.step = names, fast, step
        self.words = words
        self.passes = [span for span in fast if span.yields]
        self.left = MARGIN + widest(["target", "draft"]) + 0.15
        self.total = max(len(names) * step, fast[-1].end)
        self.tile = widest(_signed(*y, words) for span in self.passes for y in span.judged) + 0.16
        stack = self.tile + 0.1
        apart = min((b.end - a.end for a, b in pairwise(self.passes)), default=self.total)
        self.scale = max((WIDTH - self.left - MARGIN) / self.total, stack / apart, 0.34 / step)
        self.page = Board(self.at(self.total) + max(MARGIN, stack / 2))

    def at(self, time: float) -> float:
        """Where a time stands."""
        return self.left + time * self.scale

    def draw(self) -> Figure:
        """Draws the target alone, then both lanes with the tokens under each pass, over one axis of time."""
        page, count = self.page, len(self.names)
        page.write(MARGIN, -0.5, f"Target alone: {count} tokens, {_passes(count)}", weight="bold")
        y = -0.85 - LANE
        self.lane(y, "target", [Span("verify", i * self.step, (i + 1) * self.step) for i in range(count)])
        upright = widest(self.names) + 0.1 > self.step * self.scale
        for i, name in enumerate(self.names):
            how = {"va": "top", "rotation": 90 if upright else 0}
            page.write(self.at((i + 0.5) * self.step), y - 0.08, name, ha="center", **how)
        y -= widest(self.names) + 0.15 if upright else WORD
        title = f"Speculative: the same tokens, {_passes(len(self.passes))}"
        page.write(MARGIN, y - 0.35, title, weight="bold")
        y -= 0.6 + 2 * LANE
        self.lane(y + LANE, "draft", [span for span in self.fast if not span.yields])
        self.lane(y, "target", self.passes)
        for span in self.passes:
            x = self.at((span.start + span.end) / 2) - self.tile / 2
            for line, (token, state) in enumerate(span.judged, 1):
                corner, size = (x, y - line * WORD - 0.05), (self.tile, WORD - 0.04)
                page.tile(corner, size, STATES[state], _signed(token, state, self.words))
        y = self.axis(y - max(len(span.judged) for span in self.passes) * WORD - 0.2)
        states = in_order(state for span in self.passes for _, state in span.judged)
        return page.end(y, states + in_order({span.work for span in self.fast} - {"verify"}, WORKS))

    def lane(self, y: float, name: str, spans: Sequence[Span]) -> None:
        """Draws the bars of one model."""
        self.page.write(self.left - 0.15, y + LANE / 2, name, ha="right")
        for span in spans:
            size = ((span.end - span.start) * self.scale, LANE - 0.08)
            self.page.tile((self.at(span.start), y + 0.04), size, WORKS[span.work])

    def axis(self, y: float) -> float:
        """Draws the axis of time at a height; returns where it ends."""
        line: dict[str, Any] = {"color": "black", "linewidth": 1.2}
        self.page.axes.plot([self.left, self.at(self.total)], [y, y], **line)
        for time in MaxNLocator(6).tick_values(0, self.total):
            if 0 <= time <= self.total * (1 + 1e-9):
                self.page.axes.plot([self.at(time)] * 2, [y, y - 0.08], **line)
                self.page.write(self.at(time), y - 0.28, f"{time:g}", ha="center")
        self.page.write(self.left, y - 0.62, "time, in target passes")
        return y - 0.8


def row_slots(runs: Mapping[str, Slots]) -> Picture:
    """Draws rows over rounds, run under run at one scale: a tile for each prompt that a row decodes.

    Of each run, by name, such as `with refill`: for each round, and in it for each row, which prompt it
    decodes; None if it does nothing.

    Raises:
        ValueError: if there is no round, or no row.
    """
    if not runs or not all(slots and slots[0] for slots in runs.values()):
        raise ValueError("give at least one run, and at least one round with one row for each")
    shares, counts, twin = [], [], [["", "", f"which prompt, round by round; {NOTHING} is {IDLE.word}"]]
    for run, slots in runs.items():
        live, places = sum(name is not None for name in chain(*slots)), len(slots) * len(slots[0])
        shares.append(f"{live / places:.0%} {run}")
        counts.append(f"{live} of {places} in {len(slots)} rounds {run}")
        for row, names in enumerate(zip(*slots, strict=True)):
            cells = " ".join(NOTHING if name is None else str(name) for name in names)
            twin.append([run, f"row {row}", cells])
    title, said = f"Slots that decode: {', '.join(shares)}", ", ".join(counts)
    alt = f"Rows over rounds, with a tile for each prompt that a row decodes: {said}."
    return titled("row-slots", _lanes(runs), title, alt, f"Slots that decode: {said}.", aligned(twin))


def _lanes(runs: Mapping[str, Slots]) -> Figure:
    most = max((name or 0 for name in chain(*chain(*runs.values()))), default=0)
    shades = colormaps["cividis"].resampled(2 * most + 2)  # its light half, under black text
    left, y = MARGIN + text_width("row 99") + 0.15, 0.0
    page = Board(max(left + ROUND * max(map(len, runs.values())) + MARGIN, 9.0))
    for run, slots in runs.items():
        page.write(MARGIN, y - 0.3, f"{run}: {len(slots)} rounds", weight="bold")
        y -= 0.6
        for row, names in enumerate(zip(*slots, strict=True)):
            y -= ROW
            page.write(left - 0.15, y + ROW / 2, f"row {row}", ha="right")
            for name, rounds in groupby(range(len(names)), key=names.__getitem__):
                start, *more = rounds
                corner, size = (left + ROUND * start, y + 0.03), (ROUND * (1 + len(more)), ROW - 0.06)
                prompt = IDLE if name is None else State(to_hex(shades(most + 1 + name)))
                page.tile(corner, size, prompt, "" if name is None else str(name))
        y -= 0.3
    return page.end(y + 0.1, [IDLE])
