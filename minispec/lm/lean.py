"""The lean forward: the same function as `GPT`, in about a third of the time.

A small model spends its time on starting operations, not on arithmetic. `GPT` starts some fifty a layer, this
one some fifteen. What it does differently, and why the logits stay the same up to rounding:

* The gain of a norm is folded into the matrices behind it: (x · g) W = x (diag(g) W).
* A norm divides by hypot(‖x‖, √(D·ε)): √D times the root of mean square plus ε. That √D is folded too.
* Queries, keys and values come out of one product, gate and up out of another. Matrices lie transposed.
* All query and key heads are rotated by one complex multiplication. For that the two axes of each pair lie
  side by side, in queries and keys alike, so that their products do not change.
* Keys and values lie in one tensor and are stored by one copy.
* Query heads that share a key head count as further rows of queries, so no key is repeated.
* What all layers share is computed once per forward.

`model.py` is the one to read; a test holds the two to each other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from minispec.lm.cache import KVCache
from minispec.lm.model import GPT, Block, GPTConfig, rotary_tables


class LeanCache(KVCache):
    """A cache with keys and values in one tensor, [layers, 2, B, kv_heads, capacity, head_dim].

    Attributes:
        both: that tensor.
        bias: [capacity · groups, capacity], added to scores; a row per query head that shares a key head.
    """

    def __init__(self, config: GPTConfig, rows: int, dtype: torch.dtype, device: torch.device) -> None:
        """Takes the room for `rows` rows of a model's whole context."""
        c = config
        super().__init__(c.layers, rows, c.kv_heads, c.max_length, c.head_dim, dtype, device)
        self.both = torch.stack([self._keys, self._values], dim=1)
        self._keys, self._values = self.both.unbind(1)
        self.groups = c.heads // c.kv_heads
        self.bias = self._bias.repeat_interleave(self.groups, dim=0)


@dataclass(frozen=True)
class LeanLayer:
    """The matrices of one layer, ready to be multiplied from the right.

    Attributes:
        qkv: [D, (heads + 2 · kv_heads) · head_dim], with the first norm's gain and the scores' scale.
        out: [D, D].
        gate_up: [D, 2 · ffn], with the second norm's gain.
        down: [ffn, D].
    """

    qkv: Tensor
    out: Tensor
    gate_up: Tensor
    down: Tensor


@dataclass(frozen=True)
class LeanView:
    """What all layers of one forward share.

    Attributes:
        turn: [n, 1, head_dim / 2] complex, or [B, n, 1, head_dim / 2] for ragged rows.
        bias: [n · groups, end], or [B · kv_heads, n · groups, end] for ragged rows; None: all is seen.
        keys: per layer, [B · kv_heads, head_dim, end].
        values: per layer, [B · kv_heads, end, head_dim].
        room: per layer, [2, B, kv_heads, n, head_dim], where new keys and values go; None for ragged rows.
    """

    turn: Tensor
    bias: Tensor | None
    keys: Sequence[Tensor]
    values: Sequence[Tensor]
    room: Sequence[Tensor] | None


