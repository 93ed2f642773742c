"""Li et al. 2024 (EAGLE): what a drafter should read, the ablation of its inputs.

Nothing is trained here: `cd docs && python -m book features` does, and its record is read, the one of english
if it is there, else that of stories.
"""

from statistics import fmean

from book.results_tables import table

from minispec.evidence.bench.measurements import FOLDER
from minispec.io.files import read_json
from papers.runs import Rows

TITLE = "Li et al. 2024, EAGLE: what a drafter reads"
CLAIM = """A drafter that reads feature and token is accepted more often than one that reads either, and most
if the token is the one after the feature (section 4.3.2)."""
RECORD = min(FOLDER.glob("features-*.json"), default=None)  # english comes before stories
VERDICT = "measured, on a small target"
NAMES = {
    "token": "the token",
    "feature": "the feature",
    "both": "feature and its token",
    "shifted": "feature and the next token",
}


def exact() -> Rows:
    """Returns means over seeds of what was recorded, by what is read; nothing where there is no record."""
    if RECORD is None:
        return []
    record = read_json(RECORD)
    drafters = record["drafters"]
    rows = []
    for reads in NAMES:
        found = [one for one in drafters if one["reads"] == reads]
        first, last = (fmean(one["acceptance"][i] for one in found) for i in (0, -1))
        calls = [one["tokens_per_target_call"]["1"] for one in found]
        row = {"pair": record["pair"], "reads": reads, "first": first, "last": last, "tokens": fmean(calls)}
        rows.append(row | {"seeds": len(found), "spread": max(calls) - min(calls)})
    return rows


measure = exact


def show(rows: Rows) -> str:
    """Writes acceptance and tokens a call by what is read."""
    cells = [
        (NAMES[row["reads"]], f"{row['first']:.3f}", f"{row['last']:.3f}")
        + (f"{row['tokens']:.2f}", f"{row['spread']:.2f}")
        for row in rows
    ]
    order = sorted(rows, key=lambda row: row["first"], reverse=True)
    head = ("reads", "first token", "last token", "tokens a call", "between seeds")
    return (
        f"Four drafters, trained alike on {rows[0]['pair']}, temperature 1, means of "
        f"{rows[0]['seeds']} seeds: how often first and last of four tokens are kept. "
        f"From best: {', '.join(NAMES[row['reads']] for row in order)}."
        f"\n\n{table(head, cells, 1)}"
    )
