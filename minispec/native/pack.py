"""Packing: a model's weights in the order and form in which `native.cpp` multiplies them.

* Queries, keys and values come out of one product.
* The two axes of each rotary pair lie side by side, in queries and keys alike, so that their products do not
  change.
* Biases of queries, keys and values come after one another, as what they are added to.
* A norm divides by hypot(‖x‖, √(D·ε)): √D times the root of mean square plus ε. That √D goes into its gain.

No number of a matrix changes. So weights of 16 bits stay exactly what they are, and all sums are of 32 bits.
Only where matrices are kept in 8 bits are they rounded: 32 weights of one output share a scale. Embeddings
are not: they are looked up, and fewer bits would save no time.

A checkpoint's weights are mapped from its file, and what the library packs is its own. So layers are packed
one after the other: only of one of them is there a further copy, of what it does not read as it is stored.

`core/model.py` is the one to read; tests hold the two to each other.
"""

import copy
import ctypes
import weakref
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, TypeVar, cast

import torch
from torch import Tensor, nn

from minispec.core.model import GPT, Block, GPTConfig, RMSNorm, View, rotary_tables
from minispec.native.checks import check
from minispec.native.structs import ADDRESS, COMPUTES_IN, integers

GROUP = 32  # weights of one output, neighbours in depth, that share a scale
AT_ONCE = 1024  # outputs of which there is a wider copy at a time: a head has many
NEAR = 256  # in forward.h, too
LARGEST = 127  # whole number of 8 bits that stands for a weight


Part = TypeVar("Part", bound=nn.Module)


class Packed:
    """What the library has packed. It frees it with this object, or when the process ends.

    Attributes:
        address: where it is.
    """

    def __init__(self, native: SimpleNamespace, kind: str, *arguments: object) -> None:
        """Has the library pack a `model` or a `matrix`; MemoryError if the system refuses the memory."""
        made = ADDRESS()
        make, free = (getattr(native, f"{kind}_{verb}") for verb in ("new", "free"))
        check(make(native.type, *arguments, ctypes.byref(made)), 0)
        self.address: int = made.value or 0
        # Not at the end of the process: another thread may be in a forward then.
        weakref.finalize(self, free, native.type, self.address).atexit = False


class PackedMatrix(Packed):
    """A matrix that the library has packed.

    Attributes:
        sizes: how many numbers it reads, and how many it makes of them.
    """

    def __init__(self, native: SimpleNamespace, weight: Tensor, threads: int) -> None:
        """Has the library pack weights [out, in]."""
        self.sizes = weight.shape[1], weight.shape[0]
        packed = packed_matrix(weight, native.dtype)
        super().__init__(native, "matrix", *self.sizes, threads, packed.data_ptr())


@torch.no_grad()
def pack_model(native: SimpleNamespace, model: GPT, threads: int) -> tuple[Packed, PackedMatrix]:
    """Packs a model, its matrices cut for so many threads, and its head, which must live as long.

    They are kept in the type that the library's functions are for, one of `COMPUTES_IN`. ValueError if a
    weight is missing, or not of the size that the config says.
    """
    with torch.device("meta"):  # without memory: only its sizes are asked
        expected = GPT(model.config)
    if sizes_of(model) != sizes_of(expected):
        raise ValueError("the model's weights do not have the sizes that its config says")
    head = pack_matrix(native, model.lm_head, threads)
    ends = model.embed_tokens.weight, head
    return pack_layers(native, model.config, threads, model.layers, model.norm, ends), head


