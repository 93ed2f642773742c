"""The contact sheet: all figures on one page, each under its name, at one scale.

`cd docs && python -m book figures figures.png` makes the page.
"""

from __future__ import annotations

import io
from collections.abc import Iterable
from pathlib import Path

from PIL import Image, ImageDraw

from minispec.io.files import replaced
from minispec.show.plots.style import Picture

DPI = 48  # text of 18 points comes out 12 pixels high
WIDTH = 2040  # pixels: four figures of 10 inches
GAP = 24
HEAD = 30  # for a name


def contact_sheet(pictures: Iterable[Picture], path: Path, width: int = WIDTH) -> None:
    """Puts pictures on shelves from left to right, and writes the page.

    Args:
        pictures: in their order; one that is wider than the page makes it wider.
        path: of a PNG file.
        width: of the page, in pixels.

    Raises:
        ValueError: if the file cannot be written.
    """
    images = {picture.name: Image.open(io.BytesIO(picture.png(DPI))) for picture in pictures}
    width = max(width, *(image.width + 2 * GAP for image in images.values()))
    corners = []
    left = top = bottom = GAP
    for image in images.values():
        if left > GAP and left + image.width + GAP > width:
            left = GAP
            top = bottom + GAP
        corners.append((left, top))
        left += image.width + GAP
        bottom = max(bottom, top + HEAD + image.height)
    page = Image.new("RGB", (width, bottom + GAP), "#E8E8E8")
    for (name, image), (left, top) in zip(images.items(), corners, strict=True):
        ImageDraw.Draw(page).text((left, top), name, fill="black", font_size=18)
        page.paste(image, (left, top + HEAD))
    with replaced(path) as waiting:
        page.save(waiting, format="png", optimize=True)
