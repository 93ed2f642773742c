"""The language model: a GPT in the shape of Llama.

Token embedding, then layers of grouped-query attention and a gated feed-forward network, each after
a root-mean-square norm and added to the residual stream, a last norm, and a linear head. Positions enter by
rotating queries and keys. No dropout, and no biases but where Qwen 2 has them. The names of the weights are
those of Hugging Face's `LlamaForCausalLM`, so that a checkpoint can be read by other tools.

Sources: Vaswani et al. 2017 (attention); Touvron et al. 2023 (Llama); Zhang and Sennrich 2019 (RMSNorm);
Su et al. 2021 (rotary positions); Shazeer 2020 (SwiGLU); Ainslie et al. 2023 (grouped-query attention);
Grattafiori et al. 2024 (Llama 3); Yang et al. 2024 and 2025 (Qwen 2, Qwen 3).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from minispec.core.cache import KVCache


class LanguageModel(Protocol):
    """What decoding needs of a model.

    Attributes:
        vocab_size: V.
        hidden_size: D.
        max_length: the most tokens that a row can hold, prompt and continuation together.
    """

    vocab_size: int
    hidden_size: int
    max_length: int

    @property
    def device(self) -> torch.device:
        """Where it computes."""

    def new_cache(self, rows: int) -> KVCache:
        """Returns an empty cache for `rows` rows."""

    def hidden(self, tokens: Tensor, cache: KVCache | None = None, tree: Tree | None = None) -> Tensor:
        """Reads tokens [B, n] after what the cache holds; returns [B, n, D] and extends the cache.

        A tree says where the tokens stand, if not one after the other; ValueError from a model that reads
        chains only.
        """

    def head(self, hidden: Tensor) -> Tensor:
        """Maps [B, n, D] to logits [B, n, V]."""


@dataclass(frozen=True)
class RopeScaling:
    """How Llama 3.1 and later rotate for a longer context: slow pairs more slowly, fast ones as before.

    Attributes:
        factor: how many times more slowly.
        low_freq_factor: pairs that rotate less often than this within the original context are slow.
        high_freq_factor: pairs that rotate more often are fast; what lies between the two is interpolated.
        original_length: the context before, in tokens.
    """

    factor: float
    low_freq_factor: float
    high_freq_factor: float
    original_length: int

    def __post_init__(self) -> None:
        if self.high_freq_factor <= self.low_freq_factor:
            raise ValueError("high_freq_factor must be above low_freq_factor")

    def scale(self, frequency: Tensor) -> Tensor:
        """Maps radians per token to those for the longer context: [head_dim / 2] -> the same."""
        rotations = self.original_length * frequency / (2 * torch.pi)
        fast = (rotations - self.low_freq_factor) / (self.high_freq_factor - self.low_freq_factor)
        return torch.lerp(frequency / self.factor, frequency, fast.clamp(0, 1))


@dataclass(frozen=True)
class GPTConfig:
    """The sizes of a GPT.

    Attributes:
        vocab_size: V.
        layers: how many blocks.
        width: D, the size of the stream.
        heads: query heads.
        kv_heads: key and value heads; divides `heads`.
        ffn: inner width of the feed-forward network.
        max_length: context, in tokens.
        tied: whether the head is the embedding's own matrix.
        rope_theta: the base of the rotary frequencies.
        norm_eps: added to the mean square before its root.
        head_size: of one head; None: width / heads.
        qkv_bias: whether queries, keys and values have biases, as in Qwen 2.
        qk_norm: whether each head of queries and keys is normed before it is rotated, as in Qwen 3.
        rope_scaling: how rotary frequencies are scaled; None: they are not.
    """

    vocab_size: int
    layers: int
    width: int
    heads: int
    kv_heads: int
    ffn: int
    max_length: int = 256
    tied: bool = False
    rope_theta: float = 10_000.0
    norm_eps: float = 1e-5
    head_size: int | None = None
    qkv_bias: bool = False
    qk_norm: bool = False
    rope_scaling: RopeScaling | None = None

    def __post_init__(self) -> None:
        for name in ("vocab_size", "layers", "width", "heads", "kv_heads", "ffn", "max_length", "rope_theta"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, not {getattr(self, name)}")
        if (self.head_size is None and self.width % self.heads) or self.head_dim < 2 or self.head_dim % 2:
            wrong = f"width {self.width} must be an even multiple of heads {self.heads}"
            raise ValueError(wrong if self.head_size is None else f"head_size {self.head_size} must be even")
        if self.heads % self.kv_heads:
            raise ValueError(f"heads {self.heads} must be a multiple of kv_heads {self.kv_heads}")

    @property
    def head_dim(self) -> int:
        """The size of one head."""
        return self.width // self.heads if self.head_size is None else self.head_size


class RMSNorm(nn.Module):
    """Divides by the root of the mean square, computed in float32 or wider, then scales."""

    def __init__(self, width: int, eps: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        """Norms the last dimension: [..., D] -> [..., D]."""
        wide = x if x.dtype == torch.float64 else x.float()
        scale = torch.rsqrt(wide.square().mean(-1, keepdim=True) + self.eps)
        return (wide * scale).to(x.dtype) * self.weight


def rotary_frequencies(config: GPTConfig) -> Tensor:
    """Returns how far each pair is rotated from a position to the next, in radians: [head_dim / 2], float64.

    For pair i that is theta^(−2i/head_dim) (Su et al. 2021, equation 15), before it is scaled.
    """
    exponent = torch.arange(0, config.head_dim, 2, dtype=torch.float64) / config.head_dim
    frequency = config.rope_theta**-exponent
    return config.rope_scaling.scale(frequency) if config.rope_scaling else frequency


@lru_cache(maxsize=32)
@torch.inference_mode(False)  # made while decoding, they must still serve training
def rotary_tables(
    config: GPTConfig, length: int, dtype: torch.dtype = torch.float64, device: torch.device | str = "cpu"
) -> tuple[Tensor, Tensor]:
    """Returns cosine and sine of the angles of the first positions, [length, head_dim] each."""
    angle = torch.outer(torch.arange(length, dtype=torch.float64), rotary_frequencies(config))
    angle = torch.cat([angle, angle], dim=-1)  # the two halves of a head are the two axes
    return angle.cos().to(device, dtype), angle.sin().to(device, dtype)


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotates each pair (x[i], x[i + head_dim/2]) by its position's angle.

    Args:
        x: [B, heads, n, head_dim].
        cos: [n, head_dim], or [B, 1, n, head_dim] for ragged rows.
        sin: the same.
    """
    first, second = x.chunk(2, dim=-1)
    return x * cos + torch.cat([-second, first], dim=-1) * sin


