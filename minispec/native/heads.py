"""Drafters that were trained on a target, natively: Medusa's heads, a feature drafter, a parallel drafter.

`drafters/medusa.py`, `eagle.py` and `parallel.py` are the ones to read. Their models compute in C++ here, and
a whole draft is one call.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from operator import index
from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from minispec.core.cache import KVCache
from minispec.core.model import GPT, GPTConfig, LanguageModel
from minispec.core.records import Draft
from minispec.core.rng import RoundRng
from minispec.core.warp import Warp
from minispec.drafters.chain import check_width
from minispec.drafters.eagle import FeatureDrafter, FeatureGPT, FeatureLayer
from minispec.drafters.eagle3 import Eagle3Layer
from minispec.drafters.medusa import Medusa, MedusaDrafter, MedusaHead, MedusaTreeDrafter
from minispec.drafters.parallel import ParallelDrafter, ParallelGPT, ParallelLayers
from minispec.native.cache import NativeCache
from minispec.native.checks import check, check_ids, checked
from minispec.native.drafter import Chain, Drawing, Draws, Shape, computes_with
from minispec.native.model import NativeGPT, NativeLayers, threads_for
from minispec.native.pack import PackedMatrix, check_type, pack_layers, pack_matrix
from minispec.native.structs import Kind, Status


def native_layers(
    native: NativeGPT,
    parts: FeatureLayer | ParallelLayers | Eagle3Layer,
    config: GPTConfig,
    blocks: nn.ModuleList | Sequence[nn.Module],
    head: PackedMatrix,
) -> NativeLayers:
    """Returns the layers of a drafter, packed for a target: its blocks, as a config says, and a head."""
    check_type(parts, native.weights_dtype)
    threads = min(threads_for(sum(p.numel() for p in parts.parameters())), native.threads)
    packed = pack_layers(native.native, config, threads, blocks, parts.norm, (None, head))
    return NativeLayers(native.native, packed, config, len(blocks), native.weights_dtype, threads)


def embeddings(target: GPT, tokens: Tensor, dims: int, dtype: torch.dtype) -> Tensor:
    """Returns a target's embeddings of ids [B] or [B, n]: [..., D]; ValueError if they are none."""
    ids = check_ids(tokens, dims)
    least, most = ids.aminmax()
    if least < 0 or most >= target.vocab_size:
        check(Status.BAD_TOKEN, target.vocab_size)
    return target.embed_tokens(ids).to(dtype)


class NativeFeatureGPT(FeatureGPT):
    """A `FeatureGPT` that computes in C++."""

    def __init__(self, layer: FeatureLayer, target: GPT, native: NativeGPT) -> None:
        """Joins what was trained on a target with that target, in torch and native."""
        super().__init__(layer, target)
        self.native = native
        self.dtype = native.dtype
        self.head = native.head
        self.layers = native_layers(native, layer, native.config, layer.layers, native.packed_head)
        self.fuse = pack_matrix(native.native, layer.fuse, self.layers.threads)
        self.chain = Chain(native, Kind.FEATURE, self.layers, [self.fuse])

    def new_cache(self, rows: int) -> KVCache:
        """Returns an empty cache for `rows` rows."""
        return self.layers.new_cache(rows)

    def after(self, tokens: Tensor, features: Tensor, cache: KVCache) -> Tensor:
        """Reads tokens [B, n], each with the feature before it; returns those after them: [B, n, D]."""
        embedded = embeddings(self.target, tokens, 2, self.dtype)
        features = checked("features", features, tuple(embedded.shape), self.dtype)
        joined = self.native.multiply(self.fuse, torch.cat([embedded, features], -1))
        return self.layers.read(tokens, cache, (0, self.layers.packed_layers), states=joined)


