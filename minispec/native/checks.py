"""What a caller can get wrong, in one line each: a mistake in Python must never reach the library's memory.

The library looks at numbers itself, in microseconds. Most of what is here is asked only where a call does not
look like those of the loop, or where the core decides instead.
"""

import os
import sys
from collections.abc import Sequence
from functools import cache

import torch
from torch import Tensor

from minispec.core.records import Draft
from minispec.core.rng import BlockRng, Rng

NO_DRAFT = "the draft has a token id outside 0 to {}, or a length outside 0 to {}"
NO_DISTRIBUTION = "a distribution has a number that is negative or not finite, or its sum is not 1"
ROUNDING = (
    1e-3  # a sum of probabilities may differ from 1 by it, here and in `is_distribution` of decisions.h
)
LARGEST = 2**63 - 1  # what the library can count to


def check_tensor(name: str, given: Tensor, dims: int | None = None, dtype: torch.dtype | None = None) -> None:
    """Raises TypeError or ValueError unless it is given a tensor [...] of numbers that lie in memory.

    It must have so many dimensions (None: at least one), and a type (None: any floating one, with a last
    dimension that is not empty). Messages call it `name`.
    """
    if not isinstance(given, Tensor):
        raise TypeError(f"{name} must be a tensor, not {type(given).__name__}")
    if given.dtype is not dtype and (dtype is not None or not given.is_floating_point()):
        raise TypeError(f"{name} must be of {dtype or 'a floating type'}, not {given.dtype}")
    if given.layout is not torch.strided or given.is_meta:
        raise ValueError(f"{name} must hold its numbers: it is of {given.layout}, on {given.device}")
    have = given.dim()
    if have != (dims or max(have, 1)) or (dtype is None and given.shape[-1] == 0):
        wanted = "at least one number a row" if dims is None else f"{dims} dimensions"
        raise ValueError(f"{name} must have {wanted}, not {list(given.shape)}")


def check_ids(tokens: Tensor, dims: int) -> None:
    """Refuses what are no token ids for the library: [B] or [B, n] of int64, on the CPU, at least one."""
    plain = isinstance(tokens, Tensor) and tokens.dtype is torch.int64 and tokens.dim() == dims
    if not (plain and tokens.is_cpu and tokens.layout is torch.strided and tokens.numel() > 0):
        check_tensor("the tensor of token ids", tokens, dims, torch.int64)
        raise ValueError(f"there must be token ids, on the CPU: {list(tokens.shape)} on {tokens.device}")


def check_numbers(numbers: Tensor, needed: int) -> None:
    """Refuses what are not the numbers [n] of float64 that so many draws need, on the CPU."""
    plain = isinstance(numbers, Tensor) and numbers.dtype is torch.float64 and numbers.dim() == 1
    if not (plain and numbers.is_cpu and numbers.layout is torch.strided and numbers.numel() >= needed):
        check_tensor("the tensor of numbers", numbers, 1, torch.float64)
        raise ValueError(f"{needed} numbers are needed, on the CPU, not {len(numbers)} on {numbers.device}")


def check_temperature(temperature: float) -> None:
    """Raises TypeError or ValueError if something is no temperature that the library can be given."""
    if not isinstance(temperature, (int, float)):  # a union would be made anew for each draw
        raise TypeError(f"temperature must be a number, not {type(temperature).__name__}")
    if not 0 <= temperature <= sys.float_info.max:
        raise ValueError("temperature must be a finite number of at least 0")


def check_decidable(draft: Draft, target_probs: Tensor, *, probs: bool = False) -> None:
    """Raises TypeError or ValueError for what the library refuses, where the core decides.

    target_probs are [B, K+1, V]; `probs` says whether the draft's distributions will be read.
    """
    if not isinstance(draft, Draft):
        raise TypeError(f"a rule needs a Draft, not {type(draft).__name__}")
    check_tensor("target_probs", target_probs, 3)
    (rows, k), vocab = draft.tokens.shape, target_probs.shape[-1]
    check_tensor("the draft's tokens", draft.tokens, 2, torch.int64)
    check_tensor("the draft's lengths", draft.lengths, 1, torch.int64)
    if target_probs.shape != (rows, k + 1, vocab):
        raise ValueError(f"target_probs must be [{rows}, {k + 1}, V], not {list(target_probs.shape)}")
    lengths, tokens = draft.lengths.cpu(), draft.tokens.cpu()
    if bool(((lengths < 0) | (lengths > k)).any() | ((tokens < 0) | (tokens >= vocab)).any()):
        raise ValueError(NO_DRAFT.format(vocab - 1, k))
    check_distributions(target_probs)
    if probs:
        check_tensor("the draft's probs", draft.probs, 3)
        if draft.probs.shape != (rows, k, vocab):
            raise ValueError(
                f"the draft's probs must be [{rows}, {k}, {vocab}], not {list(draft.probs.shape)}"
            )
        check_distributions(draft.probs[(torch.arange(k) < lengths[:, None]).to(draft.probs.device)])


def check_distributions(dists: Tensor) -> None:
    """Raises ValueError if a row of [..., V] is no distribution."""
    wide = dists.double()
    if not bool((wide >= 0).all() & ((wide.sum(-1) - 1).abs() < ROUNDING).all()):
        raise ValueError(NO_DISTRIBUTION)


def check_generator(rng: Rng) -> None:
    """Raises TypeError if something is no random number generator."""
    if not all(callable(getattr(rng, name, None)) for name in ("bernoulli", "categorical")):
        raise TypeError(f"a random number generator is needed, not {type(rng).__name__}")


def check_code(code: int, draft: Draft, target_probs: Tensor) -> int:
    """Returns how many numbers the library has used; raises ValueError if it could not decide.

    target_probs are [B, K+1, V].
    """
    if code == -1:
        raise ValueError(NO_DRAFT.format(target_probs.shape[-1] - 1, draft.k))
    if code < 0:
        raise ValueError(NO_DISTRIBUTION)
    return code


def budgets_of(rng: Rng, rows: int, most: int) -> Sequence[int]:
    """Returns how many decisions each row may make; `most` where the generator does not say."""
    return check_budgets(rng.budgets, rows) if isinstance(rng, BlockRng) else [most] * rows


def check_budgets(budgets: Sequence[int], rows: int) -> Sequence[int]:
    """Returns budgets; raises ValueError if there is not one a row, or one is too large to count to."""
    if len(budgets) != rows or max(budgets, default=0) > LARGEST:
        raise ValueError(f"budgets must be {rows} numbers of at most {LARGEST:,}, one a row")
    return budgets


def check_memory(size: int, what: str) -> None:
    """Raises ValueError if something takes more bytes than the machine has: the process would be ended."""
    if size > machine_memory():
        has = machine_memory() / 2**30
        raise ValueError(f"{what} would take {size / 2**30:,.0f} GiB; this machine has {has:,.0f} GiB")


@cache
def machine_memory() -> int:
    """Returns the machine's memory in bytes; 64 GiB where the system does not tell."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return 2**36
