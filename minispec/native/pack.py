"""Packing: a model's weights in the order and form in which `native.cpp` multiplies them.

* Queries, keys and values come out of one product. Matrices lie transposed.
* The two axes of each rotary pair lie side by side, in queries and keys alike, so that their products do not
  change.
* A norm divides by hypot(‖x‖, √(D·ε)): √D times the root of mean square plus ε. That √D goes into its gain.

No number of a matrix changes. So weights of 16 bits stay exactly what they are, and all sums are of 32 bits.
Only where matrices are to be kept in 8 bits are they rounded: 32 weights of one output share a scale.
`core/model.py` is the one to read; tests hold the two to each other.
"""

import copy
import ctypes
from collections.abc import Sequence
from types import SimpleNamespace
from typing import cast

import torch
from torch import Tensor, nn

from minispec.core.model import GPT, Block, GPTConfig, rotary_tables
from minispec.native.structs import COMPUTES_IN

GROUP = 32  # weights of one output, neighbours in depth, that share a scale
LARGEST = 127  # whole number of 8 bits that stands for a weight


@torch.no_grad()
def packed_weights(model: GPT, kept: torch.dtype) -> list[Tensor]:
    """Returns what the library's `model_new` wants, in its order, of matrices of a type in `COMPUTES_IN`.

    The embedding [V, D]; per layer queries, keys and values [D, (heads + 2 · kv_heads) · head_dim], out
    [heads · head_dim, D], gate and up [D, ffn] each, down [ffn, D], and the gains of its two norms [D]; the
    head [D, V] and the gain of its norm [D]; cosines and sines of all positions, [max_length, head_dim / 2]
    each. Matrices are as `packed_matrix` makes them, the rest is of the type that is computed in. ValueError
    if a weight is missing, or not of the size that the config says.
    """
    with torch.device("meta"):  # without memory: only its sizes are asked
        expected = GPT(model.config)
    if sizes_of(model) != sizes_of(expected):
        raise ValueError("the model's weights do not have the sizes that its config says")
    dtype = COMPUTES_IN[kept]
    half = model.config.head_dim // 2
    layers = [
        weight for block in model.layers for weight in packed_block(cast(Block, block), model.config, kept)
    ]
    tables = [table[:, :half].to(dtype) for table in rotary_tables(model.config)]
    head = packed_matrix(model.lm_head.weight, kept)
    final = [head, packed_gain(model.norm.weight, dtype), *tables]
    embedding = model.embed_tokens.weight.to(dtype)  # looked up row by row, so 8 bits would save no time
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


def packed_block(block: Block, config: GPTConfig, kept: torch.dtype) -> list[Tensor]:
    """Returns one layer's matrices and its gains, in the order of `packed_weights`."""
    attention = block.self_attn
    mlp = block.mlp
    size = config.head_dim
    q, k = (side_by_side(projection.weight, size) for projection in (attention.q_proj, attention.k_proj))
    matrices = [torch.cat([q, k, attention.v_proj.weight]), attention.o_proj.weight]
    matrices += [mlp.gate_proj.weight, mlp.up_proj.weight, mlp.down_proj.weight]
    gains = (block.input_layernorm.weight, block.post_attention_layernorm.weight)
    return [
        *(packed_matrix(weight, kept) for weight in matrices),
        *(packed_gain(gain, COMPUTES_IN[kept]) for gain in gains),
    ]


def packed_matrix(weight: Tensor, kept: torch.dtype) -> Tensor:
    """Returns a matrix [out, in] as the library reads it: [in, out], of a type in `COMPUTES_IN`.

    In 8 bits it is their bytes in a row: scales [groups, out], then numbers [in, out].
    """
    if kept is not torch.int8:
        return weight.t().to(kept).contiguous()
    numbers, scales = quantized(weight)
    rows = numbers.flatten(1)[:, : weight.shape[1]].t()
    return torch.cat([scales.t().flatten().view(torch.int8), rows.flatten()])


def quantized(weight: Tensor) -> tuple[Tensor, Tensor]:
    """Rounds a matrix [out, in] to 8 bits: numbers [out, groups, 32] and scales [out, groups], in bfloat16.

    A scale is the group's largest weight over 127, rounded up. A group with NaN or infinity has a scale that
    is no finite number either: so what a damaged model computes stays NaN.
    """
    depth = weight.shape[1]
    groups = nn.functional.pad(weight.float(), (0, -depth % GROUP)).unflatten(1, (-1, GROUP))
    exact = groups.abs().amax(-1) / LARGEST
    scales = ((exact.view(torch.int32) + 0xFFFF) & ~0xFFFF).view(torch.float32)  # the upper halves
    scales = torch.where(exact.isfinite(), scales, torch.nan)
    numbers = (groups / scales[..., None]).nan_to_num().round().clamp(-LARGEST, LARGEST)
    return numbers.to(torch.int8), scales.to(torch.bfloat16)


def restored(weight: Tensor) -> Tensor:
    """Returns a matrix [out, in] as 8 bits keep it, in float32."""
    numbers, scales = quantized(weight)
    return (numbers * scales[..., None].float()).flatten(1)[:, : weight.shape[1]]


@torch.no_grad()
def as_kept(model: GPT, kept: torch.dtype) -> GPT:
    """Returns the GPT that the library computes where it keeps a model's matrices in a type."""
    if kept is model.dtype is COMPUTES_IN[kept]:
        return model
    copied = copy.deepcopy(model).to(COMPUTES_IN[kept])
    if kept is torch.int8:
        for module in copied.modules():
            if isinstance(module, nn.Linear):  # a tied embedding stays as it is
                module.weight = nn.Parameter(restored(module.weight), requires_grad=False)
    return copied


def packed_gain(gain: Tensor, dtype: torch.dtype) -> Tensor:
    """Multiplies √D into a norm's gain: [D] -> the same, of the type that is computed in."""
    return gain.to(dtype) * gain.shape[0] ** 0.5


def side_by_side(weight: Tensor, head_dim: int) -> Tensor:
    """Reorders each head's outputs so that the axes of a rotary pair are neighbours: [out, D] -> the same."""
    halves = weight.view(-1, 2, head_dim // 2, weight.shape[1])  # the two halves of a head are the two axes
    return halves.transpose(1, 2).reshape(weight.shape)