@torch.no_grad()
def pack_layers(
    native: SimpleNamespace,
    config: GPTConfig,
    threads: int,
    blocks: nn.ModuleList | Sequence[nn.Module],
    norm: RMSNorm,
    ends: tuple[Tensor | None, Packed] | None = None,
) -> Packed:
    """Packs layers and the norm after them; ends: embedding [V, D] and head, if they have their own.

    ValueError if they are not of the sizes that the config says.
    """
    check_parts(config, [*blocks, norm])
    embedding, head = ends or (None, None)
    if embedding is not None:
        embedding = embedding.to(vectors_in(native.dtype)).contiguous()
    c = config

    def arguments(layers: int, weights: Sequence[Tensor | Packed | None]) -> tuple[Any, ...]:
        addresses = [
            w.address if isinstance(w, Packed) else None if w is None else w.data_ptr() for w in weights
        ]
        sizes = (c.vocab_size, layers, c.width, c.heads, c.kv_heads, c.head_dim, c.ffn, c.max_length)
        return integers(sizes), norm.eps, threads, (ADDRESS * len(addresses))(*addresses)

    first = [embedding, head, packed_gain(norm.weight, native.dtype), packed_rotations(config)]
    made = Packed(native, "model", *arguments(0, first))
    del embedding, first
    for block in blocks:
        layer = [None, *packed_block(cast(Block, block), config, native.dtype), None, None, None]
        to = ctypes.byref(ADDRESS(made.address))
        check(native.model_new(native.type, *arguments(1, layer), to), 0)
    return made


def check_type(module: nn.Module, dtype: torch.dtype) -> None:
    """Raises ValueError if what was trained is not of the type of the target's weights, or not on the CPU."""
    for weight in module.parameters():
        if weight.dtype != dtype or weight.device.type != "cpu":
            raise ValueError(f"what drafts for a native target must be of {dtype} on a CPU, as the target is")


@torch.no_grad()
def pack_matrix(native: SimpleNamespace, linear: nn.Linear, threads: int) -> PackedMatrix:
    """Packs a matrix, cut for so many threads."""
    return PackedMatrix(native, linear.weight, threads)


def check_parts(config: GPTConfig, parts: Sequence[nn.Module]) -> None:
    """Raises ValueError if blocks, and the norm after them, are not what `pack_layers` can pack."""
    with torch.device("meta"):
        block = sizes_of(Block(config))
        norm = sizes_of(RMSNorm(config.width, config.norm_eps))
    for part in parts:
        if sizes_of(part) != (norm if part is parts[-1] else block):
            raise ValueError("the weights do not have the sizes that the target's config says")
    if len({module.eps for part in parts for module in part.modules() if isinstance(module, RMSNorm)}) > 1:
        raise ValueError("the norms of layers that are packed together have one epsilon")


def sizes_of(model: nn.Module) -> dict[str, torch.Size]:
    """Returns the size of each weight by its name."""
    return {name: weight.shape for name, weight in model.state_dict().items()}


def packed_block(block: Block, config: GPTConfig, kept: torch.dtype) -> list[Tensor | None]:
    """Returns one layer's matrices, gains [D], bias and gains [head_dim], in the order of `pack_layers`."""
    attention = block.self_attn
    mlp = block.mlp
    size = config.head_dim
    q, k, v = attention.q_proj, attention.k_proj, attention.v_proj
    qkv = packed_qkv([q.weight, k.weight, v.weight], size)
    matrices = [qkv, attention.o_proj.weight, mlp.gate_proj.weight, mlp.up_proj.weight, mlp.down_proj.weight]
    gains = [norm.weight for norm in (block.input_layernorm, block.post_attention_layernorm)]
    bias = query_gain = key_gain = None
    if config.qkv_bias:
        bias = as_vector(packed_qkv([q.bias, k.bias, v.bias], size), kept)
    if config.qk_norm:
        query_gain = packed_gain(side_by_side(attention.q_norm.weight, size), kept)
        key_gain = packed_gain(side_by_side(attention.k_norm.weight, size), kept)
    return [
        *(packed_matrix(weight, kept) for weight in matrices),
        *(packed_gain(gain, kept) for gain in gains),
        *(bias, query_gain, key_gain),
    ]


def packed_qkv(parts: Sequence[Tensor], head_dim: int) -> Tensor:
    """Returns weights or biases [out, …] of queries, keys and values as one, as the library reads them."""
    queries, keys, values = parts
    return torch.cat([side_by_side(queries, head_dim), side_by_side(keys, head_dim), values])


