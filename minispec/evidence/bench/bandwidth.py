"""Bandwidth: how fast this machine reads weights, and what share of that a target-only loop reaches.

A token needs every weight once, so bytes of weights over bandwidth is the least time it can take. A model
that fits into a processor's cache is read from there, and can be faster than memory.
"""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median
from time import perf_counter

import torch

from minispec.core.loop import generate
from minispec.core.model import GPT, GPTConfig, LanguageModel
from minispec.core.rng import SeededRng
from minispec.core.warp import Warp
from minispec.evidence.bench.machine import using_threads
from minispec.train.initialise import draw_weights

# About so many parameters, with few wide layers: what is asked here is reading, not starting operations.
SIZES = {
    1e6: GPTConfig(512, 4, 128, 4, 4, 352, tied=True),
    5e6: GPTConfig(512, 5, 256, 4, 4, 768, tied=True),
    25e6: GPTConfig(512, 6, 512, 8, 8, 1792, tied=True),
    50e6: GPTConfig(512, 6, 768, 12, 12, 2304, tied=True),
}


@dataclass(frozen=True)
class Reading:
    """How fast weights are read.

    Attributes:
        bytes_per_second: the best of the ways that were tried, each a median.
        threads: with which it was the best.
        way: `matrix times vector` or `sum`.
    """

    bytes_per_second: float
    threads: int
    way: str


@torch.inference_mode()
def read_bandwidth(threads: tuple[int, ...], size: int, repeats: int = 7, device: str = "cpu") -> Reading:
    """Measures how fast a large float32 matrix is read, by a product with a vector and by a sum.

    Args:
        threads: numbers of threads to try.
        size: of the matrix, in bytes.
        repeats: of each way.
        device: where the matrix lies.
    """
    matrix = torch.ones(size // 4 // 4096 or 1, 4096, device=device)
    vector = torch.ones(4096, device=device)
    ways = {"matrix times vector": lambda: matrix @ vector, "sum": lambda: matrix.sum()}
    found = []
    for count in threads:
        with using_threads(count):
            for way, task in ways.items():
                seconds = []
                for _ in range(repeats + 1):
                    started = perf_counter()
                    task().reshape(-1)[0].item()  # asking for a number waits for a GPU
                    seconds.append(perf_counter() - started)
                moved = matrix.numel() * matrix.element_size()
                found.append(Reading(moved / median(seconds[1:]), count, way))
    return max(found, key=lambda reading: reading.bytes_per_second)


def random_model(parameters: float, device: torch.device, dtype: torch.dtype) -> GPT:
    """Returns a model of about so many parameters with random weights; its texts mean nothing.

    Raises:
        ValueError: if there is no such size.
    """
    if parameters not in SIZES:
        raise ValueError(f"there is no size {parameters:g}; there is {', '.join(f'{n:g}' for n in SIZES)}")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return draw_weights(GPT(SIZES[parameters])).to(device, dtype).requires_grad_(False).eval()


def read_bytes(model: GPT) -> int:
    """Returns the bytes of weights that a token needs: all, but of an embedding of its own one row."""
    every = sum(p.numel() * p.element_size() for p in model.parameters())
    embedding = model.embed_tokens.weight
    return every if model.config.tied else every - embedding.numel() * embedding.element_size()


def seconds_per_step(target: LanguageModel, steps: int, threads: int | None, seed: int = 0) -> float:
    """Returns the median seconds of a step of the target-only loop at temperature 1: forward, warp, draw.

    Args:
        target: any model.
        steps: how many.
        threads: to compute with.
        seed: of the sampling.
    """
    prompt = [token % target.vocab_size for token in range(8)]
    seconds = []
    with using_threads(threads):
        run = generate(target, [prompt], max_new_tokens=steps + 4, warp=Warp(1.0), rng=SeededRng(seed))
        last = perf_counter()
        for number, _ in enumerate(run):
            now = perf_counter()
            if number >= 4:  # prefill and warm-up
                seconds.append(now - last)
            last = now
    return median(seconds)
