"""Reach: every figure that the project wants to reach, and what was measured."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from minispec.evidence.bench.sections.section import Found

LARGE = 24e6  # parameters, from which a target-only loop should be bound by reading weights


@dataclass(frozen=True)
class Goal:
    """A figure to reach.

    Attributes:
        what: is measured.
        value: finds it in what the sections have found; a KeyError if it was not measured.
        at_least: must be reached; None: is only reported.
        aim: is hoped for.
        lower: whether less is better.
        pair: which pair it is about; None: any.
        section: where it is measured.
    """

    what: str
    value: Callable[[Mapping[str, Found]], float]
    at_least: float | None
    aim: float
    section: str
    lower: bool = False
    pair: str | None = None

    def reached(self, value: float) -> bool | None:
        """Whether a value is good enough; None where nothing is demanded."""
        if self.at_least is None:
            return None
        return value <= self.at_least if self.lower else value >= self.at_least


def speed_up(verifier: str) -> Callable[[Mapping[str, Found]], float]:
    """Returns what finds the reported speed-up of a verifier."""
    return lambda found: next(s["speedup"] for s in found["widths"]["settings"] if s["verifier"] == verifier)


def native(verifier: str) -> Callable[[Mapping[str, Found]], float]:
    """Returns what finds how much faster the native backend speculates than torch, at its best."""

    def find(found: Mapping[str, Found]) -> float:
        rows = [row for row in found["paths"]["rows"] if row["verifier"] == verifier]
        gains = [row["over_readable"] for row in rows if row["path"] == "native"]
        if not gains:
            raise KeyError("no native backend")
        return max(gains)

    return find


def share_of_bandwidth(found: Mapping[str, Found]) -> float:
    """Returns the least share that a large model reaches on its best backend."""
    best: dict[int, float] = {}
    for point in found["bandwidth"]["points"]:
        if point["parameters"] >= LARGE:
            best[point["parameters"]] = max(best.get(point["parameters"], 0.0), point["share"])
    if not best:
        raise KeyError("no large model")
    return min(best.values())


def error(name: str) -> Callable[[Mapping[str, Found]], float]:
    """Returns what finds how far the predictions are off."""
    return lambda found: found["prediction"]["compared"][name]


def worst_share(found: Mapping[str, Found]) -> float:
    """Returns the larger bookkeeping of both verifiers."""
    return max(row["share"] for row in found["bookkeeping"]["rows"])


HOW = {"greedy": "greedy", "rejection": "sampled, T = 1"}
GOALS: tuple[Goal, ...] = (
    *(Goal(f"speed-up, {how}", speed_up(v), 2.0, 2.7, "widths", pair="stories") for v, how in HOW.items()),
    *(Goal(f"speed-up, {how}", speed_up(v), 1.8, 2.3, "widths", pair="english") for v, how in HOW.items()),
    Goal(
        "our target-only over transformers' plain generate",
        lambda found: found["transformers"]["target_only_over_plain"]["ratio"],
        2.0,
        3.0,
        "transformers",
    ),
    Goal(
        "our speculative over transformers' best assisted generation",
        lambda found: found["transformers"]["speculative_over_assisted"]["ratio"],
        2.4,
        3.5,
        "transformers",
    ),
    *(
        Goal(
            f"native speculative over torch speculative, {how}",
            native(v),
            1.25,
            1.5,
            "paths",
        )
        for v, how in HOW.items()
    ),
    Goal(
        "share of the weight-read bandwidth, target-only, 25M parameters and above",
        share_of_bandwidth,
        None,
        0.7,
        "bandwidth",
    ),
    Goal("error of the predicted speed-up, median", error("median_error"), 0.10, 0.05, "prediction", True),
    Goal("error of the predicted speed-up, worst", error("worst_error"), 0.25, 0.15, "prediction", True),
    Goal("automatic K over the best fixed K", lambda found: found["auto"]["worst"], 0.95, 1.0, "auto"),
    Goal("bookkeeping's share of a round", worst_share, 0.15, 0.10, "bookkeeping", True),
)


def reach(pair: str, found: Mapping[str, Found], skipped: Mapping[str, str]) -> list[dict[str, Any]]:
    """Returns a row for every goal: what was measured, or why nothing was.

    Args:
        pair: the name of the pair that was measured.
        found: by section.
        skipped: sections that could not be measured, and why.
    """
    rows = []
    for goal in GOALS:
        value, reason = None, None
        if goal.pair not in (None, pair):
            reason = f"measured with --pair {goal.pair}"
        else:
            try:
                value = goal.value(found)
            except KeyError:
                lack = found.get(goal.section, {}).get("unavailable", {}).get("native")
                reason = skipped.get(goal.section) or lack or f"section {goal.section} did not measure it"
        rows.append(
            {
                "what": goal.what,
                "pair": goal.pair or pair,
                "value": value,
                "at_least": goal.at_least,
                "aim": goal.aim,
                "better": "lower" if goal.lower else "higher",
                "reached": None if value is None else goal.reached(value),
            }
            | ({"reason": reason} if reason else {})
        )
    return rows
