"""What several papers share: the shipped pair, its prompts, and tokens a call with their standard error."""

from collections.abc import Iterable, Iterator, Sequence
from math import sqrt
from statistics import fmean, stdev
from typing import Any

import torch

from minispec import SeededRng, Warp, load_pair, speculate
from minispec.core.draft import Drafter
from minispec.core.records import Round
from minispec.core.verify import Verifier, verify_rejection
from minispec.evidence.bench.measure import bench_prompts
from minispec.io.checkpoint import Pair

Row = dict[str, Any]
Rows = list[Row]
TOKENS = 96  # new ones of each text


def shipped() -> Pair:
    """Returns the shipped pair in float64, so that no number depends on how a machine rounds."""
    return load_pair("stories", dtype=torch.float64)


def run(
    pair: Pair,
    drafter: Drafter,
    k: int,
    verifier: Verifier = verify_rejection,
    prompts: Sequence[Sequence[int]] | None = None,
    seed: int = 0,
) -> Iterator[Round]:
    """Decodes all prompts of the pair, or others, at temperature 1."""
    how: dict[str, Any] = {"k": k, "verifier": verifier, "warp": Warp(), "rng": SeededRng(seed)}
    return speculate(pair.target, drafter, prompts or bench_prompts(pair), max_new_tokens=TOKENS, **how)


def mean(numbers: Sequence[float]) -> Row:
    """Returns a mean, its standard error, and of how many numbers."""
    return {"measured": fmean(numbers), "error": stdev(numbers) / sqrt(len(numbers)), "calls": len(numbers)}


def tokens_a_call(rounds: Iterable[Round], drafted: int) -> Row:
    """Returns the mean tokens of a target call, over those that had the space for so many drafted tokens."""
    return mean(
        [
            len(emitted)
            for r in rounds
            for row, emitted in enumerate(r.emitted)
            if r.live[row] and r.drafted(row) == drafted
        ]
    )


def plus_minus(row: Row) -> str:
    """Writes a mean and its standard error."""
    return f"{row['measured']:.2f} ± {row['error']:.2f}"
