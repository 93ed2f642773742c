"""Predict a batch: rows that are written side by side wait for each other.

A batch ends with its slowest row, a block is as wide as its largest row needs, and the draft catches up as
soon as one row has to. So the mean of single rows does not do. But rows are independent given their texts:
where each may be after r rounds is followed row by row, and what the batch does is a product over rows. That
is exact as well.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import cycle, islice

import torch
from torch import Tensor

from minispec.drafters.costs import Costs
from minispec.evidence.theory.predict import Rounds, Text, rounds

NEGLIGIBLE = 1e-12  # the chance that a row is still live at which the count ends


def batch_rounds(texts: Sequence[Text], k: int) -> Rounds:
    """Returns what is expected while texts are written side by side, each as a row of one batch.

    Args:
        texts: a_t of each row; all rows have N positions.
        k: K; 0 is target-only.

    Raises:
        ValueError: if there is no row, lengths differ, K is negative, or a chance is none.
    """
    lengths = {len(text) for text in texts}
    if len(lengths) != 1:
        raise ValueError(f"all rows must have the same number of tokens, not {sorted(lengths)}")
    alone = [rounds(text, k) for text in texts]
    stays = ends_of_rounds(torch.tensor(texts, dtype=torch.float64).view(len(texts), -1), k)
    by_width, caught_up = torch.zeros(k + 1, dtype=torch.float64), 0.0
    size = stays.shape[2]
    at = torch.zeros(len(texts), size + 1, dtype=torch.float64)  # where each row may be: [B, N+1]
    at[:, 0] = 1
    for _ in range(size):  # a live row gains a token in every round
        if 1 - float(at[:, -1].prod()) <= NEGLIGIBLE:
            break
        widths, behind = of_one_round(at, stays, k)
        by_width += widths
        caught_up += behind if k else 0.0
        moved = torch.zeros_like(at)
        moved[:, -1] = at[:, -1]
        for kept in range(min(k + 1, size)):
            moved[:, kept + 1 :] += (at[:, :-1] * stays[kept])[:, : size - kept]
        at = moved
    return Rounds(
        tuple(by_width.tolist()),
        sum(part.emitted for part in alone),
        sum(part.row_rounds for part in alone),
        sum(part.drafted for part in alone),
        sum(part.tested for part in alone),
        sum(part.accepted for part in alone),
        caught_up,
    )


def ends_of_rounds(chances: Tensor, k: int) -> Tensor:
    """Returns how likely a round that begins at a position keeps exactly so many drafted tokens.

    Args:
        chances: [B, N].
        k: K.

    Returns:
        [K+1, B, N]; the sum over the first dimension is 1.
    """
    rows, size = chances.shape
    stays = torch.zeros(k + 1, rows, size, dtype=torch.float64)
    all_kept = torch.ones(rows, size, dtype=torch.float64)
    room = torch.arange(size - 1, -1, -1)  # the last token is never drafted
    for kept in range(k + 1):
        here = torch.nn.functional.pad(chances[:, kept:], (0, min(kept, size)))  # a_(t+kept)
        drafted = (room > kept) & (kept < k)
        stays[kept] = all_kept * torch.where(drafted, 1 - here, 1.0) * (room >= kept)
        all_kept = torch.where(drafted, all_kept * here, 0.0)
    return stays


def of_one_round(at: Tensor, stays: Tensor, k: int) -> tuple[Tensor, float]:
    """Returns how wide a round's block is, and how likely the draft has to catch up behind it.

    The row that is furthest back decides: with s tokens written, the block has min(K, N − 1 − s) drafted
    ones. The draft has read all of the block but its last token, so it lacks one where a row keeps all.

    Args:
        at: [B, N+1], how likely each row has written so many tokens.
        stays: as `ends_of_rounds` returns.
        k: K.

    Returns:
        [K+1], the chance of each width, which sums to the chance that the batch is not done; and the other.
    """
    size = stays.shape[2]
    widest = torch.arange(size - 1, -1, -1).clamp(max=k)  # drafted tokens of a row at each position: [N]
    keeps_all = stays.gather(0, widest.expand(1, *stays.shape[1:]))[0] * at[:, :-1]  # [B, N]
    not_before = at.flip(1).cumsum(1).flip(1)  # the chance that a row is at s or beyond: [B, N+1]
    widths = torch.zeros(k + 1, dtype=torch.float64)
    last = not_before.prod(0)  # that all rows are
    widths.index_add_(0, widest, last[:-1] - last[1:])
    wide = max(size - k, 0)  # at these positions a row has room for K
    none = (1 - keeps_all[:, :wide].sum(1)).prod() if wide else torch.ones((), dtype=torch.float64)
    behind = 1 - float(none)
    for s in range(wide, size):  # the row that is furthest back has room for fewer
        behind += float(last[s] - (not_before[:, s] - keeps_all[:, s]).prod())
    return widths, behind


def predict_batch_gain(costs: Costs, texts: Sequence[Text], k: int) -> float:
    """Predicts how many times faster a batch is written with a draft.

    Args:
        costs: measured with as many rows as there are texts.
        texts: as `batch_rounds`.
        k: K.

    Raises:
        ValueError: as `batch_rounds`, or if t(K+1) was not measured.
    """
    speculative = batch_rounds(texts, k).seconds(costs)
    return (costs.prefill + len(texts[0]) * costs.of_step()) / speculative


def break_even_batch(costs: Mapping[int, Costs], texts: Sequence[Text], k: int) -> int:
    """Returns the largest measured number of rows for which a draft is predicted not to lose; 0 if none.

    Args:
        costs: by number of rows.
        texts: chances on target-only texts; they are used again where a batch has more rows.
        k: K.

    Raises:
        ValueError: if there is no text, or as `predict_batch_gain`.
    """
    if not texts:
        raise ValueError("there is no text to predict from")
    wins = [
        rows
        for rows, own in costs.items()
        if predict_batch_gain(own, list(islice(cycle(texts), rows)), k) >= 1
    ]
    return max(wins, default=0)
