"""Distributions and logits as JSON: what matters, and what all the rest adds up to.

Of a distribution small entries are added up, so that what is read is a distribution again. Of logits the
largest are kept, and the log of what all others add up to in a softmax. Numbers have nine digits.
"""

import math
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor

from minispec.io.recording_check import check_values, integers, is_number

LEAST = 1e-7  # smaller probabilities are added up
DIGITS = 9  # significant; as many as a float32 needs
TOP_LOGITS = 8


def short(value: float) -> float:
    """Returns a number with nine significant digits."""
    return float(f"{value:.{DIGITS}g}")


def dist_to_json(dist: Tensor, named: Iterable[int]) -> list[Any]:
    """Returns ids, their probabilities, and the mass of all others: [V] -> three entries."""
    wide = dist.double()
    ids, probs, count = _parts(wide, wide >= LEAST, named)
    return [ids, probs, short(float(count.sum()))]


def logits_to_json(logits: Tensor, named: Iterable[int]) -> list[Any]:
    """Returns ids, their logits, and the log-sum-exp of all others (None if there are none): [V] -> three."""
    wide = logits.double()
    largest = torch.zeros_like(wide, dtype=torch.bool)
    largest[wide.topk(min(TOP_LOGITS, len(wide))).indices] = True
    ids, values, count = _parts(wide, largest, named)
    return [ids, values, short(float(count.logsumexp(0))) if bool(count.isfinite().any()) else None]


def _parts(values: Tensor, keep: Tensor, named: Iterable[int]) -> tuple[list[int], list[float], Tensor]:
    """Returns ids and numbers of what is kept of [V], by a mask [V] or by name, and all other numbers."""
    keep[list(named)] = True
    keep &= values.isfinite()
    return keep.nonzero()[:, 0].tolist(), [short(x) for x in values[keep].tolist()], values[~keep]


def tensor_from_json(stored: Any, read: Callable[..., Tensor], size: int, rows: int, width: int) -> Tensor:
    """Reads distributions or logits: [rows, width, size] float64."""
    check_values("distributions", stored, [rows, width, 3], lambda part: True)
    flat = [read(*entry, size) for row in stored for entry in row]
    return torch.stack(flat).view(rows, width, size) if flat else torch.zeros(rows, width, size).double()


def dist_from_json(ids: list[int], probs: list[float], mass: float, size: int) -> Tensor:
    """Reads a distribution over so many ids; the rest is spread evenly: [V] float64, which sums to 1."""
    check_values("what is left of a distribution", mass, [], is_number)
    dist = _filled(ids, probs, size, lambda count: mass / count)
    total = float(dist.sum())
    if not abs(total - 1) < 1e-5 or bool((dist < 0).any()):
        raise ValueError(f"a distribution has a number below 0, or sums to {total:.6g}")
    return dist / total


def logits_from_json(ids: list[int], values: list[float], mass: float | None, size: int) -> Tensor:
    """Reads logits of so many ids, of which those that were not stored are alike: [V] float64."""
    check_values("what is left of logits", mass, [], lambda value: value is None or is_number(value))
    return _filled(ids, values, size, lambda count: -math.inf if mass is None else mass - math.log(count))


def _filled(ids: list[int], values: list[float], size: int, fill_value: Callable[[int], float]) -> Tensor:
    """Returns [size] float64: the given values at some ids, and `fill_value` of their number at others."""
    check_values("ids", ids, [None], integers(0, size - 1))
    check_values("numbers", values, [len(ids)], is_number)
    if len(set(ids)) != len(ids):
        raise ValueError("an id has two numbers")
    filled = torch.full((size,), fill_value(max(size - len(ids), 1)), dtype=torch.float64)
    filled[ids] = torch.tensor(values, dtype=torch.float64)
    return filled
