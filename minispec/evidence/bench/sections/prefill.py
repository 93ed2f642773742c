"""Prefill: seconds to read a prompt, and seconds to the first token, with and without a draft."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import cycle, islice
from time import perf_counter

import torch

from minispec.core.draft import ModelDrafter
from minispec.core.loop import generate, speculate
from minispec.core.model import LanguageModel
from minispec.core.prefill import device_of, prefill
from minispec.core.rng import SeededRng
from minispec.core.warp import Warp
from minispec.evidence.bench.interleaved import RULES, quartiles
from minispec.evidence.bench.machine import using_threads
from minispec.evidence.bench.sections.section import Bench, Found

LENGTHS = (32, 64, 128, 192)
K = 5


def measure(bench: Bench) -> Found:
    """Times prefill of both models, and the way to the first token, for prompts of several lengths."""
    best = bench.found["target-only"]["speculative"]
    models = bench.models(best["path"])
    tokens = [token for prompt in bench.prompts.reporting for token in prompt]
    longest = min(models.target.max_length, models.draft.max_length) - K - 1
    points: list[dict[str, float]] = []
    lengths = [n for n in LENGTHS if n <= longest]
    with using_threads(best["threads"]):
        for done, length in enumerate(lengths):
            bench.tell(done / len(lengths), f"{length} tokens")
            prompt = list(islice(cycle(tokens), length))
            tasks: dict[str, Callable[[], None]] = {
                "target": partial(read, models.target, prompt),
                "draft": partial(read, models.draft, prompt),
                "first_token_alone": partial(first_alone, models.target, prompt),
                "first_token_speculative": partial(first_block, models.target, models.draft, prompt),
            }
            points.append({"prompt_tokens": length, **times(tasks, bench.plan.latencies)})
    return {"k": K, **best, "points": points}


def times(tasks: dict[str, Callable[[], None]], repeats: int) -> dict[str, float]:
    """Returns the median seconds of each task; they take turns, and the first turn is warm-up."""
    seconds: dict[str, list[float]] = {name: [] for name in tasks}
    for turn in range(repeats + 1):
        for name, task in tasks.items():
            started = perf_counter()
            task()
            if turn:
                seconds[name].append(perf_counter() - started)
    return {name: quartiles(values)[1] for name, values in seconds.items()}


@torch.inference_mode()
def read(model: LanguageModel, prompt: list[int]) -> None:
    """Reads all of a prompt but its last token."""
    device = device_of(model)
    prefill(model, [prompt])
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def first_alone(target: LanguageModel, prompt: list[int]) -> None:
    """Decodes one token with the target alone."""
    next(generate(target, [prompt], max_new_tokens=K + 1, warp=Warp(0), rng=SeededRng(0)))


def first_block(target: LanguageModel, draft: LanguageModel, prompt: list[int]) -> None:
    """Decodes until the first round brings its tokens: both prefills, K guesses, one check."""
    rounds = speculate(
        target,
        ModelDrafter(draft),
        [prompt],
        k=K,
        verifier=RULES["greedy"],
        max_new_tokens=K + 1,
        warp=Warp(0),
        rng=SeededRng(0),
    )
    next(rounds)
