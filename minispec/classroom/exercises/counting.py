"""Exercises that ask for numbers: sizes and lengths of caches, and the K that pays most."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from minispec.classroom.exercise import Exercise
from minispec.classroom.running import Malformed, ids, whole
from minispec.classroom.trials import call
from minispec.core.model import GPTConfig


def cache_bytes(config: GPTConfig, tokens: int, bytes_per_number: int) -> int:
    """Returns keys and values: 2 · layers · kv_heads · head_dim · tokens numbers."""
    return 2 * config.layers * config.kv_heads * config.head_dim * tokens * bytes_per_number


def config(layers: int, heads: int, kv_heads: int, head_dim: int) -> GPTConfig:
    """Returns the sizes of a model."""
    return GPTConfig(16, layers, heads * head_dim, heads, kv_heads, 8, 64)


BYTES = Exercise(
    key="cache-bytes",
    title="Count the bytes of a cache",
    notebook=2,
    difficulty=1,
    minutes=3,
    stub='''def cache_bytes(config, tokens, bytes_per_number):
    """Returns how many bytes the keys and values of one row of `tokens` tokens take.

    config has layers, width, heads, kv_heads and head_dim.
    """
    ...
''',
    hints=(
        "How many vectors are kept for one token, over all layers? How long is each?",
        "Take one token and one layer first: what is kept, and for which heads? How many numbers? "
        "Then go up to all layers and tokens, and to bytes. Two of the sizes in config do not matter.",
    ),
    goal="For each token, each layer keeps a key and a value for each of its kv_heads.",
    praise="It grows with the text, token by token, and both models pay for a cache of their own.",
    wrong={
        "keys-only": (
            "Half of it is missing: a layer keeps a key and a value for every token.",
            lambda sizes, tokens, size: cache_bytes(sizes, tokens, size) // 2,
        ),
        "query-heads": (
            "You counted the query heads. Only keys and values are kept, and they may have fewer: kv_heads.",
            lambda sizes, tokens, size: cache_bytes(sizes, tokens, size) // sizes.kv_heads * sizes.heads,
        ),
        "one-layer": (
            "You counted one layer. Every layer has keys and values of its own.",
            lambda sizes, tokens, size: cache_bytes(sizes, tokens, size) // sizes.layers,
        ),
    },
    right=cache_bytes,
    trials=(
        call("cache_bytes", config(1, 1, 1, 2), 1, 4),
        call("cache_bytes", config(2, 1, 1, 2), 1, 4),
        call("cache_bytes", config(2, 4, 2, 4), 3, 2),
        call("cache_bytes", config(3, 6, 2, 8), 50, 4),
    ),
    read=whole,
)


def positions_computed(prompt: int, new: int, cached: bool) -> int:
    """Returns prompt − 1 + new with a cache; else prompt + (prompt + 1) + …, `new` terms."""
    return prompt - 1 + new if cached else sum(prompt + i for i in range(new))


POSITIONS = Exercise(
    key="positions-computed",
    title="Count what is computed, with and without a cache",
    notebook=2,
    difficulty=2,
    minutes=6,
    stub='''def positions_computed(prompt, new, cached):
    """Returns how many positions go through the model to make `new` tokens after `prompt` tokens.

    prompt and new are numbers, at least 1; cached says whether there is a key-value cache.
    """
    ...
''',
    hints=(
        "Draw prompt = 2, new = 3, and count. The token that is made last is never read.",
        "With a cache, every token of the text is read once, except one. Without, write down how many tokens "
        "each step reads: how many steps are there, and by how much do they grow?",
    ),
    goal="● goes through the model, = is in the cache. prompt = 2, new = 3: count the ● of each half.",
    picture="""
no cache, step 1  ● The  ● cat
step 2            ● The  ● cat  ● sat
step 3            ● The  ● cat  ● sat  ● on
cache, prefill    ● The
step 1            = The  ● cat
step 2            = The  = cat  ● sat
step 3            = The  = cat  = sat  ● on
""",
    praise="Without a cache the sum grows with the square of the text, with one only with its length.",
    wrong={
        "last-token-read": (
            "Too many: you also count the token made last. It is emitted, but nobody has to read it.",
            lambda p, n, cached: p + n if cached else positions_computed(p, n + 1, False),
        ),
        "prompt-for-free": (
            "With a cache the prompt still has to be read once: that is prefill.",
            lambda p, n, cached: n if cached else positions_computed(p, n, False),
        ),
        "text-does-not-grow": (
            "Without a cache the text grows: step i reads the prompt and the i tokens made before.",
            lambda p, n, cached: positions_computed(p, n, True) if cached else p * n,
        ),
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
    if isinstance(value, dict):
        if set(value) != set(NAMES):
            raise Malformed(f"the names should be {', '.join(NAMES)}")
        value = [value[name] for name in NAMES]
    return ids(value, f"four whole numbers ({', '.join(NAMES)})", count=4)


LENGTHS = Exercise(
    key="cache-lengths",
    title="Say how long both caches are",
    notebook=7,
    difficulty=2,
    minutes=6,
    stub='''def cache_lengths(cached, k, accepted):
    """Returns (target_verified, draft_drafted, after, catch_up) for one round.

    Both caches hold `cached` tokens when the round begins. Then k tokens are drafted, k >= 1.
    target_verified: the target's length after the verification pass, before rollback.
    draft_drafted: the draft's length after drafting.
    after: the length of both caches when the round has ended.
    catch_up: how many tokens the draft must read to have that length: 0 or 1.
    """
    ...
''',
    hints=(
        "Count what each model reads: the target reads one block; the draft reads before each guess.",
        "Take k = 1: the target reads two tokens, the draft one. With each further guess, how many more? "
        "When the round has ended, the last token of the text is pending; count what stands before it.",
    ),
    goal="k = 3, accepted = 2; ⌫ is rolled back; the correction is pending, and in neither cache: count.",
    picture="""
