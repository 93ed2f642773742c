"""The figure of a training: watched live, over the one that was recorded, or one of them alone."""

from collections.abc import Sequence
from typing import Any

from matplotlib.ticker import LogLocator, NullLocator, StrMethodFormatter

from minispec.show.plots import charts
from minispec.show.plots.board import worded
from minispec.show.plots.style import Picture
from minispec.show.signs import GUESS, SIGNS
from minispec.train.training import Progress

LOOKS = SIGNS["losses"]
TOP = 2.0  # nats: of a loss above it nothing can be seen but that it is high
Curve = list[tuple[int, float]]


def loss_lines(history: Sequence[Progress]) -> dict[str, Curve]:
    """Returns for each model its held-out losses, as (steps, nats per token), of what a training reported.

    Distilling goes on where the plain draft ended, so its steps are counted on.
    """
    before = max((p.steps for p in history if p.model == "draft-plain"), default=0)
    lines: dict[str, Curve] = {name: [] for name in LOOKS}
    for p in history:
        if p.validation is not None:
            lines[p.model].append((p.step + before * (p.model == "draft"), p.validation))
    return {name: line for name, line in lines.items() if line}


def learning(
    live: Sequence[Progress], recorded: Sequence[Progress], floor: float, guess: float | None = None
) -> Picture:
    """Draws the losses of a live training boldly over those of a recorded one, and the entropy under both.

    Without anything live, the recorded one is drawn alone, boldly. The entropy of the grammar, `floor`, is in
    nats per token, and `guess` is how low the reader thinks that a loss can go.

    Raises:
        ValueError: if no held-out loss was measured, live or recorded.
    """
    histories = {"live": loss_lines(live), "recorded": loss_lines(recorded)}
    curves = [(kind, LOOKS[name], line) for kind in histories for name, line in histories[kind].items()]
    if not curves:
        raise ValueError("the training has no held-out loss to draw")
    bold = curves[0][0]
    figure, axes = charts.chart(12, 7.2, "optimizer steps", "held-out loss, nats per token")
    for kind, look, line in sorted(curves, key=lambda curve: curve[0] == bold):  # the bold ones on top
        style: dict[str, Any] = {"lw": 4, "ms": 11} if kind == bold else {"lw": 1.5, "ms": 10, "mfc": "white"}
        style |= {"color": look.colour, "marker": look.marker, "mew": 2}
        axes.plot(*zip(*line, strict=True), label=f"{look.word}, {kind}", **style)
    axes.axhline(floor, color="black", linestyle="--", linewidth=2, label=f"entropy, {floor:.3f}")
    steps = [step for *_, line in curves for step, _ in line]
    axes.set_xscale("log")
    axes.xaxis.set(major_locator=LogLocator(subs=(1, 2, 5)), minor_locator=NullLocator())
    axes.xaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
    axes.set(xlim=(min(steps) / 1.15, max(steps) * 1.3), ylim=(0, TOP))
    if guess is not None:
        charts.guess_at(axes, max(steps), min(guess, TOP))
    charts.keys_below(figure)
    loss, best = min((line[-1][1], look.word) for kind, look, line in curves if kind == bold)
    twin = [f"entropy of the grammar: {floor:.3f} nats per token"]
    for kind, look, line in curves:
        losses = "  ".join(f"{step}: {loss:.3f}" for step, loss in line)
        twin.append(f"{look.word}, {kind}, by step: {losses}")
    if guess is not None:
        twin.append(f"{GUESS.word}: {guess:g}")
    return worded(
        "learning",
        figure,
        twin,
        best=best,
        kind=bold,
        loss=loss,
        gap=loss - floor,
        floor=floor,
        top=TOP,
        drawn="; ".join(f"{look.word}, {kind}" for kind, look, _ in curves),
    )
