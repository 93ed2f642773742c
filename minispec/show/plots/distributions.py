"""What comes out of a rule, against the target's distribution: exactly, and counted in samples."""

from collections.abc import Mapping, Sequence
from fractions import Fraction
from math import inf, sqrt
from typing import Any

from matplotlib.axes import Axes

from minispec.evidence.proof.first_token import FirstToken, parts
from minispec.evidence.theory.formulas import total_variation
from minispec.evidence.theory.statistics import check_sample, deviation
from minispec.show.plots import charts
from minispec.show.plots.board import worded
from minispec.show.plots.style import TEXT, Picture, aligned, sheet
from minispec.show.signs import DRAFTER, GUESS, STATES, TARGET, State

HALF = 0.4  # of a column's width
BEYOND = HALF + 0.04  # where p's line ends, and a guess stands
SHIPPED = State("#000000", "●", marker="o", word="shipped code")
MUTANT = State("#FFFFFF", "▲", marker="^", word="mutant")
WORDS = {"accepted": "drafted and kept", "correction": "said instead"}
WHOLE = 12  # numbers are written in parts of it
FALSE_ALARM = 1e-6
WIDE = 4.0  # standard errors: right code goes beyond with a probability of about 1 in 16,000 per token


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


def envelope(
    exact: Sequence[float], samples: int, false_alarm: float = FALSE_ALARM
) -> list[tuple[float, float]]:
    """Returns for each outcome between which frequencies samples of the distribution itself lie.

    All of them do at once, but for a probability of `false_alarm` at most: each frequency is a mean of N
    yes-or-no samples, which Hoeffding's inequality bounds on both sides (see `statistics.deviation`).
    """
    away = deviation(false_alarm / (2 * len(exact)), samples)
    return [(max(0.0, p - away), min(1.0, p + away)) for p in exact]


def distribution_histogram(
    exact: Sequence[float], counts: Sequence[int], mutant_counts: Sequence[int], labels: Sequence[str]
) -> Picture:
    """Draws how often each outcome came, inside the envelope of its exact probability; and a mutant outside.

    All are [n]: the outcomes' probabilities, how often each came from the shipped code and from a mutant, and
    what they are called.
    """
    figure, axes = charts.chart(max(10, 0.9 * len(exact) + 2), 6.4, "outcome", "share of samples", "y")
    bounds, drawn = envelope(exact, sum(counts)), (counts, mutant_counts)
    lows, heights = [low for low, _ in bounds], [high - low for low, high in bounds]
    grey: dict[str, Any] = {"color": "#CCCCCC", "label": "envelope of the exact distribution"}
    axes.bar(range(len(exact)), heights, 0.86, lows, **grey)
    charts.levels(axes, exact, 0.43, color="black")
    each = zip(labels, exact, bounds, strict=True)
    twin = [f"{label}: should be {p:.4f} ({low:.4f} to {high:.4f})" for label, p, (low, high) in each]
    outside = [0, 0]
    for i, (look, shift) in enumerate(((SHIPPED, -0.15), (MUTANT, 0.15))):
        shares = [count / sum(drawn[i]) for count in drawn[i]]
        dots: dict[str, Any] = {"color": look.colour, "markersize": 13, "markeredgecolor": "black"}
        xs = [x + shift for x in range(len(shares))]
        axes.plot(xs, shares, look.marker, label=look.word, zorder=4, **dots)
        for x, (share, (low, high)) in enumerate(zip(shares, bounds, strict=True)):
            out = not low <= share <= high
            twin[x] += f"; {look.word} {share:.4f}{', outside' * out}"
            outside[i] += out
    charts.columns(axes, labels)
    axes.set_ylim(bottom=0)
    charts.keys(axes, 2)
    tests = [check_sample("", dict(enumerate(of)), dict(enumerate(exact)), FALSE_ALARM) for of in drawn]
    values = {"outcomes": len(exact), "samples": sum(counts), "tests": tests, "odds": 1 / FALSE_ALARM}
    case = "right" if not outside[0] and outside[1] else ""
    values |= {"shipped": outside[0], "mutant": outside[1]}
    return worded("distribution-histogram", figure, "\n".join(twin), case, **values)


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
    figure = sheet(12, 4.1 * -(-len(counts) // 2) + 1.4)
    panels = figure.subplots(-(-len(counts) // 2), min(2, len(counts)), sharey=True, squeeze=False).flatten()
    rows = [["", *names, "", "largest deviation"]]
    for axes, (rule, of) in zip(panels, counts.items(), strict=False):
        shares = [count / sum(of) for count in of]
        title = f"{rule}: {said[rule]}\n{_errors(far[rule])}"
        charts.prepare(axes, grid="y").set_title(title, fontsize=TEXT, loc="left")
        axes.bar(range(len(p)), shares, 0.7, color="#CCCCCC", edgecolor="black", label="share of the draws")
        charts.levels(axes, p, 0.45, color=TARGET.colour, linewidth=5, label=TARGET.word)
        charts.columns(axes, [f"{name}\n{share:.3f}" for name, share in zip(names, shares, strict=True)])
        rows.append([rule, *(f"{share:.4f}" for share in shares), said[rule], _errors(far[rule])])
    for axes in panels[len(counts) :]:
        axes.set_visible(False)
    charts.keys_below(figure)
    rows.append([TARGET.word, *(f"{x:.4f}" for x in p), "", ""])
    right = [far[rule] for rule, word in said.items() if word == "right"]
    near = f"; what is right lies at most {_errors(max(right))} from p" if right else ""
    values: dict[str, Any] = {"right": len(right), "rules": len(counts), "near": near}
    values |= {"names": ", ".join(names), "words": ", ".join(f"{rule} {word}" for rule, word in said.items())}
    draws = max(sum(of) for of in counts.values())
    return worded("first-tokens", figure, aligned(rows), draws=draws, **values)


def _errors(far: float) -> str:
    return f"{far:.{int(far < 10)}f} standard errors" if far < inf else "p is 0"
