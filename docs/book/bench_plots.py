"""Figures of recorded measurements: tokens per second, how well speed-ups were predicted, the kill matrix."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median
from types import SimpleNamespace
from typing import Any, NamedTuple

from matplotlib.ticker import MaxNLocator

from minispec.evidence.bench.measurements import saved
from minispec.evidence.theory.formulas import Hardware, forward_cost
from minispec.show.plots import charts
from minispec.show.plots.board import titled
from minispec.show.plots.charts import CURVES, LOSS
from minispec.show.plots.kill_matrix import kill_matrix
from minispec.show.plots.speed import bytes_against_arithmetic
from minispec.show.plots.style import Picture
from minispec.show.signs import DRAFTER, TARGET

LOOKS = {  # by section: colour, marker and word
    "widths": (CURVES[0][0], "o", "every K"),
    "temperature": (CURVES[1][0], "s", "temperatures"),
    "drafts": (CURVES[2][0], "^", "other drafts"),
}
PALE = "#BBBBBB"
A100 = Hardware("an A100 (2.0 TB/s, 312 Tflop/s)", 2.0e12, 312e12)  # NVIDIA's data sheet, 80 GB, 16 bits


class Speed(NamedTuple):
    """How fast something writes text."""

    name: str  #: as it stands beside its bar
    rate: float  #: tokens per second, the median
    speculative: bool  #: whether it has a draft


def speeds_of(report: Mapping[str, Any]) -> list[Speed]:
    """Returns how fast each backend and library wrote the same greedy texts in a report.

    Args:
        report: as `run_bench` returns it.
    """
    found = report["sections"]
    best: dict[str, float] = {}  # of each backend, over all numbers of threads
    for row in found["target-only"]["rows"]:
        if row["verifier"] == "greedy":
            best[row["path"]] = max(best.get(row["path"], 0.0), row["target_only"])
    speeds = [Speed(f"{backend}, alone", rate, False) for backend, rate in best.items()]
    for row in found.get("widths", {}).get("backends", {}).get("rows", []):
        if row["verifier"] == "greedy":
            speeds.append(Speed(f"{row['path']}, K = {row['k']}", row["tokens_per_second"], True))
    rates = found.get("transformers", {}).get("tokens_per_second", {})
    for name, rate in rates.items():
        if name.startswith("theirs"):
            word = name.removeprefix("theirs ")
            speeds.append(Speed(f"transformers, {word}", rate, word == "assisted"))
    return speeds


def tokens_per_second(speeds: Sequence[Speed]) -> Picture:
    """Draws tokens per second, from slow to fast.

    Args:
        speeds: in any order, one at least.
    """
    speeds = sorted(speeds, key=lambda speed: speed.rate)
    figure, axes = charts.chart(10, 0.72 * len(speeds) + 2.0, "tokens per second", grid="x")
    for alone, look, word in ((True, TARGET, "target alone"), (False, DRAFTER, "with a draft")):
        bars = {i: speed.rate for i, speed in enumerate(speeds) if speed.speculative is not alone}
        axes.barh([*bars], [*bars.values()], 0.7, label=word, **charts.area(look))
    for i, speed in enumerate(speeds):
        charts.note(axes, f"{speed.rate:.0f}", (speed.rate, i), (8, 0), va="center")
    axes.set_yticks(range(len(speeds)), [speed.name.replace(", ", ",\n") for speed in speeds])
    slow = speeds[0]
    fast = speeds[-1]
    axes.set_xlim(0, fast.rate * 1.18)
    axes.xaxis.set_major_locator(MaxNLocator(5))  # numbers of five digits need space
    charts.keys(axes, 2)
    ratio = f"{fast.rate / slow.rate:.1f} times {slow.name}"
    text = f"{fast.name} writes {fast.rate:.0f} tokens a second, {ratio}"
    return titled(
        "tokens-per-second",
        figure,
        f"The fastest is {fast.name}: {ratio}",
        f"Bars of tokens per second for {len(speeds)} settings that write the same greedy texts: {text}.",
        f"{text[0].upper()}{text[1:]}.",
        "\n".join(f"{speed.name}: {speed.rate:.0f} tokens per second" for speed in speeds),
    )


def every_prediction(rows: Sequence[Mapping[str, Any]]) -> Picture:
    """Draws every measured speed-up against the one that was predicted; losses lie in the hatched part.

    Args:
        rows: as the section `prediction` compares them, one at least.
    """
    figure, axes = charts.chart(10, 9, "predicted speed-up", "measured speed-up")
    for name, (colour, marker, word) in LOOKS.items():
        points = [SimpleNamespace(**row) for row in rows if row["section"] == name]
        gains = [point.measured for point in points]
        spans = charts.whiskers(points, gains)
        line: dict[str, Any] = {"color": colour, "ecolor": PALE, "marker": marker, "markersize": 12}
        axes.errorbar([p.predicted for p in points], gains, spans, linestyle="none", label=word, **line)
    limit = max(max(row["predicted"], row["high"]) for row in rows) * 1.08
    axes.axhspan(0, 1, **charts.area(LOSS) | {"edgecolor": PALE}, label=LOSS.word, zorder=0)
    axes.plot([0, limit], [0, limit], color="black", linewidth=1.5, label="as predicted")
    axes.set(xlim=(0, limit), ylim=(0, limit))
    charts.keys(axes, 2)
    off = [abs(row["predicted"] / row["measured"] - 1) for row in rows]
    middle = f"{median(off):.0%}"
    worst = f"by {max(off):.0%} at worst."
    text = f"{len(rows)} predictions made before the run are off by {middle} at the median"
    twin = [
        f"{row['setting']}: predicted {row['predicted']:.2f}, measured {row['measured']:.2f}" for row in rows
    ]
    return titled(
        "every-prediction",
        figure,
        f"Half of the predictions are off by {middle} or less",
        f"Measured against predicted speed-up; on the diagonal a prediction is right: {text}, {worst}",
        f"{text} and {worst}",
        "\n".join(twin),
    )


def matrix() -> Picture:
    """Returns the kill matrix."""
    zoo = saved("zoo")
    return kill_matrix(zoo.points, zoo.conditions["checks"], zoo.conditions["theirs"])


def seven_billion() -> Picture:
    """Returns the bytes of a model of seven billion weights against its arithmetic."""
    costs = [forward_cost(7e9, 2, A100, tokens) for tokens in (1, 5, 156)]
    return bytes_against_arithmetic(costs, A100, "a 7B model")
