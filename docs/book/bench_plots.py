"""Figures of a report of the bench: tokens per second, and how well speed-ups were predicted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from matplotlib.ticker import MaxNLocator

from minispec.show.plots import charts
from minispec.show.plots.board import titled
from minispec.show.plots.charts import CURVES, LOSS
from minispec.show.plots.style import TEXT, Picture, sheet
from minispec.show.signs import DRAFTER, TARGET, State

LOOKS = {
    name: State(CURVES[i][0], marker=marker)
    for i, (name, marker) in enumerate((("widths", "o"), ("temperature", "s"), ("drafts", "^")))
}
WORDS = {"widths": "every K", "temperature": "temperatures", "drafts": "other drafts"}


@dataclass(frozen=True)
class Speed:
    """How fast something writes text.

    Attributes:
        name: as it stands beside its bar.
        tokens_per_second: the median.
        speculative: whether it has a draft.
    """

    name: str
    tokens_per_second: float
    speculative: bool


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
    for key, name in (("theirs plain", "transformers, plain"), ("theirs assisted", "transformers, assisted")):
        if key in rates:
            speeds.append(Speed(name, rates[key], key == "theirs assisted"))
    return speeds


def tokens_per_second(speeds: Sequence[Speed]) -> Picture:
    """Draws tokens per second, from slow to fast.

    Args:
        speeds: in any order.

    Raises:
        ValueError: if there are none.
    """
    if not speeds:
        raise ValueError("there is nothing to draw; give at least one speed")
    speeds = sorted(speeds, key=lambda speed: speed.tokens_per_second)
    figure = sheet(10, 0.72 * len(speeds) + 2.0)
    axes = charts.prepare(figure.add_subplot(), "tokens per second", grid="x")
    for alone, look, word in ((True, TARGET, "target alone"), (False, DRAFTER, "with a draft")):
        positions = [i for i, speed in enumerate(speeds) if speed.speculative is not alone]
        bars = [speeds[i].tokens_per_second for i in positions]
        axes.barh(positions, bars, 0.7, color=look.colour, edgecolor="black", hatch=look.hatch, label=word)
    for position, speed in enumerate(speeds):
        spot = speed.tokens_per_second, position
        axes.annotate(
            f"{speed.tokens_per_second:.0f}",
            spot,
            (8, 0),
            textcoords="offset points",
            va="center",
            fontsize=TEXT,
        )
    axes.set_yticks(range(len(speeds)), [speed.name.replace(", ", ",\n") for speed in speeds])
    axes.set_xlim(0, speeds[-1].tokens_per_second * 1.18)
    axes.xaxis.set_major_locator(MaxNLocator(5))  # numbers of five digits need space
    charts.keys(axes, 2)
    slow, fast = speeds[0], speeds[-1]
    ratio = fast.tokens_per_second / slow.tokens_per_second
    text = f"{fast.name} writes {fast.tokens_per_second:.0f} tokens a second, {ratio:.1f} times {slow.name}"
    return titled(
        "tokens-per-second",
        figure,
        f"The fastest is {fast.name}: {ratio:.1f} times {slow.name}",
        f"Bars of tokens per second for {len(speeds)} settings that write the same greedy texts: {text}.",
        f"{text[0].upper()}{text[1:]}.",
        "\n".join(f"{speed.name}: {speed.tokens_per_second:.0f} tokens per second" for speed in speeds),
    )


def every_prediction(rows: Sequence[Mapping[str, Any]]) -> Picture:
    """Draws every measured speed-up against the one that was predicted; losses lie in the hatched part.

    Args:
        rows: as the section `prediction` compares them.

    Raises:
        ValueError: if there are none.
    """
    if not rows:
        raise ValueError("there is nothing to compare; give at least one setting")
    figure = sheet(10, 9)
    axes = charts.prepare(figure.add_subplot(), "predicted speed-up", "measured speed-up")
    limit = max(max(row["predicted"], row["high"]) for row in rows) * 1.08
    for name in dict.fromkeys(row["section"] for row in rows):
        some = [row for row in rows if row["section"] == name]
        look = LOOKS[name]
        gains = [row["measured"] for row in some]
        spans = [
            [row["measured"] - row["low"] for row in some],
            [row["high"] - row["measured"] for row in some],
        ]
        said = [row["predicted"] for row in some]
        line: dict[str, Any] = {
            "color": look.colour,
            "ecolor": "#BBBBBB",
            "marker": look.marker,
            "markersize": 12,
        }
        axes.errorbar(said, gains, yerr=spans, linestyle="none", label=WORDS[name], **line)
    axes.axhspan(
        0, 1, facecolor=LOSS.colour, edgecolor="#BBBBBB", hatch=LOSS.hatch, label=LOSS.word, zorder=0
    )
    axes.plot([0, limit], [0, limit], color="black", linewidth=1.5, label="as predicted")
    axes.set_xlim(0, limit)
    axes.set_ylim(0, limit)
    charts.keys(axes, 2)
    off = [abs(row["predicted"] / row["measured"] - 1) for row in rows]
    text = f"{len(rows)} predictions made before the run are off by {median(off):.0%} at the median"
    return titled(
        "every-prediction",
        figure,
        f"Half of the predictions are off by {median(off):.0%} or less",
        f"Measured against predicted speed-up with the diagonal on which a prediction is right: {text}, "
        f"by {max(off):.0%} at worst.",
        f"{text} and by {max(off):.0%} at worst.",
        "\n".join(
            f"{row['setting']}: predicted {row['predicted']:.2f}, measured {row['measured']:.2f}"
            for row in rows
        ),
    )
