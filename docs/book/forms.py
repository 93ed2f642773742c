"""Forms: tables to be filled in by hand, and the same tables filled in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from minispec.show.plots.board import GREY, board, tile, widest, write
from minispec.show.plots.picture import Picture
from minispec.show.plots.style import DRAFTER, STATES, TARGET, TEXT, State, sheet

MARGIN = 0.2  # inches, around the form
HIGH = 0.56  # of a line: room for handwriting
BOX = State("#FFFFFF", "", word="to be filled in")
GIVEN = STATES["prompt"]
Entry = str | None  # a text; "" is a box to write in; None is no box at all


@dataclass(frozen=True)
class Line:
    """A line of a form.

    Attributes:
        label: what stands left of it.
        entries: one per column.
        given: whether what stands there is given, and so grey; else it is an answer.
        head: whether it is a heading: bold, without boxes.
    """

    label: str
    entries: tuple[Entry, ...] = ()
    given: bool = False
    head: bool = False


def form(name: str, lines: Sequence[Line], task: str, column: float = 0.0) -> Picture:
    """Draws a form.

    Args:
        name: of the picture.
        lines: from the top down.
        task: what to do; it is the caption, and the beginning of the alternative text.
        column: the least width of a column, in inches.

    Raises:
        ValueError: if there are no lines.
    """
    if not lines:
        raise ValueError("a form needs at least one line")
    texts = [entry for line in lines for entry in line.entries if entry]
    wide = max(column, widest(texts) + 0.24, 0.6)
    start = MARGIN + widest(line.label for line in lines if not line.head) + 0.2
    columns = max(len(line.entries) for line in lines)
    right = start + wide * columns
    ahead = MARGIN + widest(line.label for line in lines if line.head) * 1.12
    figure, axes = board(max(right + MARGIN, ahead + MARGIN), HIGH * len(lines) + 2 * MARGIN)
    for place, line in enumerate(lines):
        y = MARGIN + HIGH * (len(lines) - 1 - place)
        if line.head:
            write(axes, MARGIN, y + 0.2, line.label, weight="bold")
        else:
            write(axes, start - 0.2, y + HIGH / 2, line.label, ha="right")
        for number, entry in enumerate(line.entries):
            corner, size = (start + wide * number, y), (wide, HIGH)
            if line.head and entry:
                write(axes, corner[0] + wide / 2, y + 0.2, entry, ha="center", weight="bold")
            elif entry is not None and not line.head:
                tile(axes, corner, size, GIVEN if line.given else BOX, entry, edgecolor=GREY)
    return Picture(name, figure, f"{task} {twin_of(lines)}".replace("\n", "; "), task, twin_of(lines))


def twin_of(lines: Sequence[Line]) -> str:
    """Returns the form in characters; an underscore is a box to write in."""
    return "\n".join(
        f"{line.label}: " + " | ".join("_" if e == "" else e or "" for e in line.entries)
        if line.entries
        else line.label
        for line in lines
    )


def empty_bars(labels: Sequence[str], whole: int, task: str) -> Picture:
    """Draws axes for the bars of two laws and of the residual, with a line for each part of the whole.

    Args:
        labels: the tokens.
        whole: how many parts 1 has, such as 6.
        task: what to do.

    Raises:
        ValueError: if there are no labels, or the whole has no parts.
    """
    if not labels or whole < 1:
        raise ValueError("bars need labels, and a whole of at least one part")
    figure = sheet(13, 5.2)
    looks = ((TARGET, "p, q and what they share"), (DRAFTER, "the residual"))
    for axes, (_, title) in zip(figure.subplots(1, 2), looks, strict=True):
        axes.set_xlim(-0.5, len(labels) - 0.5)
        axes.set_ylim(0, 1)
        axes.set_xticks(range(len(labels)), labels, fontsize=TEXT)
        ticks = [part / whole for part in range(whole + 1)]
        axes.set_yticks(ticks, [f"{part}/{whole}" for part in range(whole + 1)], fontsize=TEXT)
        axes.grid(axis="y", color="#B3B3B3", linewidth=0.8)
        for place in range(len(labels) - 1):
            axes.axvline(place + 0.5, color="#B3B3B3", linewidth=0.8, linestyle=":")
        axes.set_title(title, fontsize=TEXT, loc="left")
    names = ", ".join(labels)
    return Picture(
        "bars", figure, f"{task} Two empty charts over {names}.", task, f"two empty charts over {names}"
    )
