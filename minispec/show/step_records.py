"""The records of a run taken apart: tokens at one moment, the positions of a round, charts, steps."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, get_args

from minispec.io.recording import Draw
from minispec.show.text import probability

Phase = Literal["prefill", "draft", "verify", "test", "commit", "rollback", "catch up", "end"]
PHASES: tuple[Phase, ...] = get_args(Phase)


@dataclass(frozen=True)
class Token:
    """A token as it stands at one moment."""

    id: int  #: in the vocabulary
    text: str  #: what it stands for
    state: str  #: what has become of it, a key of `signs.STATES`
    pending: bool = False  #: whether it is committed, but not yet read by either model when the round began


@dataclass(frozen=True)
class RoundPosition:
    """One drafted position of a round, or the one after them, filled in as the round goes on."""

    guess: Token | None = None  #: what is drafted there; None where nothing is
    q: float | None = None  #: the guess's probability for the draft
    target_choice: str | None = None  #: the target's most probable token there, once it has read so far
    p: float | None = None  #: the guess's probability for the target
    ratio: float | None = None  #: min(1, p/q) of a guess that it decided about, else None
    test: Draw | None = None  #: the number drawn, and what it was compared with
    kept: Token | None = None  #: what is committed there in the end

    @property
    def verdict(self) -> str:
        """The verdict on the guess, and `bonus` after the draft; empty until there is one."""
        if self.guess is None:
            return "bonus" if self.kept else ""
        return "" if self.guess.state == "drafted" else self.guess.state


@dataclass(frozen=True)
class TokenBars:
    """One token in a chart of distributions."""

    text: str  #: of the token
    mark: str  #: `guess` for the drafted token, `taken` for the one that is taken, else an empty string
    values: Mapping[str, float]  #: its probabilities by name: `p`, `q` and `residual`, or some of them


@dataclass(frozen=True)
class Chart:
    """The most probable tokens at a position, and what they are."""

    title: str = ""
    bars: tuple[TokenBars, ...] = ()


NO_CHART = Chart()


@dataclass(frozen=True)
class Step:
    """One thing that happens, and how everything stands after it."""

    phase: Phase  #: which part of a round
    title: str  #: in a few words
    sentence: str  #: what happens, in one to three short sentences
    text: tuple[Token, ...]  #: the text so far, prompt and guesses included
    target_cache: tuple[Token, ...]  #: what the target's cache holds
    draft_cache: tuple[Token, ...] | None  #: what the draft's holds; None if the drafter has none
    round: int | None = None  #: the index of the round; None before the first and after the last
    before: int = 0  #: how many tokens stand before the round's pending one
    positions: tuple[RoundPosition, ...] = ()  #: those that the round is about
    here: int | None = None  #: which of them the step is about, or None
    chart: Chart = NO_CHART  #: the most probable tokens there
    draw: Draw | None = None  #: the number that was drawn, where one was
    target_cut: tuple[Token, ...] = ()  #: what the target's cache held until this step cut it
    draft_cut: tuple[Token, ...] = ()  #: likewise of the draft's


def equation(name: str, value: float) -> str:
    """Returns `p = 0.250`, or where three digits would say 0 or 1, `p < 0.001` or `p > 0.999`."""
    shown = probability(value, 3)
    return f"{name} {shown[0]} {shown[1:]}" if shown[0] in "<>" else f"{name} = {shown}"
