"""The contact sheet: all figures on one page, each under its name, at one scale.

`python -m book.contact_sheet docs/figures.png` makes the page.
"""

from __future__ import annotations

import io
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from matplotlib.image import imread

from book.gallery import gallery
from minispec.show.plots.picture import Picture

DPI = 48  # text of 18 points comes out 12 pixels high
WIDTH = 2040  # pixels: four figures of 10 inches
GAP = 24
HEAD = 30  # for a name


@dataclass(frozen=True)
class Print:
    """A picture on the page.

    Attributes:
        name: of the picture.
        pixels: [height, width, 4], between 0 and 1.
        left: where it begins, in pixels from the left.
        top: where its name begins, in pixels from the top.
    """

    name: str
    pixels: np.ndarray
    left: int = 0
    top: int = 0

    @property
    def width(self) -> int:
        """In pixels."""
        return int(self.pixels.shape[1])

    @property
    def height(self) -> int:
        """In pixels, with the name."""
        return int(self.pixels.shape[0]) + HEAD


def lay_out(pictures: Sequence[tuple[str, np.ndarray]], width: int = WIDTH) -> list[Print]:
    """Places pictures from left to right on shelves, in their order.

    Args:
        pictures: names and pixels.
        width: of the page; a picture that is wider gets a shelf of its own.
    """
    placed: list[Print] = []
    left, top, deepest = GAP, GAP, 0
    for name, pixels in pictures:
        if left > GAP and left + pixels.shape[1] + GAP > width:
            left, top, deepest = GAP, top + deepest + GAP, 0
        placed.append(Print(name, pixels, left, top))
        left += placed[-1].width + GAP
        deepest = max(deepest, placed[-1].height)
    return placed


def contact_sheet(pictures: Iterable[Picture], dpi: int = DPI, width: int = WIDTH) -> Figure:
    """Puts pictures on one page.

    Args:
        pictures: in order.
        dpi: pixels per inch of each picture.
        width: of the page, in pixels; more if a picture is wider.

    Raises:
        ValueError: if there are no pictures.
    """
    prints = lay_out([(p.name, np.asarray(imread(io.BytesIO(p.png(dpi))))) for p in pictures], width)
    if not prints:
        raise ValueError("there are no pictures to put on a page")
    wide = max(width, *(p.left + p.width + GAP for p in prints))
    high = max(p.top + p.height for p in prints) + GAP
    page = Figure(figsize=(wide / dpi, high / dpi), dpi=dpi, facecolor="#E8E8E8")
    for p in prints:
        page.figimage(p.pixels, p.left, high - p.top - p.height, origin="upper")
        page.text(
            p.left / wide, 1 - (p.top + HEAD / 2) / high, p.name, fontsize=18, weight="bold", va="center"
        )
    return page


def write_contact_sheet(pictures: Iterable[Picture], path: Path) -> None:
    """Writes the page as a PNG, under a temporary name first."""
    page = contact_sheet(pictures)
    waiting = path.with_name(path.name + ".tmp")
    page.savefig(waiting, format="png", dpi=DPI, metadata={"Software": None}, pil_kwargs={"optimize": True})
    waiting.replace(path)


def main(arguments: Sequence[str]) -> int:
    """Writes the page of all figures to the path that is given; returns an exit status."""
    if len(arguments) != 1:
        print("usage: python -m book.contact_sheet FILE.png", file=sys.stderr)
        return 2
    try:
        write_contact_sheet(gallery(), Path(arguments[0]))
    except OSError as error:
        print(f"minispec: cannot write {arguments[0]}: {error.strerror}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
