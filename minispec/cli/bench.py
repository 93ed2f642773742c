"""`minispec bench`: measure the speed-up on this machine."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from minispec.cli import options
from minispec.evidence.bench import NEW_TOKENS, WIDTHS, run_bench


def bench(
    pair: options.PairOption = "stories",
    k: Annotated[
        list[int] | None, typer.Option("--k", help="Values of K to choose from; may be repeated.")
    ] = None,
    repeats: Annotated[int, typer.Option("--repeats", help="Measurements per prompt.")] = 3,
    quick: Annotated[bool, typer.Option("--quick", help="Fewer prompts and values of K.")] = False,
    full: Annotated[bool, typer.Option("--full", help="More prompts and repetitions.")] = False,
    seed: options.SeedOption = 0,
    device: options.DeviceOption = "cpu",
    dtype: options.DtypeOption = "float32",
    threads: options.ThreadsOption = None,
    as_json: options.JsonOption = False,
) -> None:
    """Measure speculative decoding against the target alone."""
    if repeats < 1:
        raise ValueError(f"--repeats must be at least 1, not {repeats}")
    widths = tuple(k or ((3, 5, 8) if quick else WIDTHS))
    if min(widths) < 1:
        raise ValueError(f"--k must be at least 1 here, not {min(widths)}; target-only is measured anyway")
    options.set_threads(threads)
    models = options.open_pair(pair, device, dtype)
    console = options.console(as_json)
    with console.status("measuring") as status:
        report = run_bench(
            models,
            widths=widths,
            repeats=repeats * (3 if full else 1),
            prompts=32 if full else 8 if quick else 16,
            new_tokens=NEW_TOKENS,
            seed=seed,
            tell=lambda text: status.update(text),
        )
    if as_json:
        options.print_json(report)
    else:
        show(report, console)


def show(report: dict[str, Any], console: Console) -> None:
    """Prints the report as two tables."""
    machine = report["machine"]
    console.print(
        f"{machine['processor']}, {machine['cores']} cores, {machine['threads']} threads, "
        f"torch {machine['torch']}",
        soft_wrap=True,
    )
    for title, rows in (
        ("Every K, on the prompts that choose it", "sweep"),
        ("The best K, on other prompts", "settings"),
    ):
        table = Table(title=title, title_justify="left")
        for column in (
            "verifier",
            "K",
            "speed-up",
            "quartiles",
            "acceptance",
            "tokens/call",
            "tokens/s alone",
            "tokens/s",
        ):
            table.add_column(column, justify="left" if column == "verifier" else "right")
        for s in report[rows]:
            low, high = s["speedup_quartiles"]
            table.add_row(
                s["verifier"],
                str(s["k"]),
                f"{s['speedup']:.2f}x",
                f"{low:.2f} to {high:.2f}",
                f"{s['acceptance']:.1%}",
                f"{s['tokens_per_target_call']:.2f}",
                f"{s['target_only_tokens_per_second']:.0f}",
                f"{s['tokens_per_second']:.0f}",
            )
        console.print(table)
