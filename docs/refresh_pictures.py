"""Draws one round, and prefill, of the recorded run: as SVG and PNG, for light and for dark pages.

python docs/refresh_pictures.py
"""

from pathlib import Path

from minispec.io.walkthrough import load_walkthrough
from minispec.show.plots.pictures import draw_prefill, draw_round

DOCS = Path(__file__).resolve().parent


def pictures():
    """Returns every picture by the name of its files without ending."""
    recording = load_walkthrough("greedy")
    return {
        "round": draw_round(recording),
        "round-dark": draw_round(recording, dark=True),
        "prefill": draw_prefill(recording),
        "prefill-dark": draw_prefill(recording, dark=True),
    }


if __name__ == "__main__":
    for name, picture in pictures().items():
        (DOCS / f"{name}.svg").write_bytes(picture.svg())
        (DOCS / f"{name}.png").write_bytes(picture.png(dpi=120))
        print(f"wrote {name}.svg and {name}.png; in words: {picture.alt}")
