"""Early exit on the native backend: the target's first layers draft in C++, and the others go on from there.

`drafters/exit.py` is the one to read. Here a whole draft is one call: K tokens go through the first layers,
the exit and the head, each drawn after the one before, and the last one is read as well. The
streams stay, and verification is one call through the other layers.
"""

from copy import deepcopy
from functools import partial
from operator import index
from typing import cast

import torch
from torch import Tensor

from minispec.core.cache import KVCache
from minispec.core.model import GPT, LanguageModel, Tree
from minispec.core.records import Draft
from minispec.core.rng import RoundRng
from minispec.core.warp import Warp
from minispec.drafters.exit import EarlyExitGPT, Exit, ExitCache, ExitDrafter
from minispec.native.cache import NativeCache
from minispec.native.checks import check_ids, space_for
from minispec.native.drafter import Chain, Drawing, DrawnDraft, Draws
from minispec.native.model import NativeGPT, NativeLayers
from minispec.native.pack import check_type, pack_layers, pack_matrix
from minispec.native.structs import Kind


class NativeExitGPT(EarlyExitGPT):
    """An `EarlyExitGPT` whose layers are those of a native model."""

    def __init__(self, model: NativeGPT, exit: Exit) -> None:
        """Joins a native model and an exit of the type of its weights; ValueError if they do not fit."""
        super().__init__(cast(GPT, model), deepcopy(exit).to(model.dtype))
        check_type(exit, model.weights_dtype)
        self.native = model
        norm = pack_layers(model.native, model.config, 1, (), exit.norm)
        self.chain = Chain(
            model,
            Kind.EXIT,
            NativeLayers(model.native, norm, model.config, 0, model.weights_dtype, 1),
            [pack_matrix(model.native, exit.proj, model.threads)],
            first_layers=exit.layers,
        )

    __reduce__ = NativeGPT.__reduce__  # it refuses to be copied

    def propose(self, cache: ExitCache, pending: Tensor, k: int, warp: Warp, rng: RoundRng) -> Draft:
        """Guesses k tokens a row after the pending ones [B] (see `Chain.propose`)."""
        core = partial(super().propose, cache, pending, k, warp, rng)
        if not cache.shared or cache.streams:
            return core()  # it says what is wrong
        cache.first.truncate(cache.row_lengths)
        cache.first.check_space(index(k))
        streams = space_for(cache.rows, max(k, 0) + 1, self.hidden_size, dtype=self.native.dtype)
        draft = self.chain.propose(cache.first, pending, k, warp, rng, core, streams)
        if isinstance(draft, DrawnDraft):  # and whatever the core has drawn as well, for one that enumerates
            cache.streams = [streams]
        return draft

    def hidden(self, tokens: Tensor, cache: KVCache | None = None, tree: Tree | None = None) -> Tensor:
        """Reads tokens [B, n] as `EarlyExitGPT` does; TypeError or ValueError if they are no ids."""
        return super().hidden(check_ids(tokens, 2), cache, tree)

    def first_layers(self, tokens: Tensor, cache: ExitCache) -> Tensor:
        """Takes tokens [B, n] through the first layers: the stream [B, n, D]."""
        first = cast(NativeCache, cache.first)
        return self.native.read(tokens, first, (0, self.exit.layers), normed=False)

    def later_layers(self, stream: Tensor, cache: ExitCache) -> Tensor:
        """Takes a stream through the other layers and the last norm: [B, n, D] -> [B, n, D]."""
        tokens = torch.zeros(stream.shape[:2], dtype=torch.long)  # have been read
        layers = self.exit.layers, self.native.packed_layers
        return self.native.read(tokens, cast(NativeCache, cache.later), layers, states=stream)


class NativeExitDrafter(ExitDrafter, Draws):
    """An `ExitDrafter` whose whole drafts are drawn in C++."""

    target: NativeExitGPT

    def drawing(self, target: LanguageModel) -> Drawing | None:
        """Returns what a round with this target is told (see `Draws`)."""
        if target is not self.target or self._cache is None or self._cache.streams:
            return None
        return Drawing(self.target.chain, cast(NativeCache, self._cache.first))
