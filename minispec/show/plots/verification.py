"""What verification made of drafts: the verdict on one, and how p and q agree along a whole text."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from minispec.core.records import Round
from minispec.evidence.theory.formulas import total_variation
from minispec.io.trace import Trace
from minispec.show.plots import charts
from minispec.show.plots.board import GREY, WORDS, Cell, Line, in_order, tile, tiled, twin_of, widest, worded
from minispec.show.plots.style import TEXT, Picture, aligned, sheet
from minispec.show.signs import STATES, State
from minispec.show.text import check_chain, count, decided, live_rounds, probability, quoted, shown, verdicts

MAX_POSITIONS = 28  # positions along a text in one figure
OUTCOMES = WORDS["verification"]["outcomes"]


@dataclass(frozen=True)
class DraftedToken:
    """What happened to one token of a draft."""

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
    state: str  #: `accepted`, `rejected`, or `untested`: after a rejection or the end of the text
    added: str  #: after the last one that a round tests: the text of the target's token


def drafted_tokens(
    r: Round, words: Sequence[str], row: int = 0, drawn: Sequence[float | None] = ()
) -> list[DraftedToken]:
    """Returns what happened to each drafted token of a row; words: by token id.

    drawn: the numbers that were drawn for the tests, in order, where they are known.

    Raises:
        ValueError: if the row was done, or a tree was drafted.
    """
    check_chain(r, row)
    accepted = r.accepted(row)
    emitted = r.emitted[row]
    last = r.tested(row) if r.kind(row) != "draft" else None
    best = r.target_probs[row].argmax(-1).tolist()
    tokens = []
    for i, state in enumerate(verdicts(r, row)):
        token = int(r.draft.tokens[row, i])
        q = float(r.draft.probs[row, i, token])
        p = float(r.target_probs[row, i, token])
        tokens.append(
            DraftedToken(
                index=i,
                token=token,
                word=words[token],
                q=q,
                p=p,
                acceptance=min(1.0, p / q) if q > 0 else 0.0,
                tv=total_variation(r.target_probs[row, i], r.draft.probs[row, i]),
                favourite=best[i],
                drawn=drawn[i] if i < len(drawn) and i <= accepted else None,
                accepted=i < accepted,
                state=state,
                added=words[emitted[-1]] if i + 1 == last else "",
            )
        )
    return tokens


def verification_strip(r: Round, words: Sequence[str], drawn: Sequence[float | None] = ()) -> Picture:
    """Draws the verdict on a draft of one row: a column per drafted token.

    A correction stands under the token that it replaces, a bonus after the last one. Where the target is
    certain everywhere, as at temperature 0, its own token stands there instead of probabilities. `drawn` are
    the numbers that were drawn for the tests, in order, where they are known.

    Raises:
        ValueError: if the row was done, or a tree was drafted.
    """
    tests = drafted_tokens(r, words, drawn=drawn)
    kind = r.kind(0)
    accepted = r.accepted(0)
    added = words[r.emitted[0][-1]]
    outcomes = [f"{quoted(test.word)} {OUTCOMES[test.state]}" for test in tests]
    verdict = [tile(STATES[test.state], shown(test.word)) for test in tests]
    lines = [Line("verdict", verdict)]
    states = [test.state for test in tests]
    if kind == "correction":
        lines.append(Line("instead", [Cell()] * accepted + [tile(STATES[kind], shown(added))]))
        outcomes.insert(accepted + 1, f"replaced by {quoted(added)}")
    elif kind == "bonus":
        verdict.append(tile(STATES[kind], shown(added)))
        outcomes.append(f"then {quoted(added)}, {STATES[kind].word}")
    if (r.target_probs[0].amax(-1) == 1).all():
        numbers = {"target's choice": [shown(words[t.favourite]) * (t.state != "untested") for t in tests]}
    else:
        numbers = {
            "draft, q": [probability(t.q) for t in tests],
            "target, p": [probability(t.p) for t in tests],
            "min(1, p/q)": [probability(t.acceptance) * (t.state != "untested") for t in tests],
            "drawn": ["" if t.drawn is None else f"{t.drawn:.2f}" for t in tests],
        }
    inks = [GREY if test.state == "untested" else "black" for test in tests]
    for name, texts in numbers.items():
        if any(texts):
            lines.append(Line(name, [Cell(text, colour=ink) for text, ink in zip(texts, inks, strict=True)]))
    return worded(
        "verification",
        tiled(lines, key=in_order([*states, kind])),
        twin_of(lines),
        "nothing-drafted" if kind == "bonus" and not tests else kind,
        accepted=accepted,
        drafted=len(tests),
        round=r,
        outcomes=", ".join(outcomes),
        added=quoted(added),
        tokens=count(len(r.emitted[0]), "token"),
        rejected=quoted(tests[accepted].word) if kind == "correction" else "",
    )


def positions_of(trace: Trace, words: Sequence[str], prompt: int = 0) -> list[DraftedToken]:
    """Returns every drafted token of a prompt's text that was tested, in order, with rejection or greedy.

    Where the target's token followed instead or in addition, there is no test and so no position.

    Raises:
        ValueError: if there is no such prompt, or the rule looks past rejections: then no token has a test.
    """
    tests: list[DraftedToken] = []
    for r, row in live_rounds(trace, prompt):
        if r.tested(row) is None:
            raise ValueError(f"round {r.index}: the rule looks past rejections, so no token has its own test")
        tests += drafted_tokens(r, words, row)[: decided(r, row)]
    return tests


def along_the_text(positions: Sequence[DraftedToken]) -> Picture:
    """Draws the probability to be accepted and the distance between p and q, one position after another.

    Of the `positions_of` a row, one at least, the first 28 are drawn. After each round stands the target's
    own token, which was not tested and so has no bars.
    """
    chosen = list(positions[:MAX_POSITIONS])
    columns: list[tuple[str, State, DraftedToken | None]] = []
    for x in chosen:
        columns.append((x.word, STATES["accepted" if x.accepted else "rejected"], x))
        if x.added:
            columns.append((x.added, STATES["bonus" if x.accepted else "correction"], None))
    labels = [f"{look.glyph}{shown(word)}" for word, look, _ in columns]
    figure = sheet(max(2.2 + 0.42 * len(labels), 9.0), 5.9 + widest(labels))
    upper, lower = figure.subplots(2, 1, sharex=True)
    twin = [["", "min(1, p/q)", "TV"], *([label, "", ""] for label in labels)]
    for i, (_, look, tested) in enumerate(columns):
        if tested is None:
            continue
        twin[i + 1][1:] = [f"{tested.acceptance:.2f}", f"{tested.tv:.2f}"]
        upper.bar(i, tested.acceptance, linewidth=0.8, **charts.area(look))
        lower.bar(i, tested.tv, linewidth=0.8, color="#BBBBBB", edgecolor="black")
        if not tested.accepted:
            upper.text(i, tested.acceptance + 0.03, look.glyph, fontsize=TEXT, ha="center", va="bottom")
    rounds = [i - 0.5 for i, (*_, tested) in enumerate(columns) if i and tested and tested.index == 0]
    for axes, name in ((upper, "probability to\nbe accepted"), (lower, "TV(p, q)")):
        charts.prepare(axes, "", name, "y").set(ylim=(0, 1.05), yticks=[0, 0.5, 1])
        axes.vlines(rounds, 0, 1.05, color="black", linewidth=1.0, linestyle=":")
    charts.columns(lower, labels, rotation=90)
    upper.tick_params(axis="x", length=0)
    lower.tick_params(axis="x", pad=8)
    for text, (_, look, _) in zip(lower.get_xticklabels(), columns, strict=True):
        text.set(color=look.ink, bbox={"facecolor": look.colour, "edgecolor": "none", "pad": 2})
    looks = [look for _, look, _ in columns]
    key = "   ".join(f"{state.glyph} {name}" for name, state in STATES.items() if state in looks)
    lower.set_xlabel(f"{key}\ndotted: a new round")
    apart = max(chosen, key=lambda position: position.tv)
    return worded(
        "along",
        figure,
        aligned(twin),
        count=len(chosen),
        accepted=sum(x.accepted for x in chosen),
        alike=f"{sum(x.tv < 0.1 for x in chosen)} of {len(chosen)} tested guesses",
        acceptance=fmean(x.acceptance for x in chosen),
        tv=fmean(x.tv for x in chosen),
        added=count(len(columns) - len(chosen), "token"),
        word=quoted(apart.word),
        apart=apart,
    )
