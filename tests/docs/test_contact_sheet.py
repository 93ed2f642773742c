"""The contact sheet: every picture is on the page, whole, at one scale, under its name."""

import io
from itertools import combinations

import numpy as np
import pytest
from book import contact_sheet as sheets
from book.contact_sheet import GAP, HEAD, contact_sheet, lay_out, main, write_contact_sheet
from book.layout import drawn_texts
from matplotlib.image import imread

from minispec.show.plots.style import Picture, sheet


def picture(name, width=4, height=2, colour="red"):
    figure = sheet(width, height)
    figure.set_facecolor(colour)
    figure.text(0.5, 0.5, name, fontsize=18)
    return Picture(name, figure, "alt", "caption", "twin")


@pytest.mark.parametrize("width", [300, 1000, 2000])
def test_pictures_do_not_cover_each_other(width):
    """No two prints overlap, whatever their sizes; all are inside, but one that is wider than the page."""
    sizes = [(50, 200), (120, 400), (80, 90), (60, 950), (70, 210), (90, 210)]
    prints = [
        (x, y, x + wide, y + HEAD + high)
        for (x, y), (high, wide) in zip(lay_out(sizes, width), sizes, strict=True)
    ]
    assert len(prints) == len(sizes)
    for a, b in combinations(prints, 2):
        assert a[2] <= b[0] or b[2] <= a[0] or a[3] <= b[1] or b[3] <= a[1]
    assert all(p[2] + GAP <= width for p in prints if p[2] - p[0] + 2 * GAP <= width)


def test_pixels_arrive_unchanged():
    """On the page stands the picture's own image, pixel by pixel, with its name above."""
    one, two = picture("one"), picture("two", 3, 3, "blue")
    page = contact_sheet([one, two], dpi=50, width=600)
    file = io.BytesIO()
    page.savefig(file, format="png", dpi=50)
    pixels = imread(io.BytesIO(file.getvalue()))
    top = GAP + HEAD
    for left, shown in ((GAP, one), (GAP + 200 + GAP, two)):
        image = imread(io.BytesIO(shown.png(50)))
        found = pixels[top : top + image.shape[0], left : left + image.shape[1]]
        assert np.abs(found[..., :3] - image[..., :3]).max() < 0.01
    assert [line.text for line in drawn_texts(page)] == ["one", "two"]


def test_file_is_written_whole(tmp_path, monkeypatch, capsys):
    """The command writes one PNG and nothing else, the same bytes each time; bad paths are one line."""
    monkeypatch.setattr(sheets, "gallery", lambda: iter([picture("one")]))
    assert main([str(tmp_path / "page.png")]) == 0
    first = (tmp_path / "page.png").read_bytes()
    assert first.startswith(b"\x89PNG") and [path.name for path in tmp_path.iterdir()] == ["page.png"]
    write_contact_sheet([picture("one")], tmp_path / "page.png")
    assert (tmp_path / "page.png").read_bytes() == first
    assert main([str(tmp_path / "none" / "page.png")]) == 2 and main([]) == 2
    said = capsys.readouterr().err.splitlines()
    assert len(said) == 2 and said[0].startswith("minispec: cannot write") and said[1].startswith("usage")
