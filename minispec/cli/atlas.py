"""`minispec atlas`: what every rule emits and how much it accepts, exactly, beside the optimum."""

from dataclasses import asdict
from time import perf_counter
from typing import Annotated

from rich.console import Console

from minispec.cli import options
from minispec.cli.tables import grid
from minispec.evidence.atlas.atlas import ChainMeans, Entry, chain_means, entries
from minispec.evidence.atlas.rules import RULES
from minispec.evidence.bench.measurements import FOLDER
from minispec.io.files import read_json

NAMES = tuple(rule.name for rule in RULES)
LEGEND = """\
k: candidates; TV: total variation from p, 0 up to rounding; optimum: the most that a lossless
rule can accept; pair: accepted on positions of the pair stories; draws: random numbers;
passes: over the vocabulary, in torch operations, for each candidate"""


def atlas_command(
    rule: Annotated[str | None, NAMES] = None,
    seed: int = 0,
    threads: int | None = None,
    as_json: bool = False,
) -> int:
    """Compare every rule on the same distributions: damage, accepted tokens, the optimum."""
    names = NAMES if rule is None else (options.choose(rule, NAMES, "--rule"),)
    options.set_threads(threads)
    console = options.console(as_json)
    started = perf_counter()
    with console.status("enumerating"):
        rules = list(entries([rule for rule in RULES if rule.name in names], seed))
        chains = chain_means(seed)
    seconds = perf_counter() - started
    passed = all(entry.passed for entry in rules)
    if as_json:
        document = {
            "rules": [entry.to_json() for entry in rules],
            "chains": [asdict(chain) for chain in chains],
            "samplers": read_json(FOLDER / "samplers.json")["samplers"],
        }
        options.print_json(document | {"seed": seed, "passed": passed, "seconds": seconds})
    else:
        show(rules, chains, console)
        console.print(f"{'passed' if passed else 'FAILED'} in {seconds:.0f} s")
    return int(not passed)


def show(rules: list[Entry], chains: list[ChainMeans], console: Console) -> None:
    """Prints a line per rule and number of candidates, and what chains come to."""
    rows = [
        {
            "entry": entry,
            "total_variation": 0.0 if entry.lossless and entry.passed else entry.family.total_variation,
            "pair": f"{entry.recorded.accepted:.3f}" if entry.recorded else "",
        }
        for entry in rules
    ]
    console.print(grid("atlas", rows).rich("Rules at one position"))
    console.out(LEGEND)
    for chain in chains:
        means = f"{chain.token:.3f} accepted, by block {chain.block:.3f}"
        console.out(f"chains of {chain.k} tokens ({chain.name}): {means}")
