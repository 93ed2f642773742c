"""A draft whose matrices are numbers of 8 bits, by torch's own dynamic quantization.

Weights are rounded once, activations whenever they arrive. The law that such a draft reports is still the law
that it draws from, so nothing is lost but, perhaps, acceptance.
"""

from __future__ import annotations

import warnings
from copy import deepcopy
from typing import Any, cast

import torch
from torch import nn

from minispec.core.model import GPT


def int8(model: GPT) -> GPT:
    """Returns a copy whose linear layers compute in int8; the embedding stays as it is.

    Args:
        model: on the CPU, in float32.

    Raises:
        ValueError: if this torch, or this processor, has no int8 kernels.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that this interface will move to another package
        try:
            from torch.ao.quantization import quantize_dynamic

            return cast(GPT, quantize_dynamic(deepcopy(model), {nn.Linear}, torch.qint8).eval())
        except (ImportError, RuntimeError, NotImplementedError) as error:
            raise ValueError(f"this torch cannot quantize to int8: {str(error).splitlines()[0]}") from error


def weight_bytes(model: nn.Module) -> int:
    """Returns the bytes of all weights, whatever their type; a shared one counts once."""
    plain = sum(p.numel() * p.element_size() for p in model.parameters())
    packed = 0
    for part in model.modules():
        weight: Any = getattr(part, "weight", None)
        if callable(weight):  # a quantized layer keeps its weights packed
            packed += weight().numel() * weight().element_size()
    return plain + packed
