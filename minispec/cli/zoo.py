"""`minispec zoo`: plant every known bug in the shipped code, and show which check finds it."""

from pathlib import Path
from string import ascii_lowercase

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from minispec.cli import options
from minispec.evidence.bench.measurements import save_measurement, zoo_measurement
from minispec.evidence.zoo.matrix import CheckResult, Zoo
from minispec.evidence.zoo.mutants import MUTANTS, mutant_named
from minispec.evidence.zoo.mutation import Mutant, diff
from minispec.evidence.zoo.run import zoo
from minispec.io.files import check_writable
from minispec.show.text import COLOURS

REIMPLEMENTED = " (our reimplementation)"


def zoo_command(
    name: str | None = None,
    output: Path | None = None,
    seed: int = 0,
    threads: int | None = None,
    as_json: bool = False,
) -> int:
    """Plant bugs in the shipped code, one at a time, and see which check finds each."""
    options.set_threads(threads)
    console = options.console(as_json)
    options.tell_of_build()
    if output is not None:
        check_writable(output)
    if name is not None:
        show_mutant(mutant_named(name), as_json, console)
        return 0
    with console.status("planting") as status:
        report = zoo(MUTANTS, seed=seed, tell=status.update)
    if not report.instances:
        left_out = report.left_out or "nothing"
        raise ValueError(f"nothing was planted, or looked for, which is no pass; left out: {left_out}")
    if output is not None:
        save_measurement(zoo_measurement(report.to_json()), output)
    if as_json:
        options.print_json(report.to_json())
    else:
        show(report, console)
    return int(not report.passed)


def show_mutant(mutant: Mutant, as_json: bool, console: Console) -> None:
    """Prints what a mutant changes, and where it was seen."""
    if as_json:
        options.print_json(mutant.to_json())
        return
    console.out(f"{mutant.name}: {mutant.title}", style="bold")
    console.out(f"seen: {mutant.seen}; effect: {mutant.effect}")
    styles = {"+": COLOURS["accepted"], "-": COLOURS["rejected"], "@": COLOURS["bonus"]}
    for line in diff(mutant).splitlines():
        console.out(line, style=styles.get(line[:1]))


def show(report: Zoo, console: Console) -> None:
    """Prints the kill matrix, what its columns are, and what it comes to."""
    letters = dict(zip((check.name for check in report.checks), ascii_lowercase, strict=False))
    shipped = [check.name for check in report.checks if check.ours]
    others = [check.name for check in report.checks if not check.ours]
    groups = (shipped, others)
    headings = ["mutant", "damage", *("".join(letters[name] for name in names) for names in groups)]
    table = Table(title="Kill matrix", title_justify="left", box=SIMPLE_HEAD, pad_edge=False)
    for heading in headings:
        table.add_column(heading, no_wrap=heading != "damage")
    for specimen in report.specimens:
        survived = specimen.mutant.name in report.survivors
        table.add_row(
            Text(specimen.mutant.name, style=f"bold {COLOURS['rejected']}" if survived else ""),
            Text(specimen.harm),
            *(marks([specimen.cells[name] for name in names]) for names in groups),
        )
    console.print(table)
    lines = [
        "x killed   ! killed by an exception   . survived",
        *(
            f"{letters[check.name]} {check.name}: {check.promise}{REIMPLEMENTED * (not check.ours)}"
            for check in report.checks
        ),
        *([f"\nwithout the bugs of the C++: {report.left_out}"] if report.left_out else []),
        *(f"\n{name} misses {len(report.missed(name))}: {', '.join(report.missed(name))}" for name in others),
        f"\n{len(report.specimens)} mutants, survivors: {', '.join(report.survivors) or 'none'}; "
        f"against the shipped code, on {len(report.unmutated)} cases: "
        f"{'; '.join(report.false_alarms) or 'nothing'}; {report.seconds:.0f} s",
    ]
    for line in lines:
        console.out(line)


def marks(cells: list[CheckResult]) -> Text:
    """Returns a character per check."""
    signs = {"correction": "!", "accepted": "x", "target": "."}
    kinds = ["correction" if cell.crashed else "accepted" if cell.killed else "target" for cell in cells]
    return Text.assemble(*((signs[kind], COLOURS[kind]) for kind in kinds))
