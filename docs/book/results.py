"""The results page, written from recorded reports: `python -m book.results docs/results.md`.

Nothing on the page is typed by hand but its explanations: every number comes from a report, and a sentence
that judges one looks at it first.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from book import results_tables as tables
from book.record import load_report
from minispec.evidence.bench.measurements import FOLDER
from minispec.io.files import write_whole

Report = Mapping[str, Any]
PAIRS = ("stories", "english")  # in the order of the page
WIDTH = 96  # of a line of prose

HEAD = """A speed-up is seconds per emitted token, target-only over speculative. Both sides decode the same
prompts of {prompt} tokens and {new} new ones, prefill included, end-of-sequence off, in turns in one process.
K is chosen on some prompts and reported on others. The target-only side is the fastest backend that the
bench ran. Figures are medians with quartiles. This page is generated from reports; no number is typed by
hand."""


def page(reports: Sequence[Report]) -> str:
    """Returns the page as Markdown.

    Args:
        reports: of the bench, the shipped pair's first.

    Raises:
        ValueError: if there are none.
    """
    if not reports:
        raise ValueError("there is no report of the bench to write results from")
    plan = reports[0]["conditions"]["plan"]
    head = HEAD.format(prompt=reports[0]["conditions"]["prompt_tokens"], new=plan["new_tokens"])
    parts = ["# Results", fill(head), "## Goals, and what was measured", tables.reach(reports)]
    parts += [part for report in reports for part in of_pair(report)]
    parts += [
        "## Measure it yourself",
        "<!-- not run: takes a quarter of an hour -->",
        "```bash\n"
        "minispec bench               # the core, in minutes\n"
        "minispec bench --quick       # a minute\n"
        "minispec bench --full --output report.json\n"
        "python -m book.results results.md report.json\n```",
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def of_pair(report: Report) -> Iterator[str]:
    """Yields what the page says of one pair, section by section; what was not measured says why."""
    machine = report["machine"]
    where = machine["gpu"] or machine["processor"]
    yield f"## The pair {report['pair']}"
    yield fill(
        f"Measured on {report['date']}: {where}, {machine['cores']} cores, torch {machine['torch']}, "
        f"{report['conditions']['dtype']}."
    )
    for title, section, write in SECTIONS:
        if section in report["sections"]:
            yield f"### {title}"
            yield from write(report)
    missing = [f"- {name}: {reason}" for name, reason in report["skipped"].items()]
    if missing:
        yield "### Not measured"
        yield "\n".join(missing)


def _speed(report: Report) -> Iterator[str]:
    best = report["sections"]["target-only"]["baseline"]
    drafted = report["sections"]["target-only"]["speculative"]
    yield fill(
        f"Over the target alone on the {best['path']} backend with {_threads(best)}, the fastest here; with "
        f"the draft on the {drafted['path']} backend with {_threads(drafted)}."
    )
    yield tables.settings(report)
    if "prediction" not in report["sections"]:
        yield "Every K on the prompts that choose it:"
        yield tables.sweep(report)
        return
    yield "Every K on the prompts that choose it, and with ★ the chosen one on the others:"
    yield tables.compared(report, "widths")
    yield _figure(report, "speed-up-curves")


def _backends(report: Report) -> Iterator[str]:
    yield "Both with a draft, at the same K, in turns:"
    yield tables.backends(report)
    for name, reason in report["sections"]["paths"]["unavailable"].items():
        yield f"The {name} backend was not available: {reason}."


def _target_only(report: Report) -> Iterator[str]:
    yield "Tokens per second, on prompts that nothing else is reported on:"
    yield tables.target_only(report)
    yield _figure(report, "tokens-per-second")


def _predictions(report: Report) -> Iterator[str]:
    found = report["sections"]["prediction"]
    compared = found["compared"]
    if not compared:
        yield "Nothing that was predicted was measured."
        return
    yield fill(
        f"Written down at {found['written']}, before any of these settings ran. It is made of the costs of "
        f"the parts, measured alone, and of how often tokens of target-only texts of {found['prompts']} "
        f"other prompts would have been accepted. Over {len(compared['rows'])} measured settings the "
        f"predicted speed-up is off by {compared['median_error']:.1%} (median), and by "
        f"{compared['worst_error']:.1%} at worst. Theorem 3.8 of Leviathan et al. 2023, with one α and a "
        f"check that costs one step, is off by {compared['simple_median_error']:.1%} and "
        f"{compared['simple_worst_error']:.1%}."
    )
    yield _figure(report, "every-prediction")
    yield tables.choices(report)


def _losses(report: Report) -> Iterator[str]:
    found = tables.losses(report)
    if found:
        yield "Every setting, of any section, in which the target alone was faster:"
        yield found
    else:
        yield "No setting that was measured was a loss."


def _peers(report: Report) -> Iterator[str]:
    found = report["sections"]["transformers"]
    texts = found["texts"]
    yield fill(
        f"transformers {found['version']}, the same weights from the pair's own files, greedy, key-value "
        f"cache on, end to end on both sides. Its logits differ from ours by at most "
        f"{found['logit_difference']:.1g}. Its best assisted setting was chosen among all of those below."
    )
    yield tables.transformers(report)
    yield "\n".join(
        f"- {name}: {of['equal']} of {of['texts']} texts equal those of our target alone"
        + (
            f", {of['near_ties']} of the others part at a certified near tie"
            if of["equal"] < of["texts"]
            else ""
        )
        for name, of in texts.items()
    )
    yield tables.assisted(report)


def _simple(
    write: Callable[[Report], str], text: str = "", figure: str = ""
) -> Callable[[Report], Iterator[str]]:
    """Returns what writes a sentence, a table and a figure."""

    def parts(report: Report) -> Iterator[str]:
        yield fill(text)
        yield write(report)
        yield _figure(report, figure) if figure else ""

    return parts


def _bandwidth(report: Report) -> Iterator[str]:
    reading = report["sections"]["bandwidth"]["reading"]
    yield fill(
        f"A large matrix is read at {reading['bytes_per_second'] / 1e9:.1f} GB/s ({reading['way']}, "
        f"{_threads(reading)}). The least time of a token is its model's bytes over that; the share is what "
        f"a target-only loop reaches of it. Models that fit into a cache can pass 100%. Weights are random."
    )
    yield _figure(report, "bandwidth")
    yield tables.bandwidth(report)


def _quantized(report: Report) -> Iterator[str]:
    rows = {row["name"]: row for row in report["sections"]["quantized"]["rows"]}
    plain, small = rows["float32"], rows["int8"]
    slower = small["forward_seconds"] > plain["forward_seconds"]
    yield fill(
        f"The draft through torch's dynamic int8 quantization; both drafts on the torch backend. Its weights "
        f"take {plain['bytes'] / small['bytes']:.1f} times less memory, and a forward takes "
        f"{small['forward_seconds'] / plain['forward_seconds']:.2f} times as long: "
        + (
            "at this size, rounding the activations costs more than reading fewer bytes saves."
            if slower
            else "reading fewer bytes pays here."
        )
    )
    yield tables.quantized(report)


SECTIONS: tuple[tuple[str, str, Callable[[Report], Iterator[str]]], ...] = (
    ("The speed-up", "widths", _speed),
    ("Where it loses", "widths", _losses),
    ("Predicted before it was measured", "prediction", _predictions),
    ("Compared with transformers", "transformers", _peers),
    ("The two backends", "paths", _backends),
    ("The target alone", "target-only", _target_only),
    (
        "Temperature",
        "temperature",
        _simple(
            lambda r: tables.compared(r, "temperature"), "Sampled, at the K that suits each temperature."
        ),
    ),
    (
        "Drafts of several sizes",
        "drafts",
        _simple(
            lambda r: tables.compared(r, "drafts"),
            "One target; drafts are layers × width, trained for it, each at its best K.",
            "draft-sweep",
        ),
    ),
    (
        "Batches",
        "batch",
        _simple(lambda r: tables.compared(r, "batch"), "Sampled at T = 1, with K = 4.", "batch-sweep"),
    ),
    (
        "A K that chooses itself",
        "auto",
        _simple(
            tables.automatic, "`--k auto` compared with the best fixed K, which was chosen on other prompts."
        ),
    ),
    (
        "Bookkeeping",
        "bookkeeping",
        _simple(
            tables.bookkeeping,
            "What a round takes besides K draft steps (forward, warp, draw) and one target forward over "
            "K + 1 tokens: the rule, commit, rollback, catching up, records. Nearly all of it is Python: "
            "the faster the forwards, the larger its share.",
        ),
    ),
    ("A forward over n tokens", "latency", _simple(lambda r: "", "", "latency")),
    ("Prefill, and the first token", "prefill", _simple(tables.prefill)),
    ("Share of the memory bandwidth", "bandwidth", _bandwidth),
    ("A draft in int8", "quantized", _quantized),
    ("Memory", "memory", _simple(lambda r: "", "", "memory")),
)


def _figure(report: Report, name: str) -> str:
    """Returns the directive that draws a figure when the book is built."""
    return f"```{{bench-figure}} {name} {report['pair']}\n```"


def _threads(place: Mapping[str, Any]) -> str:
    return f"{place['threads']} thread{'s' * (place['threads'] > 1)}"


def fill(text: str) -> str:
    """Breaks prose into lines."""
    lines: list[str] = []
    line = ""
    for word in text.split():
        if line and len(line) + 1 + len(word) > WIDTH:
            lines, line = [*lines, line], word
        else:
            line = f"{line} {word}".strip()
    return "\n".join([*lines, line])


def recorded_reports(folder: Path = FOLDER) -> list[dict[str, Any]]:
    """Returns the reports that come with the package, in the order of the page."""
    paths = [folder / f"bench-{pair}.json" for pair in PAIRS]
    return [load_report(path) for path in paths if path.is_file()]


def main(arguments: Sequence[str]) -> int:
    """Writes the page from the recorded reports, or from those that are named; returns an exit status."""
    if not arguments or arguments[0].startswith("-"):
        print("usage: python -m book.results PAGE.md [REPORT.json …]", file=sys.stderr)
        return 2
    try:
        reports = [load_report(path) for path in arguments[1:]] or recorded_reports()
        write_whole(Path(arguments[0]), page(reports))
    except ValueError as error:
        print(f"minispec: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
