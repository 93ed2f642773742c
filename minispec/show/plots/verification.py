"""What verification made of drafts: the verdict on one, and how p and q agree along a whole text."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from statistics import fmean
from typing import Any

from matplotlib.figure import Figure

from minispec.core.records import Round
from minispec.evidence.theory.formulas import total_variation
from minispec.io.trace import Trace
from minispec.show.plots import charts
from minispec.show.plots.board import GREY, MARGIN, Board, in_order, widest, worded
from minispec.show.plots.style import TEXT, Picture, aligned, sheet
from minispec.show.signs import STATES, State
from minispec.show.text import check_chain, count, probability, quoted, shown

LINE = 0.48  # height of a line of numbers, in inches
MOST = 28  # positions along a text in one figure
LOOKS = STATES | {"cut": State(STATES["untested"].colour, "/", word="after the end")}
SAID = {"accepted": "accepted", "rejected": "rejected", "untested": "not tested", "cut": "after the end"}


@dataclass(frozen=True)
class DraftedToken:
    """What happened to one token of a draft."""

    round: int  #: in which round
    index: int  #: which token of the draft, counted from 0
    token: int  #: its id
    word: str  #: its text
    q: float  #: its probability for the draft
    p: float  #: its probability for the target
    acceptance: float  #: min(1, p/q), the probability that `verify_rejection` accepts it
    tv: float  #: the total variation of p and q there; 1 − tv is the mean acceptance of all tokens
    favourite: int  #: the target's most probable token there, which `verify_greedy` compares with
    drawn: float | None  #: the number that was compared with `acceptance`, where it is known
    accepted: bool  #: whether it was
    state: str  #: `accepted`, `rejected`, `untested`, or `cut`: accepted, but after the end of the text
    added: str = ""  #: after the last one that a round tests: the text of the target's token


def drafted_tokens(
    r: Round, words: Sequence[str], row: int = 0, drawn: Sequence[float | None] = ()
) -> list[DraftedToken]:
    """Returns what happened to each drafted token of a row; words: by token id.

    drawn: the numbers that were drawn for the tests, in order, where they are known.

    Raises:
        ValueError: if the row was done, or a tree was drafted.
    """
    check_chain(r, row)
    after = "untested" if r.stops_at_first_rejection else "rejected"
    accepted, emitted = r.accepted(row), len(r.emitted[row])
    best = r.target_probs[row].argmax(-1).tolist()
    found = []
    for i, token in enumerate(r.draft.tokens[row, : r.drafted(row)].tolist()):
        q, p = float(r.draft.probs[row, i, token]), float(r.target_probs[row, i, token])
        state = "accepted" if i < accepted else "rejected" if i == accepted else after
        state = "cut" if emitted <= i < accepted else state
        number = drawn[i] if i < len(drawn) and i <= accepted else None
        tv = total_variation(r.target_probs[row, i], r.draft.probs[row, i])
        one = (r.index, i, token, words[token], q, p, min(1.0, p / q) if q > 0 else 0.0, tv, best[i])
        found.append(DraftedToken(*one, number, i < accepted, state))
    return found


def verification_strip(r: Round, words: Sequence[str], drawn: Sequence[float | None] = ()) -> Picture:
    """Draws the verdict on a draft of one row: a column per drafted token.

    A correction stands under the token that it replaces, a bonus after the last one. Where the target is
    certain everywhere, as at temperature 0, its own token stands there instead of probabilities. `drawn` are
    the numbers that were drawn for the tests, in order, where they are known.

    Raises:
        ValueError: if the row was done, or a tree was drafted.
    """
    tests, kind, kept = drafted_tokens(r, words, drawn=drawn), r.kind(0), r.accepted(0)
    verdict = [(test.state, shown(test.word)) for test in tests]
    said = [f"{quoted(test.word)} {SAID[test.state]}" for test in tests]
    lines: dict[str, list[str]] = {}
    added = words[r.emitted[0][-1]]
    if kind == "correction":
        lines["instead"] = [""] * len(tests)
        lines["instead"][kept] = f"{STATES[kind].glyph} {shown(added)}"
        said.insert(kept + 1, f"replaced by {quoted(added)}")
    lines |= _lines(tests, words, bool((r.target_probs[0].amax(-1) == 1).all()))
    if kind == "bonus":
        verdict.append((kind, shown(added)))
        said.append(f"then {quoted(added)}, {STATES[kind].word}")
        lines = {name: [*line, ""] for name, line in lines.items()}
    lines = {"verdict": [f"{LOOKS[state].glyph} {text}" for state, text in verdict]} | lines
    figure = _draw([state for state, _ in verdict], lines, len(tests))
    twin = aligned([[name, *line] for name, line in lines.items()])
    values: dict[str, Any] = {"kept": kept, "drafted": len(tests), "round": r.index}
    values |= {"said": ", ".join(said), "added": quoted(added)}
    values["tokens"] = count(len(r.emitted[0]), "token")
    values |= {"rejected": quoted(tests[kept].word)} if kind == "correction" else {}
    case = "nothing-drafted" if kind == "bonus" and not tests else kind
    return worded("verification", figure, twin, case, **values)


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


def _draw(states: Sequence[str], lines: Mapping[str, Sequence[str]], drafted: int) -> Figure:
    """Draws the columns; a correction is a tile under the rejected one, a bonus stands apart."""
    head, *numbers = lines.values()
    each = max(0.2 + widest(head), widest(text for line in numbers for text in line) + 0.2, 0.8)
    left = MARGIN + widest(lines) + 0.2
    gap = 0.35 if len(states) > max(drafted, 1) else 0.0
    page = Board(max(left + each * len(states) + gap + MARGIN, 9.4))
    for line, (name, texts) in enumerate(lines.items()):
        y = -MARGIN - 0.25 if name == "verdict" else -MARGIN - 0.32 - line * LINE
        page.write(left - 0.2, y, name, ha="right")
        for i, (state, text) in enumerate(zip(states, texts, strict=True)):
            x = left + i * each + (gap if i >= drafted else 0)
            if name == "verdict" or name == "instead" and text:
                look = LOOKS[state if name == "verdict" else "correction"]
                page.tile((x, y - 0.25), (each, 0.5), look, text)
            else:
                colour = GREY if state in ("untested", "cut") else "black"
                page.write(x + each / 2, y, text, ha="center", color=colour)
    key = in_order([*states, "correction" if "instead" in lines else ""], LOOKS)
    return page.end(y - 0.25, key)


def positions_of(trace: Trace, words: Sequence[str], prompt: int = 0) -> list[DraftedToken]:
    """Returns every drafted token of a prompt's text that was tested, in order, with rejection or greedy.

    Where the target's token followed instead or in addition, there is no test and so no position.

    Raises:
        ValueError: if there is no such prompt, or the rule looks past rejections: then no token has a test.
    """
    tests: list[DraftedToken] = []
    for r, row in trace.rounds_of(prompt):
        if not r.live[row]:
            continue
        tested = r.tested(row)
        if tested is None:
            raise ValueError(f"round {r.index}: the rule looks past rejections, so no token has its own test")
        of_round = drafted_tokens(r, words, row)[:tested]
        if of_round and r.kind(row) != "draft":
            of_round[-1] = replace(of_round[-1], added=words[r.emitted[row][-1]])
        tests += of_round
    return tests


def along_the_text(positions: Sequence[DraftedToken]) -> Picture:
    """Draws the probability to be accepted and the distance between p and q, one position after another.

    Of the `positions_of` a row, one at least, the first 28 are drawn. After each round stands the target's
    own token, which was not tested and so has no bars.
    """
    chosen = list(positions[:MOST])
    places, labels, looks = _columns(chosen)
    figure = sheet(max(2.2 + 0.42 * len(labels), 9.0), 5.9 + widest(labels))
    upper, lower = figure.subplots(2, 1, sharex=True)
    for i, x in zip(places, chosen, strict=True):
        upper.bar(i, x.acceptance, linewidth=0.8, **charts.area(looks[i]))
        lower.bar(i, x.tv, linewidth=0.8, color="#BBBBBB", edgecolor="black")
        if not x.accepted:
            upper.text(i, x.acceptance + 0.03, looks[i].glyph, fontsize=TEXT, ha="center", va="bottom")
    for axes, name in ((upper, "probability to\nbe accepted"), (lower, "TV(p, q)")):
        charts.prepare(axes, "", name, grid="y")
        axes.tick_params(axis="x", length=0)
        axes.set(ylim=(0, 1.05), yticks=[0, 0.5, 1])
        for (i, a), (_, b) in pairwise(zip(places, chosen, strict=True)):
            if a.round != b.round:
                axes.axvline(i + 0.5 + bool(a.added), color="black", linewidth=1.0, linestyle=":")
    charts.columns(lower, labels, rotation=90)
    lower.tick_params(axis="x", pad=8)
    for label, look in zip(lower.get_xticklabels(), looks, strict=True):
        label.set(color=look.ink, bbox={"facecolor": look.colour, "edgecolor": "none", "pad": 2})
    key = [f"{state.glyph} {name}" for name, state in STATES.items() if state in looks]
    lower.set_xlabel("\n".join(["   ".join(key), "dotted: a new round"]))
    apart = max(chosen, key=lambda position: position.tv)
    values: dict[str, Any] = {"count": len(chosen), "accepted": sum(x.accepted for x in chosen)}
    values |= {"alike": f"{sum(x.tv < 0.1 for x in chosen)} of {len(chosen)} tested guesses"}
    values |= {"acceptance": fmean(x.acceptance for x in chosen), "tv": fmean(x.tv for x in chosen)}
    values["added"] = count(len(labels) - len(chosen), "token")
    numbers = dict(zip(places, (f"{x.acceptance:11.2f}  {x.tv:.2f}" for x in chosen), strict=True))
    twin = [f"{'':<16}min(1, p/q)  TV"]
    twin += [f"{label:<16}{numbers.get(i, '')}".rstrip() for i, label in enumerate(labels)]
    return worded("along", figure, "\n".join(twin), word=quoted(apart.word), apart=apart, **values)


def _columns(chosen: Sequence[DraftedToken]) -> tuple[list[int], list[str], list[State]]:
    """Returns in which column each position stands, and the label and look of all columns.

    Where a round ends the target's token has a column of its own.
    """
    places: list[int] = []
    labels: list[str] = []
    looks: list[State] = []
    for x in chosen:
        places.append(len(labels))
        looks.append(STATES["accepted" if x.accepted else "rejected"])
        labels.append(f"{shown(x.word)} {looks[-1].glyph}")
        if x.added:
            looks.append(STATES["bonus" if x.accepted else "correction"])
            labels.append(f"{shown(x.added)} {looks[-1].glyph}")
    return places, labels, looks
