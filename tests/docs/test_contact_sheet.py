"""The contact sheet: every picture is on the page, whole, at one scale, under its name."""

import io
from itertools import combinations

import numpy as np
import pytest
from book import contact_sheet as sheets
from book.contact_sheet import GAP, HEAD, contact_sheet, lay_out, main
from matplotlib.image import imread

from minispec.show.plots.style import Picture, sheet


def picture(name, width=4, height=2, colour="red"):
    figure = sheet(width, height)
    figure.set_facecolor(colour)
    return Picture(name, figure, "alt", "caption", "twin")


@pytest.mark.parametrize("width", [300, 1000, 2000])
def test_pictures_do_not_cover_each_other(width):
    """No two prints overlap, whatever their sizes; all are inside, but one that is wider than the page."""
    sizes = [(50, 200), (120, 400), (80, 90), (60, 950), (70, 210), (90, 210)]
    prints = []
    for (left, top), (high, wide) in zip(lay_out(sizes, width), sizes, strict=True):
        prints.append((left, top, left + wide, top + HEAD + high))
        assert left + wide + GAP <= width or left == GAP
    for a, b in combinations(prints, 2):
        assert a[2] <= b[0] or b[2] <= a[0] or a[3] <= b[1] or b[3] <= a[1]


def test_pixels_arrive_unchanged():
    """On the page stands the picture's own image, pixel by pixel."""
    one, two = picture("one"), picture("two", 3, 3, "blue")
    file = io.BytesIO()
    contact_sheet([one, two], dpi=50, width=600).savefig(file, format="png", dpi=50)
    pixels = imread(io.BytesIO(file.getvalue()))
    for left, shown in ((GAP, one), (GAP + 200 + GAP, two)):
        image = imread(io.BytesIO(shown.png(50)))
        high, wide = image.shape[:2]
        found = pixels[GAP + HEAD : GAP + HEAD + high, left : left + wide]
        assert np.abs(found[..., :3] - image[..., :3]).max() < 0.01


def test_file_is_written_whole(tmp_path, monkeypatch, capsys):
    """The command writes one PNG and nothing else; bad paths are one line."""
    monkeypatch.setattr(sheets, "gallery", lambda: iter([picture("one")]))
    assert main([str(tmp_path / "page.png")]) == 0
    assert (tmp_path / "page.png").read_bytes().startswith(b"\x89PNG")
    assert [path.name for path in tmp_path.iterdir()] == ["page.png"]
    assert main([str(tmp_path / "none" / "page.png")]) == 2 and main([]) == 2
    error, usage = capsys.readouterr().err.splitlines()
    assert "cannot write" in error and usage.startswith("usage")