class NativeFeatureDrafter(FeatureDrafter, Draws):
    """A `FeatureDrafter` whose whole drafts are drawn in C++."""

    model: NativeFeatureGPT

    def __init__(self, layer: FeatureLayer, target: GPT, native: NativeGPT, warp: Warp | None = None) -> None:
        """Makes a drafter (see `FeatureDrafter`) for a target, in torch and native."""
        super().__init__(layer, target, warp)
        self._begin(NativeFeatureGPT(layer, target, native))

    def propose(self, pending: Tensor, k: int, warp: Warp, rng: RoundRng) -> Draft:
        """Guesses k tokens a row after the pending ones [B] (see `Chain.propose`)."""
        core = partial(super().propose, pending, k, warp, rng)
        self.catch_up()
        feature = self._feature.contiguous()
        return self.model.chain.propose(self._cache, pending, k, self.warp or warp, rng, core, feature)

    def drawing(self, target: LanguageModel) -> Drawing | None:
        """Returns what a round with this target is told (see `Draws`)."""
        if not computes_with(self.model.chain, target):
            return None
        self.catch_up()
        self._feature = self._feature.contiguous()
        return Drawing(self.model.chain, cast(NativeCache, self._cache), self._feature)


class NativeParallelGPT(ParallelGPT):
    """A `ParallelGPT` that computes in C++."""

    def __init__(self, parts: ParallelLayers, target: GPT, native: NativeGPT) -> None:
        """Joins what was trained on a target with that target, in torch and native."""
        super().__init__(parts, target)
        self.head = native.head
        self.layers = native_layers(native, parts, native.config, parts.layers, native.packed_head)
        threads = self.layers.threads
        matrices = [pack_matrix(native.native, matrix, threads) for matrix in (parts.before, parts.change)]
        self.mask = parts.mask.detach().to(native.dtype).contiguous()
        self.chain = Chain(native, Kind.PARALLEL, self.layers, matrices, self.mask)

    def new_cache(self, rows: int) -> KVCache:
        """Returns an empty cache for `rows` rows."""
        return self.layers.new_cache(rows)

    def with_masks(self, tokens: Tensor, cache: KVCache | None, masks: int) -> Tensor:
        """Reads tokens [B, n], and so many masks after them; returns [B, n + masks, D], extends the cache."""
        embedded = embeddings(self.target, tokens, 2, self.mask.dtype)
        states = torch.cat([embedded, self.mask.expand(len(tokens), masks, -1)], dim=1)
        ids = torch.zeros(states.shape[:2], dtype=torch.long)
        held = self.new_cache(len(tokens)) if cache is None else cache
        return self.layers.read(ids, held, (0, self.layers.packed_layers), states=states)

    def after(self, states: Tensor, tokens: Tensor) -> Tensor:
        """Returns the logits at positions with these states [B, D] after these tokens [B]: [B, V]."""
        before = embeddings(self.target, tokens, 1, self.target.dtype)
        states = checked("states", states, tuple(before.shape), self.mask.dtype)
        corrected = states + self.parts.correct(torch.zeros_like(before), before).to(states.dtype)
        return self.head(corrected[:, None])[:, 0]


class NativeParallelDrafter(ParallelDrafter, Draws):
    """A `ParallelDrafter` whose whole drafts are drawn in C++."""

    model: NativeParallelGPT

    def __init__(
        self, parts: ParallelLayers, target: GPT, native: NativeGPT, warp: Warp | None = None
    ) -> None:
        """Makes a drafter (see `ParallelDrafter`) for a target, in torch and native."""
        super().__init__(parts, target, warp)
        self.model = NativeParallelGPT(parts, target, native)

    def propose(self, pending: Tensor, k: int, warp: Warp, rng: RoundRng) -> Draft:
        """Guesses k tokens a row after the pending ones [B] (see `Chain.propose`)."""
        held = () if self._cache is None else self._cache.row_lengths
        core = partial(super().propose, pending, k, warp, rng)
        draft = self.model.chain.propose(self._cache, pending, k, self.warp or warp, rng, core)
        # The pending token stays, the masks go.
        self.cache.truncate([min(n + 1, self.max_length) for n in held])
        return draft

    def drawing(self, target: LanguageModel) -> Drawing | None:
        """Returns what a round with this target is told (see `Draws`)."""
        if not computes_with(self.model.chain, target):
            return None
        return Drawing(self.model.chain, cast(NativeCache, self.cache))


