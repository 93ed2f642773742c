"""Whole runs of other projects as engines, each with the target that it should sample from.

The target is always the same library's own model, called without a draft: so it is sampling that is checked,
and not how two libraries compute the same weights.
"""

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

import torch
from torch import Tensor

from minispec.evidence.checker.calling import Generate, in_batches
from minispec.evidence.proof.models import normals
from minispec.io.checkpoint import Pair

Engine = tuple[Generate, Callable[[Sequence[int]], Any]]  # what is checked, and its target
MODELS = ("target", "draft")
K = 3  # tokens a round, so that a text of six has several


def transformers_engine(pair: Pair, **how: Any) -> Engine:
    """Assisted generation of transformers, at temperature 1 without top-k and top-p.

    `generate` is told how to propose; by default the pair's draft does.
    """
    library = import_module("transformers")
    given = {"dtype": torch.float32, "attn_implementation": "sdpa", "local_files_only": True}
    load = library.LlamaForCausalLM.from_pretrained
    target, draft = (load(pair.folder / name, **given).eval() for name in MODELS)
    own = draft.generation_config
    own.num_assistant_tokens, own.num_assistant_tokens_schedule = K, "constant"
    how = how or {"assistant_model": draft}

    def generate(prompt: Sequence[int], n: int, seed: int) -> Sequence[int]:
        config = library.GenerationConfig(
            max_new_tokens=n, do_sample=True, top_k=0, top_p=1.0, eos_token_id=None, pad_token_id=0
        )
        ids = torch.tensor([list(prompt)])
        torch.manual_seed(seed)
        said = target.generate(ids, attention_mask=torch.ones_like(ids), generation_config=config, **how)
        return said[0, len(prompt) :].tolist()

    @torch.inference_mode()
    def after(ids: Sequence[int]) -> Tensor:
        return target(torch.tensor([list(ids)])).logits[0, -1].double().softmax(-1)

    return generate, after


def lucidrains_engine(rows: int) -> Engine:
    """The package speculative-decoding in batches of one prompt, on decoders with V = 3, without top-k."""
    library = import_module("speculative_decoding")
    target, draft = (lucidrains_decoder(library, depth) for depth in (2, 1))

    def draw(prompt: Sequence[int], n: int, seed: int, rows: int) -> list[list[int]]:
        torch.manual_seed(seed)
        texts = target, draft, torch.tensor([list(prompt)] * rows), len(prompt) + n
        return library.speculative_decoding(*texts, gamma=K, filter_thres=0.0)[0].tolist()

    return in_batches(draw, rows), lambda ids: target(torch.tensor([list(ids)]))[0, -1].double().softmax(-1)


def lucidrains_decoder(library: Any, depth: int) -> Any:
    """Returns a decoder of the library, with fixed weights large enough that its distributions differ."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(depth)
        decoder = library.Decoder(num_tokens=3, dim=16, depth=depth, heads=2, dim_head=8)
    decoder = decoder.double().eval().requires_grad_(False)
    for index, weight in enumerate(one for one in decoder.parameters() if one.dim() == 2):
        weight.copy_(2 * normals(tuple(weight.shape), 100 * depth + index) / weight.shape[1] ** 0.5)
    return decoder


def mlx_engine(pair: Pair) -> Engine:
    """`speculative_generate_step` of mlx-lm on the pair, in float32, at temperature 1."""
    mlx, library = import_module("mlx.core"), import_module("mlx_lm.generate")
    target, draft = (import_module("mlx_lm.utils").load_model(pair.folder / name)[0] for name in MODELS)
    for model in (target, draft):
        model.set_dtype(mlx.float32)
    how = {"num_draft_tokens": K, "sampler": import_module("mlx_lm.sample_utils").make_sampler(temp=1.0)}

    def generate(prompt: Sequence[int], n: int, seed: int) -> Sequence[int]:
        mlx.random.seed(seed)
        steps = library.speculative_generate_step(mlx.array(list(prompt)), target, draft, max_tokens=n, **how)
        return [int(token) for token, *_ in steps]

    def after(ids: Sequence[int]) -> Tensor:
        logits = target(mlx.array([list(ids)]))[0, -1]
        return torch.tensor(logits.tolist(), dtype=torch.float64).softmax(-1)

    return generate, after
