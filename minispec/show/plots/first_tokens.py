"""Sampled first tokens of several rules, against the target's distribution: a small chart per rule."""

from collections.abc import Mapping, Sequence
from math import inf, sqrt
from typing import Any

from matplotlib.axes import Axes

from minispec.show.plots import charts
from minispec.show.plots.board import worded
from minispec.show.plots.style import TARGET, TEXT, Picture, aligned, sheet

ACROSS = 2  # charts beside each other
WIDE = 4.0  # standard errors: right code goes beyond with a probability of about 1 in 16,000 per token


def standard_errors(counts: Sequence[int], p: Sequence[float]) -> list[float]:
    """Returns how far the share of each count lies above p [V], in standard errors √(p(1 − p)/N)."""
    total, far = sum(counts), []
    for count, x in zip(counts, p, strict=True):
        off, error = count / total - x, sqrt(x * (1 - x) / total)
        far.append(off / error if error else inf * off if off else 0.0)
    return far


def verdict(counts: Sequence[int], p: Sequence[float], names: Sequence[str]) -> str:
    """Says what the draws show: `right`, one token always, or too much or too little of the worst one."""
    far = standard_errors(counts, p)
    worst = max(range(len(far)), key=lambda i: (abs(far[i]), far[i]))
    if abs(far[worst]) < WIDE:
        return "right"
    if max(counts) == sum(counts):
        return f"always {names[counts.index(max(counts))]}"
    return f"too {'much' if far[worst] > 0 else 'little'} {names[worst]}"


def first_tokens(counts: Mapping[str, Sequence[int]], p: Sequence[float], names: Sequence[str]) -> Picture:
    """Draws the share of each token among the sampled first tokens of each rule, with p as a line across.

    Counts are [V] for each rule by its name, p is [V], and so are the names of the tokens.

    Raises:
        ValueError: if there is no rule, or one has no draw or counts of other tokens than p has.
    """
    if not counts or any(len(of) != len(p) or sum(of) < 1 for of in counts.values()):
        raise ValueError(f"give at least one rule, and for each {len(p)} counts with one draw at least")
    said = {rule: verdict(of, p, names) for rule, of in counts.items()}
    far = {rule: max(map(abs, standard_errors(of, p))) for rule, of in counts.items()}
    lines, draws = -(-len(counts) // ACROSS), max(sum(of) for of in counts.values())
    figure = sheet(12, 4.1 * lines + 1.4)
    panels = figure.subplots(lines, min(ACROSS, len(counts)), sharey=True, squeeze=False).flatten()
    for axes, (rule, of) in zip(panels, counts.items(), strict=False):
        _panel(axes, [count / sum(of) for count in of], p, names)
        axes.set_title(f"{rule}: {said[rule]}\n{_errors(far[rule])}", fontsize=TEXT, loc="left")
    for axes in panels[len(counts) :]:
        axes.set_visible(False)
    key: dict[str, Any] = {"loc": "outside lower left", "ncols": 2, "fontsize": TEXT, "frameon": False}
    figure.legend(*panels[0].get_legend_handles_labels(), **key)
    right = [rule for rule, word in said.items() if word == "right"]
    words = ", ".join(f"{rule} {word}" for rule, word in said.items())
    near = ""
    if right:
        near = f"; what is right lies at most {_errors(max(far[rule] for rule in right))} from p"
    rows = [["", *names, "", "largest deviation"]]
    rows += [
        [rule, *(f"{count / sum(of):.4f}" for count in of), said[rule], _errors(far[rule])]
        for rule, of in counts.items()
    ]
    rows.append([TARGET.word, *(f"{x:.4f}" for x in p), "", ""])
    values: dict[str, Any] = {"right": len(right), "rules": len(counts), "draws": draws}
    values |= {"names": ", ".join(names), "words": words, "near": near}
    return worded("first-tokens", figure, aligned(rows), values)


def _panel(axes: Axes, shares: Sequence[float], p: Sequence[float], names: Sequence[str]) -> None:
    charts.prepare(axes, grid="y")
    xs = range(len(p))
    axes.bar(xs, shares, 0.7, color="#CCCCCC", edgecolor="black", label="share of the draws")
    ends = [x - 0.45 for x in xs], [x + 0.45 for x in xs]
    axes.hlines(p, *ends, color=TARGET.colour, linewidth=5, label=TARGET.word)
    axes.set_xticks(xs, [f"{name}\n{share:.3f}" for name, share in zip(names, shares, strict=True)])
    axes.tick_params(axis="x", length=0)


def _errors(far: float) -> str:
    return (
        f"{far:.1f} standard errors" if far < 10 else f"{far:.0f} standard errors" if far < inf else "p is 0"
    )