class LeanGPT:
    """A GPT in fewer operations. Satisfies `LanguageModel`; for decoding only, no gradients.

    Attributes:
        config: the sizes.
        vocab_size: V.
        max_length: the context.
        dtype: the weights' type.
        device: where they are.
        turns: [max_length, 1, head_dim / 2], every position's angles as complex numbers of length 1.
    """

    def __init__(self, model: GPT) -> None:
        """Copies a model's weights into the order that is fastest.

        Args:
            model: a GPT, on its device and in its type already.
        """
        self.config = model.config
        self.vocab_size, self.max_length = model.vocab_size, model.max_length
        self.dtype, self.device = model.dtype, model.device
        self._root = self.config.width**0.5
        wide = torch.float64 if self.dtype == torch.float64 else torch.float32
        self._wide = wide
        little = (self.config.width * self.config.norm_eps) ** 0.5
        self._little = torch.tensor(little, dtype=wide, device=self.device)
        with torch.no_grad():
            self._embedding = model.embed_tokens.weight.detach().clone()
            self._layers = [self._pack(block) for block in model.layers if isinstance(block, Block)]
            self._head = self._fold(model.lm_head.weight, model.norm.weight)  # [D, V]
            cos, sin = rotary_tables(self.config)
            half = (slice(None), None, slice(self.config.head_dim // 2))  # the other half repeats it
            self.turns = torch.complex(cos[half].to(wide), sin[half].to(wide)).to(self.device)

    def weights(self) -> list[Tensor]:
        """Returns the embedding [V, D], each layer's four matrices (see `LeanLayer`), the head [D, V]."""
        layers = [matrix for layer in self._layers for matrix in vars(layer).values()]
        return [self._embedding, *layers, self._head]

    def new_cache(self, rows: int) -> LeanCache:
        """Returns an empty cache for `rows` rows of up to `max_length` tokens."""
        return LeanCache(self.config, rows, self.dtype, self.device)

    @torch.no_grad()
    def hidden(self, tokens: Tensor, cache: KVCache | None = None) -> Tensor:
        """Reads tokens and returns the stream behind the last norm, its gain left to `head`.

        Args:
            tokens: [B, n] ids.
            cache: what came before, from `new_cache`; it is extended by n tokens a row. None: nothing did.

        Returns:
            [B, n, D].

        Raises:
            ValueError: if the context has no room for n more tokens, or the cache is of another kind.
        """
        rows, new = tokens.shape
        cache = self._usable(cache, rows, new)
        view = self._view(new, cache)
        x = F.embedding(tokens.flatten(), self._embedding)  # [B·n, D], a copy: it is added to in place
        for index, layer in enumerate(self._layers):
            qkv = (self._norm(x) @ layer.qkv).view(rows, new, -1)
            x.addmm_(self._attend(qkv, view, index, cache), layer.out)
            gate, up = (self._norm(x) @ layer.gate_up).chunk(2, dim=-1)
            x.addmm_(F.silu(gate) * up, layer.down)
        cache.commit()
        return self._norm(x).view(rows, new, -1)

    @torch.no_grad()
    def head(self, hidden: Tensor) -> Tensor:
        """Maps the stream [B, n, D] to logits [B, n, V]."""
        return hidden @ self._head

    def __call__(self, tokens: Tensor, cache: KVCache | None = None) -> Tensor:
        """Returns head(hidden(tokens, cache)): logits [B, n, V]."""
        return self.head(self.hidden(tokens, cache))

    def _norm(self, x: Tensor) -> Tensor:
        """Divides by hypot(‖x‖, √(D·ε)): [B·n, D] -> [B·n, D]."""
        length = torch.linalg.vector_norm(x, dim=-1, keepdim=True, dtype=self._wide)
        return (x / torch.hypot(length, self._little)).to(self.dtype)

    def _attend(self, qkv: Tensor, view: LeanView, index: int, cache: LeanCache) -> Tensor:
        """Lets each token look at itself and what came before: [B, n, …] -> [B·n, D]."""
        c, (rows, new, _) = self.config, qkv.shape
        heads = qkv.view(rows, new, c.heads + 2 * c.kv_heads, c.head_dim)
        turn(heads[:, :, : c.heads + c.kv_heads], view.turn)
        both = heads[:, :, c.heads :].view(rows, new, 2, c.kv_heads, c.head_dim).permute(2, 0, 3, 1, 4)
        if view.room is not None:
            view.room[index].copy_(both)
        else:
            cache.append(index, both[0], both[1])
        q = heads[:, :, : c.heads].view(rows, new, c.kv_heads, -1, c.head_dim).transpose(1, 2)
        q = q.reshape(rows * c.kv_heads, -1, c.head_dim)  # [B·kv_heads, n·groups, head_dim]
        keys, values = view.keys[index], view.values[index]
        scores = torch.bmm(q, keys) if view.bias is None else torch.baddbmm(view.bias, q, keys)
        out = torch.bmm(scores.softmax(-1), values)
        out = out.view(rows, c.kv_heads, new, -1, c.head_dim).transpose(1, 2)
        return out.reshape(rows * new, c.width)

    def _view(self, new: int, cache: LeanCache) -> LeanView:
        """Computes what all layers share."""
        positions, bias = cache.begin(new)
        both = cache.both.flatten(2, 3)  # [layers, 2, B·kv_heads, capacity, head_dim]
        end = cache.end
        keys = both[:, 0, :, :end].transpose(2, 3).unbind(0)
        values = both[:, 1, :, :end].unbind(0)
        turn, groups = self.turns[positions], cache.groups
        if isinstance(positions, slice):
            room = cache.both[:, :, :, :, positions].unbind(0)
            rows = slice(groups * positions.start, groups * end)
            return LeanView(turn, None if new == 1 else cache.bias[rows, :end], keys, values, room)
        assert bias is not None  # ragged rows have one each
        bias = bias.expand(-1, self.config.kv_heads, -1, -1).flatten(0, 1)
        return LeanView(turn, bias.repeat_interleave(groups, dim=1), keys, values, None)

    def _usable(self, cache: KVCache | None, rows: int, new: int) -> LeanCache:
        """Returns the cache to read into: an empty one if none was given."""
        if cache is None:
            if new > self.max_length:
                raise ValueError(f"{new} tokens do not fit a context of {self.max_length}")
            return self.new_cache(rows)
        if not isinstance(cache, LeanCache):
            raise ValueError("a lean model needs a cache of its own: take it from its new_cache")
        return cache

    def _pack(self, block: Block) -> LeanLayer:
        """Folds and joins one layer's matrices."""
        c, attention, mlp = self.config, block.self_attn, block.mlp
        scale = c.head_dim**-0.5
        qkv = torch.cat(
            [
                side_by_side(attention.q_proj.weight, c.head_dim) * scale,
                side_by_side(attention.k_proj.weight, c.head_dim),
                attention.v_proj.weight,
            ]
        )
        return LeanLayer(
            self._fold(qkv, block.input_layernorm.weight),
            attention.o_proj.weight.t().contiguous(),
            self._fold(
                torch.cat([mlp.gate_proj.weight, mlp.up_proj.weight]), block.post_attention_layernorm.weight
            ),
            mlp.down_proj.weight.t().contiguous(),
        )

    def _fold(self, weight: Tensor, gain: Tensor) -> Tensor:
        """Multiplies a norm's gain and √D into a matrix: [out, D] -> [D, out]."""
        return (weight.to(self._wide) * gain * self._root).to(self.dtype).t().contiguous()


def side_by_side(weight: Tensor, head_dim: int) -> Tensor:
    """Reorders each head's outputs so that the axes of a rotary pair are neighbours: [out, D] -> the same."""
    halves = weight.view(-1, 2, head_dim // 2, weight.shape[1])  # the two halves of a head are the two axes
    return halves.transpose(1, 2).reshape(weight.shape)


def turn(heads: Tensor, by: Tensor) -> None:
    """Rotates pairs in place, as complex numbers (Su et al. 2021, equation 15).

    Args:
        heads: [B, n, heads, head_dim], neighbours being a pair.
        by: [n, 1, head_dim / 2] complex, or [B, n, 1, head_dim / 2].
    """
    if heads.dtype in (torch.float32, torch.float64):
        torch.view_as_complex(heads.unflatten(-1, (-1, 2))).mul_(by)
    else:  # bfloat16 has no complex numbers
        wide = torch.view_as_complex(heads.float().unflatten(-1, (-1, 2))).mul_(by)
        heads.copy_(torch.view_as_real(wide).flatten(-2))
