"""Commit: what a verdict adds to each row, cut at end-of-sequence, at the cap, at the context's end."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import index
from typing import SupportsIndex

import torch
from torch import Tensor

from minispec.core.records import Draft, Finish, Verdict

Eos = int | Sequence[int] | Tensor | None


def end_ids(eos: Eos, vocab_size: int) -> frozenset[int]:
    """Returns the ids that end a text: of one, of several, or of a tensor.

    Raises:
        ValueError: if something is no integer, or no id of the vocabulary.
    """
    given = eos.tolist() if isinstance(eos, Tensor) else eos
    each = given if isinstance(given, Iterable) and not isinstance(given, str | bytes) else [given]
    ids = [] if given is None else list(each)
    for token in ids:
        number = not isinstance(token, bool) and isinstance(token, SupportsIndex)
        if not number or not 0 <= index(token) < vocab_size:
            raise ValueError(f"eos must be token ids from 0 to {vocab_size - 1}, not {token!r:.60}")
    return frozenset(map(index, ids))


def commit(rows: Rows, draft: Draft, verdict: Verdict) -> tuple[tuple[int, ...], ...]:
    """Appends each row's accepted tokens and the one after them, up to its budget; returns them."""
    if draft.parents is not None and verdict.path is None:
        raise ValueError("this rule verifies a chain, and a tree was drafted; verify it with verify_tree")
    drafted = draft.tokens.tolist()
    token = verdict.token.tolist()
    return tuple(
        rows.append(row, [*(drafted[row][i] for i in kept), token[row]])
        for row, kept in enumerate(verdict.kept())
    )


class Rows:
    """What is committed in each row, and which rows go on.

    Attributes:
        committed: per row, the prompt and everything emitted.
        finish: per row, why it ended, or None.
        names: per row, which prompt it holds.
    """

    def __init__(
        self, prompts: Sequence[Sequence[int]], max_new_tokens: int, max_length: int, eos: frozenset[int]
    ) -> None:
        self.committed = [list(prompt) for prompt in prompts]
        self.names = list(range(len(prompts)))
        self._cap = [len(prompt) + max_new_tokens for prompt in prompts]
        self._max_length = max_length
        self._eos = eos
        self.finish: list[Finish | None] = [None] * len(prompts)
        for row in range(len(prompts)):
            self._close_if_full(row)
        self._waiting: list[tuple[int, list[int], int]] = []

    def hold(self, at_once: int) -> None:
        """Lets all prompts but the first ones wait for `refill`; those without space need no row at all."""
        prompts = zip(self.names, self.committed, self._cap, self.finish, strict=True)
        self._waiting = [
            (name, text, cap) for name, text, cap, why in prompts if why is None and name >= at_once
        ]
        del self.names[at_once:], self.committed[at_once:], self._cap[at_once:], self.finish[at_once:]

    def refill(self) -> list[int]:
        """Gives rows that are done to prompts that wait; returns which rows go on with another prompt."""
        done = [row for row, why in enumerate(self.finish) if why is not None][: len(self._waiting)]
        for row in done:
            self.names[row], self.committed[row], self._cap[row] = self._waiting.pop(0)
            self.finish[row] = None
        return done

    @property
    def live(self) -> tuple[bool, ...]:
        """Which rows go on."""
        return tuple(finish is None for finish in self.finish)

    @property
    def pending(self) -> Tensor:
        """The last committed token of each row: [B]."""
        return torch.tensor([row[-1] for row in self.committed])

    @property
    def lengths(self) -> list[int]:
        """How many tokens each row has."""
        return [len(row) for row in self.committed]

    def budget(self, row: int) -> int:
        """How many more tokens a row may get; 0 if it is done."""
        if self.finish[row] is not None:
            return 0
        return min(self._cap[row], self._max_length) - len(self.committed[row])

    def append(self, row: int, tokens: Sequence[int]) -> tuple[int, ...]:
        """Appends tokens up to the first end-of-sequence or the row's budget; returns what was kept."""
        kept: list[int] = []
        for token in tokens[: self.budget(row)]:
            kept.append(token)
            if token in self._eos:
                self.finish[row] = "eos"
                break
        self.committed[row].extend(kept)
        self._close_if_full(row)
        return tuple(kept)

    def _close_if_full(self, row: int) -> None:
        # End-of-sequence as the very last token that fits is an end, not a cut.
        if self.finish[row] is None and self.budget(row) <= 0:
            self.finish[row] = "context" if len(self.committed[row]) >= self._max_length else "cap"
