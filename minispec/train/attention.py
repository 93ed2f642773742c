"""Attention written out, for training: the fused kernel's backward pass is several times as slow on a CPU."""

import torch
from torch import Tensor

from minispec.core.model import GPT, Attention, View


class TrainedAttention(Attention):
    """The same function as `Attention`, by plain matrix products where gradients are wanted."""

    def attend(self, q: Tensor, k: Tensor, v: Tensor, view: View) -> Tensor:
        """Weighs values by how well queries match keys, as `Attention.attend` does.

        q is [B, heads, n, head_dim], and so is the result; k and v are [B, kv_heads, end, head_dim].
        """
        if q.requires_grad and view.cache is None:
            return attention_written_out(q, k, v)
        return super().attend(q, k, v, view)


def for_training(model: GPT) -> GPT:
    """Makes the attention of a model's layers a `TrainedAttention`, which has the same weights."""
    for module in model.modules():
        if isinstance(module, Attention):
            module.__class__ = TrainedAttention
    return model


def attention_written_out(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Computes causal grouped-query attention by plain matrix products, in the type of v.

    Vaswani et al. 2017, equation 1; the same function as the fused one that decoding uses. q is
    [B, heads, n, head_dim], and so is the result; k and v are [B, kv_heads, n, head_dim]: each of their heads
    serves heads / kv_heads query heads, neighbours of each other.
    """
    rows, heads, new, size = q.shape
    groups = rows * k.shape[1]
    with torch.autocast(q.device.type, enabled=False):
        q = (q * size**-0.5).to(v.dtype).reshape(groups, -1, size)  # [B·kv_heads, heads/kv_heads·n, head_dim]
        k = k.to(v.dtype).reshape(groups, new, size)
        v = v.reshape(groups, new, size)
        scores = torch.bmm(q, k.transpose(1, 2)).view(groups, -1, new, new)
        later = torch.full((new, new), float("-inf"), dtype=v.dtype, device=v.device).triu(1)
        weights = (scores + later).softmax(-1).view(groups, -1, new)
        return torch.bmm(weights, v).view(rows, heads, new, size)
