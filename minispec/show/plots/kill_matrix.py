"""The kill matrix: every known bug against every check."""

from collections.abc import Sequence
from typing import Any

from minispec.evidence.bench.measurements import KillRow
from minispec.show.plots.board import GREY, MARGIN, Board, text_width, widest, worded
from minispec.show.plots.style import Picture, aligned
from minispec.show.signs import State

ROW = 0.36  # inches
COLUMN = 0.4  # wide enough for two digits
TILE = (COLUMN * 0.92, ROW - 0.04)
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
        heading = f"in {row.module}" + ".py" * ("." not in row.module)  # in C++ it is the whole name
        modules.setdefault(heading, [(heading, "")]).append((row.name, row.marks))
    return [line for lines in modules.values() for line in lines]


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
    names = widest([*(name for column in columns for name, _ in column), "found"], 1.0) + 0.2
    panel = names + COLUMN * len(checks) + 0.5
    page = Board(max(panel * len(columns), text_width(PEERS) + 7.0) + 2 * MARGIN)
    head, bottom = -MARGIN - widest(checks) - 0.3, 0.0
    for number, column in enumerate(columns):
        left = MARGIN + panel * number + names
        xs = [left + COLUMN * (i + 0.5) for i in range(len(checks))]
        for x, check in zip(xs, checks, strict=True):
            weight = {"style": "italic", "color": GREY} if check in theirs else {}
            page.write(x, head + 0.1, check, rotation=90, va="bottom", ha="center", **weight)
        for line, (name, marks) in enumerate(column):
            y = head - ROW * (line + 0.5)
            page.write(left - 0.15, y, name, ha="right", weight="normal" if marks else "bold")
            for x, mark in zip(xs, marks, strict=False):
                look = MARKS[mark]
                page.tile((x - TILE[0] / 2, y - TILE[1] / 2), TILE, look, look.glyph, edgecolor="#BBBBBB")
        bottom = min(bottom, y)
    y -= 1.4 * ROW
    page.write(left - 0.15, y, "found", ha="right", weight="bold")
    for x, check in zip(xs, checks, strict=True):
        page.write(x, y, str(found[check]), rotation=90, ha="center")
    bottom = min(bottom, y) - 0.3
    page.write(page.width - MARGIN, bottom - 0.29, PEERS, ha="right", style="italic", color=GREY)
    ours = [i for i, check in enumerate(checks) if check not in theirs]
    survivors = [row.name for row in rows if all(row.marks[i] == "." for i in ours)]
    best = max(checks, key=lambda check: found[check])
    values: dict[str, Any] = {"bugs": len(rows), "found": len(rows) - len(survivors), "checks": len(checks)}
    values |= {"survivors": ", ".join(survivors) or "none", "best": best, "most": found[best]}
    figure, case = page.end(bottom, [*MARKS.values()]), "all" if found[best] == len(rows) else ""
    return worded("kill-matrix", figure, _twin(rows, checks), case, **values)


def _twin(rows: Sequence[KillRow], checks: Sequence[str]) -> str:
    numbers = " ".join(f"{number}={check}" for number, check in enumerate(checks, 1))
    lines = [[row.name, "".join(MARKS[mark].glyph for mark in row.marks)] for row in rows]
    return f"{numbers}; {', '.join(f'{m.glyph} {m.word}' for m in MARKS.values())}\n{aligned(lines)}"
