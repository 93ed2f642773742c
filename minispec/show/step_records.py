"""The records of a run taken apart: tokens at one moment, the positions of a round, charts, steps."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from torch import Tensor

from minispec.io.recording import Draw

TokenState = Literal[
    "prompt", "pending", "drafted", "accepted", "rejected", "correction", "bonus", "untested", "rolled back"
]  # keys of `signs.STATES`
GuessVerdict = Literal["accepted", "rejected", "untested"]
Phase = Literal["prefill", "draft", "verify", "test", "commit", "rollback", "catch up", "end"]
PHASES: tuple[Phase, ...] = ("prefill", "draft", "verify", "test", "commit", "rollback", "catch up", "end")
TOP = 4  # tokens of each distribution in a chart


@dataclass(frozen=True)
class Token:
    """A token as it stands at one moment.

    Attributes:
        id: in the vocabulary.
        text: what it stands for.
        state: what has become of it.
        pending: whether it is committed, but not yet read by either model when the round began.
    """

    id: int
    text: str
    state: TokenState
    pending: bool = False


@dataclass(frozen=True)
class RoundPosition:
    """One drafted position of a round, or the one after them, filled in as the round goes on.

    Attributes:
        guess: what the draft says there; None where it says nothing.
        q: the guess's probability for the draft.
        says: the target's most probable token there, once it has read so far.
        p: the guess's probability for the target.
        test: the number drawn and the probability it was compared with, where there was one.
        verdict: `accepted` or `rejected` once tested, `untested` after a rejection, or `bonus`.
        kept: what is committed there in the end.
    """

    guess: Token | None = None
    q: float | None = None
    says: str | None = None
    p: float | None = None
    test: Draw | None = None
    verdict: Literal["", "accepted", "rejected", "untested", "bonus"] = ""
    kept: Token | None = None


@dataclass(frozen=True)
class TokenBars:
    """One token in a chart of distributions.

    Attributes:
        id: of the token.
        text: of the token.
        mark: `guess` for the drafted token, `picked` for the one that is taken, else an empty string.
        values: its probabilities by name: `p`, `q` and `residual`, or some of them.
    """

    id: int
    text: str
    mark: str
    values: Mapping[str, float]


@dataclass(frozen=True)
class Chart:
    """The most probable tokens at a position, and what they are."""

    title: str = ""
    bars: tuple[TokenBars, ...] = ()


NO_CHART = Chart()


@dataclass(frozen=True)
class Step:
    """One thing that happens, and how everything stands after it.

    Attributes:
        phase: which part of a round.
        title: in a few words.
        sentence: what happens, in one to three short sentences.
        text: the text so far, prompt and guesses included.
        target_cache: what the target's cache holds.
        draft_cache: what the draft's holds; None if the drafter has none.
        round: the index of the round; None before the first and after the last.
        before: how many tokens stand before the round's pending one.
        positions: those that the round is about.
        here: which of them the step is about, or None.
        chart: the most probable tokens there.
        draw: the number that was drawn, where one was.
        target_cut: what the target's cache held until this step cut it.
        draft_cut: likewise of the draft's.
    """

    phase: Phase
    title: str
    sentence: str
    text: tuple[Token, ...]
    target_cache: tuple[Token, ...]
    draft_cache: tuple[Token, ...] | None
    round: int | None = None
    before: int = 0
    positions: tuple[RoundPosition, ...] = ()
    here: int | None = None
    chart: Chart = NO_CHART
    draw: Draw | None = None
    target_cut: tuple[Token, ...] = ()
    draft_cut: tuple[Token, ...] = ()


def chart(
    title: str, words: Sequence[str], marks: Mapping[int, str], lead: Sequence[str], **of: Tensor
) -> Chart:
    """Returns the tokens that lead one of some distributions and those with a mark, most probable first.

    Args:
        title: what the chart shows.
        words: the text of every token id.
        marks: by token id.
        lead: the names of the distributions whose most probable tokens are shown; the first gives the order.
        **of: `p`, `q`, `residual`: [V] each.
    """
    leading = [of[name].double() for name in lead]
    found = set(marks)
    for distribution in leading:
        found |= set(distribution.topk(min(TOP, len(distribution))).indices.tolist())
    kept = [i for i in found if i in marks or max(float(each[i]) for each in leading) >= 5e-4]
    kept.sort(key=lambda i: (-float(leading[0][i]), i))
    bars = [
        TokenBars(i, words[i], marks.get(i, ""), {name: float(each[i]) for name, each in of.items()})
        for i in kept
    ]
    return Chart(title, tuple(bars))


def quoted(text: str) -> str:
    """Returns a token's text in quotes, blanks and line ends made visible where there is nothing else."""
    shown = readable(text)
    return f"“{shown.strip() or shown.replace(' ', '␣') or '∅'}”"


def readable(text: str) -> str:
    """Returns a token's text with line ends to be seen, and the end of a text in letters."""
    return text.replace("\n", "↵").replace("⏹", " ‹end›")


def number(value: float) -> str:
    """Returns a probability with three digits; 0 and 1 are written so only if they are."""
    if value in (0.0, 1.0):
        return f"{value:g}"
    return "<0.001" if value < 0.001 else ">0.999" if value > 0.999 else f"{value:.3f}"


def equation(name: str, value: float) -> str:
    """Returns `p = 0.250`, or where three digits would say 0 or 1, `p < 0.001` or `p > 0.999`."""
    shown = number(value)
    return f"{name} {shown[0]} {shown[1:]}" if shown[0] in "<>" else f"{name} = {shown}"


def count(n: int, noun: str) -> str:
    """Returns `1 token`, `2 tokens`, …."""
    return f"{n} {noun}" if n == 1 else f"{n} {noun}s"