class NativeMedusa:
    """Medusa's heads in C++.

    Attributes:
        width: D.
        vocab_size: V.
    """

    def __init__(self, heads: Medusa, native: NativeGPT) -> None:
        """Packs heads for a target; ValueError if they were made for another width."""
        check_width(native.hidden_size, heads.width)
        check_type(heads, native.weights_dtype)
        self.width = heads.width
        self.vocab_size = heads.vocab_size
        self.native = native
        matrices = [
            pack_matrix(native.native, matrix, native.threads)
            for head in heads
            for matrix in (cast(MedusaHead, head).proj, cast(MedusaHead, head).lm_head)
        ]
        self._heads = list(zip(matrices[::2], matrices[1::2], strict=True))
        self.chain = Chain(native, Kind.MEDUSA, matrices=matrices)

    def __len__(self) -> int:
        """How many heads there are."""
        return len(self._heads)

    def __call__(self, hidden: Tensor) -> Tensor:
        """Maps hidden states to the logits of all heads: [B, D] -> [B, heads, V]."""
        logits = []
        for proj, head in self._heads:
            state = hidden + F.silu(self.native.multiply(proj, hidden))
            logits.append(self.native.multiply(head, state))
        return torch.stack(logits, dim=1)


class NativeMedusaDrafter(MedusaDrafter, Draws):
    """A `MedusaDrafter` whose whole drafts are drawn in C++."""

    heads: NativeMedusa

    def propose(self, pending: Tensor, k: int, warp: Warp, rng: RoundRng) -> Draft:
        """Guesses up to k tokens a row after the pending ones [B], one for each head."""
        core = partial(super().propose, pending, k, warp, rng)
        known = self._known.tolist()
        if not any(known):
            check_ids(pending, 1)
            return core()
        size, tree = self._shape(k, known)
        state = self._state.contiguous()
        return self.heads.chain.propose(None, pending, size, self.warp or warp, rng, core, state, known, tree)

    def _shape(self, k: int, known: Sequence[bool]) -> tuple[int, Shape | None]:
        """Returns how many tokens are drafted, and in the shape of which tree; None: of a chain."""
        return min(k, len(self.heads)), None

    def drawing(self, target: LanguageModel) -> Drawing | None:
        """Returns what a round with this target is told (see `Draws`); None while a row has no state."""
        if not computes_with(self.heads.chain, target) or not bool(self._known.all()):
            return None
        self._state = self._state.contiguous()
        return Drawing(self.heads.chain, states=self._state, longest=len(self.heads))


class NativeMedusaTreeDrafter(NativeMedusaDrafter, MedusaTreeDrafter):
    """A `MedusaTreeDrafter` whose whole drafts are drawn in C++, candidates without replacement."""

    def propose(self, pending: Tensor, k: int, warp: Warp, rng: RoundRng) -> Draft:
        """Proposes the tree, k deep or as deep as there are heads, to follow the pending tokens [B]."""
        draft = super().propose(pending, k, warp, rng)
        return replace(draft, lengths=draft.k * self._known.long())

    def _shape(self, k: int, known: Sequence[bool]) -> tuple[int, Shape | None]:
        """Returns how many tokens are drafted, and in the shape of which tree."""
        size = self.size(index(k))
        if size < 1:
            raise ValueError(f"a tree needs a K of at least 1: {k}")
        return size, Shape(self.parents[:size], [size * is_known for is_known in known])

    def drawing(self, target: LanguageModel) -> Drawing | None:
        """Returns what a round with this target is told (see `Draws`); None while a row has no state."""
        drawing = super().drawing(target)
        return drawing and replace(drawing, parents=self.parents, size=lambda k, _: self.size(k))
