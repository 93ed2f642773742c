"""The look-up drafter, and wrong ones that differ from it in one thing."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from minispec.core.records import Draft, Round
from minispec.core.rng import Rng
from minispec.core.warp import Warp, one_hot


class LookUpDrafter:
    """The right one. Its parts are methods, so that wrong ones can change a single thing."""

    cache_lengths = None

    def __init__(self, vocab_size: int) -> None:
        """Takes V."""
        self.vocab_size = vocab_size
        self.texts: list[list[int]] = []

    def start(self, prompts: Sequence[Sequence[int]]) -> None:
        """Takes the prompts."""
        self.texts = [list(prompt) for prompt in prompts]

    def follow(self, text: list[int], k: int) -> list[int]:
        """Returns what followed the latest earlier place of the last two tokens."""
        for end in self.places(text):
            if text[end - 2 : end] == text[-2:]:
                return text[end : end + k]
        return []

    def places(self, text: list[int]) -> list[int]:
        """Returns where earlier pairs end, the latest first."""
        return list(range(len(text) - 1, 1, -1))

    def law(self, tokens: Tensor) -> Tensor:
        """Returns the laws of proposed tokens: [B, k] -> [B, k, V]."""
        return one_hot(tokens, self.vocab_size, torch.float64)

    def lengths(self, found: list[list[int]], k: int) -> Tensor:
        """Returns how many are proposals: [B]."""
        return torch.tensor([len(tokens) for tokens in found])

    def propose(self, pending: Tensor, k: int, warp: Warp, rng: Rng) -> Draft:
        """Looks up what followed before: pending [B] in, a draft of tokens [B, k] and laws [B, k, V] out."""
        found = [self.follow(text, k) for text in self.texts]
        tokens = torch.tensor([tokens + [0] * (k - len(tokens)) for tokens in found]).long().reshape(-1, k)
        return Draft(tokens, self.law(tokens), self.lengths(found, k))

    def commit(self, round: Round) -> None:
        """Takes what was gained."""
        for text, emitted in zip(self.texts, round.emitted, strict=True):
            text.extend(emitted)


class UniformLaw(LookUpDrafter):
    """Reports a uniform law."""

    def law(self, tokens: Tensor) -> Tensor:
        """Says 1/V for every id: [B, k] -> [B, k, V]."""
        return torch.full((*tokens.shape, self.vocab_size), 1 / self.vocab_size, dtype=torch.float64)


class NeverCommits(LookUpDrafter):
    """Knows the prompt only."""

    def commit(self, round: Round) -> None:
        """Learns nothing."""


class EarliestPlace(LookUpDrafter):
    """Takes the first place."""

    def places(self, text: list[int]) -> list[int]:
        """Returns the earliest first."""
        return super().places(text)[::-1]


class FindsItself(LookUpDrafter):
    """Finds the last two tokens where they stand now; nothing follows them."""

    def places(self, text: list[int]) -> list[int]:
        """Begins at the very end."""
        return [len(text), *super().places(text)]


class PaddingProposed(LookUpDrafter):
    """Counts padding as proposals."""

    def lengths(self, found: list[list[int]], k: int) -> Tensor:
        """Says k for every row: [B]."""
        return torch.full((len(found),), k)


class LastTokenOnly(LookUpDrafter):
    """Looks for the last token alone."""

    def follow(self, text: list[int], k: int) -> list[int]:
        """Returns what followed the last token."""
        for end in range(len(text) - 1, 0, -1):
            if text[end - 1] == text[-1]:
                return text[end : end + k]
        return []
