"""Forms: tables of the handouts to be filled in by hand, and the same tables filled in.

All numbers come from the recorded walkthroughs and from the package's own rules.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from minispec.core.records import Round
from minispec.core.verify import verify_greedy, verify_rejection
from minispec.evidence.proof.first_token import FirstToken, first_token
from minispec.evidence.zoo.mutants import mutant_named
from minispec.evidence.zoo.mutation import planted
from minispec.io.recording import Recording
from minispec.rules.coupled import verify_coupled
from minispec.show.plots.board import GREY, MARGIN, Board, text_width, widest
from minispec.show.plots.caches import TITLES, Moment, cache_slots
from minispec.show.plots.masks import mask_rows
from minispec.show.plots.style import TEXT, Picture, sheet
from minispec.show.plots.verification import drafted_tokens
from minispec.show.signs import STATES, State
from minispec.show.text import kinds, shown

HIGH = 0.56  # of a line, for handwriting
BOX = State("#FFFFFF", "", word="to be filled in")
GIVEN = STATES["prompt"]
Entry = str | None  # a text; "" is a box to write in; None is no box at all
P, Q = (3, 2, 1), (1, 1, 4)  # sixths, of a, b and c
WHOLE = 12
MOMENTS: tuple[Moment, ...] = ("before", "drafted", "verified", "rolled back")
TAIL = 2  # tokens before the pending one that a form of caches shows


@dataclass(frozen=True)
class FormLine:
    """A line of a form.

    Attributes:
        label: what stands left of it.
        entries: one per column.
        given: whether what stands there is given, and so grey; else it is an answer.
        head: whether it is a heading: bold, without boxes.
    """

    label: str
    entries: tuple[Entry, ...] = ()
    given: bool = False
    head: bool = False


def form(name: str, lines: Sequence[FormLine], task: str, column: float = 0.6) -> Picture:
    """Draws a form.

    Args:
        name: of the picture.
        lines: from the top down.
        task: what to do; it is the caption, and the beginning of the alternative text.
        column: the least width of a column, in inches.
    """
    wide = max(column, widest(entry for line in lines for entry in line.entries if entry) + 0.24)
    start = MARGIN + widest(line.label for line in lines if not line.head) + 0.2
    right = start + wide * max(len(line.entries) for line in lines)
    heads = max((text_width(line.label, "bold") for line in lines if line.head), default=0.0)
    page, y = Board(max(right, MARGIN + heads) + MARGIN), -MARGIN
    for line in lines:
        y -= HIGH
        if line.head:
            page.write(MARGIN, y + 0.2, line.label, weight="bold")
        else:
            page.write(start - 0.2, y + HIGH / 2, line.label, ha="right")
        for i, entry in enumerate(line.entries):
            if entry is not None:
                look = GIVEN if line.given else BOX
                page.tile((start + wide * i, y), (wide, HIGH), look, entry, edgecolor=GREY)
    twin = "\n".join(
        f"{line.label}: " + " | ".join("_" if e == "" else e or "" for e in line.entries)
        if line.entries
        else line.label
        for line in lines
    )
    return Picture(name, page.end(y), f"{task} {twin}".replace("\n", "; "), task, twin)


def empty_bars(task: str) -> Picture:
    """Draws empty axes for bars over {a, b, c}: p and q, and the residual, with a line for each sixth."""
    figure = sheet(13, 5.2)
    for axes, title in zip(figure.subplots(1, 2), ("p, q and what they share", "the residual"), strict=True):
        axes.set_xlim(-0.5, 2.5)
        axes.set_ylim(0, 1)
        axes.set_xticks(range(3), "abc", fontsize=TEXT)
        axes.set_yticks([part / 6 for part in range(7)], [f"{part}/6" for part in range(7)], fontsize=TEXT)
        axes.grid(axis="y", color="#B3B3B3", linewidth=0.8)
        for x in (0.5, 1.5):
            axes.axvline(x, color="#B3B3B3", linewidth=0.8, linestyle=":")
        axes.set_title(title, fontsize=TEXT, loc="left")
    return Picture(
        "bars", figure, f"{task} Two empty charts over a, b, c.", task, "two empty charts over a, b, c"
    )


def caches_form(recording: Recording, index: int, filled: bool) -> Picture:
    """Draws both caches of a round at four moments.

    Args:
        recording: of a run.
        index: of a round.
        filled: whether ● stands where a slot is held.
    """
    trace, words = recording.trace, recording.words
    r = trace.rounds[index]
    first = r.target_cache.before[0] - TAIL
    text = [*trace.prompts[0], *(token for past in trace.rounds[:index] for token in past.emitted[0])]
    block = [shown(words[token]) for token in [*text[first:], *r.draft.tokens[0].tolist()]]
    positions = range(first, first + len(block))
    lines = [
        FormLine("position", tuple(map(str, positions)), given=True),
        FormLine("committed, then drafted", tuple(block), given=True),
    ]
    for moment in MOMENTS:
        lines.append(FormLine(TITLES[moment], head=True))
        slots = cache_slots(trace, index, moment)
        for owner in ("target", "draft"):
            held = {slot.position for slot in slots if slot.owner == owner and slot.held}
            marks = tuple("" if not filled else "●" if i in held else "–" for i in positions)
            lines.append(FormLine(f"{owner}'s cache", marks))
    task = (
        f"The pending token is “{words[int(r.pending[0])].strip()}”. The target accepts {r.accepted(0)} of "
        f"{r.drafted(0)} and says “{words[r.emitted[0][-1]].strip()}”. Mark the slots that each cache holds "
        f"at each moment."
    )
    return form("caches", lines, task)


def mask_form(cached: int, k: int, filled: bool) -> Picture:
    """Draws the mask of a verification pass, and what each row judges.

    Args:
        cached: how many tokens the cache holds.
        k: how many were drafted.
        filled: whether ● stands where a row may look.
    """
    drafts = [f"draft {i + 1}" for i in range(k)]
    heads = [*(f"old {i + 1}" for i in range(cached)), "pending", *drafts]
    lines = [FormLine("a row may look at", (*heads, "and judges"), given=True)]
    for row, name, judged in zip(
        mask_rows(cached, k), ["pending", *drafts], [*drafts, "the bonus"], strict=True
    ):
        marks = [*("●" if seen else "–" for seen in row), judged]
        lines.append(FormLine(f"row of {name}", tuple(marks if filled else [""] * len(marks))))
    task = (
        f"K = {k}, {cached} tokens are cached. Mark what each row may look at, and write down what it judges."
    )
    return form("mask", lines, task)


def rules() -> dict[str, FirstToken]:
    """Returns what four rules make of {a, b, c}."""
    p, q = tuple(x / 6 for x in P), tuple(x / 6 for x in Q)
    with planted(mutant_named("correction-from-p")):
        from_p = first_token(verify_rejection, p, q)
    accept = "keep with probability min(1, p/q)"
    return {
        "1  keep the target's best token, else say it": first_token(verify_greedy, p, q),
        "2  keep what a fresh draw from p agrees with, else say that draw": first_token(verify_coupled, p, q),
        f"3  {accept}, else draw from p": from_p,
        f"4  {accept}, else draw from the residual": first_token(verify_rejection, p, q),
    }


def rules_form(filled: bool) -> Picture:
    """Draws the table of four rules over {a, b, c}, in twelfths.

    Args:
        filled: whether the numbers stand in it.
    """
    lines = [
        FormLine("", ("a", "b", "c", "sum"), given=True),
        FormLine("target, p", (*(f"{2 * x}" for x in P), "12"), given=True),
        FormLine("draft, q", (*(f"{2 * x}" for x in Q), "12"), given=True),
    ]
    for title, found in rules().items():
        lines.append(FormLine(title, head=True))
        parts = {"kept": found.kept, "emitted instead": found.said, "comes out": found.distribution}
        for label, part in parts.items():
            numbers = tuple(map(twelfths, (*part, sum(part))))
            lines.append(FormLine(label, numbers if filled else ("",) * 4))
    task = "All in twelfths. What is kept, what is emitted instead, and what comes out? Which rules give p?"
    return form("rules", lines, task, column=1.1)


def twelfths(probability: float) -> str:
    """Returns a probability in twelfths."""
    return str(Fraction(probability * WHOLE).limit_denominator(60))


def verdict_form(r: Round, words: Sequence[str], drawn: Sequence[float | None], filled: bool) -> Picture:
    """Draws the tests of a round: p, q and the numbers drawn are given; min(1, p/q) and verdicts are not.

    A verdict has the sign of its state; what comes out has its sign before it.

    Args:
        r: a round at a temperature above 0.
        words: the text of every token id.
        drawn: the number that each test drew, where one was drawn.
        filled: whether the rest stands there too.
    """
    tests = drafted_tokens(r, words, drawn=drawn)
    signs = {state: STATES[state].glyph for state in ("accepted", "rejected", "untested")}
    gained = [
        f"{STATES[kind].glyph} {shown(words[token])}"
        for token, kind in zip(r.emitted[0], kinds(r, 0), strict=True)
    ]
    given = {
        "drafted": [shown(words[test.token]) for test in tests],
        "q": [f"{test.q:.3f}" for test in tests],
        "p": [f"{test.p:.3f}" for test in tests],
        "number drawn": ["–" if test.drawn is None else f"{test.drawn:.2f}" for test in tests],
    }
    answers = {
        "min(1, p/q)": [f"{test.acceptance:.2f}" for test in tests],
        f"verdict: {' '.join(signs.values())}": [signs.get(test.state, signs["accepted"]) for test in tests],
        "comes out": gained + ["–"] * (len(tests) + 1 - len(gained)),
    }
    lines = [FormLine(label, (*entries, None), given=True) for label, entries in given.items()]
    for label, entries in answers.items():
        boxes = entries if filled else [""] * len(entries)
        lines.append(FormLine(label, (*boxes, None)[: len(tests) + 1]))
    task = (
        "Keep a token if its number lies below min(1, p/q). A dash: none was drawn, as p is not smaller, or "
        f"nothing is tested any more ({signs['untested']}). The target adds "
        f"“{words[r.emitted[0][-1]].strip()}”. What comes out?"
    )
    return form("verdicts", lines, task)
