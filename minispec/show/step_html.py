"""One step as HTML: the text, the round as a table, the laws as bars, the number drawn.

Colours stand in the elements themselves, glyphs beside them: both survive where style sheets are stripped.
"""

from __future__ import annotations

import html
from collections.abc import Callable, Sequence
from itertools import groupby

from minispec.show.plots.style import STATES
from minispec.show.step_charts import laws_html, visible, wash
from minispec.show.step_records import PHASES, Place, Step, Token
from minispec.show.step_words import count, number

# A state of a token, and what the figures call it.
NAMES = {
    "prompt": "prompt",
    "pending": "pending",
    "drafted": "drafted",
    "accepted": "draft",
    "rejected": "rejected",
    "correction": "correction",
    "bonus": "bonus",
}
RAIL = ("prefill", "draft", "verify", "test", "commit", "rollback", "catch up")
LABELS = {"rollback": "roll back"}
PAPER = "background:#ffffff"  # said in each row: themes paint the rows of tables
VERDICTS = {"": "", "accepted": "✓", "rejected": "✗", "untested": "–", "free": "★"}
SPOKEN = {"accepted": "accepted", "rejected": "rejected", "untested": "not tested", "free": "bonus"}


def step_html(step: Step, index: int, total: int, sampled: bool) -> str:
    """Returns a step as an open block.

    Args:
        step: what to show.
        index: of the step, from 0.
        total: how many there are.
        sampled: whether tokens are drawn; else the rows on chance are left out.
    """
    where = "" if step.round is None else f"Round {step.round + 1} · "
    head = (
        f'<summary><span class="ms-where">{where}step {index + 1} of {total}</span> '
        f'<span class="ms-title">{html.escape(step.title)}</span></summary>'
    )
    body = [
        rail_html(step),
        f'<p class="ms-say">{html.escape(step.sentence)}</p>',
        text_html(step),
        round_html(step, sampled) if step.places else caches_html(step),
        laws_html(step),
    ]
    data = f'data-phase="{step.phase}"' + ("" if step.round is None else f' data-round="{step.round}"')
    return f'<details open class="ms-step" {data}>{head}{"".join(body)}</details>'


def rail_html(step: Step) -> str:
    """Returns the phases in order, with the one that we are in."""
    if step.phase == PHASES[-1]:
        return ""
    parts = [
        f'<b aria-current="step" style="background:#1b1b1b;color:#ffffff">{LABELS.get(p, p)}</b>'
        if p == step.phase
        else f"<span>{LABELS.get(p, p)}</span>"
        for p in RAIL
    ]
    return f'<p class="ms-rail">{" → ".join(parts)}</p>'


def paint(state: str) -> str:
    """Returns the inline style of a state: a light wash of its colour, and a line in the colour itself."""
    colour = STATES[NAMES[state]].colour
    if state == "pending":
        return "background:#ffffff;color:#1b1b1b;border-bottom:3px dashed #555555"
    return f"background:{wash(colour)};color:#1b1b1b;border-bottom:3px solid {colour}"


def glyph(state: str) -> str:
    """Returns the sign of a state."""
    return STATES[NAMES[state]].glyph


def token_html(token: Token) -> str:
    """Returns a token by itself: a chip."""
    return (
        f'<b data-state="{token.state}" data-token="{token.id}" style="{paint(token.state)}">'
        f"{glyph(token.state)} {visible(token.text).strip() or '␣'}</b>"
    )


def text_html(step: Step) -> str:
    """Returns the text so far: the prompt as plain text, then runs of tokens of one state.

    At the first and the last step each token of the prompt is an element of its own too.
    """
    prompt = [t for t in step.text if t.state == "prompt"]
    parts = []
    if step.round is not None and prompt:
        words = visible("".join(t.text for t in prompt))
        parts.append(f'<span data-state="prompt" style="color:#595959">{words}</span>')
    rest = step.text if step.round is None else [t for t in step.text if t.state != "prompt"]
    for state, run in groupby(rest, key=lambda t: t.state):
        inner = "".join(run_token(t) for t in run)
        sign = "" if state == "prompt" else f'<i class="ms-sign">{glyph(state)}</i>'
        style = "color:#595959" if state == "prompt" else paint(state)
        parts.append(f'<span class="ms-run" style="{style}">{sign}{inner}</span>')
    return f'<p class="ms-text" data-part="text">{"".join(parts)}</p>'


def run_token(t: Token) -> str:
    """Returns a token inside a run of its state."""
    pending = ' data-pending="true" title="pending"' if t.pending else ""
    mark = '<i class="ms-pending">→</i>' if t.pending and t.state != "pending" else ""
    return f'<b data-state="{t.state}" data-token="{t.id}"{pending}>{visible(t.text)}{mark}</b>'


def caches_html(step: Step) -> str:
    """Returns both caches in words, before the first round and after the last."""
    held = f"The target's cache holds {count(len(step.target_cache), 'token')}"
    if step.draft_cache is not None:
        held += f", the draft's {len(step.draft_cache)}"
    return f'<p class="ms-held">{held}.</p>'


