"""What exercises hand to an answer: a model with a budget of forwards, random numbers, parts of the loop."""

import copy
from collections.abc import Sequence
from itertools import count

import torch
from torch import Tensor

from minispec.core.cache import KVCache
from minispec.core.draft import ModelDrafter
from minispec.core.model import LanguageModel
from minispec.core.prefill import prefill
from minispec.core.records import Draft
from minispec.core.rng import Rng, SeededRng
from minispec.core.verify import verify_greedy
from minispec.core.warp import Warp
from minispec.evidence.proof.enumeration import Uniform


def limited(model: LanguageModel, most: int) -> LanguageModel:
    """Returns a copy of a model, with its weights, that refuses too many forwards: so a loop ends.

    More than `most` raise RuntimeError.
    """
    other = copy.copy(model)
    calls = count(1)

    def hidden(tokens: Tensor, cache: KVCache | None = None) -> Tensor:
        if next(calls) > most:
            raise RuntimeError(f"the model was called more than {most} times: does the loop end?")
        return model.hidden(tokens, cache)

    other.hidden = hidden  # type: ignore[method-assign]
    return other


class RowRng:
    """An `Rng` with two more methods, for one row and in a textbook's words."""

    def __init__(self, rng: Rng) -> None:
        """Takes the one that makes the decisions: it may draw, or try every outcome."""
        self.bernoulli = rng.bernoulli
        self.categorical = rng.categorical

    def uniform(self) -> Uniform:
        """Returns a new number between 0 and 1, to be compared."""
        return Uniform(self)

    def draw(self, distribution: Tensor) -> int:
        """Draws an id from a distribution [V].

        Raises:
            ValueError: if it has another shape, something negative, or another sum than 1.
        """
        probs = torch.as_tensor(distribution, dtype=torch.float64)
        if probs.dim() != 1:
            raise ValueError(f"rng.draw takes a distribution [V], not one of shape {list(probs.shape)}")
        if not bool((probs >= 0).all()) or abs(float(probs.sum()) - 1) > 1e-4:
            raise ValueError(f"rng.draw takes a distribution; the sum of these is {float(probs.sum()):.4g}")
        return int(self.categorical(probs[None]))


class Parts:
    """Draft, score, verify, roll back at temperature 0, for one row: what is left to write is the loop.

    Each method is the shipped phase of the same name, with its two caches. `target_calls` counts forwards of
    the target, prefill left out.
    """

    def __init__(self, target: LanguageModel, draft: LanguageModel) -> None:
        """Takes two models."""
        self._target = target
        self._drafter = ModelDrafter(draft)
        self._warp = Warp(temperature=0)
        self._rng = SeededRng(0)
        self.target_calls = 0
        self.cache = target.new_cache(1)
        self._block = torch.zeros(1, 0, dtype=torch.long)

    def prefill(self, prompt: Sequence[int]) -> None:
        """Both models read the prompt but its last token."""
        self.cache = prefill(self._target, [list(prompt)])
        self._drafter.start([list(prompt)])

    @torch.inference_mode()
    def draft(self, pending: int, k: int) -> Draft:
        """The draft model reads the pending token and guesses k tokens: a Draft of one row."""
        return self._drafter.propose(torch.tensor([pending]), k, self._warp, self._rng)

    @torch.inference_mode()
    def score(self, pending: int, draft: Draft) -> Tensor:
        """The target reads the pending token and the draft in one pass: its distributions [1, K + 1, V]."""
        self._block = torch.cat([torch.tensor([[pending]]), draft.tokens], dim=1)
        self.target_calls += 1
        return self._warp(self._target(self._block, self.cache))

    def verify(self, draft: Draft, target_probs: Tensor) -> tuple[int, int]:
        """Returns how many drafted tokens are accepted, and what follows them; target_probs: [1, K+1, V]."""
        verdict = verify_greedy(draft, target_probs, self._rng)
        return int(verdict.accepted), int(verdict.token)

    @torch.inference_mode()
    def rollback(self, length: int) -> None:
        """Both caches keep their first `length` tokens; the draft first reads its last guess if it must."""
        self.cache.truncate([length])
        if self._drafter.cache.row_lengths[0] < length:
            self._drafter.model.hidden(self._block[:, -1:], self._drafter.cache)
        self._drafter.cache.truncate([length])
