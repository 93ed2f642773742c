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

from book.forms import P, Q, caches_form, empty_bars, mask_form, rules_form, verdict_form
from book.gallery import numbers_drawn
from minispec.io.recording import Recording
from minispec.io.walkthrough import load_walkthrough
from minispec.show.plots.caches import cache_grid
from minispec.show.plots.coloured import coloured_text
from minispec.show.plots.masks import attention_mask
from minispec.show.plots.overlap import overlap
from minispec.show.plots.style import Picture
from minispec.show.plots.timeline import timeline
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
    greedy = load_walkthrough("greedy")
    sampled = load_walkthrough("rejection")
    trace = greedy.trace
    words = greedy.words
    corrected, full = (
        next(r for r in trace.rounds if r.kind(0) == kind and r.accepted(0))
        for kind in ("correction", "bonus")
    )
    index = telling(sampled)
    r = sampled.trace.rounds[index]
    drawn = numbers_drawn(sampled, index)
    block = [words[token] for token in (int(corrected.pending[0]), *corrected.draft.tokens[0].tolist())]
    mask = attention_mask(corrected.target_cache.before[0], len(block) - 1, block)
    blank, solved = (
        (
            caches_form(greedy, corrected.index, filled),
            mask_form(3, 3, filled),
            rules_form(filled),
            verdict_form(r, sampled.words, drawn, filled),
        )
        for filled in (False, True)
    )
    bars = f"p = {P} sixths, q = {Q} sixths. Draw p and q, shade what they share, and draw the residual."
    shared = overlap([x / 6 for x in P], [x / 6 for x in Q], "abc")
    both = "Both caches in a round that ends in a"
    return [
        Handout("1  A run, round by round", (coloured_text(trace, words), timeline(trace, words))),
        Handout(f"2  {both} correction", (cache_grid(trace, words, corrected.index),)),
        Handout(f"3  {both} bonus", (cache_grid(trace, words, full.index),)),
        Handout("4  To fill in: both caches", blank[:1], True),
        Handout("5  The mask, and the shift", (mask, blank[1]), True),
        Handout("6  To fill in: four rules for three words", blank[2:3], True),
        Handout("7  A verdict", (verification_strip(r, sampled.words, drawn),)),
        Handout("8  To fill in: a verdict", blank[3:], True),
        Handout("9  What p and q share, and the residual", (shared, empty_bars(bars)), True),
        Handout("Answers to 4 and 5", solved[:2]),
        Handout("Answers to 6 and 8", solved[2:]),
    ]


def telling(recording: Recording) -> int:
    """Returns the round with most to work out: a correction, and as many numbers drawn as there are."""
    found = [r for r in recording.trace.rounds if r.kind(0) == "correction" and r.accepted(0)]

    def draws(index: int) -> int:
        drafted = recording.trace.rounds[index].drafted(0)
        return sum(recording.accept_draw(index, i) is not None for i in range(drafted))

    return max(found, key=lambda r: (draws(r.index), -r.index)).index


def sheet_of(handout: Handout) -> Figure:
    """Puts a handout on paper: its title, its pictures below each other, as wide as fits."""
    page = Figure(figsize=PAPER)
    wide, high = PAPER
    captions = [fill(picture.caption, LETTERS) for picture in handout.pictures]
    texts = sum(0.2 * (caption.count("\n") + 1) + 2 * GAP for caption in captions)
    shapes = [picture.figure.get_size_inches() for picture in handout.pictures]
    natural = [(wide - 2 * EDGE) / width * height for width, height in shapes]
    shrink = min(1.0, (high - 2 * EDGE - 0.5 - texts) / sum(natural))
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


def write_handouts(path: Path, pages: Sequence[Handout]) -> None:
    """Writes a PDF with a page per handout, under a temporary name first.

    Raises:
        OSError: if it cannot be written; what was there before is unchanged.
    """
    with tempfile.TemporaryDirectory(dir=path.parent) as folder:
        waiting = Path(folder) / path.name
        # No date: the same figures give the same file.
        about = {"Title": "Handouts: speculative decoding", "Creator": "minispec", "CreationDate": None}
        with PdfPages(waiting, metadata=about) as pdf:
            for handout in pages:
                pdf.savefig(sheet_of(handout), dpi=INK)
        waiting.replace(path)


def main(arguments: Sequence[str]) -> int:
    """Writes all handouts to the path that is given; returns an exit status."""
    if len(arguments) != 1 or not arguments[0].endswith(".pdf"):
        print("usage: python -m book.handouts FILE.pdf", file=sys.stderr)
        return 2
    try:
        write_handouts(Path(arguments[0]), handouts())
    except OSError as error:
        print(f"minispec: cannot write {arguments[0]}: {error.strerror or error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
