"""The figure of a training."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullFormatter

from minispec.train.training import Progress

# Okabe and Ito's colours, with a marker each, so that colour is never alone.
MODELS = {
    "target": ("#0072B2", "o", "target"),
    "draft-plain": ("#E69F00", "s", "draft, cross-entropy"),
    "draft": ("#009E73", "^", "draft, distilled"),
}


def loss_curve(history: Sequence[Progress], floor: float | None) -> Figure:
    """Draws the held-out loss of each model against its steps.

    Args:
        history: what a training reported.
        floor: the true entropy in nats per token, or None.

    Returns:
        A figure with one line per model that measured its held-out loss.
    """
    figure = Figure(figsize=(7, 4), layout="constrained")
    axes = figure.add_subplot()
    for name, (colour, marker, label) in MODELS.items():
        points = [(p.step, p.validation) for p in history if p.model == name and p.validation is not None]
        if points:
            steps, losses = zip(*points, strict=True)
            axes.plot(steps, losses, color=colour, marker=marker, label=label)
    if floor is not None:
        axes.axhline(floor, color="black", linestyle="--", label=f"entropy of the grammar, {floor:.3f}")
    axes.set_xscale("log")
    axes.set_yscale("log")  # a target that has begun with other exercises starts far above the rest
    plain = FuncFormatter(lambda value, _: f"{value:g}")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(plain)
        axis.set_minor_formatter(NullFormatter())
    seen = axes.get_ylim()
    axes.set_yticks([0.4, 0.5, 0.7, 1, 2, 3, 4, 6, 8])
    axes.set_ylim(seen)
    axes.set_xlabel("optimizer steps", fontsize=12)
    axes.set_ylabel("held-out loss, nats per token", fontsize=12)
    axes.legend(fontsize=11)
    axes.grid(alpha=0.3)
    return figure
