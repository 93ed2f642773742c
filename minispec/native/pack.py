"""Packing: a model's weights in the order and form in which `native.cpp` multiplies them.

* The gain of a norm is folded into the matrices after it: (x · g) W = x (diag(g) W).
* A norm divides by hypot(‖x‖, √(D·ε)): √D times the root of mean square plus ε. That √D is folded too.
* Queries, keys and values come out of one product, gate and up out of another. Matrices lie transposed.
* The two axes of each rotary pair lie side by side, in queries and keys alike, so that their products do not
  change. The scale of the scores is folded into the queries.

`core/model.py` is the one to read; tests hold the two to each other.
"""

from __future__ import annotations

import torch
from torch import Tensor

from minispec.core.model import GPT, Block, GPTConfig, rotary_tables


@torch.no_grad()
def packed_weights(model: GPT) -> list[Tensor]:
    """Returns what the library's `new` wants, in its order.

    Args:
        model: on a CPU, in float32 or float64.

    Returns:
        The embedding [V, D]; per layer queries, keys and values [D, (heads + 2 · kv_heads) · head_dim], out
        [D, D], gate and up [D, 2 · ffn], down [ffn, D]; the head [D, V]; cosines and sines of all positions,
        [max_length, head_dim / 2] each.
    """
    blocks = [block for block in model.layers if isinstance(block, Block)]
    layers = [matrix for block in blocks for matrix in packed_block(block, model.config)]
    cos, sin = (table[:, : model.config.head_dim // 2] for table in rotary_tables(model.config))
    head = folded(model.lm_head.weight, model.norm.weight)
    found = [model.embed_tokens.weight.detach(), *layers, head, cos, sin]
    return [weight.to(model.dtype).contiguous() for weight in found]


def packed_block(block: Block, config: GPTConfig) -> list[Tensor]:
    """Folds and joins one layer's matrices: four of them, [in, out] each (see `packed_weights`)."""
    attention, mlp, size = block.self_attn, block.mlp, config.head_dim
    q = side_by_side(attention.q_proj.weight, size) * size**-0.5
    qkv = torch.cat([q, side_by_side(attention.k_proj.weight, size), attention.v_proj.weight])
    gate_up = torch.cat([mlp.gate_proj.weight, mlp.up_proj.weight])
    return [
        folded(qkv, block.input_layernorm.weight),
        attention.o_proj.weight.t(),
        folded(gate_up, block.post_attention_layernorm.weight),
        mlp.down_proj.weight.t(),
    ]


def folded(weight: Tensor, gain: Tensor) -> Tensor:
    """Multiplies a norm's gain and √D into a matrix: [out, D] -> [D, out]."""
    return (weight * gain * weight.shape[1] ** 0.5).t()


def side_by_side(weight: Tensor, head_dim: int) -> Tensor:
    """Reorders each head's outputs so that the axes of a rotary pair are neighbours: [out, D] -> the same."""
    halves = weight.view(-1, 2, head_dim // 2, weight.shape[1])  # the two halves of a head are the two axes
    return halves.transpose(1, 2).reshape(weight.shape)
