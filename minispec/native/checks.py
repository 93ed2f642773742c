"""What a caller can get wrong, in one line each: a mistake in Python must never reach the library's memory.

Types, shapes and sizes are asked here. At numbers the library looks itself, in microseconds.
"""

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache

import torch
from torch import Tensor

from minispec.core.warp import DAMAGED
from minispec.native.structs import Status

LARGEST = 2**63 - 1  # what the library can count to
CPU = torch.device("cpu")
OUT_OF_MEMORY = "there is not enough memory for this call of the native backend; try fewer tokens or rows"


def checked(
    name: str, tensor: Tensor, shape: Sequence[int | None] | None, dtype: torch.dtype | None = None
) -> Tensor:
    """Returns a tensor as the library reads it: on the CPU, without gaps; else TypeError or ValueError.

    Messages call what is given, numbers [...], by a name. Sizes of the shape that are None may be any; so may
    all if it is None. Without a type any floating one will do, with at least one number a row, and float64 is
    returned for those that the library does not know.
    """
    if not isinstance(tensor, Tensor):
        raise TypeError(f"{name} must be a tensor, not {type(tensor).__name__}")
    if tensor.dtype is not dtype and (dtype is not None or not tensor.is_floating_point()):
        raise TypeError(f"{name} must be of {dtype or 'a floating type'}, not {tensor.dtype}")
    if tensor.layout is not torch.strided or not tensor.is_cpu:
        raise ValueError(f"{name} must lie on the CPU: it is of {tensor.layout}, on {tensor.device}")
    sizes = tensor.shape
    if dtype is None and not (sizes and sizes[-1]):
        raise ValueError(f"{name} must have at least one number a row, not {list(sizes)}")
    if shape is not None and not fits(sizes, shape):
        expected = ", ".join("any" if size is None else str(size) for size in shape)
        raise ValueError(f"{name} must be [{expected}], not {list(sizes)}")
    computable = dtype is not None or tensor.dtype in (torch.float32, torch.float64)
    return (tensor if computable else tensor.double()).contiguous()


def fits(sizes: Sequence[int], shape: Sequence[int | None]) -> bool:
    """Whether sizes are those of a shape, in which None stands for any."""
    if len(sizes) != len(shape):
        return False
    for n, expected in zip(sizes, shape, strict=True):  # a loop: this is asked many times a round
        if expected is not None and expected != n:
            return False
    return True


def check_ids(tokens: Tensor, dims: int) -> Tensor:
    """Returns token ids [B] or [B, n], at least one, as read; else raises TypeError or ValueError."""
    ids = checked("the tensor of token ids", tokens, (None,) * dims, torch.int64)
    if ids.numel() == 0:
        raise ValueError(f"there must be token ids, not {list(ids.shape)}")
    return ids


def check_temperature(temperature: float) -> None:
    """Raises TypeError or ValueError if something is no temperature that the library can be given."""
    if not isinstance(temperature, (int, float)):  # a union would be made anew for each draw
        raise TypeError(f"temperature must be a number, not {type(temperature).__name__}")
    if not 0 <= temperature <= sys.float_info.max:
        raise ValueError("temperature must be a finite number of at least 0")


def check(status: int, vocab: int, k: int = 0) -> None:
    """Raises what a function of the library has refused, of V ids and drafts of K (see `Status`)."""
    if status == Status.OK:
        return
    if status == Status.NO_MEMORY:
        raise MemoryError(OUT_OF_MEMORY)
    raise ValueError(
        {
            Status.BAD_TOKEN: f"there is a token id outside 0 to {vocab - 1}",
            Status.BAD_LOGITS: DAMAGED,
            Status.BAD_NUMBER: "the numbers to draw by must lie in [0, 1)",
            Status.BAD_DRAFT: f"the draft has a token id outside 0 to {vocab - 1}, a length outside 0 to "
            f"{k}, or parents that are those of no tree",
            Status.BAD_DISTRIBUTION: "a distribution has a number that is negative or not finite, or its sum "
            "is not 1",
        }[Status(status)]
    )


def check_budgets(budgets: Sequence[int], rows: int) -> Sequence[int]:
    """Returns budgets; raises ValueError if there is not one a row, or one is too large to count to."""
    if len(budgets) != rows or max(budgets, default=0) > LARGEST:
        raise ValueError(f"budgets must be {rows} numbers of at most {LARGEST:,}, one a row")
    return budgets


def check_memory(size: int, what: str) -> None:
    """Raises ValueError if something takes more bytes than the machine has: the process would be ended."""
    if size > machine_memory():
        gibibytes = machine_memory() // 2**30
        raise ValueError(f"{what} would take {size // 2**30:,} GiB; this machine has {gibibytes:,} GiB")


def space_for(*sizes: int, dtype: torch.dtype) -> Tensor:
    """Returns a tensor [sizes] for results, with any numbers; raises MemoryError if memory was refused."""
    try:
        return torch.empty(sizes, dtype=dtype, device=CPU)  # whatever the default device is
    except RuntimeError as error:
        raise MemoryError(OUT_OF_MEMORY) from error


@contextmanager
def memory_errors() -> Iterator[None]:
    """Within it, memory that is refused raises MemoryError with a line; torch raises RuntimeError."""
    try:
        yield
    except MemoryError as error:
        if str(error):  # Python's has no line
            raise
        raise MemoryError(OUT_OF_MEMORY) from error
    except RuntimeError as error:
        if "allocate memory" not in str(error):
            raise
        raise MemoryError(OUT_OF_MEMORY) from error


@cache
def machine_memory() -> int:
    """Returns the machine's memory in bytes; 64 GiB where the system does not tell."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return 2**36
