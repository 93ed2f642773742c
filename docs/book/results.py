"""The results page, written from reports of the bench.

`PYTHONPATH=docs python -m book.results docs/results.md` writes it.

Nothing on the page is typed by hand but its explanations: every number comes from a report, and a sentence
that judges one looks at it first.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from book import results_tables as tables
from book.draft_sizes import DISTILL_STEPS, PLAIN_STEPS
from book.reports import load_report, saved_drafters, saved_reports
from book.results_drafters import of_drafters
from book.results_tables import fill
from minispec.cli.bench_tables import backends, grid, queues, stops_paying, target_only
from minispec.io.files import write_whole

Report = Mapping[str, Any]

HEAD = """A speed-up is seconds per emitted token, target-only over speculative. Both sides decode the same
prompts of {prompt} tokens and {new} new ones, prefill included, end-of-sequence off, interleaved in one
process. K is chosen on some prompts and reported on others. The target-only side is the fastest backend that
the bench ran. Figures are medians with quartiles. *Accepted* is accepted over tested tokens: of those that
the verifier looked at, the share that it kept. This page is generated from reports; no number is typed by
hand."""


def page(reports: Sequence[Report], drafters: Sequence[Report] = ()) -> str:
    """Returns the page as Markdown.

    Args:
        reports: of the bench, the shipped pair's first.
        drafters: those on ways to draft, one a pair.

    Raises:
        ValueError: if there are none.
    """
    if not reports:
        raise ValueError("there is no report of the bench to write results from")
    own = reports[0]["conditions"]
    parts = ["# Results", fill(HEAD.format(prompt=own["prompt_tokens"], new=own["plan"]["new_tokens"]))]
    parts += [part for report in reports for part in of_pair(report)]
    parts += of_drafters(drafters)
    parts += [
        "## Measure it yourself",
        "<!-- not run: takes a quarter of an hour -->",
        "```bash\n"
        "minispec bench               # the core, in minutes\n"
        "minispec bench --quick       # a minute\n"
        "minispec bench --full --output report.json\n"
        "minispec bench --section drafters   # every way to draft, on the pairs that are there\n"
        "PYTHONPATH=docs python -m book.results results.md report.json\n```",
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def of_pair(report: Report) -> Iterator[str]:
    """Yields what the page says of one pair, section by section; what was not measured says why."""
    machine = report["machine"]
    where = machine["gpu"] or machine["processor"]
    alone = set(report["sections"]) == {"real-sizes"}  # which has nothing to do with the pair
    yield "## Models of real sizes" if alone else f"## The pair {report['pair']}"
    dtype = "" if alone else f", {report['conditions']['dtype']}"
    yield fill(
        f"Measured on {report['date']}: {where}, {machine['cores']} cores, torch {machine['torch']}{dtype}."
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
    yield tables.markdown(grid("speed-ups", report["settings"]))
    yield fill(
        "Greedy decodes at temperature 0, rejection at 1. Accepted: accepted over tested tokens. A call: "
        "tokens a target call. The last two: tokens a second of the target alone, and with its draft."
    )
    low, high = tables.baseline(report)
    yield fill(
        f"Each speed-up is over the target alone that ran interleaved with it. In the tables of this pair "
        f"that target alone, with one text at a time, wrote {low:,.0f} to {high:,.0f} tokens a second. So "
        f"compare speed-ups of different tables, not tokens per second."
    )
    yield "Every K on the prompts that choose it, and with ★ the chosen one on the others:"
    yield tables.compared(report, "widths")
    if "prediction" in report["sections"]:
        yield _figure(report, "speed-up-curves")


def _losses(report: Report) -> Iterator[str]:
    found = tables.losses(report)
    if found:
        yield fill(
            "Every setting in this pair's tables of K, of temperatures, of drafts and of batches in which "
            "the target alone was faster. Other ways to draft have tables of their own below, which mark "
            "their losses."
        )
        yield found
    else:
        yield "No setting that was measured was a loss."


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
        f"{compared['simple_worst_error']:.1%}. Batches are not predicted."
    )
    yield _figure(report, "every-prediction")
    yield tables.choices(report)


def _peers(report: Report) -> Iterator[str]:
    found = report["sections"]["transformers"]
    yield fill(
        f"transformers {found['version']}, the same weights from the pair's own files, greedy, key-value "
        f"cache on, end to end on both sides. Its logits differ from ours by at most "
        f"{found['logit_difference']:.1g}. {tables.best_assisted(found['assisted'])}"
    )
    yield tables.transformers(report)
    yield fill(tables.same_language(report))
    lines = []
    for name, of in found["texts"].items():
        rest = f", {of['near_ties']} of the others part at a certified near tie" * (of["equal"] < of["texts"])
        lines.append(f"- {name}: {of['equal']} of {of['texts']} texts equal those of our target alone{rest}")
    yield "\n".join(lines)


def _real_sizes(report: Report) -> Iterator[str]:
    found = report["sections"]["real-sizes"]
    sizes = ", ".join(f"{name} has {count:,}" for name, count in found["parameters"].items())
    yield fill(
        f"Random weights in the shapes of three models ({sizes} weights), the same on every backend, whose "
        f"logits were compared first. Milliseconds of a forward over n new tokens of one text, with "
        f"{found['cached_tokens']} in the cache and the logits of all n: medians, interleaved in one "
        f"process, with the most threads; `bench-real-sizes.json` in `minispec/evidence/recorded` has the "
        f"others too. Beside each of the others, how many times as long as native it takes."
    )
    report = tables.most_threads(report)
    yield tables.real_sizes(report)
    yield fill(
        "What it means for speculative decoding on the native backend: t(n)/t(1), and by these times the "
        "speed-up at the best K for a draft step of c target steps and an acceptance rate of α at every "
        "position (the formula with measured times; the rule and the loop are taken to cost nothing)."
    )
    yield tables.real_gains(report)
    for name, reason in found["unavailable"].items():
        yield f"Not measured, {name}: {reason}."


def _drafts(report: Report) -> Iterator[str]:
    trained = any("×" in row["name"] for row in report["sections"]["drafts"]["points"])
    yield fill(
        "One target, each draft at its best K."
        + f" Drafts that are named by layers × width were trained for this comparison, all in "
        f"{PLAIN_STEPS:,} steps on the corpus and {DISTILL_STEPS:,} of distillation, the pair's own in more. "
        "So compare them with each other for what size does, and with the pair's own for what training adds."
        * trained
    )
    yield tables.compared(report, "drafts")
    yield _figure(report, "draft-sweep")


def _batches(report: Report) -> Iterator[str]:
    found = report["sections"]["batch"]
    yield fill(
        f"Sampled at T = 1, with K = {found['k']}, on the backend and threads of the speed-up, interleaved."
    )
    yield tables.compared(report, "batch")
    yield _figure(report, "batch-sweep")
    if "queue" in found:
        yield fill(
            "A queue of prompts of mixed lengths. Without refill so many are decoded side by side, and the "
            "next ones wait until all of these are done; with refill each row that is done goes on with the "
            "next prompt. Live: of the places in all forwards of the target, the share that belonged to a "
            f"text in the making. Here {stops_paying(found)}."
        )
        yield tables.markdown(queues(found["queue"]))


def _target_only(report: Report) -> Iterator[str]:
    yield "Tokens per second, alone and with a draft, on prompts that nothing else is reported on:"
    yield tables.markdown(target_only(report))
    yield _figure(report, "tokens-per-second")
    found = report["sections"].get("widths", {}).get("backends")
    if found:
        yield "Both backends with the draft, at the best K, on the prompts that report it:"
        yield tables.markdown(backends(report))
    for name, reason in report["sections"]["target-only"]["unavailable"].items():
        yield f"The {name} backend was not available: {reason}."


def _simple(
    text: str, write: Callable[[Report], str] = lambda report: "", figure: str = ""
) -> Callable[[Report], Iterator[str]]:
    """Returns what writes a sentence, a table and a figure."""

    def parts(report: Report) -> Iterator[str]:
        yield fill(text)
        yield write(report)
        yield _figure(report, figure) if figure else ""

    return parts


SECTIONS: tuple[tuple[str, str, Callable[[Report], Iterator[str]]], ...] = (
    ("The speed-up", "widths", _speed),
    ("Where it loses", "widths", _losses),
    ("Predicted before it was measured", "prediction", _predictions),
    ("Compared with transformers", "transformers", _peers),
    ("The backends", "target-only", _target_only),
    (
        "Temperature",
        "temperature",
        _simple(
            "Sampled, at the K that suits each temperature.", lambda r: tables.compared(r, "temperature")
        ),
    ),
    ("Drafts of several sizes", "drafts", _drafts),
    ("Batches", "batch", _batches),
    (
        "A K that chooses itself",
        "auto",
        _simple(
            "`--k auto` compared with the best fixed K, which was chosen on other prompts.", tables.automatic
        ),
    ),
    ("A forward over n tokens", "latency", _simple("", figure="latency")),
    ("A forward at real sizes", "real-sizes", _real_sizes),
)


def _figure(report: Report, name: str) -> str:
    """Returns the directive that draws a figure when the book is built."""
    return f"```{{made}} {name} {report['pair']}\n```"


def _threads(where: Mapping[str, Any]) -> str:
    return f"{where['threads']} thread{'s' * (where['threads'] > 1)}"


def main(arguments: Sequence[str]) -> int:
    """Writes the page from the package's reports, or from those that are named; returns an exit status."""
    if not arguments or arguments[0].startswith("-"):
        print("usage: PYTHONPATH=docs python -m book.results PAGE.md [REPORT.json …]", file=sys.stderr)
        return 2
    try:
        named = [load_report(path) for path in arguments[1:]]
        drafters = [] if named else saved_drafters()
        write_whole(Path(arguments[0]), page(named or saved_reports(), drafters))
    except ValueError as error:
        print(f"minispec: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
