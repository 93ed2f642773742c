"""What the results page makes of a report of the bench: tables in Markdown, and numbers in sentences.

The texts in results.toml name these functions in braces, with their arguments: `{compared drafts}`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import compress
from typing import Any

from minispec.cli import tables
from minispec.cli.tables import Grid, grid, span
from minispec.evidence.bench.prediction import measured

Found = Mapping[str, Any]
# What is compared with transformers, and where the report has it.
PEERS = (
    ("our target-only over its plain `generate`", "ours alone", "theirs plain", "target_only_over_plain"),
    (
        "our speculative over its best assisted generation",
        "ours speculative",
        "theirs assisted",
        "speculative_over_assisted",
    ),
    (
        "its best assisted generation over its plain `generate`",
        "theirs assisted",
        "theirs plain",
        "assisted_over_plain",
    ),
)
# Parts of a setting's name, as "rejection, T = 1, K = 4, 8 rows", that are the same in all of a section.
SHARED = {"widths": (1,), "temperature": (0,), "drafts": (0, 1), "batch": (0, 1, 2)}
RULES_K = 4
NONE = "None that was measured."


def markdown(grid: Grid) -> str:
    """Returns a table in Markdown, without the columns of which nothing is known; "" without rows."""
    width = range(len(grid.columns))
    kept = [any(cell.strip("– ") for row in grid.rows for cell in row[i : i + 1]) for i in width]
    rule = ("---" if i < grid.left_columns else "---:" for i in range(len(grid.columns)))
    lines = [[*compress(row, kept)] for row in (grid.columns, *grid.rows)]
    made = [f"| {' | '.join(line)} |" for line in lines]
    return "\n".join([made[0], f"|{'|'.join(compress(rule, kept))}|", *made[1:]]) if grid.rows else ""


def table(columns: Sequence[str], rows: Iterable[Sequence[str]], left: int = 1) -> str:
    """Returns a Markdown table whose first columns stand left and the others right."""
    return markdown(Grid(columns, [*rows], left))


def times(value: float) -> str:
    """Writes a speed-up; a loss is bold."""
    return f"**{value:.2f}x**" if value < 1 else f"{value:.2f}x"


def where(report: Found) -> str:
    """Returns on what a report was measured."""
    return report["machine"]["gpu"] or report["machine"]["processor"]


# Of a pair.


def backend(report: Found, side: str) -> str:
    """Returns the fastest backend of one side, and its threads."""
    best = report["sections"]["target-only"][side]
    return f"{best['path']} backend with {best['threads']} thread{'s' * (best['threads'] > 1)}"


def baseline(report: Found) -> str:
    """Returns the least and the most tokens a second of the target alone that speed-ups are over."""
    sections = report["sections"]
    rows = [*sections["widths"]["sweep"], *sections["widths"]["settings"]]
    rows += sections.get("temperature", {}).get("points", ())
    rates = [row["target_only_tokens_per_second"] for row in rows]
    rates += [p["target_only"] for p in sections.get("batch", {}).get("points", ()) if p["rows"] == 1]
    if "transformers" in sections:
        rates.append(sections["transformers"]["tokens_per_second"]["ours alone"])
    return f"{min(rates):,.0f} to {max(rates):,.0f}"


def speed_ups(report: Found) -> str:
    """Returns what is reported at the best K."""
    return markdown(grid("speed-ups", report["settings"]))


def settings(report: Found) -> list[tuple[str, str, str, float, list[str]]]:
    """Returns section, prompts, name, speed-up and cells of what was measured.

    The cells are the speed-up, its quartiles, the same by forward passes only if the report has it, and the
    prediction where there is one.
    """
    rows = report["sections"].get("prediction", {}).get("settings", ())
    predictions = {row["setting"]: row for row in rows}
    found = []
    for row in measured(report["sections"]):
        gain = row["measured"]
        cells = [times(gain), span((row["low"], row["high"]))]
        if has_limits(report):
            cells.append(tables.FORMATTER.format("{0!x}", row["limit"]))
        if one := predictions.get(row["setting"]):
            cells.append(f"{one['speedup']:.2f}x")
        found.append((row["section"], row["prompts"], row["setting"], gain, cells))
    return found


def compared(report: Found, section: str) -> str:
    """Returns the measured speed-ups of a section, and beside them those that were predicted, if any."""
    rows = []
    for of, prompts, name, _, cells in settings(report):
        if of == section:
            parts = [part for i, part in enumerate(name.split(", ")) if i not in SHARED[section]]
            star = " ★" if section == "widths" and prompts == "reporting" else ""
            rows.append([", ".join(parts) + star, *cells])
    return table(columns_of(report)[: max(map(len, rows), default=0)], rows)


def auto_gains(report: Found) -> str:
    """Says what an automatic K comes to over the target alone, beside the best fixed K."""
    fixed = [row["speedup"] for row in report["settings"]]
    ratios = [row["over_best_fixed"] for row in report["sections"]["auto"]["rows"]]
    chosen = [gain * ratio for gain, ratio in zip(fixed, ratios, strict=True)]
    gains = [" and ".join(map(times, gains)) for gains in (chosen, fixed)]
    finding = "Choosing while decoding costs more than it brings here: over" if max(ratios) < 1 else "Over"
    return f"{finding} the target alone an automatic K gains {gains[0]}, and the fixed one {gains[1]}."


def has_limits(report: Found) -> bool:
    """Whether a report says what its speed-ups would be by forward passes only."""
    return any(row["limit"] is not None for row in measured(report["sections"]))


def columns_of(report: Found) -> list[str]:
    """Returns headings for what `settings` returns."""
    limit = ["forward passes only"] if has_limits(report) else []
    return ["setting", "measured", "quartiles", *limit, "predicted"]


def losses(report: Found) -> str:
    """Returns every setting in which speculative decoding was slower than the target alone."""
    lost = sorted((gain, name, cells) for _, _, name, gain, cells in settings(report) if gain < 1)
    return table(columns_of(report), [(name, *cells) for _, name, cells in lost]) or NONE


def choices(report: Found) -> str:
    """Returns the K and the draft that were predicted to be best, and those that were."""
    rows = report["sections"]["prediction"]["compared"]["rows"]
    tried = [row for row in rows if row["prompts"] == "choosing"]
    groups = {
        "K, greedy": [row for row in tried if row["setting"].startswith("greedy")],
        "K, sampled": [row for row in tried if row["setting"].startswith("rejection")],
        "draft": [row for row in rows if row["section"] == "drafts"],
    }
    cells = []
    for what, some in groups.items():
        if some:
            guess, best = (max(some, key=lambda row: row[key]) for key in ("predicted", "measured"))
            share = f"{guess['measured'] / best['measured']:.1%}"
            cells.append((f"best {what}", guess["setting"], best["setting"], share))
    return table(("", "predicted", "measured", "speed-up of the predicted, of the best"), cells, 3)


def predicted(report: Found) -> int:
    """Returns how many predictions were measured."""
    return len(report["sections"]["prediction"]["compared"]["rows"])


def transformers(report: Found) -> str:
    """Returns ratios end to end, and tokens per second."""
    found = report["sections"]["transformers"]
    rates = {name: f"{rate:.0f}" for name, rate in found["tokens_per_second"].items()}
    rows = [
        (what, rates[one], rates[other], times(found[key]["ratio"]), span(found[key]["quartiles"]))
        for what, one, other, key in PEERS
    ]
    return table(("", "tokens/s", "compared with", "ratio", "quartiles"), rows)


def torch(report: Found) -> dict[str, float]:
    """Returns how the torch backend compares: it starts operations from Python, as transformers does."""
    found = report["sections"]["target-only"]["rows"]
    rows = [row for row in found if (row["path"], row["verifier"]) == ("torch", "greedy")]
    alone, drafted = (max(row[side] for row in rows) for side in ("target_only", "speculative"))
    rates = report["sections"]["transformers"]["tokens_per_second"]
    over = {"plain": alone / rates["theirs plain"], "assisted": drafted / rates["theirs assisted"]}
    return {"alone": alone, "drafted": drafted, "gain": drafted / alone} | over


def tried(report: Found) -> int:
    """Returns how many settings of assisted generation were tried."""
    return len(report["sections"]["transformers"]["assisted"]["tried"])


def equal_texts(report: Found) -> str:
    """Returns for each side how many texts equal ours, and how many near ties are among the others."""
    parts = []
    for name, of in report["sections"]["transformers"]["texts"].items():
        parts.append(f"{name} {of['equal']} of {of['texts']}")
        if of["equal"] < of["texts"]:
            parts[-1] += f" ({of['near_ties']} of the others part at a certified near tie)"
    return ", ".join(parts)


def bench(report: Found, columns: str) -> str:
    """Returns the table with columns of a name that `minispec bench` prints too."""
    ((_, grid),) = tables.grids(report, columns)
    return markdown(grid)


def stops_paying(report: Found) -> str:
    """Returns with how many rows the target alone is faster."""
    return tables.stops_paying(report["sections"]["batch"]["stops_paying"])


# Of models of real sizes.


def shapes(report: Found) -> str:
    """Returns how many weights the models have."""
    parameters = report["sections"]["real-sizes"]["parameters"]
    return ", ".join(f"{name} has {count:,}" for name, count in parameters.items())


def forwards(report: Found) -> str:
    """Returns milliseconds of native forwards with the most threads, and by how much others take longer."""
    most = max(row["threads"] for row in report["real_sizes"])
    found = tables.real_sizes([row for row in report["real_sizes"] if row["threads"] == most], times)
    shape, weights, _, n, native, *others = found.columns
    rows = [[row[0], row[1], row[3], row[4], *row[6::2]] for row in found.rows]
    return table((shape, weights, n, native, *others[::2]), rows, 2)


def gains(report: Found) -> str:
    """Returns what checking costs on the native backend, what bfloat16 gains, and the speed-ups to expect."""
    most = max(row["threads"] for row in report["real_sizes"])
    own = [row for row in report["real_sizes"] if (row["backend"], row["threads"]) == ("native", most)]
    speeds = {(row["shape"], row["dtype"]): row["tokens_per_second"] for row in own}
    columns: list[str] = []
    rows = []
    for row in own:
        over = row["tokens_per_second"] / speeds[row["shape"], "float32"]
        taken = row["milliseconds"]
        cells = {"shape": row["shape"], "weights": row["dtype"], "over float32": times(over)}
        cells |= {f"t({n})/t(1)": f"{taken[n] / taken['1']:.2f}" for n in taken if n != "1"}
        for one in row["predicted_speedup"]:
            cells[f"c = {one['draft']}, α = {one['acceptance']}"] = f"{one['speedup']:.2f}x ({one['k']})"
        columns = [*cells]
        rows.append([*cells.values()])
    return table(columns, rows, 2)


def decoding(report: Found) -> str:
    """Returns how long decoding takes: milliseconds a token, and in brackets over its forwards."""
    rows = []
    for row in report.get("real_sizes", ()):
        cells = {
            f"T = {one['temperature']:g}, K = {one['k']}": (
                f"{one['milliseconds_per_token']:.2f} ({one['over_forward']:.2f}x)"
            )
            for one in row.get("decoding", ())
        }
        if cells:
            place = {"shape": row["shape"], "weights": row["dtype"], "threads": str(row["threads"])}
            rows.append(place | cells)
    columns = [*dict.fromkeys(name for row in rows for name in row)]
    return table(columns, [[row.get(name, "–") for name in columns] for row in rows], 3)


# Of ways to draft.


def drafters_gain(report: Found) -> str:
    """Returns what each drafter gains over the target alone on the same backend, and what it takes."""
    rows = [{**row, "gain": times(row["speedup"])} for row in own_drafters(report)]
    return markdown(grid("drafters-page", rows, 2))


def own_drafters(report: Found) -> list[Found]:
    """Returns the rows on drafters of the report's own pair, on the fast backend if there are any."""
    own = [row for row in report["drafters"] if row["pair"] == report["pair"]]
    return [row for row in own if row["backend"] == "native"] or own


def rules(report: Found) -> str:
    """Returns how other rules do at one K; "" where they were not measured at it."""
    rows = report["sections"].get("rules", {}).get("rows", ())
    return markdown(grid("rules", [row for row in rows if row["k"] == RULES_K], 2))
