"""Notebook 2: how large a cache is, and what it saves."""

from __future__ import annotations

from minispec.classroom.drawing import Drawing, line
from minispec.classroom.exercise import Exercise, Wrong
from minispec.classroom.judging import Bench, Trial, call, whole
from minispec.core.model import GPTConfig

BYTES_STUB = '''def cache_bytes(config, tokens, bytes_per_number):
    """Returns how many bytes the keys and values of one row of `tokens` tokens take.

    config has layers, width, heads, kv_heads and head_dim.
    """
    ...
'''

BYTES_GOAL = Drawing(
    (
        line("layer 0, keys", ("head 0", "key"), ("head 1", "key")),
        line("layer 0, values", ("head 0", "value"), ("head 1", "value")),
        line("layer 1, keys", ("head 0", "key"), ("head 1", "key")),
        line("layer 1, values", ("head 0", "value"), ("head 1", "value")),
    ),
    "For each token: one vector of head_dim numbers in each cell, with 2 layers and 2 heads of keys and "
    "values.",
)


def cache_bytes(config: GPTConfig, tokens: int, bytes_per_number: int) -> int:
    """Returns keys and values: 2 · layers · kv_heads · head_dim · tokens numbers."""
    return 2 * config.layers * config.kv_heads * config.head_dim * tokens * bytes_per_number


BYTES_WRONG = (
    Wrong(
        "keys-only",
        "Half of it is missing: a layer keeps a key and a value for every token.",
        lambda config, tokens, size: cache_bytes(config, tokens, size) // 2,
    ),
    Wrong(
        "query-heads",
        "You counted the query heads. Only keys and values are kept, and there may be fewer heads of them: "
        "kv_heads.",
        lambda config, tokens, size: cache_bytes(config, tokens, size) // config.kv_heads * config.heads,
    ),
    Wrong(
        "one-layer",
        "You counted one layer. Every layer has keys and values of its own.",
        lambda config, tokens, size: cache_bytes(config, tokens, size) // config.layers,
    ),
    Wrong(
        "numbers-not-bytes",
        "You counted numbers. Each of them takes bytes_per_number bytes.",
        lambda config, tokens, size: cache_bytes(config, tokens, 1),
    ),
)

BYTES_PRAISE = "It grows with the text, token by token, and both models pay for a cache of their own."


def bytes_trial(layers: int, heads: int, kv_heads: int, head_dim: int, tokens: int, size: int) -> Trial:
    """Returns a call for one model."""
    config = GPTConfig(16, layers, heads * head_dim, heads, kv_heads, 8, 64)
    text = f"layers={layers}, heads={heads}, kv_heads={kv_heads}, head_dim={head_dim}"
    return Trial(f"cache_bytes(config with {text}, {tokens}, {size})", lambda: (config, tokens, size))


BYTES = Exercise(
    key="cache-bytes",
    title="Count the bytes of a cache",
    notebook=2,
    difficulty=1,
    minutes=3,
    stub=BYTES_STUB,
    hints=(
        "How many vectors are kept for one token, over all layers? How long is each?",
        "Multiply: 2 (keys and values), layers, kv_heads, head_dim, tokens, bytes per number.",
    ),
    goal=BYTES_GOAL,
    judge=Bench(
        cache_bytes,
        tuple(
            bytes_trial(*sizes)
            for sizes in ((1, 1, 1, 2, 1, 4), (2, 1, 1, 2, 1, 4), (2, 4, 2, 4, 3, 2), (3, 6, 2, 8, 50, 4))
        ),
        BYTES_WRONG,
        whole,
        praise=BYTES_PRAISE,
    ).judge,
    wrong=BYTES_WRONG,
    praise=BYTES_PRAISE,
)

POSITIONS_STUB = '''def positions_computed(prompt, new, cached):
    """Returns how many positions go through the model to make `new` tokens after `prompt` tokens.

    prompt and new are numbers, at least 1; cached says whether there is a key-value cache.
    """
    ...
'''

POSITIONS_GOAL = Drawing(
    (
        line("no cache, step 1", ("The", "computed"), ("cat", "computed")),
        line("step 2", ("The", "computed"), ("cat", "computed"), ("sat", "computed")),
        line("step 3", ("The", "computed"), ("cat", "computed"), ("sat", "computed"), ("on", "computed")),
        line("cache, prefill", ("The", "computed")),
        line("step 1", ("The", "kept"), ("cat", "computed")),
        line("step 2", ("The", "kept"), ("cat", "kept"), ("sat", "computed")),
        line("step 3", ("The", "kept"), ("cat", "kept"), ("sat", "kept"), ("on", "computed")),
    ),
    "● goes through the model, = is in the cache. prompt = 2, new = 3: count the ● of each half.",
)


def positions_computed(prompt: int, new: int, cached: bool) -> int:
    """Returns prompt − 1 + new with a cache; else prompt + (prompt + 1) + …, `new` terms."""
    return prompt - 1 + new if cached else sum(prompt + i for i in range(new))


POSITIONS_WRONG = (
    Wrong(
        "last-token-read",
        "Too many: you also count the token made last. It is emitted, but nobody has to read it any more.",
        lambda prompt, new, cached: (
            prompt + new if cached else sum(prompt + i for i in range(new)) + prompt + new
        ),
    ),
    Wrong(
        "last-token-read-with-cache",
        "With a cache you count one too many. All of the prompt is read and all new tokens but the last one.",
        lambda prompt, new, cached: prompt + new if cached else positions_computed(prompt, new, False),
    ),
    Wrong(
        "prompt-for-free",
        "With a cache the prompt still has to be read once: that is prefill.",
        lambda prompt, new, cached: new if cached else positions_computed(prompt, new, False),
    ),
    Wrong(
        "text-does-not-grow",
        "Without a cache the text grows: step i reads the prompt and the i tokens that were made before.",
        lambda prompt, new, cached: positions_computed(prompt, new, True) if cached else prompt * new,
    ),
    Wrong(
        "always-cached",
        "Without a cache nothing is remembered: each step reads the whole text again.",
        lambda prompt, new, cached: prompt - 1 + new,
    ),
    Wrong(
        "one-step-late",
        "Without a cache, step i reads what is there before it: the first one reads the prompt, and no more.",
        lambda prompt, new, cached: (
            positions_computed(prompt, new, True) if cached else sum(prompt + i for i in range(1, new + 1))
        ),
    ),
)

POSITIONS_PRAISE = "Without a cache the sum grows with the square of the text, with one only with its length."

POSITIONS = Exercise(
    key="positions-computed",
    title="Count what is computed, with and without a cache",
    notebook=2,
    difficulty=2,
    minutes=6,
    stub=POSITIONS_STUB,
    hints=(
        "Draw prompt = 2, new = 3, and count. The token that is made last is never read.",
        "With a cache: every token once, but for the last one. Without: prompt + (prompt + 1) + …, new "
        "terms.",
    ),
    goal=POSITIONS_GOAL,
    judge=Bench(
        positions_computed,
        tuple(
            call("positions_computed", prompt, new, cached)
            for prompt, new in ((1, 1), (1, 2), (2, 1), (2, 3), (5, 4), (10, 20))
            for cached in (True, False)
        ),
        POSITIONS_WRONG,
        whole,
        praise=POSITIONS_PRAISE,
    ).judge,
    wrong=POSITIONS_WRONG,
    praise=POSITIONS_PRAISE,
)
