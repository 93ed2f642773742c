"""What verification made of drafts: the verdict on one, and how p and q agree along a whole text."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean
from typing import Any

from minispec.core.records import Round
from minispec.core.warp import lowest_argmax
from minispec.evidence.theory.formulas import total_variation
from minispec.io.trace import Trace
from minispec.show.plots import charts
from minispec.show.plots.board import GREY, Board, legend_height, probability, quoted, shown, widest, worded
from minispec.show.plots.style import TEXT, Picture, aligned, sheet
from minispec.show.signs import STATES, State

MARGIN = 0.2  # inches, around the page
LINE = 0.48  # height of a line of numbers
MOST = 28  # positions along a text in one figure
LOOKS = STATES | {"cut": State(STATES["untested"].colour, "/", word="after the end")}
WORDS = {"accepted": "accepted", "rejected": "rejected", "untested": "not tested", "cut": "after the end"}


@dataclass(frozen=True)
class DraftedToken:
    """What happened to one token of a draft."""

    index: int  #: which drafted token, counted from 0
    token: int  #: its id
    q: float  #: its probability for the draft
    p: float  #: its probability for the target
    acceptance: float  #: min(1, p/q), the probability that `verify_rejection` accepts it
    favourite: int  #: the target's most probable token there, which `verify_greedy` compares with
    drawn: float | None  #: the number that was compared with `acceptance`, where it is known
    state: str  #: `accepted`, `rejected`, `untested`, or `cut`: accepted, but after the end of the text


def drafted_tokens(r: Round, row: int = 0, drawn: Sequence[float | None] = ()) -> list[DraftedToken]:
    """Returns what happened to each drafted token of a live row.

    drawn: the numbers that were drawn for the tests, in order, where they are known.
    """
    accepted, emitted = r.accepted(row), len(r.emitted[row])
    best = lowest_argmax(r.target_probs[row]).tolist()
    found = []
    for i, token in enumerate(r.draft.tokens[row, : r.drafted(row)].tolist()):
        q, p = float(r.draft.probs[row, i, token]), float(r.target_probs[row, i, token])
        state = "accepted" if i < accepted else "rejected" if i == accepted else "untested"
        if emitted <= i < accepted:
            state = "cut"
        number = drawn[i] if i < len(drawn) and i <= accepted else None
        acceptance = min(1.0, p / q) if q > 0 else 0.0
        found.append(DraftedToken(i, token, q, p, acceptance, best[i], number, state))
    return found


def verification_strip(r: Round, words: Sequence[str], drawn: Sequence[float | None] = ()) -> Picture:
    """Draws the verdict on a draft of one row: a column per drafted token.

    A correction stands under the token that it replaces, a bonus after the last one. Where the target is
    certain everywhere, as at temperature 0, its own token stands there instead of probabilities. `drawn` are
    the numbers that were drawn for the tests, in order, where they are known.
    """
    tests, kind = drafted_tokens(r, 0, drawn), r.kind(0)
    certain = bool((r.target_probs[0].amax(-1) == 1).all())
    verdict = [(test.state, shown(words[test.token])) for test in tests]
    said = [f"{quoted(words[test.token])} {WORDS[test.state]}" for test in tests]
    lines: dict[str, list[str]] = {}
    added = words[r.emitted[0][-1]]
    if kind == "correction":
        at = r.accepted(0)
        lines["instead"] = [
            f"{STATES[kind].glyph} {shown(added)}" if i == at else "" for i in range(len(tests))
        ]
        said.insert(at + 1, f"replaced by {quoted(added)}")
    lines |= _lines(tests, words, certain)
    if kind == "bonus":
        verdict.append((kind, shown(added)))
        said.append(f"then {quoted(added)}, {STATES[kind].word}")
        lines = {name: [*line, ""] for name, line in lines.items()}
    lines = {"verdict": [f"{LOOKS[state].glyph} {text}" for state, text in verdict]} | lines
    page = _draw([state for state, _ in verdict], lines, len(tests))
    twin, emitted = aligned([[name, *line] for name, line in lines.items()]), len(r.emitted[0])
    values: dict[str, Any] = {"kept": r.accepted(0), "drafted": len(tests), "round": r.index}
    values |= {"said": ", ".join(said), "added": quoted(added)}
    values["tokens"] = "1 token" if emitted == 1 else f"{emitted} tokens"
    values |= {"rejected": quoted(words[tests[r.accepted(0)].token])} if kind == "correction" else {}
    case = "nothing-drafted" if kind == "bonus" and not tests else kind
    return worded("verification", page.figure, twin, values, case)


def _lines(tests: Sequence[DraftedToken], words: Sequence[str], certain: bool) -> dict[str, list[str]]:
    """Returns the lines under the draft, by name: what each says of every drafted token."""

    def tested(said: Sequence[str]) -> list[str]:
        return ["" if t.state == "untested" else text for t, text in zip(tests, said, strict=True)]

    if certain:
        return {"target says": tested([shown(words[t.favourite]) for t in tests])}
    lines = {
        "draft, q": [probability(t.q) for t in tests],
        "target, p": [probability(t.p) for t in tests],
        "min(1, p/q)": tested([probability(t.acceptance) for t in tests]),
    }
    if any(t.drawn is not None for t in tests):
        lines["drawn"] = ["" if t.drawn is None else f"{t.drawn:.2f}" for t in tests]
    return lines


def _draw(states: Sequence[str], lines: Mapping[str, Sequence[str]], drafted: int) -> Board:
    """Draws the columns; a correction is a tile under the rejected one, a bonus stands apart."""
    (head, *numbers), count = lines.values(), len(states)
    each = max(0.2 + widest(head), widest(text for line in numbers for text in line) + 0.2, 0.8)
    left = MARGIN + widest(lines) + 0.2
    gap = 0.35 if count > max(drafted, 1) else 0.0
    looks = [
        look for name, look in LOOKS.items() if name in states or name == "correction" and "instead" in lines
    ]
    width = max(left + each * count + gap + MARGIN, 9.4)
    below = legend_height(looks, width - 2 * MARGIN) + 0.3
    page = Board(width, below + 0.55 + LINE * len(numbers) + MARGIN)
    top = page.height - MARGIN
    for line, name in enumerate(lines):
        page.write(left - 0.2, top - 0.25 if line == 0 else top - 0.32 - line * LINE, name, ha="right")
    for i, (state, text, *column) in enumerate(zip(states, *lines.values(), strict=True)):
        x = left + i * each + (gap if i >= drafted else 0)
        page.tile((x, top - 0.5), (each, 0.5), LOOKS[state], text)
        colour = GREY if state in ("untested", "cut") else "black"
        for line, (name, number) in enumerate(zip([*lines][1:], column, strict=True)):
            y = top - 0.8 - line * LINE
            if name == "instead" and number:
                page.tile((x, y - 0.2), (each, 0.5), LOOKS["correction"], number)
            else:
                page.write(x + each / 2, y, number, ha="center", color=colour)
    page.legend(looks, MARGIN, below - 0.1)
    return page


@dataclass(frozen=True)
class Position:
    """One drafted token that was tested."""

    round: int  #: in which round
    position: int  #: in the text, counted from 0, prompt included
    token: int  #: its id
    word: str  #: its text
    acceptance: float  #: min(1, p/q), its probability to be accepted
    tv: float  #: the total variation of p and q there; 1 − tv is the mean acceptance of all tokens
    accepted: bool  #: whether it was


def positions_of(trace: Trace, words: Sequence[str], row: int = 0) -> list[Position]:
    """Returns every drafted token of a row that was tested, in order, with rejection or the greedy rule.

    Where the target's token followed instead or in addition, there is no test and so no position.
    """
    found, length = [], len(trace.prompts[row])
    for r in trace.rounds:
        for test in drafted_tokens(r, row)[: r.tested(row)]:
            tv = total_variation(r.target_probs[row, test.index], r.draft.probs[row, test.index])
            at, accepted = length + test.index, test.index < r.accepted(row)
            word = words[test.token]
            found.append(Position(r.index, at, test.token, word, test.acceptance, tv, accepted))
        length += len(r.emitted[row])
    return found


def along_the_text(positions: Sequence[Position]) -> Picture:
    """Draws the probability to be accepted and the distance between p and q, one position after another.

    Of the `positions_of` a row, one at least, the first 28 are drawn.
    """
    chosen = list(positions[:MOST])
    looks = [STATES["accepted" if x.accepted else "rejected"] for x in chosen]
    labels = [f"{shown(x.word)} {look.glyph}" for x, look in zip(chosen, looks, strict=True)]
    figure = sheet(max(2.2 + 0.42 * len(chosen), 9.0), 5.6 + widest(labels))
    upper, lower = figure.subplots(2, 1, sharex=True)
    bar: dict[str, Any] = {"edgecolor": "black", "linewidth": 0.8, "width": 0.8}
    for i, (position, look) in enumerate(zip(chosen, looks, strict=True)):
        upper.bar(i, position.acceptance, color=look.colour, hatch=look.hatch, **bar)
    lower.bar(range(len(chosen)), [position.tv for position in chosen], color="#BBBBBB", **bar)
    new = [i + 0.5 for i, (a, b) in enumerate(pairwise(chosen)) if a.round != b.round]
    for axes, name in ((upper, "probability to\nbe accepted"), (lower, "TV(p, q)")):
        charts.prepare(axes, "", name, grid="y")
        axes.tick_params(axis="x", length=0)
        axes.set_ylim(0, 1.05)
        axes.set_yticks([0, 0.5, 1])
        for edge in new:
            axes.axvline(edge, color="black", linewidth=1.0, linestyle=":")
    lower.set_xticks(range(len(chosen)), labels, rotation=90, fontsize=TEXT)
    lower.set_xlim(-0.6, len(chosen) - 0.4)
    signs = [f"{STATES[name].glyph} {name}" for name in ("accepted", "rejected")]
    lower.set_xlabel("   ".join([*signs, "dotted: a new round"]), fontsize=TEXT)
    apart = max(chosen, key=lambda position: position.tv)
    alike = f"{sum(x.tv < 0.1 for x in chosen)} of {len(chosen)} tested guesses"
    accepted = sum(x.accepted for x in chosen)
    values: dict[str, Any] = {"count": len(chosen), "accepted": accepted, "alike": alike}
    values |= {"acceptance": fmean(x.acceptance for x in chosen), "tv": fmean(x.tv for x in chosen)}
    twin = [f"{'':<16}min(1, p/q)  TV"]
    twin += [f"{label:<16}{x.acceptance:11.2f}  {x.tv:.2f}" for label, x in zip(labels, chosen, strict=True)]
    values |= {"word": quoted(apart.word), "apart": apart}
    return worded("along", figure, "\n".join(twin), values)
