"""Distributions and logits as JSON: the large entries, and the sum of all others.

Of a distribution small entries are added up, so that what is read is a distribution again. Of logits the
largest are kept, and the log of what all others add up to in a softmax. Numbers have nine digits.
"""

import math
from collections.abc import Callable, Iterable
from itertools import product
from operator import truediv
from typing import Any

import torch
from torch import Tensor

from minispec.io.recording_check import check_values, integers, is_number

MIN_PROBABILITY = 1e-7  # smaller probabilities are added up
DIGITS = 9  # significant; as many as a float32 needs
TOP_LOGITS = 8


def round_number(value: float) -> float:
    """Returns a number with nine significant digits."""
    return float(f"{value:.{DIGITS}g}")


def dist_to_json(dist: Tensor, required_ids: Iterable[int]) -> list[Any]:
    """Returns ids, their probabilities, and the mass of all others: [V] -> three entries."""
    probabilities = dist.double()
    ids, probs, others = _split(probabilities, probabilities >= MIN_PROBABILITY, required_ids)
    return [ids, probs, round_number(float(others.sum()))]


def logits_to_json(logits: Tensor, required_ids: Iterable[int]) -> list[Any]:
    """Returns ids, their logits, and the log-sum-exp of all others (None if there are none): [V] -> three."""
    wide_logits = logits.double()
    is_large = torch.zeros_like(wide_logits, dtype=torch.bool)
    is_large[wide_logits.topk(min(TOP_LOGITS, len(wide_logits))).indices] = True
    ids, kept_logits, others = _split(wide_logits, is_large, required_ids)
    return [
        ids,
        kept_logits,
        round_number(float(others.logsumexp(0))) if bool(others.isfinite().any()) else None,
    ]


def _split(
    values: Tensor, is_kept: Tensor, required_ids: Iterable[int]
) -> tuple[list[int], list[float], Tensor]:
    """Returns the kept ids of [V] (by a mask [V], or required), their numbers, and all other numbers."""
    is_kept[list(required_ids)] = True
    is_kept &= values.isfinite()
    return (
        is_kept.nonzero()[:, 0].tolist(),
        [round_number(x) for x in values[is_kept].tolist()],
        values[~is_kept],
    )


def dists_from_json(stored: Any, vocab_size: int, rows: int, positions: int) -> Tensor:
    """Reads distributions, the rest of each spread evenly: [rows, positions, V] float64, which sum to 1."""
    dists = _read_vectors(stored, vocab_size, rows, positions, truediv)
    totals = dists.sum(-1, keepdim=True)
    is_wrong = ~((totals - 1).abs() < 1e-5) | (dists < 0).any(-1, keepdim=True)
    if is_wrong.any():
        raise ValueError(f"a distribution has a number below 0, or sums to {totals[is_wrong][0]:.6g}")
    return dists / totals


def logits_from_json(stored: Any, vocab_size: int, rows: int, positions: int) -> Tensor:
    """Reads logits, of which those that were not stored are alike: [rows, positions, V] float64."""
    return _read_vectors(
        stored, vocab_size, rows, positions, lambda log_sum, others: log_sum - math.log(others)
    )


def _read_vectors(
    stored: Any, vocab_size: int, rows: int, positions: int, share: Callable[[float, int], float]
) -> Tensor:
    """Returns [rows, positions, V] float64: numbers at their ids; at all others their share of the rest.

    share: of one of the others, given the rest and how many they are; without a rest it is −∞.
    """
    check_values("distributions", stored, [rows, positions, 3])
    vectors = torch.full((rows, positions, vocab_size), -math.inf, dtype=torch.float64)
    for row, i in product(range(rows), range(positions)):
        ids, numbers, rest = stored[row][i]
        check_values("ids", ids, [None], integers(0, vocab_size - 1))
        check_values("numbers", numbers, [len(ids)], is_number)
        if len(set(ids)) != len(ids):
            raise ValueError("an id has two numbers")
        if rest is not None:
            check_values("what is left of a distribution", rest, [], is_number)
            vectors[row, i] = share(rest, max(vocab_size - len(ids), 1))
        vectors[row, i, ids] = torch.tensor(numbers, dtype=torch.float64)
    return vectors
