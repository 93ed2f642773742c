"""EAGLE-3 on the native backend; `drafters/eagle3.py` is the one to read.

The library adds to queries, keys and values what a matrix makes of the embeddings, and keeps the target's
streams at the taps. So the layer is packed as any other is, with the half that reads features.
"""

from copy import deepcopy
from typing import cast

import numpy as np
import torch
from torch import Tensor

from minispec.core.cache import KVCache
from minispec.core.model import GPT, Block, Tree
from minispec.drafters.eagle3 import Eagle3GPT, Eagle3Layer, JoinedBlock, TappedGPT
from minispec.native.checks import check_ids
from minispec.native.heads import embeddings, multiplied
from minispec.native.model import NativeGPT, NativeLayers, threads_for
from minispec.native.pack import PackedMatrix, check_type, pack_layers, pack_matrix, packed_qkv


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
        check_type(layer, native.weights_dtype)
        self.native = native
        self.tapped = NativeTappedGPT(native, layer.taps)
        self.dtype = native.dtype
        config = layer.config
        threads = min(threads_for(sum(p.numel() for p in layer.parameters())), native.threads)
        joined = cast(JoinedBlock, layer.layers[0])
        beside, block = halves(joined, config.width)
        packed = pack_layers(native.native, config, threads, [block], layer.norm)
        self.layers = NativeLayers(native.native, packed, config, 1, native.weights_dtype, threads)
        self._beside = PackedMatrix(native.native, packed_qkv(beside, config.head_dim), threads)
        self._fc = pack_matrix(native.native, layer.fc, threads)
        self._head = pack_matrix(native.native, layer.lm_head, threads)
        self._embedding_norm = deepcopy(joined.input_layernorm).to(self.dtype)
        self._norm = deepcopy(layer.norm).to(self.dtype)
        self._ids = layer.ids.numpy()

    def features(self, hidden: Tensor) -> Tensor:
        """Joins the streams of hidden states [B, n, (taps + 1) · D]: [B, n, D]."""
        streams = hidden[..., : self._fc.sizes[0]]
        return multiplied(self.native, self._fc, streams) if streams.numel() else streams[..., : self.layers.hidden_size]

    def new_cache(self, rows: int) -> KVCache:
        """Returns an empty cache for `rows` rows."""
        return self.layers.cache_of(1, rows)

    def after(self, tokens: Tensor, features: Tensor, cache: KVCache) -> Tensor:
        """Reads tokens [B, n], each with the feature before it; returns those after them: [B, n, D]."""
        embedded = self._embedding_norm(embeddings(self.target, tokens, 2, self.dtype))
        beside = multiplied(self.native, self._beside, embedded)
        return self.layers.read(tokens, cache, (0, 1), states=features, normed=False, beside=beside)

    def head(self, features: Tensor) -> Tensor:
        """Maps features [B, n, D] to logits [B, n, V]: minus infinity for ids that it does not know."""
        known = multiplied(self.native, self._head, self._norm(features)).numpy()
        # By numpy: torch would wake its threads, which then spin where the library's are to compute.
        logits = np.full((*known.shape[:-1], self.target.vocab_size), -np.inf, known.dtype)
        logits[..., self._ids] = known
        return torch.from_numpy(logits)


def halves(joined: JoinedBlock, width: int) -> tuple[list[Tensor], Block]:
    """Returns what reads embeddings, weights [out, D] of queries, keys and values; and the block without it."""
    block = cast(Block, deepcopy(joined))
    block.input_layernorm = joined.hidden_norm
    del block.hidden_norm
    beside = []
    for projection in (block.self_attn.q_proj, block.self_attn.k_proj, block.self_attn.v_proj):
        weight = projection.weight
        beside.append(weight[:, :width])
        projection.weight = torch.nn.Parameter(weight[:, width:].contiguous(), requires_grad=False)
    return beside, block
