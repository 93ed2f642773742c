"""Weights of the small models in `io/families`: numbers that follow from a weight's name, everywhere."""

from math import prod
from zlib import crc32

import torch

MASK = 2**32 - 1


def family_weight(name, shape):
    """Returns a weight [...] in float32: by whole numbers only, so that no library's generator matters."""
    z = (torch.arange(prod(shape)) * 0x9E3779B1 + crc32(name.encode())) & MASK
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35)):  # the finalizer of MurmurHash3 (Appleby 2011)
        z = ((z ^ z >> shift) * factor) & MASK
    uniform = ((z ^ z >> 16).double() / 2**31 - 1).reshape(shape)
    if name.endswith("norm.weight"):
        return (1 + 0.4 * uniform).float()
    if name.endswith("bias"):
        return uniform.float()
    if "embed_tokens" in name:
        return (0.1 * uniform).float()  # small, so that the epsilon of norms counts
    gain = 5 if "q_proj" in name or "lm_head" in name else 2  # attention far from a plain mean
    return (gain * uniform / shape[1] ** 0.5).float()
