"""Exercises that ask for numbers: sizes of caches, the K that pays most, rows and slots of a batch."""

from typing import Any

from minispec.classroom.exercise import exercise
from minispec.classroom.running import call_answer, read_ids, read_integer
from minispec.core.model import GPTConfig
from minispec.evidence.theory.formulas import best_k, kv_cache_bytes


def small_config(layers: int, heads: int, kv_heads: int, head_dim: int) -> GPTConfig:
    """Returns the sizes of a model."""
    return GPTConfig(16, layers, heads * head_dim, heads, kv_heads, 8, 64)


BYTES = exercise(
    "cache-bytes",
    right=kv_cache_bytes,
    run=lambda answer, *case: call_answer(answer, small_config(*case[:4]), *case[4:]),
    read=read_integer,
)


def positions_computed(prompt: int, new: int, cached: bool) -> int:
    """Returns prompt − 1 + new with a cache; else prompt + (prompt + 1) + …, `new` terms."""
    return prompt - 1 + new if cached else sum(prompt + i for i in range(new))


POSITIONS = exercise("positions-computed", right=positions_computed, read=read_integer)

LENGTH_NAMES = ("target_verified", "draft_drafted", "after", "catch_up")


def cache_lengths(cached: int, k: int, accepted: int) -> tuple[int, int, int, int]:
    """Returns the lengths of one round."""
    return cached + k + 1, cached + k, cached + accepted + 1, int(accepted == k)


def read_lengths(value: Any) -> tuple[int, ...]:
    """Reads four whole numbers, in order or by name."""
    if isinstance(value, dict) and value.keys() == set(LENGTH_NAMES):
        value = [value[name] for name in LENGTH_NAMES]
    return read_ids(value, f"four whole numbers ({', '.join(LENGTH_NAMES)})", count=4)


LENGTHS = exercise("cache-lengths", right=cache_lengths, read=read_lengths)


CHOOSE_K = exercise("choose-k", right=best_k, read=read_integer)


def refill(done: list[bool], queue: list[int], space: list[int]) -> Any:
    """Returns which row takes which prompt of the queue, and the prompts that wait."""
    rows = [row for row, ended in enumerate(done) if ended]
    fitting = [name for name in queue if space[name] >= 1]
    placed = list(zip(rows, fitting, strict=False))
    return placed, [name for name in fitting if name not in dict(placed).values()]


def read_placed(value: Any) -> Any:
    """Reads pairs of a row and a name, and a list of names."""
    placed, waiting = value
    pairs = tuple(read_ids(pair, "placed: a list of pairs (row, name)", count=2) for pair in placed)
    return pairs, read_ids(waiting, "left: a list of names")


REFILL = exercise("refill-rows", right=refill, read=read_placed)


def slots(live: list[bool], lengths: list[int]) -> tuple[int, int, int]:
    """Returns how many slots of a block are useful, padding, and idle."""
    width = max(lengths) + 1
    useful = sum(lengths) + sum(live)
    idle = (len(live) - sum(live)) * width
    return useful, len(live) * width - useful - idle, idle


BLOCK = exercise(
    "block-slots",
    right=slots,
    read=lambda value: read_ids(value, "three whole numbers, (useful, padding, idle),", count=3),
)
