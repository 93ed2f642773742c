"""The compiled path: the lean forward as machine code, built once and kept.

PyTorch can turn a forward into a package ahead of time: it writes C++, a compiler builds it, and the result
is a file that is loaded in a moment. Whole chains of operations become one loop, and small products get
kernels of their own. That leaves almost nothing of the cost of starting operations, which rules small
models.

A target has two packages: one for a single token, one for blocks of 2 to 17 tokens, as verification
reads them. Each works on one row, on a CPU, and looks at as many slots of the cache as the text has.
Everything else, such as prefill and batches, goes the way of `LeanGPT`, whose cache it shares.

A package holds the weights. Its name is a hash of all that decides it, so another model, or another version
of torch, has another file.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.export import Dim

from minispec.lm.build import build_package, load_package
from minispec.lm.cache import KVCache
from minispec.lm.checkpoint import cache_folder
from minispec.lm.lean import LeanCache, LeanGPT
from minispec.lm.model import GPT
from minispec.lm.program import Forward

MOST = 17  # tokens in a block: the pending one and K up to 16
LIKELY = 6  # the width that kernels are chosen for
CLOSE = 1e-3  # logits may differ from the lean forward's by rounding
VERSION = 1  # of what is written below


Package = Callable[[list[Tensor]], list[Tensor]]  # from a module's arguments, flat, to its results


class CompiledGPT(LeanGPT):
    """A GPT whose forward over one row is compiled. Satisfies `LanguageModel`; for decoding only."""

    def __init__(self, model: GPT, folder: Path | None = None) -> None:
        """Loads the model's packages, and builds those that are missing.

        Building takes ten seconds to a minute per package, once.

        Args:
            model: a GPT on a CPU, in float32.
            folder: where packages are kept; by default `compiled` in the cache folder.

        Raises:
            ValueError: if the model is on another device or of another type, there is no C++ compiler, the
                build fails, or a package does not compute what the lean forward does.
        """
        check_place(model)
        super().__init__(model)
        self._one = package(self, "one", Forward(self), 1, folder)
        self._block = package(self, "block", Forward(self), LIKELY, folder)
        self.check()

    def __call__(self, tokens: Tensor, cache: KVCache | None = None) -> Tensor:
        """Returns logits: [B, n] -> [B, n, V]; extends the cache."""
        rows, new = tokens.shape
        if rows != 1 or not isinstance(cache, LeanCache) or new > MOST:
            return super().__call__(tokens, cache)
        start = cache.row_lengths[0]
        end = start + new
        if not 2 <= end < self.max_length:  # the compiler was promised that
            return super().__call__(tokens, cache)
        slots = cache.both[:, :, 0, :, :end]
        cache.begin(new)
        keys, values = slots[:, 0].unbind(0), slots[:, 1].unbind(0)
        run = self._one if new == 1 else self._block
        (logits,) = run([tokens[0], torch.arange(start, end), *keys, *values])
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


def package(
    lean: LeanGPT, name: str, module: nn.Module, width: int, folder: Path | None, *more: Tensor
) -> Package:
    """Loads a package, and builds it first if it is not there or cannot be loaded.

    Args:
        lean: whose weights the module has taken over.
        name: of the package.
        module: what to compile.
        width: how many tokens it is tuned for; 1: it reads no more.
        folder: where packages are kept; by default `compiled` in the cache folder.
        *more: examples of further arguments, [] or [1], behind the positions.

    Raises:
        ValueError: if there is no C++ compiler, or the build fails.
    """
    path = (folder or cache_folder() / "compiled") / f"{key_of(lean)}-{name}.pt2"
    if path.exists():
        with suppress(Exception):  # half a file, or one of another system
            return load_package(path)
    cache = lean.new_cache(1).both[:, :, 0, :, : 2 * LIKELY + width]
    where = torch.arange(width) + 2 * LIKELY
    example = (torch.zeros_like(where), where, *more, cache[:, 0].unbind(0), cache[:, 1].unbind(0))
    n = {0: Dim("n", min=2, max=MOST)} if width > 1 else None
    slots = ({1: Dim("end", min=2, max=lean.max_length - 1)},) * lean.config.layers
    build_package(module.eval(), example, (n, n, *[None] * len(more), slots, slots), path)
    return load_package(path)


def key_of(lean: LeanGPT) -> str:
    """Returns a hash of all that decides what is built."""
    here = (torch.__version__, torch.backends.cpu.get_cpu_capability())
    about = (VERSION, MOST, LIKELY, lean.config, *here)
    digest = hashlib.sha256(repr(about).encode())
    for weight in lean.weights():
        digest.update(weight.numpy().tobytes())
    return digest.hexdigest()[:24]


def check_place(model: GPT) -> None:
    """Refuses what packages cannot compute.

    Raises:
        ValueError: if the model is on another device or of another type.
    """
    if model.device.type != "cpu" or model.dtype != torch.float32:
        raise ValueError("the compiled path is for float32 on a CPU; elsewhere use the lean path")
