"""Assignment 1, solved from its statement: rows become columns, and the paper's coins judge them."""

import torch

PARAMETERS: dict = {}


def in_columns(values, lengths, width):
    """Lays out rows [B, width, …] whose first entries count; what comes after them is 0."""
    packed = PARAMETERS["layout"] == "packed"
    laid_out = values.new_zeros(len(lengths), width, *values.shape[1 if packed else 2 :])
    start = 0
    for b, length in enumerate(lengths.tolist()):
        if packed:
            laid_out[b, :length] = values[start : start + length]
            start += length
        else:
            laid_out[b, :length] = values[b, values.shape[1] - length :]
    return laid_out


def verify(tokens, q, p, lengths, rng):
    """The longest beginning that one of its coins accepts, and a token from what is left of w·p."""
    width = int(lengths.max())
    if PARAMETERS["given"] == "logarithms":
        q, p = q.exp(), p.exp()
    tokens = in_columns(tokens, lengths, width)
    q = in_columns(q, lengths, width + 1)  # 0 where a row has ended: there the coin is w, the rest is p
    p = in_columns(p, lengths + 1, width + 1)
    rows = torch.arange(len(lengths))
    kept = torch.zeros_like(lengths)
    w = torch.ones(len(lengths), dtype=torch.float64)
    kept_w = w
    for i in range(width):
        drafted = i < lengths
        token = tokens[:, i]
        ratio = p[rows, i, token] / q[rows, i, token].where(drafted, 1)
        w = (w * ratio).clamp(max=1)
        left = (w[:, None] * p[:, i + 1] - q[:, i + 1]).clamp(min=0).sum(-1)
        coin = torch.where(left + 1 - w > 0, left / (left + 1 - w), 0)
        yes = rng.bernoulli(coin.where(drafted, 0))
        kept = torch.where(yes, i + 1, kept)
        kept_w = torch.where(yes, w, kept_w)
    rest = (kept_w[:, None] * p[rows, kept] - q[rows, kept]).clamp(min=0)
    rest = torch.where(rest.sum(-1, keepdim=True) > 0, rest, p[rows, kept])
    token = rng.categorical(rest / rest.sum(-1, keepdim=True))
    return (kept if PARAMETERS["counted"] == "kept" else lengths - kept), token
