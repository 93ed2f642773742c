"""`minispec atlas`: what every rule emits and how much it accepts, exactly, beside the optimum."""

from dataclasses import asdict
from pathlib import Path
from time import perf_counter
from typing import Annotated, Any

import typer
from rich.console import Console

from minispec.cli import options
from minispec.cli.bench_tables import Grid
from minispec.evidence.atlas.atlas import ChainMeans, Entry, chain_means, entries
from minispec.evidence.atlas.rules import RULES
from minispec.evidence.atlas.samplers import Judged, record, recorded_samplers, run_samplers

NAMES = tuple(rule.name for rule in RULES)


def atlas_command(
    rule: Annotated[str | None, options.option("atlas", "rule", NAMES)] = None,
    samplers: Annotated[bool, options.option("atlas", "samplers")] = False,
    checkout: Annotated[list[str] | None, options.option("atlas", "checkout")] = None,
    output: Annotated[Path | None, options.option("atlas", "output")] = None,
    seed: options.SeedOption = 0,
    threads: options.ThreadsOption = None,
    as_json: options.JsonOption = False,
) -> None:
    """Compare every rule on the same distributions: damage, accepted tokens, the optimum."""
    name = None if rule is None else options.choose(rule, NAMES, "--rule")
    options.set_threads(threads)
    console = options.console(as_json)
    if samplers:
        judged = run_samplers(dict(map(named_folder, checkout or ())), tell=console.print)
        if output is not None:
            record(judged, output)
        show_samplers(judged, console)
        if as_json:
            options.print_json({"samplers": [asdict(one) for one in judged]})
        return
    started = perf_counter()
    with console.status("enumerating"):
        found = list(entries([one for one in RULES if name in (None, one.name)], seed))
        chains = chain_means(seed)
    seconds = perf_counter() - started
    passed = all(entry.passed for entry in found)
    if as_json:
        document: dict[str, Any] = {"rules": [entry.to_json() for entry in found]}
        document["chains"] = [asdict(chain) for chain in chains]
        document["samplers"] = [asdict(one) for one in recorded_samplers()]
        options.print_json(document | {"seed": seed, "passed": passed, "seconds": seconds})
    else:
        show(found, chains, console)
        console.print(f"{'passed' if passed else 'FAILED'} in {seconds:.0f} s")
    if not passed:
        raise typer.Exit(1)


def show(found: list[Entry], chains: list[ChainMeans], console: Console) -> None:
    """Prints a line per rule and number of candidates, and what chains come to."""
    rows = []
    for entry in found:
        one = entry.family
        off = "0" if entry.lossless and entry.passed else f"{one.total_variation:.3g}"
        pair = f"{entry.recorded.accepted:.3f}" if entry.recorded else ""
        rates = f"{one.accepted:.3f}", f"{one.optimum:.3f}", pair, f"{one.draws:.2f}"
        rows.append((entry.name, str(entry.candidates), off, *rates, f"{entry.passes:.0f}"))
    heads = ("rule", "k", "TV", "accepted", "optimum", "pair", "draws", "passes")
    console.print(Grid(heads, rows).rich("Rules at one position"))
    lines = [
        "k: candidates; TV: total variation from p, 0 up to rounding; optimum: the most that a lossless",
        "rule can accept; pair: accepted on positions of the pair stories; draws: random numbers;",
        "passes: over the vocabulary, in torch operations, for each candidate",
        *(
            f"chains of {one.k} tokens ({one.name}): {one.token:.3f} accepted, by block {one.block:.3f}"
            for one in chains
        ),
    ]
    console.print("\n".join(lines), soft_wrap=True)


def named_folder(text: str) -> tuple[str, Path]:
    """Reads NAME=PATH; a ValueError says what is wrong."""
    name, equals, path = text.partition("=")
    if not equals or not Path(path).is_dir():
        raise ValueError(f"--checkout must be NAME=PATH of a folder, not {text!r}")
    return name, Path(path)


def show_samplers(judged: list[Judged], console: Console) -> None:
    """Prints a line per sampler, and below it what shows that it is lossy, or why it did not run."""
    words = {True: "no difference", False: "lossy", None: "not judged"}
    for one in judged:
        console.print(f"{one.project} {one.version or ''}, {one.rule}: {words[one.lossless]}", soft_wrap=True)
        for line in (one.checked, one.instance, one.recorded and f"run on {one.recorded}"):
            if line:
                console.print(f"  {line}", soft_wrap=True, markup=False)
