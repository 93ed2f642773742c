"""The parts of the loop for one row, ready to be put together: draft, score, verify, roll back.

Each method is a thin cover over the shipped part of the same name, with its two caches in one place. What is
left to write is the loop itself.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from minispec.core.cache import KVCache
from minispec.core.draft import ModelDrafter
from minispec.core.model import LanguageModel
from minispec.core.prefill import prefill
from minispec.core.records import Draft
from minispec.core.rng import Rng, SeededRng
from minispec.core.verify import Verifier, verify_greedy
from minispec.core.warp import Warp


class Parts:
    """Two models with a cache each, for one row of text.

    Attributes:
        target_calls: how many forwards of the target there were, prefill left out.
    """

    def __init__(
        self,
        target: LanguageModel,
        draft: LanguageModel,
        *,
        warp: Warp | None = None,
        verifier: Verifier = verify_greedy,
        rng: Rng | None = None,
    ) -> None:
        """Takes two models; by default at temperature 0 with the greedy verifier."""
        self._target, self._draft = target, draft
        self._drafter = ModelDrafter(draft)
        self._warp = warp or Warp(temperature=0)
        self._verifier = verifier
        self._rng = rng or SeededRng(0)
        self._cache: KVCache | None = None
        self._block = torch.zeros(1, 0, dtype=torch.long)
        self.target_calls = 0

    @property
    def cache(self) -> KVCache:
        """The target's cache."""
        if self._cache is None:
            raise RuntimeError("prefill(prompt) comes first")
        return self._cache

    def prefill(self, prompt: Sequence[int]) -> None:
        """Both models read the prompt but its last token."""
        self._cache = prefill(self._target, [list(prompt)])
        self._drafter.start([list(prompt)])

    @torch.inference_mode()
    def draft(self, pending: int, k: int) -> Draft:
        """The draft model reads the pending token and guesses k tokens: a Draft of one row."""
        return self._drafter.propose(torch.tensor([pending]), k, self._warp, self._rng)

    @torch.inference_mode()
    def score(self, pending: int, draft: Draft) -> Tensor:
        """The target reads the pending token and the draft, in one pass: its laws [1, K + 1, V]."""
        self._block = torch.cat([torch.tensor([[pending]]), draft.tokens], dim=1)
        self.target_calls += 1
        return self._warp(self._target(self._block, self.cache))

    def verify(self, draft: Draft, target_probs: Tensor) -> tuple[int, int]:
        """Returns how many drafted tokens are accepted, and the correction or bonus.

        target_probs: [1, K+1, V]; one row.
        """
        verdict = self._verifier(draft, target_probs, self._rng)
        return int(verdict.accepted), int(verdict.token)

    @torch.inference_mode()
    def rollback(self, length: int) -> None:
        """Both caches keep their first `length` tokens; the draft first reads its last guess if it must."""
        self.cache.truncate([length])
        if self._drafter.cache.row_lengths[0] < length:
            self._draft.hidden(self._block[:, -1:], self._drafter.cache)
        self._drafter.cache.truncate([length])
