"""Whole runs of other projects as engines, each with the target that it should sample from, and a prompt.

The target is always the same library's own model, called without a draft: so it is sampling that is checked,
and not how two libraries compute the same weights.
"""

from collections.abc import Callable, Sequence
from functools import partial
from importlib import import_module
from typing import Any

import torch
from torch import Tensor

from minispec.evidence.checker.calling import Generate, in_batches
from minispec.evidence.proof.models import normals
from minispec.io.checkpoint import Pair, load_pair
from peers.transformers import assistant, continued, load_llama

Engine = tuple[Generate, Callable[[Sequence[int]], Tensor], Sequence[int]]  # the second gives logits
K = 3  # tokens a round, so that a text of six has several


def transformers_engine(repeats: int = 1, **how: Any) -> Engine:
    """Assisted generation of transformers on the shipped pair, at temperature 1 without top-k and top-p.

    `generate` is told how to propose; by default the pair's draft does. The prompt comes so many times over.
    """
    pair = load_pair("stories")
    target = load_llama(pair.folder / "target")
    how = how or assistant(load_llama(pair.folder / "draft"), K)

    def generate(prompt, n, seed):
        torch.manual_seed(seed)
        return continued(target, prompt, n, do_sample=True, top_k=0, top_p=1.0, **how)

    @torch.inference_mode()
    def after(ids):
        return target(torch.tensor([list(ids)])).logits[0, -1]

    return generate, after, prompt_of(pair) * repeats


def prompt_of(pair: Pair) -> list[int]:
    """Returns the beginning of a pair's walk-through."""
    return pair.tokenizer.encode(pair.walkthrough)[:8]


def lucidrains_engine(rows: int) -> Engine:
    """The package speculative-decoding in batches of one prompt, on decoders with V = 3, without top-k."""
    library = import_module("speculative_decoding")
    target, draft = (lucidrains_decoder(library, depth) for depth in (2, 1))
    decode = partial(library.speculative_decoding, target, draft, gamma=K, filter_thres=0.0)

    def draw(prompt, n, seed, rows):
        torch.manual_seed(seed)
        ids = torch.tensor([list(prompt)] * rows)
        return decode(ids, seq_len=len(prompt) + n)[0].tolist()

    def after(ids):
        return target(torch.tensor([list(ids)]))[0, -1]

    return in_batches(draw, rows), after, (0, 1, 2)


def lucidrains_decoder(library: Any, depth: int) -> Any:
    """Returns a decoder of the library, with fixed weights large enough that its distributions differ."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(depth)
        decoder = library.Decoder(num_tokens=3, dim=16, depth=depth, heads=2, dim_head=8)
    decoder = decoder.double().eval().requires_grad_(False)
    for index, weight in enumerate(weight for weight in decoder.parameters() if weight.dim() == 2):
        weight.copy_(2 * normals(tuple(weight.shape), 100 * depth + index) / weight.shape[1] ** 0.5)
    return decoder


def mlx_engine() -> Engine:
    """`speculative_generate_step` of mlx-lm on the shipped pair, in float32, at temperature 1."""
    pair = load_pair("stories")
    mlx = import_module("mlx.core")
    load = import_module("mlx_lm.utils").load_model
    target, draft = (load(pair.folder / name)[0] for name in ("target", "draft"))
    target.set_dtype(mlx.float32)
    draft.set_dtype(mlx.float32)
    sampler = import_module("mlx_lm.sample_utils").make_sampler(temp=1.0)
    steps = import_module("mlx_lm.generate").speculative_generate_step

    def generate(prompt, n, seed):
        mlx.random.seed(seed)
        ids = mlx.array(list(prompt))
        emitted = steps(ids, target, draft, max_tokens=n, num_draft_tokens=K, sampler=sampler)
        return [int(token) for token, *_ in emitted]

    def after(ids):
        return torch.tensor(target(mlx.array([list(ids)]))[0, -1].tolist())

    return generate, after, prompt_of(pair)
