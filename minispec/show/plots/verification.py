"""The verdict on a draft, position by position: ✓ ✓ ✗, with p, q and the chance to be accepted."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from matplotlib.figure import Figure

from minispec.core.records import Round
from minispec.core.warp import lowest_argmax
from minispec.show.plots.board import (
    GREY,
    board,
    chance,
    legend,
    legend_height,
    quoted,
    shown,
    tile,
    widest,
    write,
)
from minispec.show.plots.picture import Picture
from minispec.show.plots.style import STATES, State

MARGIN = 0.2  # inches, around the page
LINE = 0.48  # height of a line of numbers
Line = tuple[str, Callable[["Test"], str]]
End = tuple[str, int] | None  # kind and id of the token that the target adds
CUT = State(STATES["untested"].colour, "/", word="behind the end")


@dataclass(frozen=True)
class Test:
    """What happened at one position of a draft.

    Attributes:
        place: which drafted token, counted from 0.
        token: its id.
        q: what the draft's law gave it.
        p: what the target's law gives it.
        chance: min(1, p/q), its chance to be accepted by `verify_rejection`.
        favourite: the target's most probable token there, which `verify_greedy` compares with.
        drawn: the number between 0 and 1 that was compared with the chance, or None if it is not known.
        state: `draft` (accepted), `rejected`, `untested`, or `cut`: accepted, but behind the end of the text.
    """

    __test__ = False  # no test of pytest's

    place: int
    token: int
    q: float
    p: float
    chance: float
    favourite: int
    drawn: float | None
    state: str


def verification_tests(r: Round, row: int = 0, drawn: Sequence[float | None] = ()) -> list[Test]:
    """Returns what happened to each drafted token of a row.

    Args:
        r: any round.
        row: which row; it was live.
        drawn: the numbers that were drawn for the tests, in order, where they are known.
    """
    accepted, emitted = r.accepted(row), len(r.emitted[row])
    tokens = r.draft.tokens[row, : r.drafted(row)].tolist()
    best = lowest_argmax(r.target_probs[row]).tolist()
    tests = []
    for place, token in enumerate(tokens):
        q, p = float(r.draft.probs[row, place, token]), float(r.target_probs[row, place, token])
        state = "draft" if place < accepted else "rejected" if place == accepted else "untested"
        if emitted <= place < accepted:
            state = "cut"
        number = drawn[place] if place < len(drawn) and place <= accepted else None
        kept = min(1.0, p / q) if q > 0 else 0.0
        tests.append(Test(place, token, q, p, kept, best[place], number, state))
    return tests


def verification_strip(
    r: Round, words: Sequence[str], row: int = 0, drawn: Sequence[float | None] = ()
) -> Picture:
    """Draws the verdict on a draft: a column per drafted token, and the token that the target adds.

    Where both laws are certain everywhere, as at temperature 0, the target's own token stands in place of
    probabilities.

    Args:
        r: a round in which the row was live.
        words: the text of every token id.
        row: which row.
        drawn: the numbers that were drawn for the tests, in order, where they are known.

    Returns:
        The picture; its data is `verification_tests`.

    Raises:
        ValueError: if the row was done before this round.
    """
    if not r.live[row]:
        raise ValueError(f"row {row} was done before round {r.index}")
    tests = verification_tests(r, row, drawn)
    kind = r.kind(row)
    end = None if kind == "draft" else (kind, r.emitted[row][-1])
    lines = _lines(tests, words, bool((r.target_probs[row].amax(-1) == 1).all()))
    columns = _columns(tests, lines, end, words)
    names = [name for name, _ in lines]
    figure = _draw(columns, names, end is not None)
    alt, caption = _alt(r, row, tests, end, words), _caption(r, row, tests, end)
    return Picture("verification", figure, alt, caption, _twin(columns, names))


@dataclass(frozen=True)
class _Column:
    """A token and the numbers under it."""

    state: State
    word: str
    numbers: list[str]


def _columns(tests: Sequence[Test], lines: Sequence[Line], end: End, words: Sequence[str]) -> list[_Column]:
    columns = [
        _Column(_state(test.state), shown(words[test.token]), [say(test) for _, say in lines])
        for test in tests
    ]
    if end is not None:
        columns.append(_Column(STATES[end[0]], shown(words[end[1]]), [""] * len(lines)))
    return columns


def _state(name: str) -> State:
    return CUT if name == "cut" else STATES[name]


def _lines(tests: Sequence[Test], words: Sequence[str], certain: bool) -> list[Line]:
    """Which lines stand under the draft, and what each says of a test."""

    def where_tested(say: Callable[[Test], str]) -> Callable[[Test], str]:
        return lambda test: "" if test.state == "untested" else say(test)

    if certain:
        return [("target says", where_tested(lambda test: shown(words[test.favourite])))]
    lines: list[Line] = [
        ("draft, q", lambda test: chance(test.q)),
        ("target, p", lambda test: chance(test.p)),
        ("min(1, p/q)", where_tested(lambda test: chance(test.chance))),
    ]
    if any(test.drawn is not None for test in tests):
        lines.append(("drawn", lambda test: "" if test.drawn is None else f"{test.drawn:.2f}"))
    return lines


def _draw(columns: Sequence[_Column], names: Sequence[str], ended: bool) -> Figure:
    """Draws the columns, the last one apart from the others if the target has added it."""
    each = 0.2 + widest(f"{c.state.glyph} {c.word}" for c in columns)
    each = max(each, widest(number for c in columns for number in c.numbers) + 0.2, 0.8)
    left = MARGIN + widest(["verdict", *names]) + 0.2
    gap = 0.35 if ended and len(columns) > 1 else 0.0
    states = [state for name, state in STATES.items() if any(c.state is state for c in columns)]
    states += [CUT] if any(c.state is CUT for c in columns) else []
    states = [replace(s, word="rejected") if s is STATES["rejected"] else s for s in states]
    width = max(left + each * len(columns) + gap + MARGIN, 8.0)
    below = legend_height(states, width - 2 * MARGIN) + 0.3
    figure, axes = board(width, below + 0.55 + LINE * len(names) + MARGIN)
    top = axes.get_ylim()[1] - MARGIN
    write(axes, left - 0.2, top - 0.25, "verdict", ha="right")
    for place, column in enumerate(columns):
        x = left + place * each + (gap if ended and place == len(columns) - 1 else 0)
        tile(axes, (x, top - 0.5), (each, 0.5), column.state, f"{column.state.glyph} {column.word}")
        faint = column.state in (STATES["untested"], CUT)
        for line, number in enumerate(column.numbers):
            colour = GREY if faint else "black"
            write(axes, x + each / 2, top - 0.8 - line * LINE, number, ha="center", color=colour)
    for line, name in enumerate(names):
        write(axes, left - 0.2, top - 0.8 - line * LINE, name, ha="right")
    legend(axes, (MARGIN, below - 0.1), states, width - 2 * MARGIN)
    return figure


def _twin(columns: Sequence[_Column], names: Sequence[str]) -> str:
    rows = [["verdict", *(f"{c.state.glyph} {c.word}" for c in columns)]]
    rows += [[name, *(c.numbers[line] for c in columns)] for line, name in enumerate(names)]
    wide = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join(f"{cell:<{space}}" for cell, space in zip(row, wide, strict=True)).rstrip() for row in rows
    )


def _alt(r: Round, row: int, tests: Sequence[Test], end: End, words: Sequence[str]) -> str:
    said = [f"{quoted(words[test.token])} {_word(test.state)}" for test in tests]
    if end is not None:
        said.append(f"then {quoted(words[end[1]])}, {STATES[end[0]].word}")
    return f"The verdict on the {len(tests)} tokens drafted in round {r.index}: {', '.join(said)}."


def _word(state: str) -> str:
    return {"draft": "accepted", "rejected": "rejected", "untested": "not tested", "cut": "behind the end"}[
        state
    ]


def _caption(r: Round, row: int, tests: Sequence[Test], end: End) -> str:
    kept, total = r.accepted(row), len(r.emitted[row])
    tokens = "1 token" if total == 1 else f"{total} tokens"
    if end is None:
        return f"The text ends inside the accepted draft, so this pass yields {tokens}."
    if end[0] == "bonus":
        return f"All {kept} drafted tokens are accepted and a bonus follows: {tokens} from one pass."
    return (
        f"The target accepts {kept} of {len(tests)} drafted tokens and corrects the next one: "
        f"{tokens} from one pass."
    )
