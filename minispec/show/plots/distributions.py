"""What comes out of a rule, against the target's distribution: exactly, and counted in samples."""

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

from matplotlib.axes import Axes

from minispec.evidence.proof.first_token import FirstToken, parts
from minispec.evidence.theory.formulas import total_variation
from minispec.evidence.theory.statistics import deviation
from minispec.show.plots import charts
from minispec.show.plots.board import widest, worded
from minispec.show.plots.style import TEXT, Picture, aligned, sheet
from minispec.show.signs import DRAFTER, GUESS, STATES, TARGET, State

RIGHT, WRONG = STATES["accepted"], STATES["rejected"]  # their signs, for a verdict on a rule
HALF = 0.4  # of a column's width
BEYOND = HALF + 0.04  # where p's line ends, and a guess stands
WORDS = {"accepted": "drafted and kept", "correction": "emitted instead"}
WHOLE = 12  # numbers are written in parts of it
FALSE_ALARM = 1e-6  # of right code, for all its shares together


def rule_distribution(
    found: FirstToken,
    p: Sequence[float],
    labels: Sequence[str],
    guess: Sequence[float] | None = None,
    *,
    q: Sequence[float] | None = None,
    name: str = "The rule",
) -> Picture:
    """Draws what a rule emits as bars of two parts, with the target's distribution as a line across each.

    It was `found` by `first_token`; p [V] is the target's distribution and q [V], shown behind the bars, the
    draft's. `labels` [V] are what the tokens are called, and `name` is what the title calls the rule, such as
    `Rule 3`. The reader expects the distribution `guess` [V].
    """
    figure, axes = charts.chart(max(9.0, 2.4 * len(p) + 2), 6.6, "", "probability", "y")
    if q is not None:
        outline = charts.area(DRAFTER) | {"facecolor": "white", "edgecolor": DRAFTER.colour}
        axes.bar(range(len(q)), q, 2 * HALF, label=DRAFTER.word, **outline)
    kept, said = (f"{STATES[state].glyph} {word}" for state, word in WORDS.items())
    _bars(axes, STATES["accepted"], kept, found.kept, [0.0] * len(p))
    _bars(axes, STATES["correction"], said, found.said, found.kept)
    charts.levels(axes, p, BEYOND, color=TARGET.colour, linewidth=5, label=TARGET.word)
    for x, value in enumerate(guess or ()):
        charts.guess_at(axes, x + BEYOND, value, "" if x else GUESS.word)
    emitted = found.distribution
    charts.columns(axes, [f"{a}\n{_part(x)}" for a, x in zip(labels, emitted, strict=True)])
    axes.set_ylim(0, 1.1 * max(*emitted, *p, *(guess or [0]), *(q or [0])))
    charts.keys(axes, 2)
    lines = {kept: found.kept, said: found.said, "comes out": emitted, TARGET.word: p}
    lines |= {look.word: line for look, line in ((DRAFTER, q), (GUESS, guess)) if line is not None}
    rows = [["", *labels], *([head, *map(_part, line)] for head, line in lines.items())]
    off = {a: x - y for a, x, y in zip(labels, emitted, p, strict=True)}
    few, many = (", ".join(a for a, x in off.items() if side * x > 1e-9) for side in (-1, 1))
    case = "right" if not few + many else "constant" if max(emitted) > 1 - 1e-9 else ""
    sides = {"kept": found.kept, "said": found.said, "together": emitted, "target": p}
    values: dict[str, Any] = {side: parts(of, WHOLE) for side, of in sides.items()}
    values |= {"name": name, "labels": ", ".join(labels), "few": few, "many": many}
    values |= {"constant": labels[list(emitted).index(max(emitted))], "away": total_variation(emitted, p)}
    values["acceptance"] = Fraction(found.acceptance).limit_denominator(100)
    return worded("rule-distribution", figure, aligned(rows), case, **values)


def _bars(axes: Axes, look: State, label: str, heights: Sequence[float], floors: Sequence[float]) -> None:
    axes.bar(range(len(heights)), heights, 0.6, floors, label=label, **charts.area(look))
    middle: dict[str, Any] = {"ha": "center", "va": "center", "fontsize": TEXT, "color": look.ink}
    for x, (height, floor) in enumerate(zip(heights, floors, strict=True)):
        if height > 0.04:
            axes.text(x, floor + height / 2, look.glyph, **middle)


def _part(x: float) -> str:
    return f"{float(x) * WHOLE:.3g}/{WHOLE}"


