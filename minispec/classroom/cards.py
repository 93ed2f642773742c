"""Cards: what a notebook answers a student with.

A card has a glyph and a word for its kind, so that colour never speaks alone, and brings its own background
and ink, so that it reads the same in light and dark themes. Its text twin says the same in characters.
"""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from minispec.classroom.drawing import Drawing

Kind = Literal["right", "wrong", "blank", "ask", "hint", "goal"]


@dataclass(frozen=True)
class Face:
    """How one kind of card looks: its glyph, its word, the colour of its edge and of its heading."""

    glyph: str
    word: str
    edge: str
    ink: str


# Edges are Okabe and Ito's colours; headings are darker ones of the same hue, readable on white.
FACES: Mapping[Kind, Face] = {
    "right": Face("✓", "Right", "#009E73", "#00563F"),
    "wrong": Face("✗", "Not yet", "#D55E00", "#8A3D00"),
    "blank": Face("…", "Still blank", "#767676", "#3B3B3B"),
    "ask": Face("?", "Predict", "#0072B2", "#004F7C"),
    "hint": Face("☞", "Hint", "#E69F00", "#6B4A00"),
    "goal": Face("◎", "Goal", "#56B4E9", "#004F7C"),
}


@dataclass(frozen=True)
class Card:
    """An answer to a student.

    Attributes:
        kind: what sort of answer.
        title: of the question or the exercise.
        paragraphs: in plain words.
        choices: what may be chosen, by letter.
        detail: lines in a fixed-width font, such as a counterexample.
        drawing: a picture made of cells, or None.
    """

    kind: Kind
    title: str
    paragraphs: tuple[str, ...] = ()
    choices: tuple[tuple[str, str], ...] = ()
    detail: str = ""
    drawing: Drawing | None = None

    @property
    def passed(self) -> bool:
        """Whether the card says that something is right."""
        return self.kind == "right"

    @property
    def heading(self) -> str:
        """The first line: glyph, word and title."""
        face = FACES[self.kind]
        return f"{face.glyph} {face.word}: {self.title}"

    def text(self) -> str:
        """Returns the card in characters."""
        blocks = [self.heading, *self.paragraphs]
        if self.choices:
            blocks.append("\n".join(f"  {letter}  {choice}" for letter, choice in self.choices))
        if self.drawing is not None:
            blocks.append(self.drawing.text())
        if self.detail:
            blocks.append("\n".join(f"    {line}" for line in self.detail.splitlines()))
        return "\n".join(blocks)

    def html(self) -> str:
        """Returns the card as HTML with inline styles only."""
        face = FACES[self.kind]
        parts = [
            f'<div style="font-weight:bold;color:{face.ink};margin-bottom:0.3em">{escape(self.heading)}</div>'
        ]
        parts += [f'<div style="margin:0.3em 0">{escape(text)}</div>' for text in self.paragraphs]
        parts += [
            f'<div style="margin:0.15em 0 0.15em 1em"><b>{escape(letter)}</b>&ensp;{escape(choice)}</div>'
            for letter, choice in self.choices
        ]
        if self.drawing is not None:
            parts.append(self.drawing.html())
        if self.detail:
            parts.append(f'<pre style="{DETAIL}">{escape(self.detail)}</pre>')
        return f'<div role="note" style="{FRAME};border-left:6px solid {face.edge}">{"".join(parts)}</div>'

    def __str__(self) -> str:
        return self.text()

    def _repr_mimebundle_(
        self, include: Sequence[str] | None = None, exclude: Sequence[str] | None = None
    ) -> Mapping[str, Any]:
        return {"text/html": self.html(), "text/plain": self.text()}


FRAME = (
    "background:#ffffff;color:#1a1a1a;border:1px solid #c8c8c8;border-radius:4px;"
    "padding:0.6em 0.9em;margin:0.4em 0;max-width:46em;line-height:1.45"
)
DETAIL = (
    "background:#f4f4f4;color:#1a1a1a;padding:0.5em 0.7em;margin:0.4em 0;overflow-x:auto;"
    "white-space:pre-wrap;font-size:0.92em"
)


def escape(text: str) -> str:
    """Returns text that means itself in HTML."""
    return html.escape(text, quote=False)
