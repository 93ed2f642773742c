"""One step as HTML: the text, the round as a table, distributions as bars, the number drawn.

Colours and glyphs are those of `signs`. They stand in the elements themselves: where style sheets are
stripped, both are still there.
"""

import html
from dataclasses import replace
from itertools import groupby

from minispec.show.signs import DRAFTER, STATES, TARGET
from minispec.show.step_records import PHASES, Chart, RoundPosition, Step, Token
from minispec.show.text import count, probability, readable, shown

PAPER = "background:#ffffff"  # said in each row: themes paint the rows of tables
LEGEND = [state for state in STATES if state not in ("prompt", "committed")]  # those that tokens have here
NOTES = {"guess": " ◂ guess", "picked": " ◂ taken", "": ""}


def step_html(step: Step, index: int, total: int, sampled: bool) -> str:
    """Returns one of so many steps, counted from 0, as an open block.

    Where tokens are not drawn (`sampled`), the rows of probabilities are left out.
    """
    heading = "Step" if step.round is None else f"Round {step.round + 1}, step"
    caches = f"The target's cache holds {count(len(step.target_cache), 'token')}"
    caches += "" if step.draft_cache is None else f", the draft's {len(step.draft_cache)}"
    body = [
        f'<summary><span class="ms-where">{heading} {index + 1} of {total}</span> '
        f'<span class="ms-title">{html.escape(step.title)}</span></summary>',
        _phases(step),
        f'<p class="ms-say">{html.escape(step.sentence)}</p>',
        _text(step),
        _round(step, sampled) if step.positions else f'<p class="ms-held">{caches}.</p>',
    ]
    if step.chart.bars or step.draw is not None:
        body.append(f'<div class="ms-chart">{_chart(step.chart)}{_draw(step)}</div>')
    data = f'data-phase="{step.phase}"' + ("" if step.round is None else f' data-round="{step.round}"')
    return f'<details open class="ms-step" {data}>{"".join(body)}</details>'


def _phases(step: Step) -> str:
    """The phases in order, with the one that we are in."""
    *phases, end = PHASES
    if step.phase == end:
        return ""
    current = 'aria-current="step" style="background:#1b1b1b;color:#ffffff"'
    names = [(p.replace("rollback", "roll back"), p == step.phase) for p in phases]
    parts = [
        f"<b {current}>{name}</b>" if is_current else f"<span>{name}</span>" for name, is_current in names
    ]
    return f'<p class="ms-rail">{" › ".join(parts)}</p>'


def paint(state: str) -> str:
    """Returns the inline style of a state: a light wash of its colour, and a line in the colour itself."""
    colour = STATES[state].colour
    if state == "pending":
        return f"background:{colour};color:#1b1b1b;border-bottom:3px dashed #555555"
    if state == "rolled back":
        return f"background:{colour};color:#ffffff;border-bottom:3px solid {colour}"
    struck = ";text-decoration:line-through" if state == "rejected" else ""
    return f"background:{wash(colour)};color:#1b1b1b;border-bottom:3px solid {colour}{struck}"


def wash(colour: str, share: float = 0.22) -> str:
    """Returns a colour mixed with white: `#RRGGBB` with this share of it."""
    parts = (int(colour[i : i + 2], 16) for i in (1, 3, 5))
    return "#" + "".join(f"{round(255 - share * (255 - part)):02x}" for part in parts)


def legend_html() -> str:
    """Returns one line that explains the signs."""
    parts = [f'<span style="{paint(state)}">{_sign(state)}{STATES[state].word}</span>' for state in LEGEND]
    return f'<p class="ms-legend">{" ".join(parts)}</p>'


def _sign(state: str) -> str:
    """The glyph of a state, which is not struck through with its token."""
    glyph = STATES[state].glyph
    return f'<i class="ms-sign" style="display:inline-block">{glyph}</i> ' if glyph else ""


def _visible(text: str) -> str:
    return html.escape(readable(text))


def _text(step: Step) -> str:
    """The text so far: the prompt as plain text, then runs of tokens of one state.

    At the first and the last step each token of the prompt is an element of its own too.
    """
    prompt = [t for t in step.text if t.state == "prompt"]
    parts = []
    if step.round is not None and prompt:
        text = _visible("".join(t.text for t in prompt))
        parts.append(f'<span data-state="prompt" style="color:#595959">{text}</span>')
    emitted_tokens = step.text if step.round is None else [t for t in step.text if t.state != "prompt"]
    for state, run in groupby(emitted_tokens, key=lambda t: t.state):
        style = "color:#595959" if state == "prompt" else paint(state)
        text = "".join(map(_run_token, run))
        parts.append(f'<span class="ms-run" style="{style}">{_sign(state).strip()}{text}</span>')
    return f'<p class="ms-text" data-part="text">{"".join(parts)}</p>'


def _run_token(t: Token) -> str:
    pending = ' data-pending="true" title="pending"' if t.pending else ""
    mark = (
        f'<i class="ms-pending">{STATES["pending"].glyph}</i>' if t.pending and t.state != "pending" else ""
    )
    return f'<b data-state="{t.state}" data-token="{t.id}"{pending}>{_visible(t.text)}{mark}</b>'


