"""The batch: which requests are being decoded, how far each has come, and which wait for a row.

A round commits several tokens at once. They are cut at end-of-sequence, at the cap, at the context's end.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from operator import index
from typing import SupportsIndex

import torch
from torch import Tensor

from minispec.core.records import Draft, Finish, Verdict
from minispec.core.rng import RoundPlan

Prompts = Sequence[Sequence[int]]
Eos = int | Iterable[int] | Tensor | None


@dataclass(frozen=True)
class Request:
    """A prompt, with its cap and its ends.

    Attributes:
        prompt: token ids, at least one.
        max_new_tokens: at most this many tokens, never one more.
        eos: end-of-sequence: the ids that end the text.
    """

    prompt: Sequence[int]
    max_new_tokens: int
    eos: Eos = None


def requests_of(
    prompts: Sequence[Sequence[int] | Request],
    max_new_tokens: int | None,
    eos: Eos,
    vocab_size: int,
    max_length: int,
) -> list[Request]:
    """Returns a request for each prompt, checked and in plain integers, whatever it came as.

    The cap and the ends are for prompts that are no `Request` themselves; iterators are read once.

    Raises:
        ValueError: if there is no prompt, one is no sequence or tensor of integers, empty, too long, or has
            an id outside 0 … V−1, a cap is missing or negative, or an end is no id.
    """
    if len(prompts) == 0:
        raise ValueError("there is no prompt; give at least one")
    ends = end_ids(eos, vocab_size)
    requests = []
    for i, entry in enumerate(prompts):
        request = entry
        if not isinstance(request, Request):
            if max_new_tokens is None:
                raise ValueError("max_new_tokens is missing: give it, or a Request for each prompt")
            request = Request(request, max_new_tokens, ends)
        if request.max_new_tokens < 0:
            raise ValueError(f"max_new_tokens must be at least 0, not {request.max_new_tokens}")
        prompt = checked_prompt(i, request.prompt, vocab_size, max_length)
        requests.append(Request(prompt, request.max_new_tokens, end_ids(request.eos, vocab_size)))
    return requests


def checked_prompt(i: int, prompt: Sequence[int], vocab_size: int, max_length: int) -> list[int]:
    """Returns prompt number i as plain integers; ValueError if it cannot be decoded."""
    try:
        ids = [index(token) for token in prompt]
    except TypeError:
        raise ValueError(f"prompt {i} must be a sequence of token ids, not {prompt!r:.60}") from None
    if len(ids) == 0:
        raise ValueError(f"prompt {i} is empty; it needs at least one token")
    if len(ids) > max_length:
        raise ValueError(f"prompt {i} has {len(ids)} tokens; the context holds {max_length}")
    if not all(0 <= token < vocab_size for token in ids):
        raise ValueError(f"prompt {i} has a token id outside 0 to {vocab_size - 1}")
    return ids


def end_ids(eos: Eos, vocab_size: int) -> frozenset[int]:
    """Returns the ids that end a text: of one, of several, or of a tensor.

    Raises:
        ValueError: if something is no integer, or no id of the vocabulary.
    """
    value = eos.tolist() if isinstance(eos, Tensor) else eos
    values = value if isinstance(value, Iterable) and not isinstance(value, str | bytes) else [value]
    ids = [] if value is None else list(values)
    for token in ids:
        number = not isinstance(token, bool) and isinstance(token, SupportsIndex)
        if not number or not 0 <= index(token) < vocab_size:
            raise ValueError(f"eos must be token ids from 0 to {vocab_size - 1}, not {token!r:.60}")
    return frozenset(map(index, ids))


class Row:
    """A row of the batch: the request that it decodes, and how far that has come.

    Attributes:
        prompt_id: which request it is, counted from 0.
        tokens: the prompt and everything emitted.
        finish: why it ended, or None.
    """

    def __init__(self, prompt_id: int, request: Request, vocab_size: int, max_length: int) -> None:
        self.prompt_id = prompt_id
        self.tokens = list(request.prompt)
        self.finish: Finish | None = None
        self._eos = end_ids(request.eos, vocab_size)
        self._cap = len(request.prompt) + request.max_new_tokens
        self._max_length = max_length
        self._finish_if_full()

    @property
    def budget(self) -> int:
        """How many more tokens it may get; 0 if it is done."""
        if self.finish is not None:
            return 0
        return min(self._cap, self._max_length) - len(self.tokens)

    def append(self, tokens: Sequence[int]) -> tuple[int, ...]:
        """Appends tokens up to the first end-of-sequence or its budget; returns those that it has kept."""
        emitted: list[int] = []
        for token in tokens[: self.budget]:
            emitted.append(token)
            if token in self._eos:
                self.finish = "eos"
                break
        self.tokens += emitted
        self._finish_if_full()
        return tuple(emitted)

    def _finish_if_full(self) -> None:
        # End-of-sequence as the very last token that fits is an end, not a cut.
        if self.finish is None and self.budget <= 0:
            self.finish = "context" if len(self.tokens) >= self._max_length else "cap"


class Batch:
    """The rows that are decoded together, and the requests that wait for a row.

    Attributes:
        rows: those that are decoded.
    """

    def __init__(
        self, requests: Sequence[Request], vocab_size: int, max_length: int, size: int | None = None
    ) -> None:
        """Makes the first `size` requests rows, by default all; a request without space needs no row at all.

        Raises:
            ValueError: if there is to be no row.
        """
        if size is not None and size < 1:
            raise ValueError(f"the batch must have at least 1 row, not {size}")
        rows = [Row(i, request, vocab_size, max_length) for i, request in enumerate(requests)]
        self.rows = rows[:size]
        self._waiting = deque(row for row in rows[len(self.rows) :] if row.finish is None)
        self.refill()

    def refill(self) -> list[int]:
        """Gives rows that are done to requests that wait; returns which rows these are."""
        refilled = []
        for i, row in enumerate(self.rows):
            if row.finish is not None and self._waiting:
                self.rows[i] = self._waiting.popleft()
                refilled.append(i)
        return refilled

    @property
    def live(self) -> tuple[bool, ...]:
        """Which rows are not done."""
        return tuple([row.finish is None for row in self.rows])

    @property
    def texts(self) -> list[list[int]]:
        """The committed tokens of each row."""
        return [row.tokens for row in self.rows]

    @property
    def cache_lengths(self) -> tuple[int, ...]:
        """How many tokens of each row a cache holds between rounds: all but the pending token."""
        return tuple([len(row.tokens) - 1 for row in self.rows])

    def pending(self, device: torch.device) -> Tensor:
        """Returns the last committed token of each row: [B]."""
        return torch.tensor([row.tokens[-1] for row in self.rows], device=device)

    def plan(self, device: torch.device) -> RoundPlan:
        """Returns where the rows stand, and what their budgets are."""
        return RoundPlan(
            prompt_ids=tuple([row.prompt_id for row in self.rows]),
            starts=tuple([len(row.tokens) for row in self.rows]),
            budgets=tuple([row.budget for row in self.rows]),
            device=device,
        )

    def commit(self, draft: Draft, verdict: Verdict) -> tuple[tuple[int, ...], ...]:
        """Appends each row's accepted tokens and the next one, up to its budget; returns what was emitted."""
        drafted = draft.tokens.tolist()
        token = verdict.token.tolist()
        return self.append(
            [[drafted[b][i] for i in kept] + [token[b]] for b, kept in enumerate(verdict.kept())]
        )

    def append(self, tokens: Sequence[Sequence[int]]) -> tuple[tuple[int, ...], ...]:
        """Appends tokens to each row, up to its budget; returns what was emitted."""
        return tuple([row.append(more) for row, more in zip(self.rows, tokens, strict=True)])