def packed_matrix(weight: Tensor, kept: torch.dtype) -> Tensor:
    """Returns a matrix [out, in] as the library reads it, of a type in `COMPUTES_IN`; no copy of one that is.

    In 8 bits it is their bytes in a row: scales [out, groups], then numbers [out, in].
    """
    if kept is not torch.int8:
        return weight.to(kept).contiguous()
    size, depth = weight.shape
    groups = -(-depth // GROUP)
    packed = torch.empty(size * (2 * groups + depth), dtype=torch.int8)
    scales, rows = packed.split([2 * size * groups, size * depth])
    for first in range(0, size, AT_ONCE):
        part = slice(first, first + AT_ONCE)
        numbers, of_part = quantized(weight[part])
        scales.view(torch.bfloat16).view(size, groups)[part] = of_part
        rows.view(size, depth)[part] = numbers.flatten(1)[:, :depth]
    return packed


def quantized(weight: Tensor) -> tuple[Tensor, Tensor]:
    """Rounds a matrix [out, in] to 8 bits: numbers [out, groups, 32] and scales [out, groups], in bfloat16.

    A scale is the group's largest weight over 127, rounded up. That of a group with NaN or infinity is NaN,
    and so is what a damaged model computes.
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
def as_kept(model: Part, kept: torch.dtype) -> Part:
    """Returns a GPT, or a part of one, as the library computes it where it keeps matrices in a type."""
    copied = copy.deepcopy(model).to(vectors_in(kept)).to(COMPUTES_IN[kept])
    if kept is torch.int8:
        for module in copied.modules():
            if isinstance(module, nn.Linear):  # a tied embedding stays as it is
                module.weight = nn.Parameter(restored(module.weight), requires_grad=False)
    return copied


@torch.no_grad()
def kept_logits(model: GPT, tokens: Tensor, kept: torch.dtype) -> Tensor:
    """Returns what `as_kept` of a GPT makes of a text [B, n], logits [B, n, V]; it copies part by part."""
    dtype = COMPUTES_IN[kept]
    cos, sin = rotary_tables(model.config, tokens.shape[1], dtype)
    x = as_vector(model.embed_tokens(tokens), kept)
    for block in model.layers:
        x = as_kept(block, kept)(x, View(cos, sin, None, None), 0)
    x = as_kept(model.norm, kept)(x)
    logits = x.new_empty(*tokens.shape, model.vocab_size)
    for first in range(0, model.vocab_size, AT_ONCE):
        part = slice(first, first + AT_ONCE)
        weight = model.lm_head.weight[part]
        matrix = restored(weight) if kept is torch.int8 else weight.to(kept).to(dtype)
        logits[..., part] = nn.functional.linear(x, matrix)
    return logits


def vectors_in(kept: torch.dtype) -> torch.dtype:
    """Returns the type in which all is kept that is no matrix: 8 bits are for matrices only."""
    return COMPUTES_IN[kept] if kept is torch.int8 else kept


def as_vector(weight: Tensor, kept: torch.dtype) -> Tensor:
    """Returns what is no matrix, [...], as it is kept, and of the type that is computed in."""
    return weight.to(vectors_in(kept)).to(COMPUTES_IN[kept])


def packed_rotations(config: GPTConfig) -> Tensor:
    """Returns cosines and sines of pairs, side by side, at the first and every 256th position [n, head_dim].

    Those of all others follow, because angles add up.
    """
    far = rotary_tables(config, -(-config.max_length // NEAR), step=NEAR)
    tables = map(torch.cat, zip(rotary_tables(config, NEAR), far, strict=True))
    return torch.stack([table[:, : config.head_dim // 2] for table in tables], dim=-1)


def packed_gain(gain: Tensor, kept: torch.dtype) -> Tensor:
    """Multiplies √D into a norm's gain: [D] -> the same, of the type that is computed in."""
    return as_vector(gain, kept) * gain.shape[0] ** 0.5


def side_by_side(weight: Tensor, head_dim: int) -> Tensor:
    """Reorders each head's outputs so that the axes of a rotary pair are neighbours: [out, …] -> the same."""
    halves = weight.view(-1, 2, head_dim // 2, *weight.shape[1:])  # the two halves of a head are the two axes
    return halves.transpose(1, 2).reshape(weight.shape)
