"""The contact sheet: all figures on one page, each under its name, at one scale.

`PYTHONPATH=docs python -m book.contact_sheet docs/figures.png` makes the page.
"""

from __future__ import annotations

import io
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from matplotlib.image import imread

from book.gallery import gallery
from minispec.show.plots.style import Picture

DPI = 48  # text of 18 points comes out 12 pixels high
WIDTH = 2040  # pixels: four figures of 10 inches
GAP = 24
HEAD = 30  # for a name


def lay_out(sizes: Sequence[tuple[int, int]], width: int = WIDTH) -> list[tuple[int, int]]:
    """Puts pictures on shelves from left to right, in their order.

    Args:
        sizes: height and width of each picture, in pixels.
        width: of the page; a picture that is wider gets a shelf of its own.

    Returns:
        For each picture the left and the top edge of its name, in pixels; the picture stands below it.
    """
    corners = []
    left, top, deepest = GAP, GAP, 0
    for high, wide in sizes:
        if left > GAP and left + wide + GAP > width:
            left, top, deepest = GAP, top + deepest + GAP, 0
        corners.append((left, top))
        left += wide + GAP
        deepest = max(deepest, high + HEAD)
    return corners


def contact_sheet(pictures: Iterable[Picture], dpi: int = DPI, width: int = WIDTH) -> Figure:
    """Puts pictures on one page.

    Args:
        pictures: in order, one at least.
        dpi: pixels per inch of each picture.
        width: of the page, in pixels; more if a picture is wider.
    """
    images = {p.name: np.asarray(imread(io.BytesIO(p.png(dpi)))) for p in pictures}
    shapes = [image.shape[:2] for image in images.values()]
    corners = lay_out(shapes, width)
    wide = max(width, *(left + w + GAP for (left, _), (_, w) in zip(corners, shapes, strict=True)))
    high = max(top + HEAD + h for (_, top), (h, _) in zip(corners, shapes, strict=True)) + GAP
    page = Figure(figsize=(wide / dpi, high / dpi), dpi=dpi, facecolor="#E8E8E8")
    for (name, image), (left, top) in zip(images.items(), corners, strict=True):
        page.figimage(image, left, high - top - HEAD - image.shape[0], origin="upper")
        page.text(left / wide, 1 - (top + HEAD / 2) / high, name, fontsize=18, weight="bold", va="center")
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
        print("usage: PYTHONPATH=docs python -m book.contact_sheet FILE.png", file=sys.stderr)
        return 2
    try:
        write_contact_sheet(gallery(), Path(arguments[0]))
    except OSError as error:
        print(f"minispec: cannot write {arguments[0]}: {error.strerror}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