cached = 3        = Once      = the  = cat
target, verified  = 3 cached  → sat  ? on   ? the  ? mat
draft, drafted    = 3 cached  → sat  ? on   ? the
both, after       = 3 cached  = sat  = on   = the  ⌫ mat
""",
    praise="After each round both caches hold all that is committed but the pending token: the invariant.",
    wrong={
        "pending-forgotten": (
            "target_verified lacks the pending token: the target reads it together with the k drafted ones.",
            but_for("target_verified", lambda length: length - 1),
        ),
        "draft-reads-its-last": (
            "draft_drafted is one too many: the draft reads the pending token and its guesses but the last.",
            but_for("draft_drafted", lambda length: length + 1),
        ),
        "correction-cached": (
            "after is one too many: the correction or bonus is pending, and in neither cache yet.",
            but_for("after", lambda length: length + 1),
        ),
        "never-catches-up": (
            "After full acceptance the draft lacks its last guess, which it has not read: catch_up is 1.",
            but_for("catch_up", lambda length: 0),
        ),
        "always-catches-up": (
            "catch_up is 1 only after full acceptance. Else the draft has read more than is kept.",
            but_for("catch_up", lambda length: 1),
        ),
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


def best_by(
    score: Callable[[float, float, int], float], first: int = 0
) -> Callable[[float, float, int], int]:
    """Returns an answer: the K of the largest score from `first` to `most`, the smallest one on ties."""
    return lambda alpha, c, most: max(range(first, most + 1), key=lambda k: (score(alpha, c, k), -k))


SETTINGS = [(0.0, 0.2, 1), (0.9, 0.05, 1), (0.7, 0.2, 5), (0.6, 0.5, 3), (0.3, 0.6, 4), (0.9, 0.05, 8)]
SETTINGS += [(0.95, 0.02, 6), (0.5, 0.01, 12), (0.8, 0.1, 50), (1.0, 0.1, 7)]  # alpha, c, most

CHOOSE_K = Exercise(
    key="choose-k",
    title="Choose the best K",
    notebook=10,
    difficulty=2,
    minutes=8,
    stub='''def best_k(alpha, c, most):
    """Returns the K from 0 to most with the largest gain; 0 means: do not speculate.

    alpha: the probability that a drafted token is accepted, from 0 to 1.
    c: the time of one draft step, in target steps.
    A round takes K * c + 1 target steps and gains 1 + alpha + ... + alpha**K tokens.
    """
    ...
''',
    hints=(
        "Compute the gain of every K from 0 to most, and take the largest.",
        "Write the gain of one K as a function: a sum of powers over a time. What does it give at alpha = 1? "
        "`max` takes a `key`, by which it compares.",
    ),
    goal="alpha = 0.7, c = 0.2: the best K is 3. Beyond it, guesses cost more than they bring.",
    picture="""
K                0  1     2     3       4     5
tokens a round   1  1.7   2.19  2.53    2.77  2.94
time of a round  1  1.2   1.4   1.6     1.8   2.0
gain             1  1.42  1.56  ▲ 1.58  1.54  1.47
""",
    praise="Acceptance and cost decide together; a larger K is not better by itself.",
    wrong={
        "cost-forgotten": (
            "You always take the largest K: it gains most tokens a round. Divide by the time of the round.",
            lambda alpha, c, most: most,
        ),
        "never-zero": (
            "You never return 0. Where little is accepted or the draft is slow, not to speculate is fastest.",
            best_by(gain, first=1),
        ),
        "bonus-forgotten": (
            "You count accepted tokens only. A round gains one token more: the correction or the bonus.",
            best_by(lambda alpha, c, k: gain(alpha, c, k) - 1 / (k * c + 1)),
        ),
        "divides-by-zero": (
            "At alpha = 1 the closed form is 0 / 0. The sum of powers is K + 1 there: sum them up instead.",
            best_by(lambda alpha, c, k: (1 - alpha ** (k + 1)) / ((1 - alpha) * (k * c + 1))),
        ),
    },
    right=best_by(gain),
    trials=tuple(call("best_k", *setting) for setting in SETTINGS),
    read=whole,
)
