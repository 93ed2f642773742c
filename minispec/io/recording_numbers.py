"""Distributions and logits as JSON: the large entries, and the sum of all others.

Of a distribution small entries are added up, so that what is read is a distribution again. Of logits the
largest are kept, and the log of what all others add up to in a softmax. Numbers have nine digits.
"""

import math
from collections.abc import Callable, Iterable
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


def tensor_from_json(
    stored: Any, parse: Callable[..., Tensor], vocab_size: int, rows: int, positions: int
) -> Tensor:
    """Reads distributions or logits: [rows, width, size] float64."""
    check_values("distributions", stored, [rows, positions, 3])
    vectors = [parse(*entry, vocab_size) for row in stored for entry in row]
    return torch.cat([torch.zeros(0).double(), *vectors]).view(rows, positions, vocab_size)


def dist_from_json(ids: list[int], probs: list[float], remaining_mass: float, vocab_size: int) -> Tensor:
    """Reads a distribution over so many ids; the rest is spread evenly: [V] float64, which sums to 1."""
    check_values("what is left of a distribution", remaining_mass, [], is_number)
    dist = _fill_tensor(ids, probs, vocab_size, lambda others: remaining_mass / others)
    total = float(dist.sum())
    if not abs(total - 1) < 1e-5 or bool((dist < 0).any()):
        raise ValueError(f"a distribution has a number below 0, or sums to {total:.6g}")
    return dist / total


def logits_from_json(
    ids: list[int], values: list[float], remaining_mass: float | None, vocab_size: int
) -> Tensor:
    """Reads logits of so many ids, of which those that were not stored are alike: [V] float64."""
    check_values(
        "what is left of logits", remaining_mass, [], lambda value: value is None or is_number(value)
    )
    return _fill_tensor(
        ids,
        values,
        vocab_size,
        lambda others: -math.inf if remaining_mass is None else remaining_mass - math.log(others),
    )


def _fill_tensor(
    ids: list[int], values: list[float], vocab_size: int, value_of_other: Callable[[int], float]
) -> Tensor:
    """Returns [V] float64: the values at the ids; value_of_other(how many others there are) at all others."""
    check_values("ids", ids, [None], integers(0, vocab_size - 1))
    check_values("numbers", values, [len(ids)], is_number)
    if len(set(ids)) != len(ids):
        raise ValueError("an id has two numbers")
    tensor = torch.full((vocab_size,), value_of_other(max(vocab_size - len(ids), 1)), dtype=torch.float64)
    tensor[ids] = torch.tensor(values, dtype=torch.float64)
    return tensor
