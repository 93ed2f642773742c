"""The compiled path: the lean forward as machine code, built once and kept.

PyTorch can turn a forward into a package ahead of time: it writes C++, a compiler builds it, and the result
is a file that is loaded in a moment. Whole chains of operations become one loop, and small products get
kernels of their own. That leaves almost nothing of the cost of starting operations, which rules small
models.

There are two packages per model: one for a single token, one for blocks of 2 to 17 tokens, as verification
reads them. Each works on one row, on a CPU, and looks at as many slots of the cache as the text has.
Everything else, such as prefill and batches, goes the way of `LeanGPT`, whose cache it shares.

A package holds the weights. Its name is a hash of all that decides it, so another model, or another version
of torch, has another file.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.export import Dim

from minispec.lm.build import build_package, load_package
from minispec.lm.cache import KVCache
from minispec.lm.checkpoint import cache_folder
from minispec.lm.lean import LeanCache, LeanGPT
from minispec.lm.model import GPT, GPTConfig

MOST = 17  # tokens in a block: the pending one and K up to 16
LIKELY = 6  # the width that kernels are chosen for
CLOSE = 1e-3  # logits may differ from the lean forward's by rounding
VERSION = 1  # of what is written below


Package = Callable[[list[Tensor]], Tensor]  # from the flat arguments of `Forward` to logits [n, V]


class CompiledGPT(LeanGPT):
    """A GPT whose forward over one row is compiled. Satisfies `LanguageModel`; for decoding only."""

    def __init__(self, model: GPT, folder: Path | None = None, blocks: bool = True) -> None:
        """Loads the model's packages, and builds those that are missing.

        Building takes ten seconds to a minute per package, once.

        Args:
            model: a GPT on a CPU, in float32.
            blocks: whether blocks of tokens are compiled too. A draft model reads one token at a time.
            folder: where packages are kept; by default `compiled` in the cache folder.

        Raises:
            ValueError: if the model is on another device or of another type, there is no C++ compiler, the
                build fails, or a package does not compute what the lean forward does.
        """
        if model.device.type != "cpu" or model.dtype != torch.float32:
            raise ValueError("the compiled path is for float32 on a CPU; elsewhere use the lean path")
        super().__init__(model)
        folder = folder or cache_folder() / "compiled"
        key = self._key()
        self._one = self._package(folder / f"{key}-one.pt2", width=1)
        self._block = self._package(folder / f"{key}-block.pt2", width=LIKELY) if blocks else None
        self.check()

    def __call__(self, tokens: Tensor, cache: KVCache | None = None) -> Tensor:
        """Returns logits: [B, n] -> [B, n, V]; extends the cache."""
        rows, new = tokens.shape
        package = self._one if new == 1 else self._block
        if rows != 1 or not isinstance(cache, LeanCache) or new > MOST or package is None:
            return super().__call__(tokens, cache)
        start = cache.row_lengths[0]
        end = start + new
        if not 2 <= end < self.max_length:  # the compiler was promised that
            return super().__call__(tokens, cache)
        slots = cache.both[:, :, 0, :, :end]
        cache.begin(new)
        keys, values = slots[:, 0].unbind(0), slots[:, 1].unbind(0)
        logits = package([tokens[0], torch.arange(start, end), *keys, *values])
        cache.commit()
        return logits[None]

    @torch.inference_mode()
    def check(self) -> None:
        """Compares logits with those of the lean forward, for both packages.

        Raises:
            ValueError: if they differ by more than rounding.
        """
        text = (7 * torch.arange(2 * LIKELY + 2) + 3)[None] % self.vocab_size
        text = text[:, : self.max_length - 1]
        ours, lean = self.new_cache(1), self.new_cache(1)
        self.hidden(text[:, :2], ours)
        LeanGPT.hidden(self, text[:, :2], lean)
        for block in text[:, 2:].split([1, LIKELY, *[1] * (text.shape[1] - 3 - LIKELY)], dim=1):
            off = float((self(block, ours) - LeanGPT.__call__(self, block, lean)).abs().max())
            if not off < CLOSE:
                raise ValueError(
                    f"the compiled path does not compute what the model does: logits differ by {off:.1e}"
                )

    def _package(self, path: Path, width: int) -> Package:
        """Loads a package, and builds it first if it is not there or cannot be loaded."""
        if path.exists():
            with suppress(Exception):  # half a file, or one of another system
                return load_package(path)
        cache = self.new_cache(1).both[:, :, 0, :, : 2 * LIKELY + width]
        tokens = torch.zeros(width, dtype=torch.long)
        example = (tokens, torch.arange(width) + 2 * LIKELY, cache[:, 0].unbind(0), cache[:, 1].unbind(0))
        width_range = {0: Dim("n", min=2, max=MOST)} if width > 1 else None
        slots = ({1: Dim("end", min=2, max=self.max_length - 1)},) * self.config.layers
        build_package(Forward(self).eval(), example, (width_range, width_range, slots, slots), path)
        return load_package(path)

    def _key(self) -> str:
        """Returns a hash of all that decides what is built."""
        here = (torch.__version__, torch.backends.cpu.get_cpu_capability())
        about = (VERSION, MOST, LIKELY, self.config, *here)
        digest = hashlib.sha256(repr(about).encode())
        for weight in self.weights():
            digest.update(weight.numpy().tobytes())
        return digest.hexdigest()[:24]


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
