"""The compiled draft: several draft steps in a row, each one call of a package.

A draft step of a small model is a few microseconds of arithmetic behind dozens of operations: forward, law,
draw. One package does all three, so the token that it draws can be handed to the next call as it is.
"""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor

from minispec.lm.compiled import CLOSE, check_place, package
from minispec.lm.lean import LeanCache, LeanGPT
from minispec.lm.model import DAMAGED, GPT
from minispec.lm.program import Step


class CompiledDraft(LeanGPT):
    """A draft model whose whole step is compiled. Satisfies `LanguageModel`; for decoding only.

    Its forwards go the way of `LeanGPT`; `draw` is what a drafter uses.
    """

    def __init__(self, model: GPT, folder: Path | None = None) -> None:
        """Loads the package, and builds it if it is missing, which takes some ten seconds, once.

        Args:
            model: a GPT on a CPU, in float32.
            folder: where packages are kept; by default `compiled` in the cache folder.

        Raises:
            ValueError: as `CompiledGPT`.
        """
        check_place(model)
        super().__init__(model)
        heat, number = torch.tensor(1.0), torch.zeros(1, dtype=torch.float64)
        self._step = package(self, "step", Step(self), 1, folder, heat, number)
        self.check()

    def can_draw(self, cache: LeanCache, k: int) -> bool:
        """Whether `draw` can take k steps: one row, of 1 token or more, short of the context's last slot."""
        return cache.rows == 1 and cache.row_lengths[0] >= 1 and cache.row_lengths[0] + k < self.max_length

    @torch.no_grad()
    def draw(
        self, token: Tensor, cache: LeanCache, temperature: float, numbers: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Reads a token and draws the next, and so on, as often as there are numbers.

        Args:
            token: [1], the pending token.
            cache: of one row; it is extended by K tokens: the pending one and all drawn ones but the last.
            temperature: 0 puts all mass on the largest logit.
            numbers: [1, K] float64 in [0, 1), what each draw is decided by.

        Returns:
            The ids [1, K], and the laws that they were drawn from [1, K, V].

        Raises:
            ValueError: if the context has no room for K more tokens, or a logit is not finite.
        """
        k, start = numbers.shape[1], cache.row_lengths[0]
        cache.begin(k)
        heat, places = torch.tensor(temperature), torch.arange(start, start + k).split(1)
        keys, values = (side.unbind(0) for side in cache.both[:, :, 0].unbind(1))
        laws, tokens = [], []
        for i, number in enumerate(numbers[0].split(1)):
            end = start + i + 1
            read, stored = [key[:, :end] for key in keys], [value[:, :end] for value in values]
            law, token = self._step([token, places[i], heat, number, *read, *stored])
            laws.append(law)
            tokens.append(token)
        cache.commit()
        if torch.stack(laws)[..., 0].isnan().any():  # a damaged law is NaN everywhere
            raise ValueError(DAMAGED)
        return torch.stack(tokens, 1), torch.stack(laws, 1)

    @torch.inference_mode()
    def check(self) -> None:
        """Compares the law of a step with the lean forward's.

        Raises:
            ValueError: if they differ by more than rounding.
        """
        text = torch.arange(3)[None] % self.vocab_size
        ours, lean = self.new_cache(1), self.new_cache(1)
        self.hidden(text[:, :2], ours)
        _, laws = self.draw(text[:, 2], ours, 1.0, torch.full((1, 1), 0.5, dtype=torch.float64))
        off = float((laws[0] - self(text, lean)[0, -1:].softmax(-1)).abs().max())
        if not off < CLOSE:
            raise ValueError(
                f"the compiled path does not compute what the model does: laws differ by {off:.1e}"
            )
