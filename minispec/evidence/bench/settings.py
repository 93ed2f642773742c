"""The bench: what all sections share, and what other rooms ask of it.

How a speed-up is measured stands in `turns`; the sections of `minispec bench` are in the folder `sections`.
"""

from __future__ import annotations

from collections.abc import Sequence

from minispec.core.draft import ModelDrafter
from minispec.core.model import GPT
from minispec.core.rng import SeededRng
from minispec.core.verify import verify_rejection
from minispec.core.warp import Warp
from minispec.evidence.bench.interleaved import Setting, Turn, Way, quartiles
from minispec.evidence.bench.machine import describe_machine, processor
from minispec.io.checkpoint import Pair
from minispec.io.observe import record
from minispec.io.trace import Trace
from minispec.io.walkthrough import VERIFIERS

__all__ = [
    "Setting",
    "Turn",
    "Way",
    "bench_prompts",
    "describe_machine",
    "measure_acceptance",
    "memory",
    "processor",
    "quartiles",
    "ways_of",
]

PROMPT_TOKENS = 32
NEW_TOKENS = 160
WIDTHS = (1, 2, 3, 4, 5, 6, 8, 10, 12)


def bench_prompts(pair: Pair) -> list[list[int]]:
    """Returns held-out prompts of 32 tokens, as recorded when the pair was trained.

    Raises:
        ValueError: if the pair has fewer than two.
    """
    prompts = [list(p) for p in pair.info.get("prompts", []) if len(p) == PROMPT_TOKENS]
    if len(prompts) < 2:
        raise ValueError(f"the pair {pair.name} has no prompts to measure on: its pair.json lists none")
    return prompts


def ways_of(pair: Pair, k: int, verifier: str = "rejection", draft: GPT | None = None) -> tuple[Way, Way]:
    """Returns the target alone, and with a draft: two ways to compare.

    Args:
        pair: the models.
        k: drafted tokens per round.
        verifier: `greedy` or `rejection`; it decides the temperature, 0 or 1.
        draft: another draft than the pair's.
    """
    temperature = VERIFIERS[verifier][1]
    model = draft or pair.draft
    alone = Way(pair.target, verifier=verifier, temperature=temperature)
    return alone, Way(pair.target, lambda: ModelDrafter(model), k, verifier, temperature)


def measure_acceptance(pair: Pair, prompts: Sequence[Sequence[int]], k: int = 4, seed: int = 0) -> Trace:
    """Decodes prompts side by side at temperature 1 with the rejection verifier.

    Args:
        pair: the models.
        prompts: token ids.
        k: drafted tokens per round.
        seed: of the sampling.

    Returns:
        The trace; its `statistics().acceptance` is accepted over tested tokens.
    """
    return record(
        pair.target,
        ModelDrafter(pair.draft),
        prompts,
        k=k,
        verifier=verify_rejection,
        max_new_tokens=NEW_TOKENS,
        warp=Warp(1.0),
        rng=SeededRng(seed),
    )


def memory(pair: Pair) -> dict[str, int]:
    """Returns the bytes of weights and of one row's cache, for both models; nothing else grows."""
    return {
        f"{name}_{what}": size
        for name, model in (("target", pair.target), ("draft", pair.draft))
        for what, size in (
            ("weights", sum(p.numel() * p.element_size() for p in model.parameters())),
            ("cache", model.new_cache(1).bytes),
        )
    }
