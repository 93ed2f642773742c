"""Cards: what a notebook answers a student with.

A card has a glyph and a word for its kind, so that colour never speaks alone. It brings its own background
and ink, so that it reads the same in light and dark themes. Its text twin says the same in characters.
"""

import html
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

Kind = Literal["right", "wrong", "blank", "ask", "hint", "goal", "wrote"]

# Glyph, word, the colours of edge and heading. Edges are Okabe and Ito's colours; headings are darker ones of
# the same hue, readable on white.
FACES: Mapping[Kind, tuple[str, str, str, str]] = {
    "right": ("✓", "Right", "#009E73", "#00563F"),
    "wrong": ("✗", "Not yet", "#D55E00", "#8A3D00"),
    "blank": ("…", "Still blank", "#767676", "#3B3B3B"),
    "ask": ("?", "Predict", "#0072B2", "#004F7C"),
    "hint": ("☞", "Hint", "#E69F00", "#6B4A00"),
    "goal": ("◎", "Goal", "#56B4E9", "#004F7C"),
    "wrote": ("✎", "You wrote", "#767676", "#3B3B3B"),
}


@dataclass(frozen=True)
class Card:
    """An answer to a student."""

    kind: Kind  #: what sort of answer
    title: str  #: of the question or the exercise
    paragraphs: tuple[str, ...] = ()  #: in plain words
    choices: tuple[tuple[str, str], ...] = ()  #: what may be chosen, by letter
    detail: str = ""  #: lines in a fixed-width font, such as a counterexample or a picture made of characters

    @property
    def passed(self) -> bool:
        """Whether the card says that something is right."""
        return self.kind == "right"

    @property
    def heading(self) -> str:
        """The first line: glyph, word and title."""
        glyph, word, _, _ = FACES[self.kind]
        return f"{glyph} {word}: {self.title}"

    def text(self) -> str:
        """Returns the card in characters."""
        choices = (f"  {letter}  {choice}" for letter, choice in self.choices)
        detail = (f"    {line}" for line in self.detail.splitlines())
        return "\n".join([self.heading, *self.paragraphs, *choices, *detail])

    def html(self) -> str:
        """Returns the card as HTML with inline styles only."""
        _, _, edge, ink = FACES[self.kind]
        block = '<div style="{}">{}</div>'.format
        parts = [block(f"font-weight:bold;color:{ink};margin-bottom:0.3em", escape(self.heading))]
        parts += [block("margin:0.3em 0", escape(text)) for text in self.paragraphs]
        for letter, choice in self.choices:
            parts.append(block("margin:0.15em 0 0.15em 1em", f"<b>{letter}</b>&ensp;{escape(choice)}"))
        parts += [f'<pre style="{DETAIL}">{escape(self.detail)}</pre>'] if self.detail else []
        return f'<div role="note" style="{FRAME};border-left:6px solid {edge}">{"".join(parts)}</div>'

    def __str__(self) -> str:
        return self.text()

    def _repr_mimebundle_(self, **asked: Any) -> Mapping[str, Any]:
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


def joined(value: Any) -> Any:
    """Returns a text with its lines joined; of lists, as tuples, and tables all that is in them."""
    match value:
        case str():
            return " ".join(value.split())
        case list():
            return tuple(map(joined, value))
        case dict():
            return {name: joined(inner) for name, inner in value.items()}
    return value
