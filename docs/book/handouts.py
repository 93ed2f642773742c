"""Handouts: the main figures on paper, and forms to fill in by hand.

`python -m book.handouts FILE.pdf` writes them, one page each; the answers come last.
"""

from __future__ import annotations

import io
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from textwrap import fill

from matplotlib.backends.backend_pdf import PdfPages
from matplotlib.figure import Figure
from matplotlib.image import imread

from book.forms import empty_bars
from book.handout_forms import P, Q, caches_form, mask_form, rules_form, verdict_form
from minispec.core.records import Round
from minispec.io.recording import Recording
from minispec.io.walkthrough import load_walkthrough
from minispec.show.plots.cache_grid import cache_grid
from minispec.show.plots.coloured import coloured_text
from minispec.show.plots.mask import attention_mask
from minispec.show.plots.overlap import overlap
from minispec.show.plots.picture import Picture
from minispec.show.plots.timeline_figure import timeline
from minispec.show.plots.verification import verification_strip

PAPER = (8.27, 11.69)  # inches: A4, upright
EDGE, GAP = 0.6, 0.22  # inches
INK = 170  # dots per inch of the drawings
LETTERS = 96  # characters of a line of text


@dataclass(frozen=True)
class Handout:
    """A page.

    Attributes:
        title: at its head.
        pictures: from the top down, each below its caption.
        blank: whether there is something to fill in.
    """

    title: str
    pictures: tuple[Picture, ...]
    blank: bool = False


def handouts() -> list[Handout]:
    """Returns all pages, from the recorded walkthroughs; no model is loaded."""
    greedy, sampled = load_walkthrough("greedy"), load_walkthrough("rejection")
    index = first_of_kind(greedy, "correction")
    full = first_of_kind(greedy, "bonus")
    r = sampled.trace.rounds[telling(sampled)]
    drawn = [draw.number if (draw := sampled.accept_draw(r.index, i)) else None for i in range(r.drafted(0))]
    words = greedy.words
    block = [words[token] for token in (int(greedy.trace.rounds[index].pending[0]), *drafted(greedy, index))]
    cached = greedy.trace.rounds[index].target_cache.before[0]
    bars = empty_bars(
        "abc",
        6,
        f"p = {P} sixths, q = {Q} sixths. Draw both laws, shade what they share, and draw the residual.",
    )
    p, q = tuple(x / 6 for x in P), tuple(x / 6 for x in Q)
    return [
        Handout(
            "1  A run, round by round", (coloured_text(greedy.trace, words), timeline(greedy.trace, words))
        ),
        Handout(
            "2  Both caches in a round that ends in a correction", (cache_grid(greedy.trace, words, index),)
        ),
        Handout("3  Both caches in a round that ends in a bonus", (cache_grid(greedy.trace, words, full),)),
        Handout("4  To fill in: both caches", (caches_form(greedy, index, False),), True),
        Handout(
            "5  The mask, and the shift",
            (attention_mask(cached, len(block) - 1, block), mask_form(3, 3, False)),
            True,
        ),
        Handout("6  To fill in: four rules for three words", (rules_form(False),), True),
        Handout("7  A verdict", (verification_strip(r, sampled.words, drawn=drawn),)),
        Handout("8  To fill in: a verdict", (verdict_form(r, sampled.words, drawn, False),), True),
        Handout("9  What p and q share, and the residual", (overlap(p, q, "abc"), bars), True),
        Handout("Answers to 4 and 5", (caches_form(greedy, index, True), mask_form(3, 3, True))),
        Handout("Answers to 6 and 8", (rules_form(True), verdict_form(r, sampled.words, drawn, True))),
    ]


def first_of_kind(recording: Recording, kind: str) -> int:
    """Returns the first round that keeps something of its draft and ends in a correction, or in a bonus."""
    return next(r.index for r in recording.trace.rounds if r.kind(0) == kind and r.accepted(0))


def telling(recording: Recording) -> int:
    """Returns the round with most to work out: a correction, and as many numbers drawn as there are."""
    found = [r for r in recording.trace.rounds if r.kind(0) == "correction" and r.accepted(0)]
    return max(found, key=lambda r: (draws(recording, r), -r.index)).index


def draws(recording: Recording, r: Round) -> int:
    """Returns how many numbers the tests of a round have drawn."""
    return sum(recording.accept_draw(r.index, place) is not None for place in range(r.drafted(0)))


def drafted(recording: Recording, index: int) -> list[int]:
    """Returns the ids that a round has drafted."""
    r = recording.trace.rounds[index]
    return r.draft.tokens[0, : r.drafted(0)].tolist()


def sheet_of(handout: Handout) -> Figure:
    """Puts a handout on paper: its title, its pictures below each other, as wide as fits."""
    page = Figure(figsize=PAPER)
    wide, high = PAPER
    room = high - 2 * EDGE - 0.5
    captions = [fill(picture.caption, LETTERS) for picture in handout.pictures]
    texts = sum(0.2 * (caption.count("\n") + 1) + 2 * GAP for caption in captions)
    shapes = [picture.figure.get_size_inches() for picture in handout.pictures]
    natural = [(wide - 2 * EDGE) / width * height for width, height in shapes]
    shrink = min(1.0, (room - texts) / sum(natural))
    page.text(EDGE / wide, 1 - EDGE / high, handout.title, fontsize=16, weight="bold", va="top")
    top = high - EDGE - 0.5
    for picture, caption, tall in zip(handout.pictures, captions, natural, strict=True):
        page.text(EDGE / wide, top / high, caption, fontsize=10, va="top", linespacing=1.35)
        top -= 0.2 * (caption.count("\n") + 1) + GAP / 2
        height, width = tall * shrink, (wide - 2 * EDGE) * shrink
        axes = page.add_axes((EDGE / wide, (top - height) / high, width / wide, height / high))
        axes.set_axis_off()
        axes.imshow(imread(io.BytesIO(picture.png(INK))), aspect="auto", interpolation="antialiased")
        top -= height + 1.5 * GAP
    return page


def write_handouts(path: Path, pages: Sequence[Handout] | None = None) -> None:
    """Writes a PDF with a page per handout, under a temporary name first.

    Args:
        path: of the file.
        pages: by default all.

    Raises:
        OSError: if it cannot be written; what was there before is unchanged.
    """
    with tempfile.TemporaryDirectory(dir=path.parent) as folder:
        waiting = Path(folder) / path.name
        # No date: the same figures give the same file.
        about = {"Title": "Handouts: speculative decoding", "Creator": "minispec", "CreationDate": None}
        with PdfPages(waiting, metadata=about) as pdf:
            for handout in pages if pages is not None else handouts():
                pdf.savefig(sheet_of(handout), dpi=INK)
        waiting.replace(path)


def main(arguments: Sequence[str]) -> int:
    """Writes all handouts to the path that is given; returns an exit status."""
    if len(arguments) != 1 or not arguments[0].endswith(".pdf"):
        print("usage: python -m book.handouts FILE.pdf", file=sys.stderr)
        return 2
    try:
        write_handouts(Path(arguments[0]))
    except OSError as error:
        print(f"minispec: cannot write {arguments[0]}: {error.strerror or error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