class Attention(nn.Module):
    """Grouped-query attention: several query heads share one head of keys and values."""

    def __init__(self, config: GPTConfig) -> None:
        super().__init__()
        self.head_dim = config.head_dim
        self.grouped = config.heads != config.kv_heads
        self.q_proj = nn.Linear(config.width, config.heads * config.head_dim, bias=config.qkv_bias)
        self.k_proj = nn.Linear(config.width, config.kv_heads * config.head_dim, bias=config.qkv_bias)
        self.v_proj = nn.Linear(config.width, config.kv_heads * config.head_dim, bias=config.qkv_bias)
        self.o_proj = nn.Linear(config.heads * config.head_dim, config.width, bias=False)
        self.q_norm, self.k_norm = (
            RMSNorm(config.head_dim, config.norm_eps) if config.qk_norm else nn.Identity() for _ in range(2)
        )

    def forward(self, x: Tensor, view: View, layer: int) -> Tensor:
        """Lets each token look at itself and what came before: [B, n, D] -> [B, n, D]."""
        rows, new, _ = x.shape
        q, k, v = (  # [B, heads, n, head_dim]; keys and values have kv_heads
            project(x).view(rows, new, -1, self.head_dim).transpose(1, 2)
            for project in (self.q_proj, self.k_proj, self.v_proj)
        )
        q = rotate(self.q_norm(q), view.cos, view.sin)
        k = rotate(self.k_norm(k), view.cos, view.sin)
        if view.cache is not None:
            k, v = view.cache.append(layer, k, v)
        out = self.attend(q, k, v, view)  # [B, heads, n, head_dim]
        return self.o_proj(out.transpose(1, 2).reshape(rows, new, -1))

    def attend(self, q: Tensor, k: Tensor, v: Tensor, view: View) -> Tensor:
        """Weighs values by how well queries match keys (Vaswani et al. 2017, equation 1).

        q is [B, heads, n, head_dim], and so is the result; k and v are [B, kv_heads, end, head_dim].
        """
        return F.scaled_dot_product_attention(
            q, k, v, attn_mask=view.mask, is_causal=view.cache is None, enable_gqa=self.grouped
        )


