"""The figure of a training: watched live, over the one that was recorded, or recorded alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from matplotlib.axes import Axes

from minispec.show.plots import charts
from minispec.show.plots.picture import Picture
from minispec.show.plots.style import DRAFTER, GUESS, STATES, TARGET, TEXT, State, sheet
from minispec.train.training import Progress

LOOKS = {
    "target": replace(TARGET, word="target"),
    "draft-plain": replace(DRAFTER, word="draft"),
    "draft": replace(STATES["draft"], word="draft, distilled"),
}
TOP = 2.0  # nats: of a loss above it nothing can be seen but that it is high
Line = list[tuple[int, float]]


def loss_lines(history: Sequence[Progress]) -> dict[str, Line]:
    """Returns for each model its held-out losses, as (steps, nats per token).

    Distilling goes on where the plain draft ended, so its steps are counted on.

    Args:
        history: what a training reported.
    """
    measured = [p for p in history if p.validation is not None]
    before = max((p.steps for p in measured if p.model == "draft-plain"), default=0)
    lines: dict[str, Line] = {}
    for p in measured:
        shift = before if p.model == "draft" else 0
        lines.setdefault(p.model, []).append((p.step + shift, float(p.validation or 0.0)))
    return {name: lines[name] for name in LOOKS if name in lines}


def learning(
    live: Sequence[Progress], recorded: Sequence[Progress], floor: float, guess: float | None = None
) -> Picture:
    """Draws the losses of a live training boldly over those of a recorded one, and the entropy under both.

    Args:
        live: what the live training reported; without any of it, the recorded one is drawn alone, boldly.
        recorded: what the other one did.
        floor: the entropy of the grammar, in nats per token.
        guess: how low the reader thinks that a loss can go.

    Returns:
        The picture; its data is `loss_lines`.

    Raises:
        ValueError: if no held-out loss was measured, live or recorded.
    """
    lines = {"live": loss_lines(live), "recorded": loss_lines(recorded)}
    lines = {kind: of for kind, of in lines.items() if of}
    if not lines:
        raise ValueError("the training has no held-out loss to draw")
    bold = next(iter(lines))
    figure = sheet(12, 7.2)
    axes = charts.prepare(figure.add_subplot(), "optimizer steps", "held-out loss, nats per token")
    for kind in reversed(lines):  # the bold ones last, on top
        for name, line in lines[kind].items():
            _line(axes, line, LOOKS[name], kind, kind == bold)
    axes.axhline(floor, color="black", linestyle="--", linewidth=2, label=f"entropy, {floor:.3f}")
    steps = [step for of in lines.values() for line in of.values() for step, _ in line]
    axes.set_xscale("log")
    axes.set_xlim(min(steps) / 1.15, max(steps) * 1.3)
    charts.ticks(axes, "x", [x for x in charts.steps_of_ten(*axes.get_xlim()) if min(steps) <= x])
    axes.set_ylim(0, TOP)
    if guess is not None:
        charts.guess_at(axes, max(steps), min(guess, TOP))
    figure.legend(
        *axes.get_legend_handles_labels(), loc="outside upper left", ncols=3, fontsize=TEXT, frameon=False
    )
    text = _text(bold, lines[bold], floor)
    drawn = "; ".join(f"{LOOKS[name].word}, {kind}" for kind, of in lines.items() for name in of)
    alt = f"Lines of held-out loss against optimizer steps: {drawn}. {text}"
    return Picture("learning", figure, alt, text, _twin(lines, floor, guess))


def _line(axes: Axes, line: Line, look: State, kind: str, bold: bool) -> None:
    """Draws one model; what is not bold is thinner, and its markers are hollow."""
    steps, losses = zip(*line, strict=True)
    axes.plot(
        steps,
        losses,
        color=look.colour,
        marker=look.marker,
        markersize=11 if bold else 10,
        markerfacecolor=look.colour if bold else "white",
        markeredgewidth=2,
        linewidth=4 if bold else 1.5,
        label=f"{look.word}, {kind}",
    )


def _text(kind: str, lines: dict[str, Line], floor: float) -> str:
    ends = {name: line[-1][1] for name, line in lines.items()}
    best = min(ends, key=lambda name: ends[name])
    return (
        f"Of the {kind} models the {LOOKS[best].word} is the best with {ends[best]:.2f} nats per token, "
        f"{ends[best] - floor:.2f} above the entropy of {floor:.3f}; losses above {TOP:g} are cut off."
    )


def _twin(lines: dict[str, dict[str, Line]], floor: float, guess: float | None) -> str:
    rows = [f"entropy of the grammar: {floor:.3f} nats per token"]
    for kind, of in lines.items():
        for name, line in of.items():
            said = "  ".join(f"{step}: {loss:.3f}" for step, loss in line)
            rows.append(f"{LOOKS[name].word}, {kind}, by step: {said}")
    return "\n".join(rows) + (f"\n{GUESS.word}: {guess:g}" if guess is not None else "")
