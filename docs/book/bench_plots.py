"""Figures of a report of the bench: who writes how fast, and how well all of it was predicted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from matplotlib.ticker import MaxNLocator

from minispec.show.plots import charts
from minispec.show.plots.charts import LOSS
from minispec.show.plots.picture import Picture
from minispec.show.plots.style import DRAFTER, STATES, TARGET, TEXT, sheet

LOOKS = {
    "widths": STATES["draft"],
    "temperature": STATES["correction"],
    "drafts": STATES["bonus"],
    "batch": DRAFTER,
}
WORDS = {
    "widths": "every K",
    "temperature": "temperatures",
    "drafts": "other drafts",
    "batch": "batches",
}


@dataclass(frozen=True)
class Writer:
    """Something that writes text.

    Attributes:
        name: as it stands beside its bar.
        tokens_per_second: the median.
        speculative: whether it has a draft.
    """

    name: str
    tokens_per_second: float
    speculative: bool


def writers_of(report: Mapping[str, Any]) -> list[Writer]:
    """Returns everything that wrote the same greedy texts in a report, from slow to fast.

    Args:
        report: as `run_bench` returns it.
    """
    found, writers = report["sections"], []
    for row in found["target-only"]["rows"]:
        best = max(
            other["target_only"]
            for other in found["target-only"]["rows"]
            if (other["path"], other["verifier"]) == (row["path"], "greedy")
        )
        if row["verifier"] == "greedy" and row["target_only"] == best:
            writers.append(Writer(f"{row['path']}, alone", best, False))
    for row in found.get("paths", {}).get("rows", []):
        if row["verifier"] == "greedy":
            writers.append(Writer(f"{row['path']}, K = {row['k']}", row["tokens_per_second"], True))
    rates = found.get("transformers", {}).get("tokens_per_second", {})
    for key, name in (("theirs plain", "transformers, plain"), ("theirs assisted", "transformers, assisted")):
        if key in rates:
            writers.append(Writer(name, rates[key], key == "theirs assisted"))
    return sorted(writers, key=lambda writer: writer.tokens_per_second)


def tokens_per_second(writers: Sequence[Writer]) -> Picture:
    """Draws how many tokens a second each writer writes, from slow to fast.

    Args:
        writers: in any order.

    Raises:
        ValueError: if there are none.
    """
    if not writers:
        raise ValueError("there is nothing to draw; give at least one writer")
    writers = sorted(writers, key=lambda writer: writer.tokens_per_second)
    figure = sheet(10, 0.72 * len(writers) + 2.0)
    axes = charts.prepare(figure.add_subplot(), "tokens per second", grid="x")
    for alone, look, word in ((True, TARGET, "target alone"), (False, DRAFTER, "with a draft")):
        places = [place for place, writer in enumerate(writers) if writer.speculative is not alone]
        bars = [writers[place].tokens_per_second for place in places]
        axes.barh(places, bars, 0.7, color=look.colour, edgecolor="black", hatch=look.hatch, label=word)
    for place, writer in enumerate(writers):
        spot = writer.tokens_per_second, place
        axes.annotate(
            f"{writer.tokens_per_second:.0f}",
            spot,
            (8, 0),
            textcoords="offset points",
            va="center",
            fontsize=TEXT,
        )
    axes.set_yticks(range(len(writers)), [writer.name for writer in writers])
    axes.set_xlim(0, writers[-1].tokens_per_second * 1.18)
    axes.xaxis.set_major_locator(MaxNLocator(5))  # numbers of five digits need room
    charts.keys(axes, 2)
    slow, fast = writers[0], writers[-1]
    ratio = fast.tokens_per_second / slow.tokens_per_second
    text = f"{fast.name} writes {fast.tokens_per_second:.0f} tokens a second, {ratio:.1f} times {slow.name}"
    return Picture(
        "tokens-per-second",
        figure,
        f"Bars of tokens per second of {len(writers)} ways to write the same greedy texts: {text}.",
        f"{text[0].upper()}{text[1:]}.",
        "\n".join(f"{writer.name}: {writer.tokens_per_second:.0f} tokens per second" for writer in writers),
    )


def every_prediction(rows: Sequence[Mapping[str, Any]]) -> Picture:
    """Draws every measured speed-up against the one that was predicted; losses lie in the hatched part.

    Args:
        rows: as the section `prediction` compares them: section, setting, predicted, measured, low, high.

    Raises:
        ValueError: if there are none.
    """
    if not rows:
        raise ValueError("there is nothing to compare; give at least one setting")
    figure = sheet(10, 9)
    axes = charts.prepare(figure.add_subplot(), "predicted speed-up", "measured speed-up")
    reach = max(max(row["predicted"], row["high"]) for row in rows) * 1.08
    for name in dict.fromkeys(row["section"] for row in rows):
        some, look = [row for row in rows if row["section"] == name], LOOKS[name]
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
    axes.plot([0, reach], [0, reach], color="black", linewidth=1.5, label="as predicted")
    axes.set_xlim(0, reach)
    axes.set_ylim(0, reach)
    charts.keys(axes, 2)
    off = [abs(row["predicted"] / row["measured"] - 1) for row in rows]
    text = f"{len(rows)} predictions made before the run are off by {median(off):.0%} at the median"
    return Picture(
        "every-prediction",
        figure,
        f"Measured against predicted speed-up with the diagonal on which a prediction is right: {text}, "
        f"by {max(off):.0%} at worst.",
        f"{text} and by {max(off):.0%} at worst.",
        "\n".join(
            f"{row['setting']}: predicted {row['predicted']:.2f}, measured {row['measured']:.2f}"
            for row in rows
        ),
    )


def bandwidth_shares(points: Sequence[Mapping[str, Any]]) -> Picture:
    """Draws which share of the machine's speed of reading weights a target-only loop reaches, by size.

    Args:
        points: as the section `bandwidth` finds them; of each path and size the best counts.

    Raises:
        ValueError: if there are none.
    """
    if not points:
        raise ValueError("there is nothing to draw; give at least one model")
    best: dict[tuple[str, int], float] = {}
    for point in points:
        key = point["path"], point["parameters"]
        best[key] = max(best.get(key, 0.0), point["share"])
    figure = sheet(10, 6)
    axes = charts.prepare(figure.add_subplot(), "parameters", "share of reading weights")
    looks = dict(
        zip(dict.fromkeys(path for path, _ in best), (TARGET, DRAFTER, STATES["draft"]), strict=False)
    )
    for path, look in looks.items():
        sizes = sorted(size for name, size in best if name == path)
        values = [best[path, size] for size in sizes]
        axes.plot(
            sizes, values, color=look.colour, marker=look.marker, markersize=13, linewidth=2.5, label=path
        )
    axes.axhline(1, color="black", linewidth=1.5)
    axes.set_xscale("log")
    sizes = sorted({size for _, size in best})
    charts.ticks(axes, "x", sizes)
    axes.set_xticklabels([charts.size(size, "") for size in sizes])
    axes.set_ylim(0, max(1.1, max(best.values()) * 1.1))
    charts.keys(axes, 3)
    largest = max(sizes)
    top = max(share for (_, size), share in best.items() if size == largest)
    name = charts.size(largest, "").strip()
    text = f"with {name} parameters the target alone reaches {top:.0%} of what reading its weights allows"
    return Picture(
        "bandwidth",
        figure,
        f"Lines of the share of the measured bandwidth against the number of parameters: {text}.",
        f"{text[0].upper()}{text[1:]}.",
        "\n".join(
            f"{path}, {charts.size(size, '')}: {share:.0%}" for (path, size), share in sorted(best.items())
        ),
    )
