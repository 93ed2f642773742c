"""Handouts: the main figures on paper, and forms to fill in by hand.

`cd docs && python -m book handouts FILE.pdf` writes them, one page each; the answers come last.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Sequence
from pathlib import Path
from textwrap import fill
from typing import NamedTuple

from matplotlib.backends.backend_pdf import PdfPages
from matplotlib.figure import Figure
from matplotlib.image import imread

from book.forms import P, Q, caches_form, empty_bars, mask_form, rules_form, verdict_form
from minispec.io.files import replace_file
from minispec.io.recording import Recording
from minispec.io.walkthrough import load_walkthrough
from minispec.show.plots.caches import cache_grid
from minispec.show.plots.coloured import coloured_text
from minispec.show.plots.masks import attention_mask
from minispec.show.plots.overlap import overlap
from minispec.show.plots.style import Picture
from minispec.show.plots.timeline import timeline
from minispec.show.plots.verification import verification_strip

WIDTH = 8.27  # inches: A4, upright
HEIGHT = 11.69
EDGE = 0.6  # around a page
GAP = 0.2  # below a caption, and below a picture
LINE = 0.2  # of a caption
INK = 170  # dots per inch of the drawings
LETTERS = 96  # characters of a line of text


class Handout(NamedTuple):
    """A page."""

    title: str  #: at its head
    pictures: Sequence[Picture]  #: from the top down, each below its caption


def numbers_drawn(recording: Recording, index: int) -> list[float | None]:
    """Returns the number that each test of a round drew, None where it drew none."""
    draws = [recording.accept_draw(index, i) for i in range(recording.trace.rounds[index].drafted(0))]
    return [draw.number if draw else None for draw in draws]


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
        Handout(f"2  {both} correction", [cache_grid(trace, words, corrected.index)]),
        Handout(f"3  {both} bonus", [cache_grid(trace, words, full.index)]),
        Handout("4  To fill in: both caches", blank[:1]),
        Handout("5  The mask, and the shift", (mask, blank[1])),
        Handout("6  To fill in: four rules for three words", blank[2:3]),
        Handout("7  A verdict", [verification_strip(r, sampled.words, drawn)]),
        Handout("8  To fill in: a verdict", blank[3:]),
        Handout("9  What p and q share, and the residual", (shared, empty_bars(bars))),
        Handout("Answers to 4 and 5", solved[:2]),
        Handout("Answers to 6 and 8", solved[2:]),
    ]


def telling(recording: Recording) -> int:
    """Returns the round with most to work out: a correction, and as many numbers drawn as there are."""

    def draws(index: int) -> int:
        return sum(number is not None for number in numbers_drawn(recording, index))

    rounds = recording.trace.rounds
    return max((r.index for r in rounds if r.kind(0) == "correction" and r.accepted(0)), key=draws)


def sheet_of(handout: Handout) -> Figure:
    """Puts a handout on paper: its title, its pictures below each other, as wide as fits."""
    page = Figure(figsize=(WIDTH, HEIGHT))
    captions = [fill(picture.caption, LETTERS) for picture in handout.pictures]
    texts = [LINE * (caption.count("\n") + 1) + GAP for caption in captions]
    sizes = [picture.figure.get_size_inches() for picture in handout.pictures]
    top = HEIGHT - EDGE
    page.text(EDGE / WIDTH, top / HEIGHT, handout.title, fontsize=16, weight="bold", va="top")
    top -= 0.5
    room = top - EDGE - sum(texts) - GAP * len(sizes)
    scale = min(1.0, room / sum((WIDTH - 2 * EDGE) / width * height for width, height in sizes))
    wide = (WIDTH - 2 * EDGE) * scale
    for picture, caption, text, (width, height) in zip(handout.pictures, captions, texts, sizes, strict=True):
        page.text(EDGE / WIDTH, top / HEIGHT, caption, fontsize=10, va="top", linespacing=1.35)
        high = wide / width * height
        top -= text + high
        axes = page.add_axes((EDGE / WIDTH, top / HEIGHT, wide / WIDTH, high / HEIGHT))
        axes.set_axis_off()
        axes.imshow(imread(io.BytesIO(picture.png(INK))), aspect="auto", interpolation="antialiased")
        top -= GAP
    return page


def write_handouts(path: Path, sheets: Iterable[Figure]) -> None:
    """Writes a PDF with a page per sheet, whole or not at all; ValueError if it cannot be written."""
    # No date: the same figures give the same file.
    about = {"Title": "Handouts: speculative decoding", "Creator": "minispec", "CreationDate": None}
    with replace_file(path) as waiting, PdfPages(waiting, metadata=about) as pdf:
        for sheet in sheets:
            pdf.savefig(sheet, dpi=INK)
