"""What a rule emits, against the target's distribution: exactly, and counted in samples."""

from collections.abc import Mapping, Sequence
from fractions import Fraction

import numpy as np
from matplotlib.axes import Axes

from minispec.evidence.proof.first_token import FirstToken, parts
from minispec.evidence.theory.formulas import total_variation
from minispec.evidence.theory.statistics import deviation
from minispec.show.plots import charts
from minispec.show.plots.board import widest, worded
from minispec.show.plots.style import TEXT, Picture, aligned
from minispec.show.signs import DRAFTER, GUESS, STATES, TARGET

RIGHT, WRONG = STATES["accepted"], STATES["rejected"]  # their signs, for a verdict on a rule
HALF = 0.4  # of a column's width
BEYOND = HALF + 0.04  # where p's line ends, and a guess stands
WHOLE = 12  # numbers are written in parts of it
FALSE_ALARM = 1e-6  # of right code, for all its shares together


def rule_distribution(
    first_token: FirstToken,
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
    charts.stack(axes, RIGHT, "drafted and kept", first_token.accepted, [0.0] * len(p), 0.04)
    charts.stack(
        axes, STATES["correction"], "emitted instead", first_token.correction, first_token.accepted, 0.04
    )
    charts.levels(axes, p, BEYOND, color=TARGET.colour, linewidth=5, label=TARGET.word)
    for x, value in enumerate(guess or ()):
        charts.guess_at(axes, x + BEYOND, value, "" if x else GUESS.word)
    emitted = first_token.distribution
    charts.columns(axes, [f"{a}\n{_part(x)}" for a, x in zip(labels, emitted, strict=True)])
    axes.set_ylim(0, 1.1 * max(*emitted, *p, *(guess or [0]), *(q or [0])))
    charts.keys(axes, 2)
    lines = {
        f"{RIGHT.glyph} drafted and kept": first_token.accepted,
        f"{STATES['correction'].glyph} emitted instead": first_token.correction,
        "emitted": emitted,
        TARGET.word: p,
        DRAFTER.word: q,
        GUESS.word: guess,
    }
    rows = [[head, *map(_part, line)] for head, line in lines.items() if line is not None]
    distance = total_variation(emitted, p)
    differences = {label: x - y for label, x, y in zip(labels, emitted, p, strict=True)}
    case = "right" if distance < 1e-9 else "constant" if max(emitted) > 1 - 1e-9 else ""
    return worded(
        "rule-distribution",
        figure,
        aligned([["", *labels], *rows]),
        case,
        name=name,
        labels=", ".join(labels),
        kept=parts(first_token.accepted, WHOLE),
        replacing=parts(first_token.correction, WHOLE),
        together=parts(emitted, WHOLE),
        target=parts(p, WHOLE),
        rarer=", ".join(label for label, x in differences.items() if x < -1e-9),
        commoner=", ".join(label for label, x in differences.items() if x > 1e-9),
        constant=max(zip(emitted, labels, strict=True))[1],
        distance=distance,
        acceptance=Fraction(first_token.acceptance).limit_denominator(100),
    )


def _part(x: float) -> str:
    return f"{float(x) * WHOLE:.3g}/{WHOLE}"


def envelope(p: Sequence[float], samples: int, false_alarm: float = FALSE_ALARM) -> list[tuple[float, float]]:
    """Returns for each token between which shares the samples of p [V] lie; what p excludes never comes.

    All shares do at once, but for a probability of `false_alarm` at most: each is a mean of N yes-or-no
    samples, which Hoeffding's inequality bounds on both sides (see `statistics.deviation`).
    """
    margin = deviation(false_alarm / (2 * len(p)), samples)
    return [(max(0.0, x - margin), min(1.0, x + margin)) if 0 < x < 1 else (x, x) for x in p]


def verdict(counts: Sequence[int], p: Sequence[float], names: Sequence[str]) -> str:
    """Says what the draws show: `right`, one token always, or which one comes too often or too rarely."""
    shares = np.divide(counts, sum(counts))
    lows, highs = np.transpose(envelope(p, sum(counts)))
    if ((lows <= shares) & (shares <= highs)).all():
        return "right"
    if max(counts) == sum(counts):
        return f"always {names[counts.index(max(counts))]}"
    differences = shares - p
    worst = max(range(len(p)), key=lambda i: (abs(differences[i]), differences[i]))
    return f"{names[worst]} too {'often' if differences[worst] > 0 else 'rarely'}"


def sampled_shares(counts: Mapping[str, Sequence[int]], p: Sequence[float], names: Sequence[str]) -> Picture:
    """Draws the share of each token in the draws of each rule, over the `envelope` of p, a line across.

    Counts are [V] for each rule by its name, p is [V], and so are the names of the tokens.

    Raises:
        ValueError: if there is no rule, or one has no draw or counts of other tokens than p has.
    """
    if not counts or any(len(each) != len(p) or sum(each) < 1 for each in counts.values()):
        raise ValueError(f"give at least one rule, and for each {len(p)} counts with one draw at least")
    verdict_by_rule = {rule: verdict(token_counts, p, names) for rule, token_counts in counts.items()}
    right_rules = [rule for rule, word in verdict_by_rule.items() if word == "right"]
    verdicts = [
        f"{(RIGHT if rule in right_rules else WRONG).glyph} {word}" for rule, word in verdict_by_rule.items()
    ]
    panels_per_line = min(4, len(counts))
    wide = max(12, panels_per_line * (widest([*counts, *verdicts], 3.3) + 0.4))
    high = 4.6 * -(-len(counts) // panels_per_line) + 1.4
    figure, panels = charts.panels(len(counts), panels_per_line, wide, high, sharey=True)
    rows = [["in twelfths", *names], [TARGET.word, *(f"{WHOLE * x:.2f}" for x in p)]]
    for axes, word, (rule, token_counts) in zip(panels, verdicts, counts.items(), strict=True):
        shares, bounds = _panel(axes, f"{rule}\n{word}", token_counts, p, names)
        rows.append([rule, *(f"{share:.2f}" for share in shares), word])
        rows.append(["  right code", *(f"{low:.2f} to {high:.2f}" for low, high in bounds)])
    panels[0].set_ylabel("twelfths", fontsize=TEXT)
    charts.keys_below(figure, columns=3)
    return worded(
        "sampled-shares",
        figure,
        aligned(rows),
        rules=len(counts),
        names=", ".join(names),
        odds=1 / FALSE_ALARM,
        right=" and ".join(right_rules) or "none",
        words=", ".join(f"{rule} {word}" for rule, word in verdict_by_rule.items()),
        draws=max(map(sum, counts.values())),
    )


def _panel(
    axes: Axes, title: str, counts: Sequence[int], p: Sequence[float], names: Sequence[str]
) -> tuple[np.ndarray, np.ndarray]:
    """Draws the shares [V] of one rule over the envelope of p [V, 2], and returns both, in twelfths."""
    shares = WHOLE * np.array(counts) / sum(counts)
    bounds = WHOLE * np.array(envelope(p, sum(counts)))
    charts.prepare(axes, grid="y", title=title)
    lows, highs = bounds.T
    label = "where right code stays"
    axes.bar(range(len(p)), highs - lows, 2 * BEYOND, lows, color="#CCCCCC", label=label)
    charts.levels(axes, WHOLE * np.array(p), BEYOND, color=TARGET.colour, linewidth=3, label=TARGET.word)
    axes.plot(shares, "ko", markersize=11, label="share of the draws")
    charts.columns(axes, [f"{name}\n{x:.1f}" for name, x in zip(names, shares, strict=True)])
    axes.set_ylim(-0.06 * WHOLE, 1.06 * WHOLE)  # room for a point at either end
    axes.set_yticks(range(0, WHOLE + 1, 2))
    return shares, bounds