def envelope(p: Sequence[float], samples: int, false_alarm: float = FALSE_ALARM) -> list[tuple[float, float]]:
    """Returns for each token between which shares the samples of p [V] lie; what p excludes never comes.

    All shares do at once, but for a probability of `false_alarm` at most: each is a mean of N yes-or-no
    samples, which Hoeffding's inequality bounds on both sides (see `statistics.deviation`).
    """
    away = deviation(false_alarm / (2 * len(p)), samples)
    return [(max(0.0, x - away), min(1.0, x + away)) if 0 < x < 1 else (x, x) for x in p]


def verdict(counts: Sequence[int], p: Sequence[float], names: Sequence[str]) -> str:
    """Says what the draws show: `right`, one token always, or which one comes too often or too rarely."""
    shares = [count / sum(counts) for count in counts]
    bounds = envelope(p, sum(counts))
    if all(low <= share <= high for share, (low, high) in zip(shares, bounds, strict=True)):
        return "right"
    if max(counts) == sum(counts):
        return f"always {names[counts.index(max(counts))]}"
    off = [share - x for share, x in zip(shares, p, strict=True)]
    worst = max(range(len(off)), key=lambda i: (abs(off[i]), off[i]))
    return f"{names[worst]} too {'often' if off[worst] > 0 else 'rarely'}"


def sampled_shares(counts: Mapping[str, Sequence[int]], p: Sequence[float], names: Sequence[str]) -> Picture:
    """Draws the share of each token in the draws of each rule, over the `envelope` of p, a line across.

    Counts are [V] for each rule by its name, p is [V], and so are the names of the tokens.

    Raises:
        ValueError: if there is no rule, or one has no draw or counts of other tokens than p has.
    """
    if not counts or any(len(of) != len(p) or sum(of) < 1 for of in counts.values()):
        raise ValueError(f"give at least one rule, and for each {len(p)} counts with one draw at least")
    said = {rule: verdict(of, p, names) for rule, of in counts.items()}
    wide = min(4, len(counts))
    high = -(-len(counts) // wide)
    widths = [3.7 * wide, widest([*counts, *(f"{RIGHT.glyph} {word}" for word in said.values())]) * wide + 2]
    figure = sheet(max(12, *widths), 4.6 * high + 1.4)
    panels = figure.subplots(high, wide, sharey=True, squeeze=False).flatten()
    rows = [["in twelfths", *names, ""], [TARGET.word, *(f"{WHOLE * x:.2f}" for x in p), ""]]
    for axes, (rule, of) in zip(panels, counts.items(), strict=False):
        shares, bounds = [count / sum(of) for count in of], envelope(p, sum(of))
        look = RIGHT if said[rule] == "right" else WRONG
        _panel(axes, f"{rule}\n{look.glyph} {said[rule]}", shares, bounds, p)
        charts.columns(axes, [f"{name}\n{WHOLE * x:.1f}" for name, x in zip(names, shares, strict=True)])
        rows.append([rule, *(f"{WHOLE * share:.2f}" for share in shares), f"{look.glyph} {said[rule]}"])
        rows.append(["  right code", *(f"{WHOLE * a:.2f} to {WHOLE * b:.2f}" for a, b in bounds), ""])
    panels[0].set_ylabel("twelfths", fontsize=TEXT)
    for axes in panels[len(counts) :]:
        axes.set_visible(False)
    charts.keys_below(figure, columns=3)
    values: dict[str, Any] = {"rules": len(counts), "names": ", ".join(names), "odds": 1 / FALSE_ALARM}
    values["right"] = " and ".join(rule for rule, word in said.items() if word == "right") or "none"
    values["words"] = ", ".join(f"{rule} {word}" for rule, word in said.items())
    draws = max(sum(of) for of in counts.values())
    return worded("sampled-shares", figure, aligned(rows), draws=draws, **values)


def _panel(
    axes: Axes,
    title: str,
    shares: Sequence[float],
    bounds: Sequence[tuple[float, float]],
    p: Sequence[float],
) -> None:
    """Draws the shares [V] of one rule over the envelope of p [V], in twelfths from 0 to 12."""
    charts.prepare(axes, grid="y").set_title(title, fontsize=TEXT, loc="left", parse_math=False)
    lows = [WHOLE * low for low, _ in bounds]
    heights = [WHOLE * (high - low) for low, high in bounds]
    axes.bar(range(len(p)), heights, 2 * BEYOND, lows, color="#CCCCCC", label="where right code stays")
    levels = [WHOLE * x for x in p]
    charts.levels(axes, levels, BEYOND, color=TARGET.colour, linewidth=3, label=TARGET.word)
    axes.plot([WHOLE * x for x in shares], "ko", markersize=11, label="share of the draws")
    axes.set_ylim(-0.06 * WHOLE, 1.06 * WHOLE)  # room for a point at either end
    axes.set_yticks(range(0, WHOLE + 1, 2))
