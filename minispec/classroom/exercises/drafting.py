"""Exercises on drafts without a draft model: what a look-up finds and proposes, and where heads go on."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from math import ceil
from typing import Any

import torch
from torch import Tensor

from minispec.classroom.exercise import exercise
from minispec.classroom.running import Malformed, ids, whole
from minispec.classroom.trials import proposed, sampled
from minispec.core.records import Draft, Round
from minispec.core.rng import RoundRng
from minispec.core.warp import Warp, one_hot

Range = Callable[[int, int], range]


class LookUpDrafter:
    """Proposes what followed the last two tokens. Wrong answers replace one of its methods."""

    cache_lengths = None
    max_length = 10**6

    def __init__(self, vocab_size: int) -> None:
        """Takes V."""
        self.vocab_size = vocab_size
        self.texts: list[list[int]] = []

    def start(self, prompts: Sequence[Sequence[int]], hidden: Tensor) -> None:
        """Takes the prompts; hidden [B, n, D] is not used."""
        self.texts = [list(prompt) for prompt in prompts]

    def ends(self, text: list[int]) -> range:
        """Returns where earlier pairs end, the latest first."""
        return range(len(text) - 1, 1, -1)

    def propose(self, pending: Tensor, k: int, warp: Warp, rng: RoundRng) -> Draft:
        """Looks up what followed before: pending [B] in, a draft of tokens [B, k] and q [B, k, V] out."""
        drafts = []
        for text in self.texts:
            matches = (end for end in self.ends(text) if text[end - 2 : end] == text[-2:])
            end = next(matches, len(text))
            drafts.append(text[end : end + k])
        tokens = torch.tensor([tokens + [0] * (k - len(tokens)) for tokens in drafts]).long().reshape(-1, k)
        lengths = torch.tensor([len(tokens) for tokens in drafts])
        return Draft(tokens, one_hot(tokens, self.vocab_size, torch.float64), lengths)

    def commit(self, round: Round) -> None:
        """Takes what was gained."""
        for text, emitted in zip(self.texts, round.emitted, strict=True):
            text.extend(emitted)


def but(**methods: Any) -> type[LookUpDrafter]:
    """Returns the drafter with other methods: a wrong answer."""
    return type("LookUpDrafter", (LookUpDrafter,), methods)


def drafting(change: Callable[[Draft], Draft]) -> type[LookUpDrafter]:
    """Returns the drafter with its drafts changed."""
    return but(propose=lambda self, *given: change(LookUpDrafter.propose(self, *given)))


def show_proposals(value: Any) -> str:
    """Writes proposals, or a distribution of texts."""
    if value and isinstance(value[0][1], float):
        return ", ".join(f"{list(tokens)}: {probability:.4g}" for tokens, probability in value)
    return "; ".join(f"{list(t)}" + (f" with q = {[round(x, 3) for x in q]}" if t else "") for t, q in value)


LOOK_UP = exercise(
    "look-up-drafter",
    wrong={
        "uniform-q": drafting(lambda draft: replace(draft, probs=(0 * draft.probs).softmax(-1))),
        "never-commits": but(commit=lambda self, round: None),
        "earliest-pair": but(ends=lambda self, text: range(2, len(text))),
        "padding-proposed": drafting(lambda draft: Draft(draft.tokens, draft.probs)),
    },
    right=LookUpDrafter,
    run=lambda answer, kind, *case: (proposed if kind == "proposals" else sampled)(answer, *case),
    show=show_proposals,
)


def matching(
    sizes: Range = lambda length, most: range(min(most, length - 1), 0, -1),
    ends: Range = lambda length, n: range(length - 1, n - 1, -1),
    begins: bool = False,
) -> Callable[..., tuple[int, int]]:
    """Returns an answer: a wrong one tries other sizes or places, or says where a match begins."""

    def longest_match(text: list[int], most: int) -> tuple[int, int]:
        for n in sizes(len(text), most):
            for end in ends(len(text), n):
                if text[end - n : end] == text[-n:]:
                    return n, end - n * begins
        return 0, 0

    return longest_match


MATCH = exercise(
    "longest-match",
    wrong={
        "shortest-first": matching(sizes=lambda length, most: range(1, min(most, length - 1) + 1)),
        "finds-itself": matching(ends=lambda length, n: range(length, n - 1, -1)),
        "earliest-place": matching(ends=lambda length, n: range(n, length)),
        "most-forgotten": matching(sizes=lambda length, most: range(length - 1, 0, -1)),
        "where-it-begins": matching(begins=True),
    },
    right=matching(),
    read=lambda value: ids(value, "two whole numbers, (n, end),", count=2),
)


def draft_length(
    match: int,
    per_match: float,
    k: int,
    room: int,
    whole_of: Callable[[float], int] = ceil,
    left: int = 1,
    most: int = 1,
) -> int:
    """Returns match · per_match, rounded up, but no more than K, nor than the room less one."""
    return min(most * k, room - left, whole_of(per_match * match))


LENGTH = exercise(
    "draft-length",
    wrong={
        "match-ignored": partial(draft_length, whole_of=lambda length: 99),
        "rounded-down": partial(draft_length, whole_of=int),
        "no-limit": partial(draft_length, most=99),
        "last-token-drafted": partial(draft_length, left=0),
    },
    right=draft_length,
    read=whole,
)


def start_and_stale(value: Any) -> tuple[int, tuple[int, ...]]:
    """Reads a number and a list of numbers."""
    if not isinstance(value, tuple | list) or len(value) != 2:
        raise Malformed("a pair (start, stale) is wanted, a number and a list")
    return whole(value[0], "start: a whole number"), ids(value[1], "stale: a list of whole numbers")


def after(k: int, accepted: int) -> list[int]:
    """Returns the states that have read a rejected token: those after the last accepted one."""
    return [*range(accepted + 1, k + 1)]


STATES = exercise(
    "medusa-states",
    wrong={
        "last-state": lambda k, accepted: (k, after(k, accepted)),
        "state-of-the-correction": lambda k, accepted: (accepted + 1, after(k, accepted)),
        "state-of-the-old-pending-token": lambda k, accepted: (0, after(k, accepted)),
        "accepted-called-stale": lambda k, accepted: (accepted, [accepted, *after(k, accepted)]),
        "none-stale": lambda k, accepted: (accepted, []),
    },
    right=lambda k, accepted: (accepted, after(k, accepted)),
    read=start_and_stale,
)
