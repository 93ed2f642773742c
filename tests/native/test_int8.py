"""Weights of 8 bits: how matrices are rounded, that the rounded model is computed, and drafts of it."""

import pytest
import tiny
import torch
from native_models import ODD, WIDE, assert_same_logits, block, needs_compiler, small_pair

from minispec.evidence.proof.cases import Case
from minispec.evidence.proof.distributions import (
    exact_distributions,
    largest_error,
    speculative_distributions,
)
from minispec.evidence.proof.enumeration import NativeEnumeratingRng
from minispec.native.decisions import NativeWarp
from minispec.native.drafter import NativeDrafter
from minispec.native.model import NativeGPT
from minispec.native.pack import GROUP, as_kept, packed_matrix, quantized, restored

pytestmark = needs_compiler
SIZES = {
    "grouped": {},
    "one block": {"width": 64, "heads": 4, "kv_heads": 4, "ffn": 64, "tied": True},
    "odd numbers": ODD,
    "three groups": {"width": 72, "heads": 6, "kv_heads": 3, "ffn": 97},
    "biases and norms": {"width": 72, "heads": 6, "kv_heads": 3, "qkv_bias": True, "qk_norm": True},
    "wider than a panel": WIDE,
}


def gpt(sizes="wider than a panel", dtype=torch.float32):
    """Returns a GPT with random weights."""
    return tiny.gpt(tiny.config(**SIZES[sizes]), seed=3, dtype=dtype)


def rounded(model):
    """Returns it in C++, with matrices of 8 bits."""
    return NativeGPT(model, kept=torch.int8)


# Matrices.


@pytest.mark.parametrize("depth", [1, 31, 32, 33, 97])
def test_weights_are_rounded_to_the_nearest_of_their_group(depth):
    """No weight is further off than half of its group's scale; the largest is 127 of them, or 126."""
    weight = torch.randn(5, depth, generator=torch.Generator().manual_seed(depth))
    weight[2] = 0
    numbers, scales = quantized(weight)
    assert numbers.dtype == torch.int8 and scales.dtype == torch.bfloat16
    step = scales.float().repeat_interleave(GROUP, dim=1)[:, :depth]
    assert bool(((restored(weight) - weight).abs() <= 0.5001 * step).all())
    largest = numbers.abs().amax(-1)
    assert set(largest[2].tolist()) == {0} and set(largest[[0, 1, 3, 4]].unique().tolist()) <= {126, 127}
    assert packed_matrix(weight, torch.int8).numel() == 5 * depth + 2 * scales.numel()


def test_a_damaged_weight_stays_so():
    """NaN or infinity makes logits NaN, as it does elsewhere: that is for the warp to report."""
    for damage in (float("nan"), float("inf"), -float("inf")):
        model = gpt()
        model.layers[0].mlp.up_proj.weight.data[7, 40] = damage
        assert bool(rounded(model)(block(model, 1, 3)).isnan().all())


# Models.


@torch.inference_mode()
@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64], ids=str)
def test_logits_are_those_of_the_rounded_model(sizes, dtype):
    """Through ragged caches; whatever the type of the weights before, sums are in float32."""
    model = gpt(sizes, dtype)
    ours = rounded(model)
    wanted = as_kept(model, torch.int8)
    assert ours.dtype == wanted.dtype == torch.float32
    assert_same_logits(wanted, ours)
    text = block(model, 3, 9)
    assert float((wanted(text) - model.float()(text)).abs().max()) > 1e-3  # rounding does something


# Drafts.


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_a_rounded_draft_keeps_the_targets_distribution(temperature):
    """Every branch: a target of float32, and a draft whose matrices have 8 bits."""
    target, draft = small_pair()
    sides = NativeGPT(target), rounded(draft)
    how = {"warp": NativeWarp(temperature), "drafter": NativeDrafter, "rng": NativeEnumeratingRng}
    case = Case("8 bits", *sides, ((0,), (1, 2, 0)), k=2, max_new_tokens=3, **how)
    found = speculative_distributions(case)
    assert found.branches > 2 or not temperature
    for enumerated, exact in zip(found.distributions, exact_distributions(case), strict=True):
        assert largest_error(enumerated, exact) < 1e-6
