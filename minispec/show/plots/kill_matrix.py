"""The kill matrix: every known bug against every check."""

from collections.abc import Sequence

from minispec.evidence.bench.measurements import KillRow
from minispec.show.plots.board import Cell, Line, tile, tiled, twin_of, worded
from minispec.show.plots.style import Picture
from minispec.show.signs import SIGNS

MARKS = SIGNS["kills"]
PEER = SIGNS["others"]["peer"]


def panels(rows: Sequence[KillRow]) -> list[list[Line]]:
    """Returns the lines of both halves of the matrix: modules, as they first come, with their mutants."""
    modules: dict[str, list[Line]] = {}
    for row in rows:
        heading = f"in {row.module}" + ".py" * ("." not in row.module)  # in C++ it is the whole name
        cells = [tile(MARKS[mark]) for mark in row.marks]
        modules.setdefault(heading, [Line(heading)]).append(Line(row.name, cells))
    left: list[Line] = []
    right: list[Line] = []
    for lines in modules.values():
        is_left = not right and 2 * len(left) + len(lines) <= len(rows) + len(modules)
        (left if is_left else right).extend(lines)
    return [left, right]


def kill_matrix(rows: Sequence[KillRow], checks: Sequence[str], other_checks: Sequence[str] = ()) -> Picture:
    """Draws which check, a column each in the order of the marks, finds which bug.

    other_checks: those checks that reimplement how other projects test.
    """
    kills = {check: sum(row.marks[i] != "." for row in rows) for i, check in enumerate(checks)}
    halves = [half for half in panels(rows) if half]
    halves[-1].append(Line("found in all", [Cell(str(number)) for number in kills.values()]))
    heads = [f"{check} {PEER.glyph}" if check in other_checks else check for check in checks]
    figure = tiled(*halves, heads=heads, key=[*MARKS.values(), PEER], high=0.38)
    minispec_checks = [i for i, check in enumerate(checks) if check not in other_checks]
    survivors = [row.name for row in rows if all(row.marks[i] == "." for i in minispec_checks)]
    best = max(checks, key=kills.__getitem__)
    return worded(
        "kill-matrix",
        figure,
        twin_of([line for half in halves for line in half], heads),
        "all" if kills[best] == len(rows) else "",
        bugs=len(rows),
        kills=len(rows) - len(survivors),
        checks=len(checks),
        survivors=", ".join(survivors) or "none",
        best=best,
        most=kills[best],
    )
