"""The forms of the handouts: each drawn blank for the class, and filled in for the teacher.

All numbers come from the recorded walkthroughs and from the package's own rules.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from book.forms import Entry, Line, form
from minispec.core.records import Round
from minispec.core.verify import verify_greedy, verify_rejection
from minispec.evidence.proof.first_token import FirstToken, first_token
from minispec.evidence.zoo.mutants import mutant_named
from minispec.evidence.zoo.mutation import planted
from minispec.io.recording import Recording
from minispec.rules.coupled import verify_coupled
from minispec.show.plots.board import shown
from minispec.show.plots.caches import TITLES, Moment, cache_cells
from minispec.show.plots.mask import mask_rows
from minispec.show.plots.picture import Picture
from minispec.show.plots.verification import verification_tests

P, Q = (3, 2, 1), (1, 1, 4)  # sixths, of a, b and c
WHOLE = 12
MOMENTS: tuple[Moment, ...] = ("before", "drafted", "verified", "rolled back")
TAIL = 2  # tokens before the pending one that a form of caches shows


def caches_form(recording: Recording, index: int, filled: bool) -> Picture:
    """Draws both caches of a round at four moments, empty slots or full ones.

    Args:
        recording: of a run.
        index: of a round.
        filled: whether ● stands where a slot is held.
    """
    trace, words = recording.trace, recording.words
    r = trace.rounds[index]
    first = r.target_cache.before[0] - TAIL
    block = [shown(words[token]) for token in (int(r.pending[0]), *r.draft.tokens[0].tolist())]
    known = [
        shown(words[c.token])
        for c in cache_cells(trace, index, "before")
        if c.owner == "text" and c.token is not None
    ]
    lines = [
        Line("position", tuple(map(str, range(first, first + TAIL + len(block)))), given=True),
        Line("committed, then drafted", (*known[first : first + TAIL], *block), given=True),
    ]
    for moment in MOMENTS:
        lines.append(Line(TITLES[moment], head=True))
        cells = cache_cells(trace, index, moment)
        for owner in ("target", "draft"):
            held = {cell.place for cell in cells if cell.owner == owner and cell.held}
            marks = ("●" if place in held else "–" for place in range(first, first + TAIL + len(block)))
            lines.append(Line(f"{owner}'s cache", tuple(marks) if filled else ("",) * (TAIL + len(block))))
    accepted, last = r.accepted(0), words[r.emitted[0][-1]].strip()
    task = (
        f"The pending token is “{words[int(r.pending[0])].strip()}”. The target accepts {accepted} of "
        f"{r.drafted(0)} and says “{last}”. Mark the slots that each cache holds at each moment."
    )
    return form("caches", lines, task)


def mask_form(cached: int, k: int, filled: bool) -> Picture:
    """Draws the mask of a verification pass, empty or full, and whose law each row is.

    Args:
        cached: how many tokens the cache holds.
        k: how many were drafted.
        filled: whether ● stands where a row may look.
    """
    heads = (*(f"old {i + 1}" for i in range(cached)), "pending", *(f"draft {i + 1}" for i in range(k)))
    judged = [*(f"draft {i + 1}" for i in range(k)), "the bonus"]
    lines = [Line("a row may look at", (*heads, "and judges"), given=True)]
    for row, name in zip(mask_rows(cached, k), ("pending", *heads[-k:]), strict=True):
        marks: Sequence[Entry] = (
            ["●" if seen else "–" for seen in row.sees] if filled else [""] * len(row.sees)
        )
        lines.append(Line(f"row of {name}", (*marks, judged[row.query] if filled else "")))
    task = (
        f"K = {k}, {cached} tokens are cached. Mark what each row may look at, and write down what it judges."
    )
    return form("mask", lines, task)


def rules() -> tuple[tuple[str, FirstToken], ...]:
    """Returns what four rules make of {a, b, c}."""
    p, q = tuple(x / 6 for x in P), tuple(x / 6 for x in Q)
    with planted(mutant_named("correction-from-p")):
        from_p = first_token(verify_rejection, p, q)
    return (
        ("1  keep the target's best token, else say it", first_token(verify_greedy, p, q)),
        (
            "2  keep what a fresh draw from p agrees with, else say that draw",
            first_token(verify_coupled, p, q),
        ),
        ("3  keep with chance min(1, p/q), else draw from p", from_p),
        ("4  keep with chance min(1, p/q), else draw from the residual", first_token(verify_rejection, p, q)),
    )


def rules_form(filled: bool) -> Picture:
    """Draws the table of four rules over {a, b, c}, in twelfths.

    Args:
        filled: whether the numbers stand in it.
    """
    lines = [
        Line("", ("a", "b", "c", "sum"), given=True),
        Line("target, p", (*(f"{2 * x}" for x in P), "12"), given=True),
        Line("draft, q", (*(f"{2 * x}" for x in Q), "12"), given=True),
    ]
    for title, found in rules():
        lines.append(Line(title, head=True))
        for label, row in (
            ("kept", found.kept),
            ("said instead", found.said),
            ("comes out", found.distribution),
        ):
            parts = [twelfths(x) for x in (*row, sum(row))]
            lines.append(Line(label, tuple(parts) if filled else ("",) * 4))
    task = "All in twelfths. What is kept, what is said instead, and what comes out? Which rules give p?"
    return form("rules", lines, task, column=1.1)


def twelfths(chance: float) -> str:
    """Returns a chance in twelfths."""
    parts = Fraction(chance * WHOLE).limit_denominator(60)
    return str(parts)


def verdict_form(r: Round, words: Sequence[str], drawn: Sequence[float | None], filled: bool) -> Picture:
    """Draws the tests of a round: p, q and the numbers drawn are given; chances and verdicts are not.

    Args:
        r: a round at a temperature above 0.
        words: the text of every token id.
        drawn: the number that each test drew, where one was drawn.
        filled: whether the rest stands there too.
    """
    tests = verification_tests(r, 0, drawn)
    reached = [test for test in tests if test.state in ("draft", "rejected")]
    size = len(tests) + 1

    def line(label: str, entries: Sequence[str], given: bool = False) -> Line:
        return Line(label, (*entries, *(None,) * (size - len(entries))), given)

    verdicts = ["✓" if test.state == "draft" else "✗" for test in reached] + ["–"] * (
        len(tests) - len(reached)
    )
    gained = [shown(words[token]) for token in r.emitted[0]]
    lines = [
        line("drafted", [shown(words[test.token]) for test in tests], given=True),
        line("q", [f"{test.q:.3f}" for test in tests], given=True),
        line("p", [f"{test.p:.3f}" for test in tests], given=True),
        line("number drawn", [number(test.drawn) for test in tests], given=True),
        line("min(1, p/q)", [f"{test.chance:.2f}" if filled else "" for test in tests]),
        line("✓ or ✗", [sign if filled else "" for sign in verdicts]),
        line("comes out", (gained + ["–"] * (size - len(gained))) if filled else [""] * size),
    ]
    task = (
        "Keep a token if its number lies below min(1, p/q). A dash: none was drawn, as p is not smaller, or "
        f"nothing is tested any more. The target adds “{words[r.emitted[0][-1]].strip()}”. What comes out?"
    )
    return form("verdicts", lines, task)


def number(drawn: float | None) -> str:
    """Returns a number that was drawn, or a dash."""
    return "–" if drawn is None else f"{drawn:.2f}"
