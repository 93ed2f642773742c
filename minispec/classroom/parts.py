"""What exercises hand to an answer: a model with a budget of forwards, random numbers, parts of the loop."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from minispec.classroom.running import Malformed
from minispec.core.cache import KVCache
from minispec.core.draft import ModelDrafter
from minispec.core.model import LanguageModel, Tree
from minispec.core.prefill import prefill
from minispec.core.records import Draft
from minispec.core.rng import RoundPlan, RoundRng, SeededRng
from minispec.core.verify import accept_greedy
from minispec.core.warp import Warp
from minispec.evidence.proof.enumeration import Uniform


class LimitedModel:
    """A `LanguageModel` that refuses too many forwards, so a loop ends. It can be called as a GPT can."""

    def __init__(self, model: LanguageModel, limit: int) -> None:
        """Takes a model, and how many forwards it may make."""
        self.vocab_size = model.vocab_size
        self.hidden_size = model.hidden_size
        self.max_length = model.max_length
        self.device = model.device
        self.head = model.head
        self._model = model
        self._limit = limit
        self._forwards = 0

    def new_cache(self, rows: int) -> KVCache:
        """Returns an empty cache for `rows` rows."""
        return self._model.new_cache(rows)

    def hidden(self, tokens: Tensor, cache: KVCache | None = None, tree: Tree | None = None) -> Tensor:
        """Reads tokens [B, n] and returns [B, n, D]; RuntimeError where that is one forward too many."""
        self._forwards += 1
        if self._forwards > self._limit:
            raise RuntimeError(f"the model was called more than {self._limit} times: does the loop end?")
        return self._model.hidden(tokens, cache, tree)

    def __call__(self, tokens: Tensor, cache: KVCache | None = None) -> Tensor:
        """Returns head(hidden(tokens, cache)): logits [B, n, V]."""
        return self.head(self.hidden(tokens, cache))


@dataclass(frozen=True)
class RowRng(RoundRng):
    """A `RoundRng` with two more methods, for one row and in a textbook's words."""

    plan: RoundPlan = RoundPlan.unlimited(1, torch.device("cpu"))

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
        self._rng = RowRng(SeededRng(0))
        self.target_calls = 0
        self.cache = target.new_cache(1)
        self._block = torch.empty(0)
        self._has_read_prompt = False

    def prefill(self, prompt: Sequence[int]) -> None:
        """Both models read the prompt but its last token."""
        self.cache, hidden = prefill(self._target, [prompt])
        self._drafter.start([prompt], hidden)
        self._has_read_prompt = True

    @torch.inference_mode()
    def draft(self, pending: int, k: int) -> Draft:
        """The draft model reads the pending token and guesses k tokens: a Draft of one row.

        Raises:
            Malformed: if no prompt has been read.
        """
        if not self._has_read_prompt:
            raise Malformed("parts.draft was called before parts.prefill(prompt)")
        return self._drafter.propose(torch.tensor([pending]), k, self._warp, self._rng)

    @torch.inference_mode()
    def score(self, pending: int, draft: Draft) -> Tensor:
        """The target reads the pending token and the draft, once: its distributions [1, K + 1, V]."""
        self._block = draft.after(torch.tensor([pending]))
        self.target_calls += 1
        return self._warp(self._target.head(self._target.hidden(self._block, self.cache)))

    def verify(self, draft: Draft, target_probs: Tensor) -> tuple[int, int]:
        """Returns how many drafted tokens are accepted, and what follows them; target_probs: [1, K+1, V]."""
        verdict = accept_greedy(draft, target_probs, self._rng)
        return int(verdict.accepted), int(verdict.token)

    @torch.inference_mode()
    def rollback(self, length: int) -> None:
        """Both caches keep their first `length` tokens; the draft first reads its last guess if it must."""
        self.cache.truncate([length])
        if self._drafter.cache.row_lengths[0] < length:
            self._drafter.model.hidden(self._block[:, -1:], self._drafter.cache)
        self._drafter.cache.truncate([length])
