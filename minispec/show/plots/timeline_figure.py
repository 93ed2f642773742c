"""The figure of serial against speculative decoding over time."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from minispec.io.trace import Trace
from minispec.show.plots.board import (
    board,
    in_order,
    legend,
    legend_height,
    shown,
    text_width,
    tile,
    widest,
    write,
)
from minispec.show.plots.picture import Picture
from minispec.show.plots.style import DRAFTER, GUESS, STATES, TARGET, State
from minispec.show.plots.timeline import Costs, Span, serial_spans, speculative_spans

MARGIN = 0.25  # inches, around the page
LANE = 0.55  # height of a lane
WORD = 0.4  # height of a token under it
WORKS = {
    "step": State(TARGET.colour, "", ink="white", word="a pass of the target"),
    "verify": State(TARGET.colour, "", ink="white", word="a pass of the target"),
    "draft": State(DRAFTER.colour, "", hatch="//", word="a step of the draft"),
    "catch-up": State("#FFFFFF", "", hatch="//", word="the draft catches up"),
}


def timeline(
    trace: Trace,
    words: Sequence[str],
    costs: Costs | None = None,
    *,
    tokens: int = 12,
    row: int = 0,
    guess: float | None = None,
    width: float = 15.0,
) -> Picture:
    """Draws the same tokens twice: one per target step, and several per round.

    Args:
        trace: a speculative run.
        words: the text of every token id.
        costs: what each piece of work takes; by default a target pass is 1 and a draft step a tenth of it.
        tokens: whole rounds are drawn that yield no more than so many tokens, one round at the least.
        row: which row.
        guess: a reader's guess of how many target calls these tokens take; drawn where they would end.
        width: of the figure, in inches.

    Returns:
        The picture; its data is `serial_spans` and `speculative_spans`.

    Raises:
        ValueError: if the trace has no round of this row, or the guess is not above 0.
    """
    if not any(r.live[row] for r in trace.rounds):
        raise ValueError(f"the trace has no round of row {row}")
    costs = costs or Costs()
    count = _rounds(trace, tokens, row)
    fast = speculative_spans(trace, costs, count, row)
    slow = serial_spans([token for span in fast for token, _ in span.yields], costs)
    if guess is not None and guess <= 0:
        raise ValueError(f"the guess must be above 0 target calls, not {guess}")
    figure = _Page(slow, fast, words, width, guess).draw(costs.unit)
    return Picture(
        "timeline", figure, _alt(slow, fast, costs), _caption(slow, fast), _twin(slow, fast, words)
    )


def _rounds(trace: Trace, tokens: int, row: int) -> int:
    """How many of the first rounds yield no more than so many tokens; one at the least."""
    total = count = 0
    for r in trace.rounds:
        total += len(r.emitted[row])
        if not r.live[row] or (count and total > tokens):
            break
        count += 1
    return count


class _Page:
    """Where things stand on the page, in inches."""

    def __init__(
        self,
        slow: Sequence[Span],
        fast: Sequence[Span],
        words: Sequence[str],
        width: float,
        guess: float | None,
    ) -> None:
        self.slow, self.fast, self.words, self.guess = slow, fast, words, guess
        self.passes = [span for span in fast if span.work == "verify"]
        # A guess far behind the end stands at the edge, or else nothing else could be seen.
        behind = 1.15 * max(slow[-1].end, fast[-1].end)
        self.guessed = min((guess or 0) * fast[-1].end / len(self.passes), behind)
        self.beyond = " →" if self.guessed == behind else ""
        self.left = MARGIN + widest(["target", "draft"]) + 0.15
        self.total = max(slow[-1].end, fast[-1].end, self.guessed)
        stack = widest(self.said(y) for span in self.passes for y in span.yields) + 0.2
        rounds = [b.end - a.end for a, b in zip(self.passes, self.passes[1:], strict=False)]
        fit = [(width - self.left - MARGIN) / self.total, stack / min([*rounds, fast[-1].end])]
        self.scale = max(*fit, 0.34 / slow[0].end)
        self.width = self.left + self.total * self.scale + max(MARGIN, stack / 2)
        self.names = [shown(words[token]) for span in slow for token, _ in span.yields]
        self.upright = widest(self.names) + 0.1 > slow[0].end * self.scale
        self.under = widest(self.names) + 0.15 if self.upright else WORD
        self.high = max(len(span.yields) for span in self.passes) * WORD + 0.1

    def said(self, token: tuple[int, str]) -> str:
        """How a token stands under a pass: behind the glyph of its state."""
        return f"{STATES[token[1]].glyph} {shown(self.words[token[0]])}"

    def draw(self, unit: str) -> Figure:
        """Draws both runs over one axis of time."""
        states = [WORKS[work] for work in ("verify", "draft", "catch-up") if self.has(work)]
        states += in_order(state for span in self.passes for _, state in span.yields)
        below = legend_height(states, self.width - 2 * MARGIN) + 0.3
        note = 0.5 if self.guess is not None else 0.0
        height = below + 0.95 + note + self.high + 2 * LANE + 0.6 + self.under + LANE + 0.6 + MARGIN
        figure, axes = board(self.width, height)
        y = self.serial(axes, height - MARGIN)
        y = self.speculative(axes, y)
        if self.guess is not None:
            self.draw_guess(axes, y - 0.25, y + self.high + 2 * LANE)
        self.axis(axes, y - note, unit)
        legend(axes, (MARGIN, below - 0.15), states, self.width - 2 * MARGIN)
        return figure

    def has(self, work: str) -> bool:
        """Whether there is such a piece of work."""
        return any(span.work == work for span in self.fast)

    def at(self, time: float) -> float:
        """Where a time stands."""
        return self.left + time * self.scale

    def serial(self, axes: Axes, top: float) -> float:
        """Draws the target alone from a height downwards; returns where it ends."""
        count = len(self.slow)
        write(axes, MARGIN, top - 0.25, f"Target alone: {count} tokens, {count} passes", weight="bold")
        y = top - 0.6 - LANE
        self.lane(axes, y, "target", self.slow)
        for span, name in zip(self.slow, self.names, strict=True):
            x = self.at((span.start + span.end) / 2)
            turn = {"rotation": 90, "va": "top"} if self.upright else {"va": "top"}
            write(axes, x, y - 0.08, name, ha="center", **turn)
        return y - self.under

    def speculative(self, axes: Axes, top: float) -> float:
        """Draws both lanes and the tokens under each pass; returns where they end."""
        title = f"Speculative: the same tokens, {_passes(len(self.passes))}"
        write(axes, MARGIN, top - 0.35, title, weight="bold")
        y = top - 0.6 - 2 * LANE
        self.lane(axes, y + LANE, "draft", [span for span in self.fast if span.lane == "draft"])
        self.lane(axes, y, "target", self.passes)
        for span in self.passes:
            for line, token in enumerate(span.yields):
                x = self.at((span.start + span.end) / 2)
                write(axes, x, y - (line + 0.5) * WORD - 0.05, self.said(token), ha="center")
        return y - self.high

    def lane(self, axes: Axes, y: float, name: str, spans: Sequence[Span]) -> None:
        """Draws the bars of one model."""
        write(axes, self.left - 0.15, y + LANE / 2, name, ha="right")
        for span in spans:
            corner, size = (
                (self.at(span.start), y + 0.04),
                ((span.end - span.start) * self.scale, LANE - 0.08),
            )
            tile(axes, corner, size, WORKS[span.work])

    def draw_guess(self, axes: Axes, low: float, high: float) -> None:
        """Draws where the run would end with as many target calls as the reader guessed."""
        x = self.at(self.guessed)
        axes.plot([x, x], [low, high], color=GUESS.colour, linewidth=3, linestyle="--")
        axes.plot([x], [low], marker=GUESS.marker, markersize=14, color=GUESS.colour, markeredgecolor="black")
        text = f"your guess: {_passes(self.guess or 0)}{self.beyond}"
        before = x + 0.25 + text_width(text) > self.width - MARGIN
        write(axes, x + (-0.2 if before else 0.2), low, text, ha="right" if before else "left")

    def axis(self, axes: Axes, top: float, unit: str) -> None:
        """Draws the axis of time."""
        y = top - 0.1
        axes.plot([self.left, self.at(self.total)], [y, y], color="black", linewidth=1.2)
        for time in MaxNLocator(6).tick_values(0, self.total):
            if 0 <= time <= self.total * (1 + 1e-9):
                axes.plot([self.at(time)] * 2, [y, y - 0.08], color="black", linewidth=1.2)
                write(axes, self.at(time), y - 0.28, f"{time:g}", ha="center")
        write(axes, self.left, y - 0.62, f"time, in {unit}")


def _passes(count: float) -> str:
    return f"{count:g} {'pass' if count == 1 else 'passes'}"


def _twin(slow: Sequence[Span], fast: Sequence[Span], words: Sequence[str]) -> str:
    alone = [f"{span.end:6.2f}  {shown(words[span.yields[0][0]])}" for span in slow]
    lines = ["target alone, when each token is known:", *alone, "speculative, when its tokens are known:"]
    for span in fast:
        if span.work == "verify":
            said = " ".join(f"{STATES[state].glyph} {shown(words[token])}" for token, state in span.yields)
            lines.append(f"{span.end:6.2f}  {said}")
    return "\n".join(lines)


def _alt(slow: Sequence[Span], fast: Sequence[Span], costs: Costs) -> str:
    passes = sum(span.work == "verify" for span in fast)
    return (
        f"Two timelines of the same {len(slow)} tokens. Target alone: {len(slow)} passes one after another, "
        f"{slow[-1].end:.1f} {costs.unit}. Speculative: draft steps and {_passes(passes)} of the target in "
        f"turn, {fast[-1].end:.1f} {costs.unit}."
    )


def _caption(slow: Sequence[Span], fast: Sequence[Span]) -> str:
    passes = sum(span.work == "verify" for span in fast)
    gain = slow[-1].end / fast[-1].end
    return (
        f"The same {len(slow)} tokens take {len(slow)} target passes alone and {passes} with a draft: "
        f"{gain:.1f} times as fast at these costs."
    )
