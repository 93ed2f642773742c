"""The page of the atlas, filled in from what `minispec atlas --json` said; its text stands in atlas.toml."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from book.pages import joined, texts
from book.results_tables import table
from minispec.evidence.bench.measurements import FOLDER

Found = Mapping[str, Any]
RECORDED = FOLDER / "atlas.json"


def page(found: Found) -> str:
    """Returns the page as Markdown, from what `minispec atlas --json` printed."""
    rules = found["rules"]
    lossless = [one for one in rules if one["lossless"]]
    accepted: dict[str, dict[int, str]] = {}  # on the family
    for one in rules:
        accepted.setdefault(one["name"], {})[one["candidates"]] = f"{one['accepted']:.3f}"
    chains = [
        (one["name"], str(one["k"]), f"{one['token']:.3f}", f"{one['block']:.3f}") for one in found["chains"]
    ]
    filled = texts("atlas")["page"].format(
        largest=max(one["largest"] for one in lossless),
        lossless=lines(lossless),
        lossy=lines([one for one in rules if not one["lossless"]]),
        candidates=rule_or_candidates(rules),
        chains=table(("chains", "K", "token", "block"), chains),
        **accepted,
    )
    return joined([filled])


def rule_or_candidates(rules: Sequence[Found]) -> str:
    """Returns what each of both accepts, with two candidates and with three, on the family and the pair."""
    by_name = {(one["name"], one["candidates"]): one for one in rules}
    rows = []
    for k in (2, 3):
        same, other = (by_name[f"recursive-{how}-replacement", k] for how in ("with", "without"))
        for where, one, two in (("family", same, other), ("pair", same["recorded"], other["recorded"])):
            rows.append((where, str(k), f"{one['optimum']:.3f}", f"{two['accepted']:.3f}"))
    return table(("", "candidates", "the best rule", "without replacement"), rows)


def lines(rules: Sequence[Found]) -> str:
    """Returns a table with a line for each rule and number of candidates."""
    rows = []
    for one in rules:
        pair = one["recorded"] or {}
        rows.append(
            (
                one["name"],
                str(one["candidates"]),
                "0" if one["lossless"] else f"{one['total_variation']:.3f}",
                f"{one['accepted']:.3f}",
                f"{one['optimum']:.3f}",
                *(f"{pair[key]:.3f}" if pair else "–" for key in ("accepted", "optimum")),
                f"{one['draws']:.2f}",
                f"{one['passes']:.0f}",
            )
        )
    head = ("rule", "candidates", "TV", "accepted", "optimum", "pair", "optimum", "draws", "passes")
    return table(head, rows)
