"""Forms: tables of the handouts to be filled in by hand, and the same tables filled in.

All numbers come from the recorded walkthroughs and from the package's own rules.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from minispec.core.records import Round
from minispec.core.verify import verify_greedy, verify_rejection
from minispec.evidence.proof.first_token import FirstToken, first_token
from minispec.evidence.zoo.mutants import mutant_named
from minispec.evidence.zoo.mutation import planted
from minispec.io.recording import Recording
from minispec.show.plots.board import Cell, Line, tiled, twin_of
from minispec.show.plots.caches import TITLES, Moment, cache_slots
from minispec.show.plots.charts import columns, prepare
from minispec.show.plots.masks import mask_rows
from minispec.show.plots.style import TEXT, Picture, sheet
from minispec.show.plots.verification import drafted_tokens
from minispec.show.signs import STATES, State
from minispec.show.text import kinds, shown
from minispec.verifiers.coupled import verify_coupled

HIGH = 0.62  # of a line, for handwriting
BOX = State("#FFFFFF", "", word="to be filled in")
P = (3, 2, 1)  # sixths, of a, b and c
Q = (1, 1, 4)
MOMENTS: tuple[Moment, ...] = ("before", "drafted", "verified", "rolled back")
TAIL = 2  # tokens before the pending one that a form of caches shows


def given(label: str, entries: Sequence[str]) -> Line:
    """Returns a line that is given, and so grey."""
    return Line(label, [Cell(entry, STATES["prompt"]) for entry in entries])


def answer(label: str, entries: Sequence[str], filled: bool) -> Line:
    """Returns a line to be filled in, or as it is filled in."""
    return Line(label, [Cell(entry * filled, BOX) for entry in entries])


def form(name: str, lines: Sequence[Line], task: str) -> Picture:
    """Draws lines from the top down; the task is the caption, and the beginning of the alternative text."""
    twin = twin_of(lines)
    return Picture(name, tiled(lines, high=HIGH), f"{task} {twin}".replace("\n", "; "), task, twin)


def empty_bars(task: str) -> Picture:
    """Draws empty axes for bars over {a, b, c}: p and q, and the residual, with a line for each sixth."""
    figure = sheet(13, 5.2)
    for axes, title in zip(figure.subplots(1, 2), ("p, q and what they share", "the residual"), strict=True):
        columns(prepare(axes, grid=""), "abc")
        axes.grid(axis="y", color="#B3B3B3")
        axes.set_ylim(0, 1)
        axes.set_yticks([part / 6 for part in range(7)], [f"{part}/6" for part in range(7)])
        axes.set_title(title, fontsize=TEXT, loc="left")
    what = "two empty charts over a, b, c"
    return Picture("bars", figure, f"{task} There are {what}.", task, what)


def caches_form(recording: Recording, index: int, filled: bool) -> Picture:
    """Draws both caches of a round at four moments.

    Args:
        recording: of a run.
        index: of a round.
        filled: whether ● stands where a slot is held.
    """
    trace = recording.trace
    words = recording.words
    r = trace.rounds[index]
    first = r.target_cache.before[0] - TAIL
    text = trace.committed(0, index) + r.draft.tokens[0].tolist()
    block = [shown(words[token]) for token in text[first:]]
    positions = range(first, first + len(block))
    lines = [given("position", [*map(str, positions)]), given("committed, then drafted", block)]
    for moment in MOMENTS:
        lines.append(Line(TITLES[moment]))
        slots = [slot for slot in cache_slots(trace, index, moment) if slot.held]
        for owner in ("target", "draft"):
            held = {slot.position for slot in slots if slot.owner == owner}
            lines.append(answer(f"{owner}'s cache", ["●" if i in held else "–" for i in positions], filled))
    task = (
        f"The pending token is “{words[int(r.pending[0])].strip()}”. The target accepts {r.accepted(0)} of "
        f"{r.drafted(0)} and emits “{words[r.emitted[0][-1]].strip()}”. Mark the slots that each cache holds "
        f"at each moment."
    )
    return form("caches", lines, task)


def mask_form(cached: int, k: int, filled: bool) -> Picture:
    """Draws the mask of a verifying forward, and what each row judges.

    Args:
        cached: how many tokens the cache holds.
        k: how many were drafted.
        filled: whether ● stands where a row may look.
    """
    drafts = [f"draft {i + 1}" for i in range(k)]
    block = ["pending", *drafts]
    lines = [given("a row may look at", [*(f"old {i + 1}" for i in range(cached)), *block, "and judges"])]
    for row, name, judged in zip(mask_rows(cached, k), block, [*drafts, "the bonus"], strict=True):
        lines.append(answer(f"row of {name}", [*("●" if seen else "–" for seen in row), judged], filled))
    task = (
        f"K = {k}, {cached} tokens are cached. Mark what each row may look at, and write down what it judges."
    )
    return form("mask", lines, task)


def rules() -> dict[str, FirstToken]:
    """Returns what four rules make of {a, b, c}."""
    p, q = (tuple(x / 6 for x in sixths) for sixths in (P, Q))
    with planted(mutant_named("correction-from-p")):
        from_p = first_token(verify_rejection, p, q)
    accept = "keep with min(1, p/q)"
    return {
        "1  keep the target's best token, else emit it": first_token(verify_greedy, p, q),
        "2  keep what a draw from p agrees with, else emit the draw": first_token(verify_coupled, p, q),
        f"3  {accept}, else draw from p": from_p,
        f"4  {accept}, else draw from the residual": first_token(verify_rejection, p, q),
    }


def rules_form(filled: bool) -> Picture:
    """Draws the table of four rules over {a, b, c}, in twelfths.

    Args:
        filled: whether the numbers stand in it.
    """
    lines = [given("", ["token a", "token b", "token c", "the sum"])]
    for label, sixths in (("target, p", P), ("draft, q", Q)):
        lines.append(given(label, [str(2 * x) for x in (*sixths, sum(sixths))]))
    for title, found in rules().items():
        lines.append(Line(title))
        parts = {"kept": found.accepted, "emitted instead": found.correction, "emitted": found.distribution}
        for label, part in parts.items():
            lines.append(answer(label, [*map(twelfths, (*part, sum(part)))], filled))
    task = "All in twelfths. What is kept, what is emitted instead, and what in all? Which rules give p?"
    return form("rules", lines, task)


def twelfths(probability: float) -> str:
    """Returns a probability in twelfths."""
    return str(Fraction(probability * 12).limit_denominator(60))


def verdict_form(r: Round, words: Sequence[str], drawn: Sequence[float | None], filled: bool) -> Picture:
    """Draws the tests of a round: p, q and the numbers drawn are given; min(1, p/q) and verdicts are not.

    A verdict has the sign of its state; what is emitted has its sign before it.

    Args:
        r: a round at a temperature above 0.
        words: the text of every token id.
        drawn: the number that each test drew, where one was drawn.
        filled: whether the rest stands there too.
    """
    tests = drafted_tokens(r, words, drawn=drawn)
    signs = {state: STATES[state].glyph for state in ("accepted", "rejected", "untested")}
    emitted = zip(kinds(r, 0), r.emitted[0], strict=True)
    came = [STATES[kind].glyph + shown(words[token]) for kind, token in emitted]
    came += ["–"] * (len(tests) + 1 - len(came))
    verdicts = [signs[test.state] for test in tests]
    lines = [
        given("drafted", [shown(words[test.token]) for test in tests]),
        given("q", [f"{test.q:.3f}" for test in tests]),
        given("p", [f"{test.p:.3f}" for test in tests]),
        given("number drawn", ["–" if test.drawn is None else f"{test.drawn:.2f}" for test in tests]),
        answer("min(1, p/q)", [f"{test.acceptance:.2f}" for test in tests], filled),
        answer(f"verdict: {' '.join(signs.values())}", verdicts, filled),
        answer("emitted", came, filled),
    ]
    task = (
        "Keep a token if its number lies below min(1, p/q). A dash: none was drawn, as p is not smaller, or "
        f"nothing is tested any more ({signs['untested']}). The target adds "
        f"“{words[r.emitted[0][-1]].strip()}”. What is emitted?"
    )
    return form("verdicts", lines, task)
