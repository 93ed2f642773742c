"""Who works when, and which tokens it emits: over time; and over rounds, the rows of a batch."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, chain, groupby, pairwise
from typing import Literal

from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

from minispec.io.trace import ObservedRound, Trace
from minispec.show.plots import charts
from minispec.show.plots.board import Cell, Line, in_order, tiled, twin_of, widest, worded
from minispec.show.plots.style import Picture, sheet
from minispec.show.signs import SIGNS, STATES, State
from minispec.show.text import check_chain, count, live_rounds, needs_catch_up, shown, with_rejected

WIDTH = 13.5  # of the axes, in inches; more where tokens would overlap
WORKS = SIGNS["works"]
IDLE = SIGNS["others"]["idle"]
Slots = Sequence[Sequence[int | None]]


@dataclass(frozen=True)
class WorkTimes:
    """What each piece of work takes, in target forwards."""

    target: float = 1.0  #: one token by the target alone
    draft: float = 0.1  #: one step of the draft model
    verify: float = 1.0  #: one target forward over K + 1 tokens

    def __post_init__(self) -> None:
        if min(self.target, self.verify) <= 0 or self.draft < 0:
            raise ValueError("times must be above 0 (the draft's may be 0)")


@dataclass(frozen=True)
class Span:
    """One piece of work."""

    work: Literal["draft", "verify", "catch-up"]
    start: float  #: when it begins
    end: float  #: when it ends
    judged: tuple[tuple[int, str], ...] = ()  #: the tokens under a forward, by position, as (id, state)


def speculative_spans(
    trace: Trace, times: WorkTimes, rounds: int | None = None, prompt: int = 0
) -> list[Span]:
    """Returns the draft steps and the verify forward of each round, and the catch-up after full acceptance.

    Of the rounds that a prompt takes part in, from its first on: so many, by default all.

    Raises:
        ValueError: if there is no such prompt, or a tree was drafted.
    """
    spans: list[Span] = []
    now = 0.0
    for r, row in live_rounds(trace, prompt)[:rounds]:
        check_chain(r, row)
        work = [Span("draft", 0, times.draft)] * r.draft.k
        work.append(Span("verify", 0, times.verify, _judged(r, row)))
        if any(needs_catch_up(r, row) for row, is_live in enumerate(r.live) if is_live):
            work.append(Span("catch-up", 0, times.draft))
        for span in work:
            spans.append(replace(span, start=now, end=now + span.end))
            now += span.end
    return spans


def _judged(r: ObservedRound, row: int) -> tuple[tuple[int, str], ...]:
    """Returns all guesses and the target's token; a correction stands after what it replaces."""
    untested = r.draft.tokens[row, r.accepted(row) + 1 : r.drafted(row)].tolist()
    after = [(token, "untested") for token in untested if r.kind(row) == "correction"]
    return (*with_rejected(r, row), *after)


def timeline(trace: Trace, words: Sequence[str], times: WorkTimes | None = None, tokens: int = 12) -> Picture:
    """Draws the same tokens of a trace's first prompt twice: one per target step, and several per round.

    By default a target forward takes 1 and a draft step a tenth of it. Whole rounds are drawn that emit no
    more than so many tokens, one round at the least; `words` has the text of every token id.

    Raises:
        ValueError: if nothing was decoded, or a tree was drafted.
    """
    times = times or WorkTimes()
    emitted_so_far = accumulate(len(r.emitted[row]) for r, row in live_rounds(trace, 0))
    fast = speculative_spans(trace, times, max(1, sum(total <= tokens for total in emitted_so_far)))
    if not fast:
        raise ValueError("nothing was decoded for the trace's first prompt; there is no time to show")
    forwards = [span for span in fast if span.judged]
    judged = [token for span in forwards for token in span.judged]
    names = [shown(words[token]) for token, state in judged if state not in ("rejected", "untested")]
    alone = [Span("verify", i * times.target, (i + 1) * times.target) for i in range(len(names))]
    twin = ["target alone, when each token is known:"]
    twin += [f"{span.end:6.2f}  {name}" for span, name in zip(alone, names, strict=True)]
    twin.append("speculative, when its tokens are known:")
    twin += [f"{span.end:6.2f}  {' '.join(_signed(span, words))}" for span in forwards]
    return worded(
        "timeline",
        _draw(alone, names, fast, words),
        twin,
        forwards=count(len(forwards), "forward"),
        slow=alone[-1].end,
        fast=fast[-1].end,
        gain=alone[-1].end / fast[-1].end,
        count=len(names),
        calls=len(forwards),
    )


