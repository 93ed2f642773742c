"""Films the built playground, phase by phase, into docs/playground.gif, which the README shows.

make docs && python docs/refresh_playground.py
"""

import io
import shutil
from pathlib import Path
from urllib.parse import urlencode

from PIL import Image
from playwright.sync_api import sync_playwright

DOCS = Path(__file__).resolve().parent
PAGE = DOCS / "_build" / "html" / "playground" / "index.html"
PICTURE = DOCS / "playground.gif"
CHROMIUM = shutil.which("chromium")
STATE = {"k": 4, "seed": 5}  # a round with a rejection, and one that keeps all of its draft
SIZE = {"width": 820, "height": 1500}
FIRST, LAST = "#play-phases", "#play-caches"  # what is to be seen, from above to below
PHASES = 4  # of a round
ROUNDS = 2
SHOWN = 1800  # milliseconds of a phase
COLOURS = 128
MARGIN = 12  # pixels


def part(page):
    """Returns where on a page the parts to be seen lie."""
    first, last = (page.locator(name).bounding_box() for name in (FIRST, LAST))
    width = max(first["width"], last["width"]) + 2 * MARGIN
    height = last["y"] + last["height"] - first["y"] + 2 * MARGIN
    return {"x": first["x"] - MARGIN, "y": first["y"] - MARGIN, "width": width, "height": height}


def film(page):
    """Yields a picture of each phase; prefill, after which no distribution is known yet, is left out."""
    page.goto(f"{PAGE.as_uri()}#{urlencode(STATE)}")
    page.locator("#play:not([hidden])").wait_for()
    for _ in range(PHASES * ROUNDS):
        page.locator("#play-step").click()
        page.mouse.move(0, 0)
        yield Image.open(io.BytesIO(page.screenshot(clip=part(page), full_page=True)))


def write(frames):
    """Writes pictures as one that moves, all as high as the highest."""
    height = max(frame.height for frame in frames)
    even = [Image.new("RGB", (frame.width, height), "white") for frame in frames]
    for paper, frame in zip(even, frames, strict=True):
        paper.paste(frame, (0, 0))
    together = Image.new("RGB", (even[0].width, height * len(even)))
    for number, paper in enumerate(even):
        together.paste(paper, (0, number * height))
    palette = together.quantize(COLOURS)
    first, *others = [paper.quantize(palette=palette, dither=Image.Dither.NONE) for paper in even]
    first.save(PICTURE, save_all=True, append_images=others, duration=SHOWN, loop=0, optimize=True)


if __name__ == "__main__":
    with (
        sync_playwright() as playwright,
        playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"]) as browser,
    ):
        write([*film(browser.new_page(viewport=SIZE))])
    print(f"wrote {PICTURE}")
