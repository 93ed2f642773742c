"""The laws of a step as bars, and the number drawn on its line from 0 to 1, both as HTML."""

from __future__ import annotations

import html
from collections.abc import Sequence

from minispec.io.draws import Draw
from minispec.show.plots.style import DRAFTER, STATES, TARGET
from minispec.show.step_distributions import Bar
from minispec.show.step_records import Step
from minispec.show.step_words import number, readable

HATCH = "repeating-linear-gradient(45deg,{0},{0} 3px,{1} 3px,{1} 6px)"


def laws_html(step: Step) -> str:
    """Returns the laws at the position in question, and the number drawn."""
    if not step.bars and step.draw is None:
        return ""
    chart = bars_html(step.bars, step.bars_title) if step.bars else ""
    return f'<div class="ms-laws">{chart}{draw_html(step.draw)}</div>'


def bars_html(bars: Sequence[Bar], title: str) -> str:
    """Returns a table of tokens with a bar for each law."""
    rows = []
    for bar in bars:
        note = {"guess": " ◂ guess", "picked": " ◂ taken", "": ""}[bar.mark]
        lines = [
            bar_html(name, value, fill)
            for name, value, fill in (
                ("p", bar.p, TARGET.colour),
                ("q", bar.q, HATCH.format(DRAFTER.colour, wash(DRAFTER.colour, 0.55))),
                ("residual", bar.residual, STATES["correction"].colour),
            )
            if value is not None
        ]
        label = f"{visible(bar.text).strip() or '␣'}{note}"
        rows.append(
            f'<tr style="background:#ffffff"><th scope="row">{label}</th><td>{"".join(lines)}</td></tr>'
        )
    body = f"<caption>{html.escape(title)}</caption><tbody>{''.join(rows)}</tbody>"
    return f'<table class="ms-bars">{body}</table>'


def bar_html(name: str, value: float, fill: str) -> str:
    """Returns one bar with its name and its number."""
    style = f"display:inline-block;height:0.8em;width:{100 * value:.1f}%;background:{fill}"
    return (
        f'<span class="ms-bar"><i>{name}</i><span class="ms-track"><i style="{style}"></i></span>'
        f"<span>{html.escape(number(value))}</span></span>"
    )


def draw_html(draw: Draw | None) -> str:
    """Returns a line from 0 to 1 with the stretch that decides, and the number on it."""
    if draw is None or draw.number is None:
        return ""
    low, high = draw.low, draw.high
    if draw.kind == "accept":
        low, high = (draw.low, draw.high) if draw.outcome else (0.0, draw.low)
        rule = f"accepted if below {number(high)}"
        result = "accepted" if draw.outcome else "rejected"
    else:
        rule = f"this token owns {low:.3f} to {high:.3f}"
        result = "taken"
    zone = STATES["draft" if draw.kind == "accept" else "drafted"].colour
    words = f"number drawn {draw.number:.4f}; {rule}: {result}"
    stretch = f"left:{100 * low:.2f}%;width:{100 * (high - low):.2f}%;background:{zone}"
    return (
        f'<div class="ms-draw"><p>{html.escape(words)}</p>'
        '<div class="ms-line" aria-hidden="true">'
        f'<i class="ms-zone" style="{stretch}"></i>'
        f'<i class="ms-needle" style="left:{100 * draw.number:.2f}%">▼</i></div>'
        '<p class="ms-ends" aria-hidden="true"><span>0</span><span>1</span></p></div>'
    )


def visible(text: str) -> str:
    """Returns a token's text, escaped, with line ends and the end of a text to be seen."""
    return html.escape(readable(text))


def wash(colour: str, share: float = 0.22) -> str:
    """Returns a colour mixed with white: `#RRGGBB` with this share of it."""
    parts = (int(colour[i : i + 2], 16) for i in (1, 3, 5))
    return "#" + "".join(f"{round(255 - share * (255 - part)):02x}" for part in parts)