def _signed(span: Span, words: Sequence[str]) -> list[str]:
    """How the tokens stand under a forward: each after the glyph of its state."""
    return [STATES[state].glyph + shown(words[token]) for token, state in span.judged]


def _draw(alone: Sequence[Span], names: Sequence[str], fast: Sequence[Span], words: Sequence[str]) -> Figure:
    """Draws the target alone, then both models with the tokens under each forward, over one axis of time."""
    forwards = [span for span in fast if span.judged]
    total = max(alone[-1].end, fast[-1].end)
    tile = widest(text for span in forwards for text in _signed(span, words)) + 0.2
    gap = min((b.end - a.end for a, b in pairwise(forwards)), default=total)
    step = alone[0].end
    scale = max(WIDTH / total, (tile + 0.1) / gap, 0.34 / step)  # inches for a unit of time
    upright = widest(names) + 0.1 > step * scale
    most = max(len(span.judged) for span in forwards)
    figure = sheet(scale * total + 1.8, 0.42 * most + 5.6 + upright * widest(names))
    upper, lower = figure.subplots(2, 1, height_ratios=[1, most + 2])
    _lanes(
        upper, {"target": alone}, f"Target alone: {len(names)} tokens, {count(len(alone), 'forward')}", total
    )
    upper.set_xticks(
        [(span.start + span.end) / 2 for span in alone], names, rotation=90 * upright, parse_math=False
    )
    upper.tick_params(length=0)
    draft = [span for span in fast if not span.judged]
    title = f"Speculative: the same tokens, {count(len(forwards), 'forward')}"
    _lanes(lower, {"draft": draft, "target": forwards}, title, total, lines=most)
    lower.set_xlabel("time, in target forwards")
    for span in forwards:
        middle = (span.start + span.end) / 2
        for line, (text, (_, state)) in enumerate(zip(_signed(span, words), span.judged, strict=True), 2):
            area = charts.area(STATES[state])
            lower.barh(line, tile / scale, 0.9, left=middle - tile / scale / 2, clip_on=False, **area)
            charts.write_on(lower, middle, line, text, STATES[state])
    states = in_order(state for span in forwards for _, state in span.judged)
    works = in_order({span.work for span in draft}, WORKS)
    charts.keys_below(figure, [charts.patch(look) for look in states + works], columns=3)
    return figure


def _lanes(axes: Axes, lanes: Mapping[str, Sequence[Span]], title: str, total: float, lines: int = 0) -> None:
    """Draws the bars of each model under each other, with room for some lines below."""
    charts.prepare(axes, grid="", title=title, weight="bold")
    for lane, spans in enumerate(lanes.values()):
        for span in spans:
            axes.barh(lane, span.end - span.start, 0.85, left=span.start, **charts.area(WORKS[span.work]))
    axes.set(xlim=(0, total), ylim=(len(lanes) + lines - 0.4, -0.6))
    axes.set_yticks(range(len(lanes)), lanes)
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)


def row_slots(runs: Mapping[str, Slots]) -> Picture:
    """Draws rows over rounds, run under run at one scale: a tile for each prompt that a row decodes.

    Of each run, by name, such as `with refill`: for each round, and in it for each row, which prompt it
    decodes; None if it does nothing.

    Raises:
        ValueError: if there is no round, or no row.
    """
    if not runs or not all(slots and slots[0] for slots in runs.values()):
        raise ValueError("give at least one run, and at least one round with one row for each")
    most = max(prompt_id or 0 for prompt_id in chain(*chain(*runs.values())))
    shades = colormaps["cividis"].resampled(2 * most + 2)  # its light half, under black text
    shares = []
    counts = []
    lines = []
    for run, slots in runs.items():
        live = sum(prompt_id is not None for prompt_id in chain(*slots))
        places = len(slots) * len(slots[0])
        shares.append(f"{live / places:.0%} {run}")
        counts.append(f"{live} of {places} in {len(slots)} rounds {run}")
        lines.append(Line(f"{run}: {len(slots)} rounds"))
        for row, prompt_ids in enumerate(zip(*slots, strict=True)):
            cells = []
            for prompt_id, rounds in groupby(prompt_ids):
                look = IDLE if prompt_id is None else State(to_hex(shades(most + 1 + prompt_id)))
                cells.append(Cell("" if prompt_id is None else str(prompt_id), look, len(list(rounds))))
            lines.append(Line(f"row {row}", cells))
    figure = tiled(lines, key=[IDLE])
    return worded("row-slots", figure, twin_of(lines), shares=", ".join(shares), counts=", ".join(counts))
