"""Packing: a model's weights in the order and form in which `native.cpp` multiplies them.

* Queries, keys and values come out of one product. Matrices lie transposed.
* The two axes of each rotary pair lie side by side, in queries and keys alike, so that their products do not
  change.
* A norm divides by hypot(‖x‖, √(D·ε)): √D times the root of mean square plus ε. That √D goes into its gain.

No number of a matrix changes. So weights of 16 bits stay exactly what they are, and all sums are of 32 bits.
`core/model.py` is the one to read; tests hold the two to each other.
"""

import ctypes
from collections.abc import Sequence
from types import SimpleNamespace
from typing import cast

import torch
from torch import Tensor

from minispec.core.model import GPT, Block, GPTConfig, rotary_tables
from minispec.native.library import COMPUTES_IN


@torch.no_grad()
def packed_weights(model: GPT) -> list[Tensor]:
    """Returns what the library's `new` wants, in its order, of a model of one of the types in `COMPUTES_IN`.

    The embedding [V, D]; per layer queries, keys and values [D, (heads + 2 · kv_heads) · head_dim], out
    [heads · head_dim, D], gate and up [D, ffn] each, down [ffn, D], and the gains of its two norms [D]; the
    head [D, V] and the gain of its norm [D]; cosines and sines of all positions, [max_length, head_dim / 2]
    each. Matrices are of the model's type, the rest is of the type that is computed in. ValueError if a
    weight is missing, or not of the size that the config says.
    """
    with torch.device("meta"):  # without memory: only its sizes are asked
        expected = GPT(model.config)
    if sizes_of(model) != sizes_of(expected):
        raise ValueError("the model's weights do not have the sizes that its config says")
    dtype = COMPUTES_IN[model.dtype]
    half = model.config.head_dim // 2
    layers = [weight for block in model.layers for weight in packed_block(cast(Block, block), model.config)]
    tables = [table[:, :half].to(dtype) for table in rotary_tables(model.config)]
    final = [model.lm_head.weight.t(), packed_gain(model.norm.weight), *tables]
    embedding = model.embed_tokens.weight.to(dtype)
    return [weight.detach().contiguous() for weight in (embedding, *layers, *final)]


def sizes_of(model: GPT) -> dict[str, torch.Size]:
    """Returns the size of each weight by its name."""
    return {name: weight.shape for name, weight in model.state_dict().items()}


def hand_over(native: SimpleNamespace, config: GPTConfig, threads: int, weights: Sequence[Tensor]) -> int:
    """Hands `packed_weights`, [in, out], over, cut for so many threads; returns the copy's address."""
    c = config
    addresses = (ctypes.c_void_p * len(weights))(*[weight.data_ptr() for weight in weights])
    sizes = (c.vocab_size, c.layers, c.width, c.heads, c.kv_heads, c.head_dim, c.ffn, c.max_length)
    array = (ctypes.c_int64 * len(sizes))(*sizes)
    address: int = native.new(array, c.width * c.norm_eps, threads, addresses)
    return address


def packed_block(block: Block, config: GPTConfig) -> list[Tensor]:
    """Returns one layer's matrices, [in, out] each, and its gains, in the order of `packed_weights`."""
    attention = block.self_attn
    mlp = block.mlp
    size = config.head_dim
    q, k = (side_by_side(projection.weight, size) for projection in (attention.q_proj, attention.k_proj))
    matrices = [torch.cat([q, k, attention.v_proj.weight]), attention.o_proj.weight]
    matrices += [mlp.gate_proj.weight, mlp.up_proj.weight, mlp.down_proj.weight]
    norms = (block.input_layernorm, block.post_attention_layernorm)
    return [*(weight.t() for weight in matrices), *(packed_gain(norm.weight) for norm in norms)]


def packed_gain(gain: Tensor) -> Tensor:
    """Multiplies √D into a norm's gain: [D] -> the same, of the type that is computed in."""
    return gain.to(COMPUTES_IN[gain.dtype]) * gain.shape[0] ** 0.5


def side_by_side(weight: Tensor, head_dim: int) -> Tensor:
    """Reorders each head's outputs so that the axes of a rotary pair are neighbours: [out, D] -> the same."""
    halves = weight.view(-1, 2, head_dim // 2, weight.shape[1])  # the two halves of a head are the two axes
    return halves.transpose(1, 2).reshape(weight.shape)
