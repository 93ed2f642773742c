"""The contact sheet: every picture is on the page, whole, at one scale, under its name."""

import io
from itertools import combinations

import numpy as np
import pytest
from book import __main__ as commands
from book.contact_sheet import DPI, GAP, contact_sheet
from PIL import Image

from minispec.show.plots.style import Picture, sheet


def picture(name, width=4, height=2, colour="red"):
    figure = sheet(width, height)
    figure.set_facecolor(colour)
    return Picture(name, figure, "alt", "caption", "twin")


@pytest.mark.parametrize("width", [200, 500, 2000])
def test_pictures_do_not_cover_each_other(width, tmp_path):
    """Each stands on the page, pixel by pixel, whatever the sizes; a wider one makes the page wider."""
    colours = {"red": (4, 2), "green": (2, 4), "blue": (8, 1), "yellow": (3, 3), "cyan": (1, 1)}
    pictures = [picture(colour, *size, colour) for colour, size in colours.items()]
    contact_sheet(pictures, tmp_path / "page.png", width)
    page = np.array(Image.open(tmp_path / "page.png"))
    areas = []
    for one in pictures:
        image = np.array(Image.open(io.BytesIO(one.png(DPI))).convert("RGB"))
        ys, xs = np.nonzero((page == image[0, 0]).all(-1))
        area = page[ys.min() : ys.max() + 1, xs.min() : xs.max() + 1]
        assert np.array_equal(area, image)
        areas.append((xs.min(), ys.min(), xs.max(), ys.max()))
    for a, b in combinations(areas, 2):
        assert a[2] < b[0] or b[2] < a[0] or a[3] < b[1] or b[3] < a[1]
    assert max(area[2] for area in areas) + GAP <= page.shape[1] == max(width, 8 * DPI + 2 * GAP)


def test_file_is_written_whole(tmp_path, monkeypatch, capsys):
    """The command writes one PNG and nothing else; bad paths are one line."""
    monkeypatch.setattr(commands, "gallery", lambda: [picture("one")])
    for path, status in ((tmp_path / "page.png", 0), (tmp_path / "none" / "page.png", 2)):
        with pytest.raises(SystemExit) as ended:
            commands.main(["figures", str(path)])
        assert ended.value.code == status
    assert (tmp_path / "page.png").read_bytes().startswith(b"\x89PNG")
    assert [path.name for path in tmp_path.iterdir()] == ["page.png"]
    error = capsys.readouterr().err
    assert "cannot write" in error and error.count("\n") == 1
