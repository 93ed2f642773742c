"""`minispec prove`: show that nothing is lost."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from functools import partial
from time import perf_counter
from typing import Annotated, Any

from rich.console import Console

from minispec.cli import options
from minispec.cli.tables import grid
from minispec.drafters.registry import DRAFTERS, MODEL
from minispec.evidence.proof.prove import Proof, all_cases, few_cases, prove
from minispec.evidence.proof.sampling import sampled_tests
from minispec.evidence.theory.acceptance import compare_acceptance
from minispec.evidence.theory.statistics import Sampled
from minispec.io.checkpoint import load_pair
from minispec.native.backend import AUTO, NATIVE, TORCH
from minispec.native.library import why_missing


def prove_command(
    full: bool = False,
    drafter: Annotated[str | None, DRAFTERS] = None,
    backend: str = AUTO,
    seed: int = 0,
    threads: int | None = None,
    as_json: bool = False,
) -> int:
    """Enumerate every branch of the loop on small models, and test samples of larger ones."""
    names = tuple(DRAFTERS) if drafter is None else (options.choose(drafter, tuple(DRAFTERS), "--drafter"),)
    options.set_threads(threads)
    console = options.console(as_json)
    backends = options.find_backends(backend)
    started = perf_counter()
    with console.status("enumerating") as status:
        cases = all_cases() if full else few_cases()
        sampled = partial(sampled_tests, seed, full, backends) if MODEL.name in names else list[Sampled]
        proof = prove(cases, sampled, status.update, backends, names)
    seconds = perf_counter() - started
    if not proof.instances:
        raise ValueError(f"nothing was enumerated, which is no proof; left out: {', '.join(proof.left_out)}")
    proof = replace(proof, left_out=(*proof.left_out, *left_out(names, backend, full)))
    coupling = None
    if full and MODEL.name in names:
        pair = load_pair("stories")
        coupling = compare_acceptance(pair.target, pair.draft, pair.info["prompts"][:16], seed=seed)
    if as_json:
        options.print_json(document(proof, seconds) | ({"coupling": asdict(coupling)} if coupling else {}))
    else:
        show(proof, seconds, console)
        if coupling:
            console.print(
                f"on the trained pair's own text ({coupling.positions} tokens) rejection accepts "
                f"{coupling.rejection:.1%}, coupled {coupling.coupled:.1%}"
            )
    return int(not proof.passed)


def left_out(names: Sequence[str], backend: str, full: bool) -> Iterator[str]:
    """Yields what this run of the command leaves out of all that could be proved, and why."""
    if backend == TORCH.name:
        yield "the native backend: --backend torch"
    elif reason := why_missing():
        yield f"the native backend: {reason}"
    if backend == NATIVE.name:
        yield "the torch backend: --backend native"
    if MODEL.name not in names:
        yield f"sampled tests, which are of the drafter {MODEL.name}"
    if not full:
        yield "more models, longer texts and the trained pair: --full"


def document(proof: Proof, seconds: float) -> dict[str, Any]:
    """Returns the proof as plain data."""
    return {
        "passed": proof.passed,
        "instances": proof.instances,
        "left_out": list(proof.left_out),
        "branches": proof.branches,
        "largest_error": proof.largest_error,
        "coverage": {event: count > 0 for event, count in proof.coverage.items()},
        "cases": [asdict(case) | {"passed": case.passed} for case in proof.cases],
        "sampled": [asdict(test) | {"passed": test.passed} for test in proof.sampled],
        "seconds": seconds,
    }


def show(proof: Proof, seconds: float, console: Console) -> None:
    """Prints the proof as two tables and a line."""
    for title, columns, results in (
        ("Every branch", "cases", proof.cases),
        ("Samples", "samples", proof.sampled),
    ):
        if results:
            table = grid(columns, [vars(result) for result in results])
            console.print(table.rich(f"{title}, against the exact distribution"))
    missing = [event for event, count in proof.coverage.items() if not count]
    console.print(f"never came up: {', '.join(missing)}" if missing else "everything came up at least once")
    for part in proof.left_out:
        console.out(f"left out: {part}")
    console.print(
        f"{'passed' if proof.passed else 'FAILED'}: {proof.instances} cases with {proof.branches:,} branches "
        f"in {seconds:.0f} s, largest error {proof.largest_error:.1e}"
    )