def _round(step: Step, sampled: bool) -> str:
    """The round as a table: a column for each position, a row for each thing known about it."""
    current_column = None if step.here is None else step.here + 2
    marks = [' class="ms-here"' if i == current_column else "" for i in range(len(step.positions) + 2)]
    heads = ["before", "pending", *(str(i + 1) for i in range(len(step.positions)))]
    titles = "".join(f'<th scope="col"{marks[i]}>{head}</th>' for i, head in enumerate(heads))
    pending = replace(step.text[step.before], state="pending")
    known_cells = [_known(p, sampled) for p in step.positions]
    rows = {name: ["", "", *(cells[name] for cells in known_cells)] for name in known_cells[0]}
    rows["the draft guesses"][1] = _chip(pending)
    caches = (
        ("target's cache", step.target_cache, step.target_cut),
        ("draft's cache", step.draft_cache, step.draft_cut),
    )
    for name, held, cut in caches:
        if held is not None:
            chips = [str(min(step.before, len(held))), *map(_chip, (*held[step.before :], *cut))]
            rows[name] = chips + [""] * (len(marks) - len(chips))
    body = "".join(
        f'<tr style="{PAPER}" data-row="{name}"><th scope="row">{name}</th>'
        + "".join(f"<td{marks[i]}>{cell}</td>" for i, cell in enumerate(cells))
        + "</tr>"
        for name, cells in rows.items()
    )
    return (
        '<div class="ms-scroll" role="region" tabindex="0" aria-label="This round, position by position">'
        f'<table class="ms-round"><thead><tr><td></td>{titles}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>"
    )


def _known(p: RoundPosition, sampled: bool) -> dict[str, str]:
    """What is known about a position: its cells by the names of their rows."""
    cells = {"the draft guesses": _chip(p.guess)}
    if sampled:
        cells["q, the draft's"] = _number(p.q)
        cells["p, the target's"] = _number(p.p)
        cells["min(1, p/q)"] = _number(p.ratio)
        # A test that needed no number has a dash.
        number = "–" if p.test is None or p.test.number is None else f"{p.test.number:.3f}"
        cells["u, the number drawn"] = "" if p.test is None else number
    else:
        cells["the target's choice"] = html.escape(shown(p.target_choice)) if p.target_choice else ""
    verdict = f'<b class="ms-verdict" title="{p.verdict}">{STATES[p.verdict].glyph}</b>' if p.verdict else ""
    return cells | {"verdict": verdict, "committed": _chip(p.kept)}


def _chip(token: Token | None) -> str:
    """A token by itself, or nothing."""
    if token is None:
        return ""
    return (
        f'<b data-state="{token.state}" data-token="{token.id}" style="{paint(token.state)}">'
        f"{_sign(token.state)}{html.escape(shown(token.text))}</b>"
    )


def _number(value: float | None) -> str:
    return "" if value is None else html.escape(probability(value, 3))


def _chart(chart: Chart) -> str:
    """A table of tokens with a bar for each distribution."""
    if not chart.bars:
        return ""
    rows = []
    for token in chart.bars:
        bars = "".join(_bar(name, value) for name, value in token.values.items())
        label = f"{html.escape(shown(token.text))}{NOTES[token.mark]}"
        rows.append(f'<tr style="{PAPER}"><th scope="row">{label}</th><td>{bars}</td></tr>')
    caption = f"<caption>{html.escape(chart.title)}</caption>"
    names = f"--name:{0.6 * max(map(len, chart.bars[0].values)):.1f}em"  # so that all bars begin at one line
    return f'<table class="ms-bars" style="{names}">{caption}<tbody>{"".join(rows)}</tbody></table>'


def bar_fill(name: str) -> str:
    """Returns how bars of `p`, `q` or the `residual` are filled, as CSS."""
    dark = DRAFTER.colour
    light = wash(dark, 0.55)
    hatched = f"repeating-linear-gradient(45deg,{dark},{dark} 3px,{light} 3px,{light} 6px)"
    return {"p": TARGET.colour, "q": hatched, "residual": STATES["correction"].colour}[name]


def _bar(name: str, value: float) -> str:
    style = f"display:inline-block;height:0.8em;width:{100 * value:.1f}%;background:{bar_fill(name)}"
    return (
        f'<span class="ms-bar"><i>{name}</i><span class="ms-track"><i style="{style}"></i></span>'
        f"<span>{_number(value)}</span></span>"
    )


def _draw(step: Step) -> str:
    """A line from 0 to 1 with the stretch that decides, and the number on it."""
    draw = step.draw
    if draw is None or draw.number is None:
        return ""
    low = draw.low
    high = draw.high
    if draw.kind == "accept":
        high = high if draw.outcome else low
        low = 0.0  # a yes owns the numbers from 0
        state = "accepted"  # the stretch where a number accepts
        known = step.here is not None and step.positions[step.here].ratio is not None
        edge = "min(1, p/q)" if known else "the probability to be accepted"
        sentence = f"u = {draw.number:.4f} is " + (
            f"below {edge}: accepted" if draw.outcome else f"not below {edge}: rejected"
        )
    else:
        token = None if step.here is None else step.positions[step.here].kept
        state = "drafted" if token is None else token.state
        sentence = f"number drawn {draw.number:.4f}; this token owns {low:.3f} to {high:.3f}: taken"
    stretch = f"left:{100 * low:.2f}%;width:{100 * (high - low):.2f}%;background:{STATES[state].colour}"
    return (
        f'<div class="ms-draw"><p>{html.escape(sentence)}</p><div class="ms-line" aria-hidden="true">'
        f'<i class="ms-zone" style="{stretch}"></i>'
        f'<i class="ms-needle" style="left:{100 * draw.number:.2f}%">▼</i></div>'
        '<p class="ms-ends" aria-hidden="true"><span>0</span><span>1</span></p></div>'
    )
