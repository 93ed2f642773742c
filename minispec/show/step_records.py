"""The records of a walk: tokens as they stand at one moment, the places of a round, and the steps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from minispec.io.draws import Draw
from minispec.show.step_distributions import Bar

TokenState = Literal["prompt", "pending", "drafted", "accepted", "rejected", "correction", "bonus"]
Phase = Literal["prefill", "draft", "verify", "test", "commit", "rollback", "catch up", "end"]
PHASES: tuple[Phase, ...] = ("prefill", "draft", "verify", "test", "commit", "rollback", "catch up", "end")


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
class Place:
    """One drafted position of a round, or the one behind them, filled in as the round goes on.

    Attributes:
        guess: what the draft says there; None where it says nothing.
        q: the guess's probability for the draft.
        says: the target's most probable token there, once it has been asked.
        p: the guess's probability for the target.
        test: the number drawn and the chance it was compared with, where there was one.
        verdict: `accepted` or `rejected` once tested, `untested` behind a rejection, or `free`: the bonus.
        kept: what is committed there in the end.
    """

    guess: Token | None = None
    q: float | None = None
    says: str | None = None
    p: float | None = None
    test: Draw | None = None
    verdict: Literal["", "accepted", "rejected", "untested", "free"] = ""
    kept: Token | None = None


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
        places: the positions that the round is about.
        here: which of them the step is about, or None.
        bars: the most probable tokens there.
        bars_title: what they are.
        draw: the number that was drawn, where one was.
    """

    phase: Phase
    title: str
    sentence: str
    text: tuple[Token, ...]
    target_cache: tuple[Token, ...]
    draft_cache: tuple[Token, ...] | None
    round: int | None = None
    places: tuple[Place, ...] = ()
    here: int | None = None
    bars: tuple[Bar, ...] = ()
    bars_title: str = ""
    draw: Draw | None = None
