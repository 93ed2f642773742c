"""Exercises that ask for numbers: sizes of caches, the K that pays most, rows and slots of a batch."""

from collections.abc import Callable
from functools import partial
from typing import Any

from minispec.classroom.exercise import exercise
from minispec.classroom.running import called, ids, whole
from minispec.core.model import GPTConfig


def cache_bytes(config: GPTConfig, tokens: int, bytes_per_number: int) -> int:
    """Returns keys and values: 2 · layers · kv_heads · head_dim · tokens numbers."""
    return 2 * config.layers * config.kv_heads * config.head_dim * tokens * bytes_per_number


def config(layers: int, heads: int, kv_heads: int, head_dim: int) -> GPTConfig:
    """Returns the sizes of a model."""
    return GPTConfig(16, layers, heads * head_dim, heads, kv_heads, 8, 64)


BYTES = exercise(
    "cache-bytes",
    wrong={
        "keys-only": lambda *given: cache_bytes(*given) // 2,
        "query-heads": lambda sizes, *given: cache_bytes(sizes, *given) // sizes.kv_heads * sizes.heads,
        "one-layer": lambda sizes, *given: cache_bytes(sizes, *given) // sizes.layers,
    },
    right=cache_bytes,
    run=lambda answer, *case: called(answer, config(*case[:4]), *case[4:]),
    read=whole,
)


def positions_computed(prompt: int, new: int, cached: bool) -> int:
    """Returns prompt − 1 + new with a cache; else prompt + (prompt + 1) + …, `new` terms."""
    return prompt - 1 + new if cached else sum(prompt + i for i in range(new))


POSITIONS = exercise(
    "positions-computed",
    wrong={
        "last-token-read": lambda p, n, cached: p + n if cached else positions_computed(p, n + 1, False),
        "prompt-for-free": lambda p, n, cached: n if cached else positions_computed(p, n, False),
        "text-does-not-grow": lambda p, n, cached: positions_computed(p, n, True) if cached else p * n,
    },
    right=positions_computed,
    read=whole,
)

NAMES = ("target_verified", "draft_drafted", "after", "catch_up")


def cache_lengths(cached: int, k: int, accepted: int) -> tuple[int, int, int, int]:
    """Returns the lengths of one round."""
    return cached + k + 1, cached + k, cached + accepted + 1, int(accepted == k)


def but_for(name: str, change: Callable[[int], int]) -> Any:
    """Returns an answer that is right but for one of the four numbers, which is changed."""

    def answer(cached: int, k: int, accepted: int) -> tuple[int, ...]:
        lengths = zip(NAMES, cache_lengths(cached, k, accepted), strict=True)
        return tuple(change(length) if each == name else length for each, length in lengths)

    return answer


def four(value: Any) -> tuple[int, ...]:
    """Reads four whole numbers, in order or by name."""
    if isinstance(value, dict) and value.keys() == set(NAMES):
        value = [value[name] for name in NAMES]
    return ids(value, f"four whole numbers ({', '.join(NAMES)})", count=4)


LENGTHS = exercise(
    "cache-lengths",
    wrong={
        "pending-forgotten": but_for("target_verified", lambda length: length - 1),
        "draft-reads-its-last": but_for("draft_drafted", lambda length: length + 1),
        "correction-cached": but_for("after", lambda length: length + 1),
        "never-catches-up": but_for("catch_up", lambda length: 0),
        "always-catches-up": but_for("catch_up", lambda length: 1),
    },
    right=cache_lengths,
    read=four,
)


def speedup(alpha: float, c: float, k: int) -> float:
    """Returns tokens over time (Leviathan et al. 2023, theorem 3.8), without dividing by 1 − α."""
    return sum(alpha**i for i in range(k + 1)) / (k * c + 1)


def best_by(score: Callable[[float, float, int], float], first: int = 0) -> Callable[..., int]:
    """Returns an answer: the K of the largest score from `first` to `most`, the smallest one on ties."""
    return lambda alpha, c, most: max(range(first, most + 1), key=lambda k: (score(alpha, c, k), -k))


CHOOSE_K = exercise(
    "choose-k",
    wrong={
        "cost-forgotten": lambda alpha, c, most: most,
        "never-zero": best_by(speedup, first=1),
        "bonus-forgotten": best_by(lambda alpha, c, k: speedup(alpha, c, k) - 1 / (k * c + 1)),
        "divides-by-zero": best_by(lambda alpha, c, k: (1 - alpha ** (k + 1)) / ((1 - alpha) * (k * c + 1))),
    },
    right=best_by(speedup),
    read=whole,
)


def free(done: list[bool]) -> list[int]:
    """Returns the rows that are done."""
    return [row for row, ended in enumerate(done) if ended]


def refill(
    done: list[bool],
    queue: list[int],
    space: list[int],
    rows: Callable[[Any], list[int]] = free,
    order: Callable[[Any], list[int]] = list,
    least: int = 1,
) -> Any:
    """Returns what takes which row, and what waits; a wrong answer takes other rows or prompts."""
    fit = [name for name in queue if space[name] >= least]
    placed = list(zip(rows(done), order(fit), strict=False))
    return placed, [name for name in fit if name not in dict(placed).values()]


def placed_and_left(value: Any) -> Any:
    """Reads pairs of a row and a name, and a list of names."""
    placed, left = value
    pairs = tuple(ids(pair, "placed: a list of pairs (row, name)", count=2) for pair in placed)
    return pairs, ids(left, "left: a list of names")


REFILL = exercise(
    "refill-rows",
    wrong={
        "rows-in-use": partial(refill, rows=lambda done: [*range(len(done))]),
        "one-row-only": partial(refill, rows=lambda done: free(done)[:1]),
        "last-comes-first": partial(refill, order=lambda fit: fit[::-1]),
        "one-prompt-twice": partial(refill, order=lambda fit: fit[:1] * 9),
        "still-waiting": lambda done, queue, space: (refill(done, queue, space)[0], queue),
        "no-space": partial(refill, least=0),
    },
    right=refill,
    read=placed_and_left,
)


def slots(live: list[bool], lengths: list[int], pending: int = 1, idle: int = 1) -> tuple[int, int, int]:
    """Counts useful slots, padding and idle ones; a wrong answer leaves out pending tokens or idle rows."""
    wide = max(lengths) + pending
    used = sum(lengths) + pending * sum(live)
    empty = (len(live) - sum(live)) * wide * idle
    return used, len(live) * wide - used - empty, empty


BLOCK = exercise(
    "block-slots",
    wrong={
        "pending-forgotten": partial(slots, pending=0),
        "idle-is-padding": partial(slots, idle=0),
        "own-width": lambda live, lengths: (sum(lengths) + sum(live), 0, live.count(False)),
    },
    right=slots,
    read=lambda value: ids(value, "three whole numbers, (useful, padding, idle),", count=3),
)
