"""The kill matrix: every known bug against every check."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from minispec.evidence.bench.measurements import KillRow
from minispec.show.plots.board import board, text_width, widest, write
from minispec.show.plots.picture import Picture
from minispec.show.plots.style import GUESS, STATES, State

ROW = 0.36  # inches
COLUMN = 0.4  # room for two digits
MARGIN = 0.25
NEARBY = 6  # lines
PEERS = "grey: how other projects test"
MARKS = {
    "x": State(STATES["draft"].colour, "✓", STATES["draft"].ink, word="found"),
    "!": State(STATES["correction"].colour, "!", STATES["correction"].ink, word="found, by a crash"),
    ".": State("#FFFFFF", "·", word="missed"),
}


@dataclass(frozen=True)
class Line:
    """One line of a panel: a mutant, or the name of the module that the next ones are planted in.

    Attributes:
        name: what stands at its left.
        marks: a character per check; empty for the name of a module.
    """

    name: str
    marks: str = ""


def lines_of(rows: Sequence[KillRow]) -> list[Line]:
    """Returns the lines of the matrix: modules in the order in which they first come, and their mutants."""
    modules: dict[str, list[Line]] = {}
    for row in rows:
        modules.setdefault(row.module, [Line(f"in {row.module}.py")]).append(Line(row.name, row.marks))
    return [line for lines in modules.values() for line in lines]


def panels(lines: Sequence[Line], count: int) -> list[list[Line]]:
    """Breaks lines into columns of about equal height, between two modules where there is a place nearby."""
    broken: list[list[Line]] = []
    rest = list(lines)
    for left in range(count, 1, -1):
        even = -(-len(rest) // left)
        starts = [i for i, line in enumerate(rest) if not line.marks and abs(i - even) <= NEARBY]
        cut = max(1, min(starts, key=lambda i: abs(i - even), default=even))
        broken.append(rest[:cut])
        rest = rest[cut:]
    return [*broken, rest]


def kill_matrix(
    rows: Sequence[KillRow],
    checks: Sequence[str],
    theirs: Sequence[str] = (),
    guess: Mapping[str, int] | None = None,
) -> Picture:
    """Draws which check finds which bug.

    Args:
        rows: a mutant each.
        checks: the columns, in the order of the marks.
        theirs: those of them that retell how other projects test.
        guess: by check, how many bugs the reader thinks that it finds.

    Raises:
        ValueError: if there are no rows, or a row has not one mark per check.
    """
    if not rows or any(len(row.marks) != len(checks) for row in rows):
        raise ValueError(f"give at least one row, each with a mark for each of the {len(checks)} checks")
    found = {check: sum(row.marks[i] != "." for row in rows) for i, check in enumerate(checks)}
    lines = lines_of(rows)
    columns = panels(lines, 2 if len(lines) > 20 else 1)
    names = widest([*(line.name for line in lines), "found"], 1.0) + 0.2
    head = widest(checks) + 0.3
    panel = names + COLUMN * len(checks) + 0.5
    tall = max(len(column) for column in columns) + 2 + (guess is not None)
    width = max(panel * len(columns), _legend_width()) + 2 * MARGIN
    height = head + ROW * (tall + 1.6) + 2 * MARGIN
    figure, axes = board(width, height)
    for number, column in enumerate(columns):
        left, top = MARGIN + panel * number + names, height - MARGIN - head
        _heads(axes, left, top, checks, theirs)
        for place, line in enumerate(column):
            _line(axes, left, top - ROW * (place + 0.5), line)
    left = MARGIN + panel * (len(columns) - 1) + names
    bottom = height - MARGIN - head - ROW * (len(columns[-1]) + 0.9)
    _totals(axes, left, bottom, "found", [found[check] for check in checks])
    if guess is not None:
        _totals(axes, left, bottom - ROW, f"{GUESS.glyph} {GUESS.word}", [guess.get(c, "") for c in checks])
    _legend(axes, MARGIN, MARGIN + ROW / 2)
    return Picture(
        "kill-matrix",
        figure,
        _alt(rows, checks, theirs),
        _caption(rows, checks, theirs, found),
        _twin(rows, checks),
    )


def _place(left: float, column: int) -> float:
    return left + COLUMN * (column + 0.5)


def _heads(axes: Axes, left: float, top: float, checks: Sequence[str], theirs: Sequence[str]) -> None:
    for column, check in enumerate(checks):
        weight = {"style": "italic", "color": "#595959"} if check in theirs else {}
        write(axes, _place(left, column), top + 0.1, check, rotation=90, va="bottom", ha="center", **weight)


def _line(axes: Axes, left: float, y: float, line: Line) -> None:
    if not line.marks:
        write(axes, left - 0.15, y, line.name, ha="right", weight="bold")
        return
    write(axes, left - 0.15, y, line.name, ha="right")
    for column, mark in enumerate(line.marks):
        _cell(axes, _place(left, column), y, MARKS[mark])


def _cell(axes: Axes, x: float, y: float, state: State) -> None:
    corner = (x - COLUMN * 0.46, y - ROW / 2 + 0.02)
    axes.add_patch(
        Rectangle(
            corner, COLUMN * 0.92, ROW - 0.04, facecolor=state.colour, edgecolor="#BBBBBB", linewidth=0.8
        )
    )
    write(axes, x, y, state.glyph, ha="center", color=state.ink)


def _totals(axes: Axes, left: float, y: float, name: str, numbers: Sequence[int | str]) -> None:
    write(axes, left - 0.15, y, name, ha="right", weight="bold")
    for column, number in enumerate(numbers):
        write(axes, _place(left, column), y, str(number), ha="center")


def _legend_width() -> float:
    signs = sum(COLUMN * 1.4 + text_width(state.word) + 0.5 for state in MARKS.values())
    return signs + text_width(PEERS)


def _legend(axes: Axes, x: float, y: float) -> None:
    for state in MARKS.values():
        _cell(axes, x + COLUMN * 0.5, y, state)
        write(axes, x + COLUMN * 1.4, y, state.word)
        x += COLUMN * 1.4 + text_width(state.word) + 0.5
    write(axes, x, y, PEERS, style="italic", color="#595959")


def _alt(rows: Sequence[KillRow], checks: Sequence[str], theirs: Sequence[str]) -> str:
    ours = [i for i, check in enumerate(checks) if check not in theirs]
    survivors = [row.name for row in rows if all(row.marks[i] == "." for i in ours)]
    return (
        f"A table of {len(rows)} bugs, planted one at a time, against {len(checks)} checks, with a tick "
        f"where the check finds the bug. Bugs that no check of minispec finds: "
        f"{', '.join(survivors) or 'none'}."
    )


def _caption(
    rows: Sequence[KillRow], checks: Sequence[str], theirs: Sequence[str], found: Mapping[str, int]
) -> str:
    ours = [i for i, check in enumerate(checks) if check not in theirs]
    killed = sum(any(row.marks[i] != "." for i in ours) for row in rows)
    best = max(checks, key=lambda check: found[check])
    start = f"Together the checks find {killed} of {len(rows)} planted bugs"
    if found[best] == len(rows):
        return f"{start}, and {best} alone finds them all."
    return f"{start}, and no check finds all: the best one, {best}, finds {found[best]}."


def _twin(rows: Sequence[KillRow], checks: Sequence[str]) -> str:
    wide = max(len(row.name) for row in rows)
    numbers = " ".join(f"{number + 1}={check}" for number, check in enumerate(checks))
    signs = {"x": "x", "!": "!", ".": "."}
    return "\n".join(
        [f"{numbers}; x found, ! found by a crash, . missed"]
        + [f"{row.name.ljust(wide)} {''.join(signs[mark] for mark in row.marks)}" for row in rows]
    )
