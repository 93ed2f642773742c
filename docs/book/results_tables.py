"""Tables that only the results page has: from a report of the bench to Markdown."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from minispec.cli import bench_tables
from minispec.cli.bench_tables import Grid, decoding
from minispec.evidence.bench.prediction import measured

Found = Mapping[str, Any]
WIDTH = 96  # of a line of prose
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


def markdown(grid: Grid) -> str:
    """Returns a table in Markdown; "" without rows."""
    rule = "|" + "|".join("---" if i < grid.left else "---:" for i in range(len(grid.columns))) + "|"
    lines = ["| " + " | ".join(row) + " |" for row in grid.rows]
    return "\n".join(["| " + " | ".join(grid.columns) + " |", rule, *lines]) if lines else ""


def table(columns: Sequence[str], rows: Iterable[Sequence[str]], left: int = 1) -> str:
    """Returns a Markdown table whose first columns stand left and the others right."""
    return markdown(Grid(columns, [*rows], left))


def span(low: float, high: float) -> str:
    """Writes quartiles."""
    return f"{low:.2f}–{high:.2f}"


def times(value: float) -> str:
    """Writes a speed-up; a loss says so."""
    return f"{value:.2f}x" + (" (a loss)" if value < 1 else "")


def compared(report: Found, section: str) -> str:
    """Returns the measured speed-ups of a section, and beside them those that were predicted, if any."""
    said = predictions(report)
    rows = []
    for name, prompts, setting, gain, low, high in measured(report["sections"]):
        if name == section:
            star = " ★" if section == "widths" and prompts == "reporting" else ""
            cells = [setting + star, times(gain), span(low, high)]
            if one := said.get(setting):
                predicted = one["speedup"]
                simple = one["simple"]
                cells += [f"{predicted:.2f}x", f"{predicted / gain - 1:+.0%}", f"{simple:.2f}x"]
            rows.append(cells)
    columns = ("setting", "measured", "quartiles", "predicted", "off by", "theorem 3.8")
    return table(columns[: max(map(len, rows), default=0)], rows)


def predictions(report: Found) -> dict[str, Found]:
    """Returns what was predicted, by setting."""
    return {row["setting"]: row for row in report["sections"].get("prediction", {}).get("settings", ())}


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


def drafters(rows: Sequence[Found]) -> str:
    """Returns what each drafter gains over the target alone on the same backend; a loss says so."""
    found: dict[tuple[str, float], dict[str, Found]] = {}
    for row in rows:
        found.setdefault((row["name"], row["temperature"]), {})[row["backend"]] = row
    cells = []
    for (name, temperature), backends in found.items():
        cell = [name, f"{temperature:g}"]
        for backend in ("torch", "native"):
            row = backends.get(backend)
            if row is None:
                cell += ["–"] * 3
            else:
                tokens = f"{row['tokens_per_target_call']:.2f}"
                cell += [times(row["speedup_same_backend"]), str(row["k"]), tokens]
        cells.append(cell)
    return table(("drafter", "T", "torch", "K", "a call", "native", "K", "a call"), cells)


def losses(report: Found) -> str:
    """Returns every setting in which speculative decoding was slower than the target alone."""
    said = predictions(report)
    cells = []
    for _, _, setting, gain, low, high in sorted(measured(report["sections"]), key=lambda row: row[3]):
        if gain < 1:
            predicted = f"{said[setting]['speedup']:.2f}x" if setting in said else ""
            cells.append((setting, f"{gain:.2f}x", span(low, high), predicted))
    return table(("setting", "measured", "quartiles", "predicted"), cells)


def baseline(report: Found) -> tuple[float, float]:
    """Returns the least and the most tokens a second of the target alone that speed-ups are over."""
    sections = report["sections"]
    rows = [*sections["widths"].get("sweep", ()), *sections["widths"].get("settings", ())]
    rows += sections.get("temperature", {}).get("points", ())
    rates = [row["target_only_tokens_per_second"] for row in rows]
    rates += [p["target_only"] for p in sections.get("batch", {}).get("points", ()) if p["rows"] == 1]
    if peers := sections.get("transformers"):
        rates.append(peers["tokens_per_second"]["ours alone"])
    return min(rates), max(rates)


def same_language(report: Found) -> str:
    """Returns how the torch backend compares: it starts operations from Python, as transformers does."""
    sections = report["sections"]
    found = sections["transformers"]
    k = sections["target-only"]["k"]
    rows = [r for r in sections["target-only"]["rows"] if (r["path"], r["verifier"]) == ("torch", "greedy")]
    alone, drafted = (max(row[side] for row in rows) for side in ("target_only", "speculative"))
    gain = found["assisted_over_plain"]["ratio"]
    plain, assisted = (found["tokens_per_second"][f"theirs {side}"] for side in ("plain", "assisted"))
    return (
        f"Ours is C++ here, and theirs starts each operation from Python: these ratios compare two languages "
        f"too. Our torch backend also starts operations from Python. On other prompts, and not interleaved "
        f"with theirs, it wrote {alone:.0f} tokens a second alone and {drafted:.0f} with the draft at "
        f"K = {k}: {alone / plain:.2f}x and {drafted / assisted:.2f}x theirs. What each gains over its own "
        f"target alone: torch {drafted / alone:.2f}x, transformers {gain:.2f}x."
    )


def transformers(report: Found) -> str:
    """Returns ratios end to end, and tokens per second."""
    found = report["sections"]["transformers"]
    rates = found["tokens_per_second"]
    rows = []
    for what, one, other, key in PEERS:
        speed = (f"{rates[one]:.0f}", f"{rates[other]:.0f}")
        rows.append((what, *speed, times(found[key]["ratio"]), span(*found[key]["quartiles"])))
    return table(("", "tokens/s", "compared with", "ratio", "quartiles"), rows)


def best_assisted(found: Found) -> str:
    """Returns which setting of assisted generation was the fastest of all that were tried."""
    best = found["best"]
    threads = f"{best['threads']} thread{'s' * (best['threads'] > 1)}"
    return (
        f"Its best assisted setting was chosen among {len(found['tried'])}: {best['tokens']} tokens, a "
        f"confidence threshold of {best['threshold']:g} and {threads}; the report of this pair in "
        "`minispec/evidence/recorded` has all."
    )


def most_threads(report: Found) -> Found:
    """Returns a report whose forwards at real sizes are those with the most threads."""
    most = max(row["threads"] for row in report["real_sizes"])
    return {**report, "real_sizes": [row for row in report["real_sizes"] if row["threads"] == most]}


def real_sizes(report: Found) -> str:
    """Returns milliseconds of forwards, ours and others', with ratios; a loss says so."""
    return markdown(bench_tables.real_sizes(report, times))


