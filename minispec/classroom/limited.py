"""A model that refuses to be called for ever: a loop without an end is told so at once."""

from __future__ import annotations

from torch import Tensor

from minispec.core.cache import KVCache
from minispec.core.model import LanguageModel
from minispec.core.prefill import device_of


class Limited:
    """A language model with a budget of forwards. Satisfies `LanguageModel`.

    Attributes:
        calls: how many forwards there were.
        positions: how many positions went through it.
    """

    def __init__(self, model: LanguageModel, most: int) -> None:
        """Wraps a model; more than `most` forwards raise RuntimeError."""
        self._model = model
        self._most = most
        self.vocab_size = model.vocab_size
        self.max_length = model.max_length
        self.device = device_of(model)
        self.calls = 0
        self.positions = 0

    def new_cache(self, rows: int) -> KVCache:
        """Returns an empty cache."""
        return self._model.new_cache(rows)

    def hidden(self, tokens: Tensor, cache: KVCache | None = None) -> Tensor:
        """Reads tokens, and counts: [B, n] -> [B, n, D].

        Raises:
            RuntimeError: if the budget is spent.
        """
        self.calls += 1
        self.positions += tokens.shape[1]
        if self.calls > self._most:
            raise RuntimeError(f"the model was called more than {self._most} times: does the loop end?")
        return self._model.hidden(tokens, cache)

    def head(self, hidden: Tensor) -> Tensor:
        """Maps to logits: [B, n, D] -> [B, n, V]."""
        return self._model.head(hidden)

    def __call__(self, tokens: Tensor, cache: KVCache | None = None) -> Tensor:
        """Returns head(hidden(tokens, cache)): [B, n] -> [B, n, V]."""
        return self.head(self.hidden(tokens, cache))
