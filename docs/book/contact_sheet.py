"""The contact sheet: all figures on one page, each under its name, at one scale.

`PYTHONPATH=docs python -m book.contact_sheet docs/figures.png` makes the page.
"""

from __future__ import annotations

import io
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from matplotlib.figure import Figure
from matplotlib.image import imread

from book.gallery import gallery
from minispec.io.files import CannotWrite, replaced
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
    left = top = GAP
    bottom = top
    for high, wide in sizes:
        if left > GAP and left + wide + GAP > width:
            left = GAP
            top = bottom + GAP
        corners.append((left, top))
        left += wide + GAP
        bottom = max(bottom, top + HEAD + high)
    return corners


def contact_sheet(pictures: Iterable[Picture], dpi: int = DPI, width: int = WIDTH) -> Figure:
    """Puts pictures on one page, which is so many pixels wide, or more if a picture is; one at least."""
    images = {picture.name: imread(io.BytesIO(picture.png(dpi))) for picture in pictures}
    shapes = [image.shape[:2] for image in images.values()]
    corners = lay_out(shapes, width)
    width = max(width, *(wide + 2 * GAP for _, wide in shapes))
    height = max(top + HEAD + high + GAP for (_, top), (high, _) in zip(corners, shapes, strict=True))
    page = Figure(figsize=(width / dpi, height / dpi), dpi=dpi, facecolor="#E8E8E8")
    for (name, image), (left, top) in zip(images.items(), corners, strict=True):
        page.figimage(image, left, height - top - HEAD - image.shape[0], origin="upper")
        page.text(left / width, 1 - (top + HEAD / 2) / height, name, fontsize=18, weight="bold", va="center")
    return page


def main(arguments: Sequence[str]) -> int:
    """Writes the page of all figures to the path that is given; returns an exit status."""
    if len(arguments) != 1:
        print("usage: PYTHONPATH=docs python -m book.contact_sheet FILE.png", file=sys.stderr)
        return 2
    look = {"format": "png", "metadata": {"Software": None}, "pil_kwargs": {"optimize": True}}
    try:
        with replaced(Path(arguments[0])) as waiting:
            contact_sheet(gallery()).savefig(waiting, **look)
    except CannotWrite as error:
        print(f"minispec: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
