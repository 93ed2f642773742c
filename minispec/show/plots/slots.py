"""Which prompt each row of a batch decodes, round by round, and which slots of the rounds do nothing."""

from collections.abc import Mapping, Sequence
from itertools import chain, groupby

from matplotlib import colormaps
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

from minispec.show.plots.board import MARGIN, Board, text_width, titled
from minispec.show.plots.style import Picture, aligned
from minispec.show.signs import State

Slots = Sequence[Sequence[int | None]]
LANE, SIDE = 0.5, 0.42  # inches: a row's height, a round's width for two digits
IDLE, NOTHING = State("#FFFFFF", "", hatch="///", word="a slot that does nothing"), "-"


def row_slots(runs: Mapping[str, Slots]) -> Picture:
    """Draws rows over rounds, run under run at one scale: a tile for each prompt that a row decodes.

    Of each run, by name, such as `with refill`: for each round, and in it for each row, which prompt it
    decodes; None if it does nothing.

    Raises:
        ValueError: if there is no round, or no row.
    """
    if not runs or not all(slots and slots[0] for slots in runs.values()):
        raise ValueError("give at least one run, and at least one round with one row for each")
    shares, counts, twin = [], [], [["", "", f"which prompt, round by round; {NOTHING} is {IDLE.word}"]]
    for run, slots in runs.items():
        live, places = sum(name is not None for name in chain(*slots)), len(slots) * len(slots[0])
        shares.append(f"{live / places:.0%} {run}")
        counts.append(f"{live} of {places} in {len(slots)} rounds {run}")
        for row, names in enumerate(zip(*slots, strict=True)):
            cells = " ".join(NOTHING if name is None else str(name) for name in names)
            twin.append([run, f"row {row}", cells])
    title, said = f"Slots that decode: {', '.join(shares)}", ", ".join(counts)
    alt = f"Rows over rounds, with a tile for each prompt that a row decodes: {said}."
    return titled("row-slots", _draw(runs), title, alt, f"Slots that decode: {said}.", aligned(twin))


def _draw(runs: Mapping[str, Slots]) -> Figure:
    most = max((name or 0 for name in chain(*chain(*runs.values()))), default=0)
    shades = colormaps["cividis"].resampled(2 * most + 2)  # its light half, under black text
    left, y = MARGIN + text_width("row 99") + 0.15, 0.0
    page = Board(max(left + SIDE * max(map(len, runs.values())) + MARGIN, 9.0))
    for run, slots in runs.items():
        page.write(MARGIN, y - 0.3, f"{run}: {len(slots)} rounds", weight="bold")
        y -= 0.6
        for row, names in enumerate(zip(*slots, strict=True)):
            y -= LANE
            page.write(left - 0.15, y + LANE / 2, f"row {row}", ha="right")
            for name, rounds in groupby(range(len(names)), key=names.__getitem__):
                start, *more = rounds
                corner, size = (left + SIDE * start, y + 0.03), (SIDE * (1 + len(more)), LANE - 0.06)
                prompt = IDLE if name is None else State(to_hex(shades(most + 1 + name)))
                page.tile(corner, size, prompt, "" if name is None else str(name))
        y -= 0.3
    return page.end(y + 0.1, [IDLE])
