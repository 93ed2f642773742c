"""The kill matrix: every known bug against every check."""

from collections.abc import Sequence
from typing import Any

from minispec.evidence.bench.measurements import KillRow
from minispec.show.plots.board import GREY, Board, text_width, widest, worded
from minispec.show.plots.style import Picture
from minispec.show.signs import State

ROW = 0.36  # inches
COLUMN = 0.4  # wide enough for two digits
MARGIN = 0.25
NEARBY = 6  # lines
PEERS = "grey: how other projects test"
MARKS = {  # signs of its own: a bug that is found is no accepted token
    "x": State("#C9C9C9", "■", word="found"),
    "!": State("#E8D5E0", "!", word="found, by a crash"),
    ".": State("#FFFFFF", "□", "#767676", word="missed"),
}
Entry = tuple[str, str]  # a mutant and its marks, or a module without marks


def entries(rows: Sequence[KillRow]) -> list[Entry]:
    """Returns the lines of the matrix: modules in the order in which they first come, and their mutants."""
    modules: dict[str, list[Entry]] = {}
    for row in rows:
        modules.setdefault(row.module, [(heading(row.module), "")]).append((row.name, row.marks))
    return [line for lines in modules.values() for line in lines]


def heading(module: str) -> str:
    """Returns the line over a file's mutants; in C++ the module is the file's whole name."""
    return f"in {module}" if "." in module else f"in {module}.py"


def panels(lines: Sequence[Entry]) -> list[Sequence[Entry]]:
    """Breaks a long list into two of about equal height, between two modules where one ends nearby."""
    if len(lines) <= 20:
        return [lines]
    even = -(-len(lines) // 2)
    starts = [i for i, (_, marks) in enumerate(lines) if not marks and abs(i - even) <= NEARBY]
    cut = min(starts, key=lambda i: abs(i - even), default=even)
    return [lines[:cut], lines[cut:]]


def kill_matrix(rows: Sequence[KillRow], checks: Sequence[str], theirs: Sequence[str] = ()) -> Picture:
    """Draws which check, a column each in the order of the marks, finds which bug.

    theirs: those checks that reimplement how other projects test.
    """
    found = {check: sum(row.marks[i] != "." for row in rows) for i, check in enumerate(checks)}
    columns = panels(entries(rows))
    names = widest([*(row.name for row in rows), *(heading(row.module) for row in rows), "found"], 1.0) + 0.2
    head = widest(checks) + 0.3
    panel = names + COLUMN * len(checks) + 0.5
    steps = [COLUMN * 1.4 + text_width(state.word) + 0.5 for state in MARKS.values()]
    width = max(panel * len(columns), sum(steps) + text_width(PEERS)) + 2 * MARGIN
    page = Board(width, head + ROW * (max(map(len, columns)) + 3.6) + 2 * MARGIN)
    top = page.height - MARGIN - head
    for number, column in enumerate(columns):
        left = MARGIN + panel * number + names
        xs = [left + COLUMN * (i + 0.5) for i in range(len(checks))]
        for x, check in zip(xs, checks, strict=True):
            weight = {"style": "italic", "color": GREY} if check in theirs else {}
            page.write(x, top + 0.1, check, rotation=90, va="bottom", ha="center", **weight)
        for line, (name, marks) in enumerate(column):
            y = top - ROW * (line + 0.5)
            page.write(left - 0.15, y, name, ha="right", weight="normal" if marks else "bold")
            for x, mark in zip(xs, marks, strict=False):
                _draw_mark(page, x, y, MARKS[mark])
    bottom = top - ROW * (len(columns[-1]) + 0.9)
    page.write(left - 0.15, bottom, "found", ha="right", weight="bold")
    for x, check in zip(xs, checks, strict=True):
        page.write(x, bottom, str(found[check]), rotation=90, ha="center")
    x, y = MARGIN, MARGIN + ROW / 2
    for state, step in zip(MARKS.values(), steps, strict=True):
        _draw_mark(page, x + COLUMN * 0.5, y, state)
        page.write(x + COLUMN * 1.4, y, state.word)
        x += step
    page.write(x, y, PEERS, style="italic", color=GREY)
    ours = [i for i, check in enumerate(checks) if check not in theirs]
    survivors = [row.name for row in rows if all(row.marks[i] == "." for i in ours)]
    best = max(checks, key=lambda check: found[check])
    values: dict[str, Any] = {"bugs": len(rows), "found": len(rows) - len(survivors), "checks": len(checks)}
    values |= {"survivors": ", ".join(survivors) or "none", "best": best, "most": found[best]}
    case = "all" if found[best] == len(rows) else ""
    return worded("kill-matrix", page.figure, _twin(rows, checks), values, case)


def _draw_mark(page: Board, x: float, y: float, state: State) -> None:
    corner, size = (x - COLUMN * 0.46, y - ROW / 2 + 0.02), (COLUMN * 0.92, ROW - 0.04)
    page.tile(corner, size, state, edgecolor="#BBBBBB", linewidth=0.8)
    page.write(x, y, state.glyph, ha="center", color=state.ink)


def _twin(rows: Sequence[KillRow], checks: Sequence[str]) -> str:
    wide = max(len(row.name) for row in rows)
    numbers = " ".join(f"{number}={check}" for number, check in enumerate(checks, 1))
    twin = [f"{numbers}; {', '.join(f'{state.glyph} {state.word}' for state in MARKS.values())}"]
    twin += [f"{row.name.ljust(wide)} {''.join(MARKS[mark].glyph for mark in row.marks)}" for row in rows]
    return "\n".join(twin)
