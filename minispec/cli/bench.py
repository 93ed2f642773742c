"""`minispec bench`: measure, in sections, what speculative decoding brings on this machine."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from minispec.cli import options, tables
from minispec.cli.decoding import print_advice
from minispec.cli.requests import read_file
from minispec.core.batch import Prompts
from minispec.evidence.bench.measure import PROMPT_TOKENS
from minispec.evidence.bench.run import NAMES, choose, own_prompts, run_bench
from minispec.evidence.bench.section import CORE, FULL, QUICK, Plan
from minispec.io.checkpoint import Pair
from minispec.io.files import format_path, printable_line
from minispec.io.tokenizer import Tokenizer
from minispec.native.backend import AUTO, NATIVE

COLUMNS = (
    BarColumn(),
    TextColumn("{task.percentage:3.0f}%"),
    TimeElapsedColumn(),
    TextColumn("{task.description}"),
)
PREDICTION_ERRORS = (
    "predicted before the run, speed-ups are off by {median_error:.1%} (median), {worst_error:.1%} (worst); "
    "by theorem 3.8, for which verifying costs one step, by {simple_median_error:.1%}, "
    "{simple_worst_error:.1%}"
)


def bench(
    pair: str | None = None,
    target: str | None = None,
    draft: str | None = None,
    prompts: Path | None = None,
    section: Annotated[list[str] | None, NAMES] = None,
    k: list[int] | None = None,
    quick: bool = False,
    full: bool = False,
    output: Path | None = None,
    backend: str = "auto",
    seed: int = 0,
    device: str = "cpu",
    dtype: str = "float32",
    threads: int | None = None,
    as_json: bool = False,
) -> None:
    """Measure speculative decoding against the target alone."""
    plan = plan_of(quick, full, k)
    sections = choose(section or (), full, target is None or draft is not None)
    make_prompts = own_prompts(sections)
    if target is not None and prompts is None and make_prompts is None:
        raise ValueError("--target has no prompts to measure on: give a file of texts with --prompts")
    options.set_threads(threads)
    models = options.open_models(pair, target, draft, device, dtype)
    if prompts is not None:
        models = with_prompts(models, read_prompts(prompts, models.tokenizer))
    elif make_prompts is not None:
        models = with_prompts(models, make_prompts(models.tokenizer))
    if models.kept is not None and backend == AUTO:
        backend = NATIVE.name  # no other keeps weights in 8 bits
    if backend != AUTO:  # else the bench says itself which backends cannot be had
        plan = replace(plan, backends=tuple(choice.name for choice in options.find_backends(backend)))
    run_shown(models, output, as_json, sections=sections, plan=plan, seed=seed)


def with_prompts(pair: Pair, prompts: Prompts) -> Pair:
    """Returns a pair with other prompts to measure on."""
    return replace(pair, info={**pair.info, "prompts": prompts})


def run_shown(models: Pair, output: Path | None = None, as_json: bool = False, **settings: Any) -> None:
    """Runs a bench with a progress bar, and prints its report; `settings` are for `run_bench`."""
    console = options.console(as_json)
    with Progress(*COLUMNS, console=console, transient=True, disable=not console.is_terminal) as progress:
        bar = progress.add_task("", total=1.0)

        def tell(share: float, section: str, text: str) -> None:
            progress.update(bar, completed=share, description=f"{section}: {text}")

        report = run_bench(models, output=output, tell=tell, **settings)
    if as_json:
        options.print_json(report)
    else:
        show(report, console, output)


def read_prompts(path: Path, tokenizer: Tokenizer) -> list[list[int]]:
    """Returns the first 32 tokens of each text of a file; blank lines are between texts.

    Raises:
        ValueError: if it cannot be read, or a text is shorter.
    """
    parts = re.split(r"\n\s*\n", read_file(path, "prompts"))
    prompts = tokenizer.encode_batch([part.strip() for part in parts if part.strip()])
    for number, prompt in enumerate(prompts, start=1):
        if len(prompt) < PROMPT_TOKENS:
            raise ValueError(
                f"{format_path(path)}: text {number} of {len(prompts)} has {len(prompt)} tokens; the bench "
                f"needs texts of at least {PROMPT_TOKENS}, with blank lines between them"
            )
    return [prompt[:PROMPT_TOKENS] for prompt in prompts]


def plan_of(quick: bool, full: bool, k: list[int] | None) -> Plan:
    """Returns how much to measure; a ValueError says which options contradict each other."""
    if quick and full:
        raise ValueError("--quick and --full contradict each other; choose one")
    plan = QUICK if quick else FULL if full else CORE
    if not k:
        return plan
    widths = tuple(sorted(set(k)))
    return replace(plan, widths=widths, few_widths=widths)


def show(report: dict[str, Any], console: Console, output: Path | None) -> None:
    """Prints the report for people: what is most asked for, as tables."""
    machine = "{processor}, {cores} cores, {threads} threads, torch {torch}".format_map(report["machine"])
    console.out(machine)
    for table in tables.tables(report):
        console.print(table)
    sections = report["sections"]
    if compared := sections.get("prediction", {}).get("compared"):
        console.out(PREDICTION_ERRORS.format_map(compared))
    for section in ("real-sizes", "drafters"):
        for name, reason in sections.get(section, {}).get("unavailable", {}).items():
            console.out(f"not measured: {name}: {reason}")
    for setting in report["settings"]:
        print_advice(setting["setting"], setting["speedup"], setting.get("advice", ()), console)
    if output is not None:
        console.out(f"the whole report: {printable_line(str(output))}")
