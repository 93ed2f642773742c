"""The results page, filled in from reports of the bench.

Its texts stand in results.toml. Every number comes from a report.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import ModuleType
from typing import Any

from book import real_tables, results_tables
from book.draft_sizes import DISTILL_STEPS, PLAIN_STEPS
from book.pages import joined, texts

Report = Mapping[str, Any]
TEXTS = texts("results")


class Fields:
    """What a text names: functions of a module with their arguments, or else keys of a report."""

    def __init__(self, report: Report, functions: ModuleType = results_tables) -> None:
        """Takes a report, and the module."""
        self._report = report
        self._functions = functions

    def __getitem__(self, name: str) -> Any:
        function, *arguments = name.split()
        make = getattr(self._functions, function, None)
        return make(self._report, *arguments) if make else self._report[name]


def page(reports: Sequence[Report], drafters: Sequence[Report] = (), real: Sequence[Report] = ()) -> str:
    """Returns the page as Markdown.

    Args:
        reports: of the bench, the shipped pair's first.
        drafters: those on ways to draft, one a pair.
        real: those on checkpoints that people use.

    Raises:
        ValueError: if there are none.
    """
    if not reports:
        raise ValueError("there is no report of the bench to write results from")
    parts = [TEXTS["head"].format(**reports[0])]
    parts += [part for report in reports for part in of_pair(report)]
    if drafters:
        parts += [TEXTS["drafters"], *(TEXTS["drafters-of"].format_map(Fields(one)) for one in drafters)]
    parts += [TEXTS["real-models"].format_map(Fields(one, real_tables)) for one in real]
    return joined([*parts, not_measured([*reports, *real], drafters), TEXTS["tail"]])


def of_pair(report: Report) -> Iterator[str]:
    """Yields what the page says of one pair, section by section."""
    fields = Fields({**report, "plain": PLAIN_STEPS, "distill": DISTILL_STEPS})
    alone = set(report["sections"]) == {"real-sizes"}  # which has nothing to do with the pair
    yield TEXTS["real-sizes" if alone else "pair"].format_map(fields)
    for section in TEXTS["sections"]:
        found: Any = report["sections"]
        for key in section["needs"].split("."):
            found = found and found.get(key)
        if found:
            yield section["text"].format_map(fields)


def not_measured(reports: Sequence[Report], drafters: Sequence[Report]) -> str:
    """Returns what was not measured, and why; pairs that have a report of their own were."""
    measured = {report["pair"] for report in drafters}
    reasons: dict[str, list[str]] = {}
    for report in (*reports, *drafters):
        lacking: dict[str, str] = {}
        for section in report["sections"].values():
            lacking |= section.get("unavailable", {})
        for name, why in lacking.items():
            if name not in measured:
                reasons.setdefault(why, []).append(name)
    lines = [f"- {'; '.join(dict.fromkeys(names))}: {why}" for why, names in reasons.items()]
    return "## Not measured\n\n" + "\n".join(lines) if lines else ""
