"""The program: what the compiler is given. `LeanGPT` for one row, with every size but two known beforehand.

It is written without in-place arithmetic, which the compiler adds by itself; only keys and values are
written in place. `Step` goes on where a draft model would stop: it turns logits into a law, and inverts its
cumulative sum at a number.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from minispec.lm.lean import LeanGPT
from minispec.lm.model import GPTConfig


@dataclass(frozen=True)
class Places:
    """What all layers of one forward share.

    Attributes:
        positions: [n].
        cos: cosines of their angles, [n, 1, head_dim / 2].
        sin: sines, the same shape.
        bias: [n, end], 0 where a token may look and −∞ where not.
    """

    positions: Tensor
    cos: Tensor
    sin: Tensor
    bias: Tensor


class Forward(nn.Module):
    """What is compiled: `LeanGPT` for one row, with every shape but two known beforehand."""

    def __init__(self, lean: LeanGPT) -> None:
        """Takes over a lean model's weights."""
        super().__init__()
        self.config: GPTConfig = lean.config
        for index, weight in enumerate(lean.weights()):
            self.register_buffer(f"weight{index}", weight)
        turns = torch.view_as_real(lean.turns)
        self.cos: Tensor
        self.sin: Tensor
        self.register_buffer("cos", turns[..., 0].contiguous())  # [max_length, 1, head_dim / 2]
        self.register_buffer("sin", turns[..., 1].contiguous())

    def forward(
        self, tokens: Tensor, positions: Tensor, keys: tuple[Tensor, ...], values: tuple[Tensor, ...]
    ) -> Tensor:
        """Reads tokens of one row, stores their keys and values, and returns logits.

        Args:
            tokens: [n] ids.
            positions: [n], one behind the other.
            keys: per layer, [kv_heads, end, head_dim], the slots up to the last new one.
            values: the same.

        Returns:
            [n, V].
        """
        embedding, *layers, head = [self.get_buffer(f"weight{i}") for i in range(4 * self.config.layers + 2)]
        later = torch.arange(keys[0].shape[1])[None] > positions[:, None]
        bias = torch.zeros(later.shape).masked_fill(later, float("-inf"))  # [n, end]
        view = Places(positions, self.cos[positions], self.sin[positions], bias)
        x = embedding[tokens]  # [n, D]
        for index in range(self.config.layers):
            qkv, out, gate_up, down = layers[4 * index : 4 * index + 4]
            x = x + self._attend(self._norm(x) @ qkv, view, keys[index], values[index]) @ out
            gate, up = (self._norm(x) @ gate_up).chunk(2, dim=-1)
            x = x + (F.silu(gate) * up) @ down
        return self._norm(x) @ head

    def _norm(self, x: Tensor) -> Tensor:
        c = self.config
        return x * torch.rsqrt(x.square().sum(-1, keepdim=True) + c.width * c.norm_eps)

    def _attend(self, qkv: Tensor, view: Places, keys: Tensor, values: Tensor) -> Tensor:
        """Lets each token look at itself and what came before: [n, …] -> [n, D]."""
        c, new, bias = self.config, qkv.shape[0], view.bias
        heads = qkv.view(new, c.heads + 2 * c.kv_heads, c.head_dim)
        real, imaginary = heads[:, : c.heads + c.kv_heads].unflatten(-1, (-1, 2)).unbind(-1)
        along = real * view.cos - imaginary * view.sin
        across = real * view.sin + imaginary * view.cos
        turned = torch.stack([along, across], dim=-1).flatten(-2)
        keys.index_copy_(1, view.positions, turned[:, c.heads :].transpose(0, 1))
        values.index_copy_(1, view.positions, heads[:, c.heads + c.kv_heads :].transpose(0, 1))
        q = turned[:, : c.heads].reshape(new, c.kv_heads, -1, c.head_dim).transpose(0, 1)
        scores = torch.bmm(q.reshape(c.kv_heads, -1, c.head_dim), keys.transpose(1, 2))
        if new > 1:
            scores = (scores.view(c.kv_heads, new, -1, bias.shape[1]) + bias[None, :, None]).flatten(1, 2)
        seen = torch.bmm(scores.softmax(-1), values)
        return seen.view(c.kv_heads, new, -1, c.head_dim).transpose(0, 1).reshape(new, c.width)


class Step(nn.Module):
    """A draft step for one row: forward, law at a temperature, draw."""

    def __init__(self, lean: LeanGPT) -> None:
        """Takes over a lean model's weights."""
        super().__init__()
        self.program = Forward(lean)

    def forward(
        self,
        tokens: Tensor,
        positions: Tensor,
        temperature: Tensor,
        number: Tensor,
        keys: tuple[Tensor, ...],
        values: tuple[Tensor, ...],
    ) -> tuple[Tensor, Tensor]:
        """Reads a token and draws the next one.

        The draw inverts the law's cumulative sum, as `SeededRng` does: the first id whose sum exceeds the
        number.

        Args:
            tokens: [1], an id.
            positions: [1].
            temperature: [], float32; 0 puts all mass on the largest logit.
            number: [1], float64 in [0, 1).
            keys: as in `Forward`.
            values: as in `Forward`.

        Returns:
            The law [1, V], and the id drawn from it [1].
        """
        logits = self.program(tokens, positions, keys, values)  # [1, V]
        best = F.one_hot(logits.argmax(-1), logits.shape[-1]).to(logits.dtype)
        warmth = torch.where(temperature > 0, temperature, 1.0)
        warm = torch.softmax((logits - logits.amax(-1, keepdim=True)) / warmth, dim=-1)
        law = torch.where(temperature > 0, warm, best)
        cumulative = law.double().cumsum(-1)
        total = cumulative[:, -1:]
        # Rounding must not lift the threshold to the total: then no sum would exceed it.
        threshold = torch.minimum(number[:, None] * total, total * (1 - 2.0**-52))
        return law, (cumulative <= threshold).sum(-1)
