"""Exercises that ask for numbers: sizes and lengths of caches, and the K that pays most."""

from collections.abc import Callable
from typing import Any

from minispec.classroom.exercises.texts import exercise
from minispec.classroom.running import ids, whole
from minispec.classroom.trials import call
from minispec.core.model import GPTConfig


def cache_bytes(config: GPTConfig, tokens: int, bytes_per_number: int) -> int:
    """Returns keys and values: 2 · layers · kv_heads · head_dim · tokens numbers."""
    return 2 * config.layers * config.kv_heads * config.head_dim * tokens * bytes_per_number


def config(layers: int, heads: int, kv_heads: int, head_dim: int) -> GPTConfig:
    """Returns the sizes of a model."""
    return GPTConfig(16, layers, heads * head_dim, heads, kv_heads, 8, 64)


SIZES = [(1, 1, 1, 2, (1, 4)), (2, 1, 1, 2, (1, 4)), (2, 4, 2, 4, (3, 2)), (3, 6, 2, 8, (50, 4))]
BYTES = exercise(
    "cache-bytes",
    wrong={
        "keys-only": lambda *given: cache_bytes(*given) // 2,
        "query-heads": lambda sizes, *given: cache_bytes(sizes, *given) // sizes.kv_heads * sizes.heads,
        "one-layer": lambda sizes, *given: cache_bytes(sizes, *given) // sizes.layers,
    },
    right=cache_bytes,
    trials=tuple(call("cache_bytes", config(*sizes), *given) for *sizes, given in SIZES),
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
    trials=tuple(
        call("positions_computed", prompt, new, cached)
        for prompt, new in ((1, 1), (1, 2), (2, 1), (2, 3), (5, 4), (10, 20))
        for cached in (True, False)
    ),
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
        return tuple(change(length) if own == name else length for own, length in lengths)

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
    trials=tuple(
        call("cache_lengths", cached, k, accepted)
        for cached in (0, 1, 7)
        for k in (1, 2, 4)
        for accepted in range(k + 1)
    ),
    read=four,
)


def gain(alpha: float, c: float, k: int) -> float:
    """Returns tokens over time (Leviathan et al. 2023, theorem 3.8), without dividing by 1 − α."""
    return sum(alpha**i for i in range(k + 1)) / (k * c + 1)


def best_by(score: Callable[[float, float, int], float], first: int = 0) -> Callable[..., int]:
    """Returns an answer: the K of the largest score from `first` to `most`, the smallest one on ties."""
    return lambda alpha, c, most: max(range(first, most + 1), key=lambda k: (score(alpha, c, k), -k))


SETTINGS = [(0.0, 0.2, 1), (0.9, 0.05, 1), (0.7, 0.2, 5), (0.6, 0.5, 3), (0.3, 0.6, 4), (0.9, 0.05, 8)]
SETTINGS += [(0.95, 0.02, 6), (0.5, 0.01, 12), (0.8, 0.1, 50), (1.0, 0.1, 7)]  # alpha, c, most

CHOOSE_K = exercise(
    "choose-k",
    wrong={
        "cost-forgotten": lambda alpha, c, most: most,
        "never-zero": best_by(gain, first=1),
        "bonus-forgotten": best_by(lambda alpha, c, k: gain(alpha, c, k) - 1 / (k * c + 1)),
        "divides-by-zero": best_by(lambda alpha, c, k: (1 - alpha ** (k + 1)) / ((1 - alpha) * (k * c + 1))),
    },
    right=best_by(gain),
    trials=tuple(call("best_k", *setting) for setting in SETTINGS),
    read=whole,
)
