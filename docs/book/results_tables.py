"""Tables of the results page: from a report of the bench to Markdown, a function for each section."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from minispec.show.plots.charts import seconds, size

Found = Mapping[str, Any]
# Sections that measure speed-ups, and where their settings stand.
MEASURED = {
    "widths": "sweep",
    "temperature": "points",
    "drafts": "points",
    "batch": "points",
    "quantized": "rows",
}


def table(columns: Sequence[str], rows: Iterable[Sequence[str]], left: int = 1) -> str:
    """Returns a Markdown table whose first columns stand left and the others right; "" without rows."""
    lines = ["| " + " | ".join(row) + " |" for row in rows]
    rule = "|" + "|".join("---" if place < left else "---:" for place in range(len(columns))) + "|"
    return "\n".join(["| " + " | ".join(columns) + " |", rule, *lines]) if lines else ""


def times(value: float) -> str:
    """Writes a speed-up; a loss says so."""
    return f"{value:.2f}x" + (" (a loss)" if value < 1 else "")


def span(low: float, high: float) -> str:
    """Writes quartiles."""
    return f"{low:.2f} to {high:.2f}"


def decoding(row: Found) -> str:
    """Writes what a row decodes: greedy, or sampled at a temperature."""
    return "greedy" if row["verifier"] == "greedy" else f"sampled, T = {row['temperature']:g}"


def reach(reports: Sequence[Found]) -> str:
    """Returns every figure that is to be reached, from the report on the pair that it is about."""
    rows, seen = [], set()
    for report in reports:
        for row in report["reach"]:
            key = row["what"], row["pair"]
            if row["pair"] != report["pair"] or key in seen:
                continue
            seen.add(key)
            least = "reported" if row["at_least"] is None else f"{row['at_least']:g}"
            sign = "at most " if row["better"] == "lower" and row["at_least"] is not None else ""
            value = f"{row['value']:.3g}" if row["value"] is not None else row["reason"]
            mark = {True: "✓", False: "✗", None: ""}[row["reached"]]
            rows.append((row["what"], row["pair"], value, sign + least, f"{row['aim']:g}", mark))
    return table(("what", "pair", "measured", "at least", "aim", ""), rows, 2)


def settings(report: Found) -> str:
    """Returns the speed-ups that are reported, K chosen on other prompts."""
    rows = [
        (
            decoding(s),
            str(s["k"]),
            times(s["speedup"]),
            span(*s["speedup_quartiles"]),
            percent(s["acceptance"]),
            f"{s['tokens_per_target_call']:.2f}",
            f"{s['target_only_tokens_per_second']:.0f}",
            f"{s['tokens_per_second']:.0f}",
        )
        for s in report["settings"]
    ]
    columns = ("", "K", "speed-up", "quartiles", "acceptance", "tokens a call", "tokens/s alone", "tokens/s")
    return table(columns, rows)


def compared(report: Found, section: str) -> str:
    """Returns predicted and measured speed-ups of a section, side by side."""
    rows = [
        (
            row["setting"] + (" ★" if section == "widths" and row["prompts"] == "reporting" else ""),
            f"{row['predicted']:.2f}x",
            times(row["measured"]),
            span(row["low"], row["high"]),
            f"{row['error']:+.0%}",
            f"{row['simple']:.2f}x",
        )
        for row in report["sections"]["prediction"]["compared"]["rows"]
        if row["section"] == section
    ]
    return table(("setting", "predicted", "measured", "quartiles", "off by", "theorem 3.8"), rows)


def choices(report: Found) -> str:
    """Returns what was predicted to be best, and what was."""
    rows = [
        (
            row["what"],
            str(row["predicted"]),
            str(row["measured"]),
            percent(row.get("of_the_best")) if "of_the_best" in row else "",
        )
        for row in report["sections"]["prediction"]["compared"]["choices"]
    ]
    return table(("", "predicted", "measured", "speed-up of the predicted, of the best"), rows)


def target_only(report: Found) -> str:
    """Returns tokens per second on each backend, alone and with a draft."""
    found = report["sections"]["target-only"]
    rows = [
        (
            row["path"],
            str(row["threads"]),
            decoding(row),
            f"{row['target_only']:.0f}",
            f"{row['speculative']:.0f}",
        )
        for row in found["rows"]
    ]
    return table(("backend", "threads", "", "alone", f"with a draft, K = {found['k']}"), rows, 1)


def backends(report: Found) -> str:
    """Returns speculative decoding on each backend at the same K."""
    rows = [
        (
            row["path"],
            decoding(row),
            str(row["k"]),
            f"{row['tokens_per_second']:.0f}",
            f"{row['over_readable']:.2f}x",
            span(*row["over_readable_quartiles"]),
        )
        for row in report["sections"]["paths"]["rows"]
    ]
    return table(("backend", "", "K", "tokens/s", "over torch", "quartiles"), rows, 2)


def transformers(report: Found) -> str:
    """Returns ratios end to end, and tokens per second."""
    found = report["sections"]["transformers"]
    rates = found["tokens_per_second"]
    rows = [
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
    ]
    return table(
        ("", "tokens/s", "compared with", "ratio", "quartiles"),
        [
            (
                what,
                f"{rates[one]:.0f}",
                f"{rates[other]:.0f}",
                times(found[key]["ratio"]),
                span(*found[key]["quartiles"]),
            )
            for what, one, other, key in rows
        ],
    )


def assisted(report: Found) -> str:
    """Returns every setting of assisted generation that was tried."""
    found = report["sections"]["transformers"]["assisted"]
    rows = [
        (
            str(row["tokens"]),
            f"{row['threshold']:g}",
            str(row["threads"]),
            f"{row['tokens_per_second']:.0f}" + (" ★" if row == found["best"] else ""),
            str(row["target_calls"]),
        )
        for row in found["tried"]
    ]
    columns = ("num_assistant_tokens", "confidence threshold", "threads", "tokens/s", "target calls")
    return table(columns, rows, 0)


def automatic(report: Found) -> str:
    """Returns the automatic K compared with the best fixed one."""
    rows = [
        (
            decoding(row),
            str(row["k"]),
            f"{row['mean_width']:.1f}",
            f"{row['over_best_fixed']:.3f}",
            span(*row["quartiles"]),
        )
        for row in report["sections"]["auto"]["rows"]
    ]
    return table(("", "best fixed K", "mean automatic K", "automatic over fixed", "quartiles"), rows)


def bookkeeping(report: Found) -> str:
    """Returns what a round takes besides its forwards."""
    rows = [
        (
            decoding(row),
            str(row["k"]),
            seconds(row["draft_seconds"]),
            seconds(row["target_seconds"]),
            seconds(row["round_seconds"]),
            percent(row["share"]),
        )
        for row in report["sections"]["bookkeeping"]["rows"]
    ]
    return table(("", "K", "K draft steps", "target call", "round", "bookkeeping"), rows)


def prefill(report: Found) -> str:
    """Returns seconds of prefill and to the first token."""
    keys = ("target", "draft", "first_token_alone", "first_token_speculative")
    rows = [
        (str(row["prompt_tokens"]), *(seconds(row[key]) for key in keys))
        for row in report["sections"]["prefill"]["points"]
    ]
    columns = (
        "prompt tokens",
        "target reads",
        "draft reads",
        "first token, alone",
        "first round, with a draft",
    )
    return table(columns, rows, 0)


def bandwidth(report: Found) -> str:
    """Returns the share of the measured bandwidth by model size."""
    rows = [
        (
            size(row["parameters"], ""),
            size(row["bytes"]),
            row["path"],
            str(row["threads"]),
            seconds(row["seconds"]),
            percent(row["share"]),
        )
        for row in report["sections"]["bandwidth"]["points"]
    ]
    return table(("parameters", "weights", "backend", "threads", "a token", "share"), rows, 0)


def quantized(report: Found) -> str:
    """Returns the draft in int8 and in float32."""
    rows = [
        (
            row["name"],
            size(row["bytes"]),
            percent(row["acceptance"]),
            seconds(row["forward_seconds"]),
            times(row["gain"]),
            span(row["low"], row["high"]),
        )
        for row in report["sections"]["quantized"]["rows"]
    ]
    return table(("draft", "weights", "acceptance", "a forward", "speed-up", "quartiles"), rows)


def sweep(report: Found) -> str:
    """Returns the speed-up at every K, where nothing was predicted."""
    rows = [
        (
            s["setting"],
            times(s["speedup"]),
            span(*s["speedup_quartiles"]),
            percent(s["acceptance"]),
            f"{s['tokens_per_target_call']:.2f}",
        )
        for s in report["sections"]["widths"]["sweep"]
    ]
    return table(("setting", "speed-up", "quartiles", "acceptance", "tokens a call"), rows)


def losses(report: Found) -> str:
    """Returns every setting in which speculative decoding was slower than the target alone."""
    rows = sorted((row for row in measured(report) if row[1] < 1), key=lambda row: row[1])
    cells = ((what, f"{gain:.2f}x", f"{told:.2f}x" if told else "") for what, gain, told in rows)
    return table(("setting", "measured", "predicted"), cells)


def measured(report: Found) -> Iterator[tuple[str, float, float | None]]:
    """Yields every setting of every section: its name, its speed-up, and what was predicted, if anything."""
    sections, told = report["sections"], set()
    for row in (sections.get("prediction", {}).get("compared") or {}).get("rows", ()):
        told.add(row["setting"])
        yield row["setting"], row["measured"], row["predicted"]
    for section, rows in MEASURED.items():
        for row in sections.get(section, {}).get(rows, ()):
            if section == "quantized":
                yield row["setting"] + ", torch backend", row["gain"], None
            elif row["setting"] not in told:
                yield row["setting"], row["speedup"] if "speedup" in row else row["gain"], None
    for s in report["settings"]:
        if s["setting"] not in told:
            yield s["setting"] + ", reported", s["speedup"], None


def percent(value: float | None) -> str:
    """Writes a share; none is a dash."""
    return "–" if value is None else f"{value:.1%}"