def round_html(step: Step, sampled: bool) -> str:
    """Returns the round as a table: a column for each position, a row for each thing known about it."""
    first = earlier_tokens(step)
    body = "".join(
        row_html(*row, step.here) for row in [*known_rows(step, first, sampled), *cache_rows(step, first)]
    )
    heads = ["before", "pending", *(str(i + 1) for i in range(len(step.places)))]
    titles = "".join(f'<th scope="col"{mark(i - 2, step.here)}>{head}</th>' for i, head in enumerate(heads))
    table = f"<thead><tr><td></td>{titles}</tr></thead><tbody>{body}</tbody>"
    return (
        '<div class="ms-scroll" role="region" tabindex="0" aria-label="This round, position by position">'
        f'<table class="ms-round">{table}</table></div>'
    )


def known_rows(step: Step, first: int, sampled: bool) -> list[tuple[str, list[str]]]:
    """Returns what is known about each place: names of rows, and their cells."""
    guesses = [chip(step_pending(step, first)), *(chip(p.guess) for p in step.places)]
    rows = [("the draft guesses", ["", *guesses])]
    if sampled:
        columns: tuple[tuple[str, Callable[[Place], str]], ...] = (
            ("q, the draft's", lambda p: number_of(p.q)),
            ("p, the target's", lambda p: number_of(p.p)),
            ("accepted with", chance_of),
            ("number drawn", drawn_of),
        )
        rows.extend((name, ["", "", *map(cell, step.places)]) for name, cell in columns)
    else:
        rows.append(("the target says", ["", "", *(visible(p.says or "").strip() for p in step.places)]))
    rows.append(("verdict", ["", "", *map(verdict_of, step.places)]))
    rows.append(("committed", ["", "", *(chip(p.kept) for p in step.places)]))
    return rows


def cache_rows(step: Step, first: int) -> list[tuple[str, list[str]]]:
    """Returns what each cache holds: how much before the round, then the pending token and each position."""
    caches = [("target's cache", step.target_cache)]
    if step.draft_cache is not None:
        caches.append(("draft's cache", step.draft_cache))
    return [
        (name, [str(min(first, len(held))), *map(chip, cells(held, first, len(step.places) + 1))])
        for name, held in caches
    ]


def cells(held: Sequence[Token], first: int, size: int) -> list[Token | None]:
    """Returns a stretch of a cache, None where it holds nothing."""
    return [held[i] if i < len(held) else None for i in range(first, first + size)]


def chip(token: Token | None) -> str:
    """Returns a token by itself, or nothing."""
    return "" if token is None else token_html(token)


def earlier_tokens(step: Step) -> int:
    """Returns how many tokens stand before the round's pending one."""
    new = sum(1 for p in step.places if p.kept) if any(p.kept for p in step.places) else None
    if new is not None:
        return len(step.text) - new - 1
    return len(step.text) - sum(1 for p in step.places if p.guess) - 1


def step_pending(step: Step, first: int) -> Token:
    """Returns the token that was pending when the round began."""
    return Token(step.text[first].id, step.text[first].text, "pending", True)


def row_html(name: str, filled: Sequence[str], here: int | None) -> str:
    """Returns a row of the round's table; caches, verdicts and the rest are named for whoever reads it."""
    inner = "".join(f"<td{mark(i - 2, here)}>{cell}</td>" for i, cell in enumerate(filled))
    return f'<tr style="{PAPER}" data-row="{name}"><th scope="row">{name}</th>{inner}</tr>'


def mark(place: int, here: int | None) -> str:
    """Returns the attribute of the column that a step is about."""
    return ' class="ms-here"' if place == here else ""


def number_of(value: float | None) -> str:
    """Returns a probability, or nothing."""
    return "" if value is None else html.escape(number(value))


def chance_of(place: Place) -> str:
    """Returns min(1, p/q) of a place that was tested."""
    if place.verdict not in ("accepted", "rejected") or not place.q or place.p is None:
        return ""
    return html.escape(number(min(1.0, place.p / place.q)))


def drawn_of(place: Place) -> str:
    """Returns the number that a test drew; a dash where it needed none."""
    if place.test is None:
        return ""
    return "–" if place.test.number is None else f"{place.test.number:.3f}"


def verdict_of(place: Place) -> str:
    """Returns the sign of a verdict, and a word for those who do not see it."""
    if not place.verdict:
        return ""
    return f'<b class="ms-verdict" title="{SPOKEN[place.verdict]}">{VERDICTS[place.verdict]}</b>'


def legend_html() -> str:
    """Returns one line that explains the signs."""
    parts = [
        f'<span style="{paint(state)}">{glyph(state)} {STATES[name].word}</span>'
        for state, name in NAMES.items()
        if state != "prompt"
    ]
    return f'<p class="ms-legend">{" ".join(parts)}</p>'