class FeedForward(nn.Module):
    """SwiGLU: down(silu(gate(x)) · up(x))."""

    def __init__(self, config: GPTConfig) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(config.width, config.ffn, bias=False)
        self.up_proj = nn.Linear(config.width, config.ffn, bias=False)
        self.down_proj = nn.Linear(config.ffn, config.width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """Works on each token by itself: [B, n, D] -> [B, n, D]."""
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


class Block(nn.Module):
    """One layer: attention, then feed-forward, each normed first and added to the stream."""

    def __init__(self, config: GPTConfig) -> None:
        super().__init__()
        self.input_layernorm = RMSNorm(config.width, config.norm_eps)
        self.self_attn = Attention(config)
        self.post_attention_layernorm = RMSNorm(config.width, config.norm_eps)
        self.mlp = FeedForward(config)

    def forward(self, x: Tensor, view: View, layer: int) -> Tensor:
        """Adds both parts to the stream: [B, n, D] -> [B, n, D]."""
        x = x + self.self_attn(self.input_layernorm(x), view, layer)
        return x + self.mlp(self.post_attention_layernorm(x))


class View(NamedTuple):
    """What all layers of one forward share: computed once, not once a layer.

    Attributes:
        cos: cosines of the new tokens' angles, [n, head_dim] or [B, 1, n, head_dim].
        sin: sines, the same shape.
        mask: added to scores, or None (see `KVCache.begin`).
        cache: where keys and values go, or None for plain causal attention.
    """

    cos: Tensor
    sin: Tensor
    mask: Tensor | None
    cache: KVCache | None


class Tree(NamedTuple):
    """Where new tokens stand, if not one after the other (SpecInfer, Miao et al. 2024, section 4.2).

    Attributes:
        positions: [B, n], the position in the text of each; siblings share one.
        mask: [B, n, w] bool, what each sees of the new ones and of w − n before them: itself, its ancestors.
    """

    positions: Tensor
    mask: Tensor

    @staticmethod
    def after(lengths: Tensor, parents: Tensor) -> Tree:
        """Places pending tokens, and trees with these parents [B, K], after rows of these lengths [B]."""
        rows, k = parents.shape
        mask = torch.eye(k + 1, dtype=torch.bool, device=parents.device).repeat(rows, 1, 1)
        row_indices = torch.arange(rows, device=parents.device)
        for i in range(k):
            mask[:, i + 1] |= mask[row_indices, parents[:, i]]
        return Tree(lengths.to(parents.device)[:, None] + mask.sum(-1) - 1, mask)


class Layers(nn.ModuleList):
    """Blocks in order; a slice of them is run by itself, as an early exit does."""

    def forward(self, x: Tensor, view: View) -> Tensor:
        """Runs the blocks on the residual stream: [B, n, D] -> [B, n, D]."""
        for layer, block in enumerate(self):
            x = block(x, view, layer)
        return x


class GPT(nn.Module):
    """A causal language model, [B, n] token ids to [B, n, V] logits.

    Satisfies `LanguageModel`. The weights are random: train it, or load a checkpoint.
    """

    def __init__(self, config: GPTConfig) -> None:
        """Makes a model of the given sizes; torch's own initialisation draws from its global generator."""
        super().__init__()
        self.config = config
        self.vocab_size = config.vocab_size
        self.hidden_size = config.width
        self.max_length = config.max_length
        self.embed_tokens = nn.Embedding(config.vocab_size, config.width)
        self.layers = Layers(Block(config) for _ in range(config.layers))
        self.norm = RMSNorm(config.width, config.norm_eps)
        self.lm_head = nn.Linear(config.width, config.vocab_size, bias=False)
        if config.tied:
            self.lm_head.weight = self.embed_tokens.weight

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        return self.embed_tokens.weight.device

    @property
    def dtype(self) -> torch.dtype:
        """The weights' type."""
        return self.embed_tokens.weight.dtype

    @property
    def parameters_count(self) -> int:
        """How many numbers the model has learned; a tied head counts once."""
        return sum(p.numel() for p in self.parameters())

    def new_cache(self, rows: int) -> KVCache:
        """Returns an empty cache for `rows` rows of up to `max_length` tokens."""
        return self.cache_of(self.config.layers, rows)

    def cache_of(self, layers: int, rows: int) -> KVCache:
        """Returns an empty cache for other layers of the same sizes, such as a drafter has."""
        c = self.config
        return KVCache(layers, rows, c.kv_heads, c.max_length, c.head_dim, self.dtype, self.device)

    def hidden(self, tokens: Tensor, cache: KVCache | None = None, tree: Tree | None = None) -> Tensor:
        """Reads tokens [B, n] and returns the residual stream after the last norm [B, n, D].

        Args:
            tokens: ids.
            cache: what came before; it is extended by n tokens a row. None: nothing came before.
            tree: where the tokens stand and what they see, if not one after the other.

        Raises:
            ValueError: if the context has no space for n more tokens, or a tree comes without a cache.
        """
        view = self.view(tokens.shape[1], cache, tree)
        x = self.layers(self.embed_tokens(tokens), view)  # [B, n, D]
        if cache is not None:
            cache.advance()
        return self.norm(x)

    def head(self, hidden: Tensor) -> Tensor:
        """Maps the residual stream [B, n, D] to logits [B, n, V]."""
        return self.lm_head(hidden)

    def forward(self, tokens: Tensor, cache: KVCache | None = None) -> Tensor:
        """Returns head(hidden(tokens, cache)): logits [B, n, V]."""
        return self.head(self.hidden(tokens, cache))

    def view(self, new: int, cache: KVCache | None, tree: Tree | None = None) -> View:
        """Prepares what all layers share in a forward over n new tokens a row (see `hidden`)."""
        end = new if cache is None else max(cache.row_lengths) + new
        length = min(1 << end.bit_length(), self.max_length)  # a power of 2: few tables serve all
        cos, sin = rotary_tables(self.config, length, self.dtype, self.device)
        if cache is None:
            if tree is not None:
                raise ValueError("a tree needs a cache: take one from new_cache")
            if new > self.max_length:
                raise ValueError(f"{new} tokens do not fit a context of {self.max_length}")
            return View(cos[:new], sin[:new], None, None)
        positions, bias = cache.begin(new, None if tree is None else tree.mask)
        if tree is not None:  # what stands after the context's end is padding
            positions = tree.positions.clamp(max=length - 1)
        cos, sin = cos[positions], sin[positions]
        if cos.dim() == 3:  # ragged rows: one angle per row and token, the same for all heads
            cos, sin = cos[:, None], sin[:, None]
        return View(cos, sin, bias, cache)
