"""The page of real samplers, filled in from what was recorded; its texts stand in samplers.toml."""

from collections.abc import Mapping, Sequence
from typing import Any

from book.pages import joined, texts
from book.results_tables import table
from minispec.evidence.bench.measurements import FOLDER

RECORD = FOLDER / "samplers.json"


def verdict(row: Mapping[str, Any]) -> str:
    """Says what the check has found; a check of samples says below which difference it sees nothing."""
    if row["lossless"] is None:
        return "not judged"
    if not row["lossless"]:
        return "**lossy**"
    return "no difference" if row["detects"] is None else f"nothing above {row['detects']:.3g}"


def page(rows: Sequence[Mapping[str, Any]]) -> str:
    """Returns the page as Markdown."""
    text = texts("samplers")
    lines = [
        (
            row["project"],
            row["version"] or "",
            f"`{row['rule']}`",
            verdict(row),
            *("" if row[name] is None else f"{row[name]:.3g}" for name in ("damage", "detects")),
            row["recorded"],
            row["checked"],
        )
        for row in rows
    ]
    lossy = [
        f"**{row['project']}, `{row['rule']}`**\n\n{text['cases'][row['rule']]}"
        for row in rows
        if row["lossless"] is False
    ]
    rest = [
        f"- {row['project']}, `{row['rule']}`: {row['instance']}" for row in rows if row["lossless"] is None
    ]
    columns = ("project", "version", "what", "verdict", "damage", "sees", "run on", "checked")
    filled = text["page"].format(
        samplers=table(columns, lines, 4), lossy="\n\n".join(lossy), not_judged="\n".join(rest)
    )
    return joined([filled])
