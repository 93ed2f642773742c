"""Exercises on drafts without a draft model: what a look-up finds and proposes, and where heads go on."""

from collections.abc import Sequence
from math import ceil
from typing import Any

import torch
from torch import Tensor

from minispec.classroom.exercise import exercise
from minispec.classroom.running import Malformed, read_ids, read_integer
from minispec.classroom.trials import enumerate_texts, run_proposals
from minispec.core.prefill import pad
from minispec.core.records import Draft, Round
from minispec.core.rng import RoundRng
from minispec.core.warp import Warp, one_hot


class LookUpDrafter:
    """Proposes what followed the last two tokens."""

    cache_lengths = None
    max_length = 10**6

    def __init__(self, vocab_size: int) -> None:
        """Takes V."""
        self.vocab_size = vocab_size
        self.texts: list[list[int]] = []

    def start(self, prompts: Sequence[Sequence[int]], hidden: Tensor) -> None:
        """Takes the prompts; hidden [B, n, D] is not used."""
        self.texts = [list(prompt) for prompt in prompts]

    def propose(self, pending: Tensor, k: int, warp: Warp, rng: RoundRng) -> Draft:
        """Looks up what followed before: pending [B] in, a draft of tokens [B, k] and q [B, k, V] out."""
        drafts = []
        for text in self.texts:
            ends = range(len(text) - 1, 1, -1)
            end = next((end for end in ends if text[end - 2 : end] == text[-2:]), len(text))
            drafts.append(text[end : end + k])
        tokens = pad(drafts, k, pending.device).long()
        lengths = torch.tensor([len(tokens) for tokens in drafts])
        return Draft(tokens, one_hot(tokens, self.vocab_size, torch.float64), lengths)

    def commit(self, round: Round) -> None:
        """Takes what was emitted."""
        for text, emitted in zip(self.texts, round.emitted, strict=True):
            text.extend(emitted)


def show_proposals(value: Any) -> str:
    """Writes proposals, or a distribution of texts."""
    if value and isinstance(value[0][1], float):
        return ", ".join(f"{list(tokens)}: {probability:.4g}" for tokens, probability in value)
    return "; ".join(f"{list(t)}" + (f" with q = {[round(x, 3) for x in q]}" if t else "") for t, q in value)


LOOK_UP = exercise(
    "look-up-drafter",
    right=LookUpDrafter,
    run=lambda answer, kind, *case: (run_proposals if kind == "proposals" else enumerate_texts)(
        answer, *case
    ),
    show=show_proposals,
)


def longest_match(text: list[int], most: int) -> tuple[int, int]:
    """Returns the length of the longest match of the end, and where its latest place ends."""
    for n in range(min(most, len(text) - 1), 0, -1):
        for end in range(len(text) - 1, n - 1, -1):
            if text[end - n : end] == text[-n:]:
                return n, end
    return 0, 0


MATCH = exercise(
    "longest-match",
    right=longest_match,
    read=lambda value: read_ids(value, "two whole numbers, (n, end),", count=2),
)


def draft_length(match: int, per_match: float, k: int, room: int) -> int:
    """Returns match · per_match, rounded up, but no more than K, nor than the room less one."""
    return min(k, room - 1, ceil(per_match * match))


LENGTH = exercise("draft-length", right=draft_length, read=read_integer)


def read_states(value: Any) -> tuple[int, tuple[int, ...]]:
    """Reads a number and a list of numbers."""
    if not isinstance(value, tuple | list) or len(value) != 2:
        raise Malformed("a pair (start, stale) is wanted, a number and a list")
    return read_integer(value[0], "start: a whole number"), read_ids(
        value[1], "stale: a list of whole numbers"
    )


def medusa_states(k: int, accepted: int) -> tuple[int, list[int]]:
    """Returns the state to draft from, and the states that have read a rejected token."""
    return accepted, [*range(accepted + 1, k + 1)]


STATES = exercise("medusa-states", right=medusa_states, read=read_states)
