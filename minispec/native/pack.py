"""Packing: a model's weights in the order and form in which `native.cpp` multiplies them.

* Queries, keys and values come out of one product. Matrices lie transposed.
* The two axes of each rotary pair lie side by side, in queries and keys alike, so that their products do not
  change.
* Biases of queries, keys and values come after one another, as what they are added to.
* A norm divides by hypot(‖x‖, √(D·ε)): √D times the root of mean square plus ε. That √D goes into its gain.

No number of a matrix changes. So weights of 16 bits stay exactly what they are, and all sums are of 32 bits.
Only where matrices are kept in 8 bits are they rounded: 32 weights of one output share a scale. Embeddings
are not: they are looked up, and fewer bits would save no time.

`core/model.py` is the one to read; tests hold the two to each other.
"""

import copy
import ctypes
import weakref
from collections.abc import Sequence
from types import SimpleNamespace
from typing import cast

import torch
from torch import Tensor, nn

from minispec.core.model import GPT, Block, GPTConfig, RMSNorm, rotary_frequencies
from minispec.native.checks import check
from minispec.native.structs import ADDRESS, COMPUTES_IN, INT

GROUP = 32  # weights of one output, neighbours in depth, that share a scale
LARGEST = 127  # whole number of 8 bits that stands for a weight


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
def pack_model(native: SimpleNamespace, model: GPT, threads: int) -> Packed:
    """Packs a model, its matrices cut for so many threads.

    They are kept in the type that the library's functions are for, one of `COMPUTES_IN`. ValueError if a
    weight is missing, or not of the size that the config says.
    """
    with torch.device("meta"):  # without memory: only its sizes are asked
        expected = GPT(model.config)
    if sizes_of(model) != sizes_of(expected):
        raise ValueError("the model's weights do not have the sizes that its config says")
    return pack_layers(
        native,
        model.config,
        threads,
        model.layers,
        model.norm,
        (model.embed_tokens.weight, model.lm_head.weight),
    )


@torch.no_grad()
def pack_layers(
    native: SimpleNamespace,
    config: GPTConfig,
    threads: int,
    blocks: nn.ModuleList | Sequence[nn.Module],
    norm: RMSNorm,
    ends: tuple[Tensor, Tensor] | None = None,
) -> Packed:
    """Packs layers and the norm after them; ends: embedding and head [V, D], if they have their own.

    ValueError if they are not of the sizes that the config says.
    """
    check_parts(config, [*blocks, norm])
    dtype = COMPUTES_IN[native.dtype]
    layers = [weight for block in blocks for weight in packed_block(cast(Block, block), config, native.dtype)]
    embedding = None if ends is None else ends[0].to(dtype)
    head = None if ends is None else packed_matrix(ends[1], native.dtype)
    weights = [embedding, *layers, head, packed_gain(norm.weight, dtype), rotary_frequencies(config)]
    kept = [None if weight is None else weight.detach().contiguous() for weight in weights]
    addresses = (ADDRESS * len(kept))(*[None if weight is None else weight.data_ptr() for weight in kept])
    c = config
    sizes = (c.vocab_size, len(blocks), c.width, c.heads, c.kv_heads, c.head_dim, c.ffn, c.max_length)
    return Packed(native, "model", (INT * len(sizes))(*sizes), norm.eps, threads, addresses)


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
    dtype = COMPUTES_IN[kept]
    q, k, v = attention.q_proj, attention.k_proj, attention.v_proj
    qkv = torch.cat([side_by_side(q.weight, size), side_by_side(k.weight, size), v.weight])
    matrices = [qkv, attention.o_proj.weight, mlp.gate_proj.weight, mlp.up_proj.weight, mlp.down_proj.weight]
    gains = [norm.weight for norm in (block.input_layernorm, block.post_attention_layernorm)]
    bias = None
    if config.qkv_bias:
        bias = torch.cat([side_by_side(q.bias, size), side_by_side(k.bias, size), v.bias]).to(dtype)
    return [
        *(packed_matrix(weight, kept) for weight in matrices),
        *(packed_gain(gain, dtype) for gain in gains),
        bias,
        *(
            packed_gain(side_by_side(norm.weight, size), dtype) if isinstance(norm, RMSNorm) else None
            for norm in (attention.q_norm, attention.k_norm)
        ),
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
    """Reorders each head's outputs so that the axes of a rotary pair are neighbours: [out, …] -> the same."""
    halves = weight.view(-1, 2, head_dim // 2, *weight.shape[1:])  # the two halves of a head are the two axes
    return halves.transpose(1, 2).reshape(weight.shape)
