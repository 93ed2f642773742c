"""The figure of a training: watched live, over the one that was recorded, or one of them alone."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from minispec.show.plots import charts
from minispec.show.plots.board import worded
from minispec.show.plots.style import DRAFTER, GUESS, TARGET, TEXT, Picture, sheet
from minispec.train.training import Progress

LOOKS = {
    "target": replace(TARGET, word="target"),
    "draft-plain": replace(DRAFTER, word="draft"),
    "draft": replace(DRAFTER, marker="^", word="draft, distilled"),
}
TOP = 2.0  # nats: of a loss above it nothing can be seen but that it is high
Curve = list[tuple[int, float]]


def loss_lines(history: Sequence[Progress]) -> dict[str, Curve]:
    """Returns for each model its held-out losses, as (steps, nats per token), of what a training reported.

    Distilling goes on where the plain draft ended, so its steps are counted on.
    """
    measured = [p for p in history if p.validation is not None]
    before = max((p.steps for p in measured if p.model == "draft-plain"), default=0)
    lines: dict[str, Curve] = {}
    for p in measured:
        shift = before if p.model == "draft" else 0
        lines.setdefault(p.model, []).append((p.step + shift, float(p.validation or 0.0)))
    return {name: lines[name] for name in LOOKS if name in lines}


def learning(
    live: Sequence[Progress], recorded: Sequence[Progress], floor: float, guess: float | None = None
) -> Picture:
    """Draws the losses of a live training boldly over those of a recorded one, and the entropy under both.

    Without anything live, the recorded one is drawn alone, boldly. The entropy of the grammar, `floor`, is in
    nats per token, and `guess` is how low the reader thinks that a loss can go.

    Raises:
        ValueError: if no held-out loss was measured, live or recorded.
    """
    curves = [
        (kind, name, line)
        for kind, history in (("live", live), ("recorded", recorded))
        for name, line in loss_lines(history).items()
    ]
    if not curves:
        raise ValueError("the training has no held-out loss to draw")
    bold = curves[0][0]
    figure = sheet(12, 7.2)
    axes = charts.prepare(figure.add_subplot(), "optimizer steps", "held-out loss, nats per token")
    for kind, name, line in sorted(curves, key=lambda curve: curve[0] == bold):  # the bold ones on top
        look = LOOKS[name]
        style: dict[str, Any] = {"markersize": 11, "markerfacecolor": look.colour, "linewidth": 4}
        if kind != bold:
            style = {"markersize": 10, "markerfacecolor": "white", "linewidth": 1.5}
        style |= {"color": look.colour, "marker": look.marker, "markeredgewidth": 2}
        axes.plot(*zip(*line, strict=True), label=f"{look.word}, {kind}", **style)
    axes.axhline(floor, color="black", linestyle="--", linewidth=2, label=f"entropy, {floor:.3f}")
    steps = [step for *_, line in curves for step, _ in line]
    axes.set_xscale("log")
    axes.set_xlim(min(steps) / 1.15, max(steps) * 1.3)
    charts.ticks(axes, "x", [x for x in charts.steps_of_ten(*axes.get_xlim()) if min(steps) <= x])
    axes.set_ylim(0, TOP)
    if guess is not None:
        charts.guess_at(axes, max(steps), min(guess, TOP))
    key: dict[str, Any] = {"loc": "outside lower left", "ncols": 2, "fontsize": TEXT, "frameon": False}
    figure.legend(*axes.get_legend_handles_labels(), **key)
    loss, best = min((line[-1][1], LOOKS[name].word) for kind, name, line in curves if kind == bold)
    drawn = "; ".join(f"{LOOKS[name].word}, {kind}" for kind, name, _ in curves)
    twin = [f"entropy of the grammar: {floor:.3f} nats per token"]
    for kind, name, line in curves:
        said = "  ".join(f"{step}: {loss:.3f}" for step, loss in line)
        twin.append(f"{LOOKS[name].word}, {kind}, by step: {said}")
    if guess is not None:
        twin.append(f"{GUESS.word}: {guess:g}")
    values = {"loss": loss, "gap": loss - floor, "floor": floor, "top": TOP}
    words = {"best": best, "kind": bold, "drawn": drawn}
    return worded("learning", figure, "\n".join(twin), values | words)