def real_gains(report: Found) -> str:
    """Returns what checking costs on the native backend, what bfloat16 gains, and the speed-ups to expect."""
    own = [row for row in report["real_sizes"] if row["backend"] == "native"]
    speeds = {(row["shape"], row["threads"], row["dtype"]): row["tokens_per_second"] for row in own}
    rows = []
    for row in own:
        one, wide = (speeds.get((row["shape"], row["threads"], name)) for name in ("float32", row["dtype"]))
        over = times(wide / one) if one and row["dtype"] != "float32" else ""
        taken = row["milliseconds"]
        costs = [f"{taken[n] / taken['1']:.2f}" for n in taken if n != "1"]
        gains = [f"{said['speedup']:.2f}x, K = {said['k']}" for said in row["predicted_speedup"]]
        rows.append((row["shape"], row["dtype"], str(row["threads"]), over, *costs, *gains))
    costs = [f"t({n})/t(1)" for n in own[0]["milliseconds"] if n != "1"] if own else []
    gains = [f"c = {s['draft']}, α = {s['acceptance']}" for s in own[0]["predicted_speedup"]] if own else []
    return table(("shape", "weights", "threads", "over float32", *costs, *gains), rows, 2)


def automatic(report: Found) -> str:
    """Returns the automatic K compared with the best fixed one."""
    rows = []
    for row in report["sections"]["auto"]["rows"]:
        figures = (f"{row['mean_width']:.1f}", f"{row['over_best_fixed']:.3f}", span(*row["quartiles"]))
        rows.append((decoding(row), str(row["k"]), *figures))
    return table(("", "best fixed K", "mean automatic K", "automatic over fixed", "quartiles"), rows)


def fill(text: str) -> str:
    """Breaks prose into lines."""
    return textwrap.fill(text, WIDTH, break_long_words=False, break_on_hyphens=False)
