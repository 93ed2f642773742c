"""EAGLE-3 on the native backend; `drafters/eagle3.py` is the one to read.

The library keeps the target's streams at the taps. It is given the queries, keys and values of the layer,
which is packed as any other is; those that it would make itself are not used.
"""

from copy import deepcopy
from functools import partial
from typing import cast

import numpy as np
import torch
from torch import Tensor, nn

from minispec.core.cache import KVCache
from minispec.core.model import GPT, Block, RMSNorm, Tree
from minispec.core.records import Draft
from minispec.core.rng import RoundRng
from minispec.core.warp import Warp
from minispec.drafters.chain import check_width
from minispec.drafters.eagle3 import Eagle3Drafter, Eagle3GPT, Eagle3Layer, JoinedBlock, TappedGPT
from minispec.native.checks import check_ids, checked
from minispec.native.drafter import Chain
from minispec.native.heads import embeddings, native_layers
from minispec.native.model import NativeGPT
from minispec.native.pack import PackedMatrix, pack_matrix, packed_gain, packed_qkv
from minispec.native.structs import Kind


class NativeTappedGPT(TappedGPT):
    """A `TappedGPT` that computes in C++, in one call."""

    def __init__(self, native: NativeGPT, taps: tuple[int, ...]) -> None:
        """Taps a native target."""
        super().__init__(cast(GPT, native), taps)
        self.native = native

    def hidden(self, tokens: Tensor, cache: KVCache | None = None, tree: Tree | None = None) -> Tensor:
        """Reads tokens as the target does: [B, n] -> [B, n, (taps + 1) · D]."""
        held = self.new_cache(len(check_ids(tokens, 2))) if cache is None else cache
        return self.native.read(tokens, held, (0, self.native.packed_layers), tree=tree, taps=self.taps)


class NativeEagle3GPT(Eagle3GPT):
    """An `Eagle3GPT` that computes in C++."""

    def __init__(self, layer: Eagle3Layer, target: GPT, native: NativeGPT) -> None:
        """Joins what was trained on a target with that target, in torch and native."""
        super().__init__(layer, target)
        self.native = native
        self.tapped = NativeTappedGPT(native, layer.taps)
        self.dtype = native.dtype
        config = layer.config
        self._joined = deepcopy(cast(JoinedBlock, layer.layers[0])).to(self.dtype)
        self._head = pack_matrix(native.native, layer.lm_head, native.threads)
        self.layers = native_layers(native, layer, config, [narrowed(layer)], self._head)
        threads = self.layers.threads
        attention = self._joined.self_attn
        parts = [attention.q_proj.weight, attention.k_proj.weight, attention.v_proj.weight]
        self._qkv = PackedMatrix(native.native, packed_qkv(parts, config.head_dim), threads)
        self._fc = pack_matrix(native.native, layer.fc, threads)
        self._norm = deepcopy(layer.norm).to(self.dtype)
        gain = packed_gain(self._joined.input_layernorm.weight, native.native.dtype)
        adds = self._joined.adds_to_normed
        self.chain = Chain(native, Kind.JOINED, self.layers, [self._qkv], gain, ids=check_ids(layer.ids, 1))
        self.chain.record.first_layers = adds

    def features(self, hidden: Tensor) -> Tensor:
        """Joins the streams of hidden states [B, n, (taps + 1) · D]: [B, n, D]."""
        hidden = checked("hidden states", hidden, None)
        check_width(hidden.shape[-1], self.tapped.hidden_size)
        streams = hidden[..., : self._fc.sizes[0]].to(self.dtype)
        return self.native.multiply(self._fc, streams)

    def new_cache(self, rows: int) -> KVCache:
        """Returns an empty cache for `rows` rows."""
        return self.layers.new_cache(rows)

    def after(self, tokens: Tensor, features: Tensor, cache: KVCache) -> Tensor:
        """Reads tokens [B, n], each with the feature before it; returns those after them: [B, n, D]."""
        embedded = embeddings(self.target, tokens, 2, self.dtype)
        features = checked("features", features, tuple(embedded.shape), self.dtype)
        both, x = self._joined.inputs(embedded, features)
        qkv = self.native.multiply(self._qkv, both)
        return self.layers.read(tokens, cache, (0, 1), states=x, normed=False, qkv=qkv)

    def head(self, features: Tensor) -> Tensor:
        """Maps features [B, n, D] to logits [B, n, V]: minus infinity for ids that it does not know."""
        features = checked("features", features, None, self.dtype)
        check_width(features.shape[-1], self.layers.hidden_size)
        known = self.native.multiply(self._head, self._norm(features)).numpy()
        # By numpy: torch would wake its threads, which then spin where the library's are to compute.
        logits = np.full((*known.shape[:-1], self.target.vocab_size), -np.inf, known.dtype)
        logits[..., self.layer.ids.numpy()] = known
        return torch.from_numpy(logits)


class NativeEagle3Drafter(Eagle3Drafter):
    """An `Eagle3Drafter` whose whole drafts are drawn in C++."""

    model: NativeEagle3GPT

    def propose(self, pending: Tensor, k: int, warp: Warp, rng: RoundRng) -> Draft:
        """Guesses k tokens a row after the pending ones [B] (see `Chain.propose`)."""
        core = partial(super().propose, pending, k, warp, rng)
        tokens, features, counts = self.to_read()
        tokens[torch.arange(len(counts)), [count - 1 for count in counts]] = check_ids(pending, 1)
        draft = self.model.chain.propose(
            self._cache,
            pending,
            k,
            self.warp or warp,
            rng,
            core,
            features.contiguous(),
            first=(tokens, counts),
        )
        self.have_read(features, counts)
        return draft


def narrowed(layer: Eagle3Layer) -> Block:
    """Returns its block with queries, keys and values of features alone: of the sizes of any other block."""
    block = cast(Block, deepcopy(layer.layers[0]))
    block.input_layernorm = cast(RMSNorm, block.hidden_norm)
    del block.hidden_norm
    for projection in (block.self_attn.q_proj, block.self_attn.k_proj, block.self_attn.v_proj):
        narrow = projection.weight[:, layer.config.width :].contiguous()
        projection.weight = nn.Parameter(narrow, requires_grad=False)
    return block
