"""The library that people would otherwise use, on the same weights: transformers, plain and assisted.

Both of its models are read from the pair's own folder. Greedy, end-of-sequence off, key-value cache on.
Its assisted generation gets the settings that suit it best: how many tokens the assistant proposes, always
as many (a constant schedule), and whether it stops early where the assistant is unsure.

Needs the extra `peers`: pip install 'minispec[peers]'.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import torch

from minispec.evidence.bench.interleaved import Prompts, Run
from minispec.evidence.bench.machine import using_threads
from minispec.io.checkpoint import Pair

NEEDS = "transformers is not installed: pip install 'minispec[peers]'"
TOKENS = (3, 4, 6, 8, 20)  # num_assistant_tokens
THRESHOLDS = (0.0, 0.4)  # assistant_confidence_threshold: never stop early, and the library's default
ATTENTION = ("sdpa", "eager")


@dataclass(frozen=True)
class Theirs:
    """transformers' `generate`, as a way of decoding.

    Attributes:
        target: a `LlamaForCausalLM`.
        assistant: another, or None for plain generation.
        tokens: num_assistant_tokens.
        threshold: assistant_confidence_threshold.
        threads: processor threads; None: as many as torch uses anyway.
    """

    target: Any
    assistant: Any = None
    tokens: int = 0
    threshold: float = 0.0
    threads: int | None = None

    def decode(self, prompts: Prompts, seed: int, new_tokens: int) -> Run:
        """Continues one prompt greedily, and times it.

        Args:
            prompts: one, as token ids.
            seed: not used.
            new_tokens: how many.

        Raises:
            ValueError: if there are several prompts; assisted generation takes one.
        """
        from transformers import GenerationConfig

        if len(prompts) != 1:
            raise ValueError(f"assisted generation takes one prompt, not {len(prompts)}")
        config = GenerationConfig(
            max_new_tokens=new_tokens, do_sample=False, use_cache=True, eos_token_id=None, pad_token_id=0
        )
        more = {}
        if self.assistant is not None:
            own = self.assistant.generation_config
            own.num_assistant_tokens, own.num_assistant_tokens_schedule = self.tokens, "constant"
            own.assistant_confidence_threshold = self.threshold
            more["assistant_model"] = self.assistant
        with using_threads(self.threads), torch.inference_mode():
            started = perf_counter()
            ids = torch.tensor([list(prompts[0])], device=self.target.device)
            mask = torch.ones_like(ids)
            out = self.target.generate(ids, attention_mask=mask, generation_config=config, **more)
            text = out[0, ids.shape[1] :].tolist()
            seconds = perf_counter() - started
        return Run(seconds, (tuple(text),))


def load(pair: Pair, attention: str = "sdpa") -> tuple[Any, Any]:
    """Reads the pair's target and draft as transformers' models.

    Args:
        pair: says where, on which device, and in which type.
        attention: which of its implementations.

    Raises:
        ValueError: if transformers is missing, or cannot read them.
    """
    try:
        from transformers import LlamaForCausalLM
        from transformers.utils import logging
    except ImportError as error:
        raise ValueError(NEEDS) from error
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    models = []
    for name in ("target", "draft"):
        try:
            model = LlamaForCausalLM.from_pretrained(
                pair.folder / name, dtype=pair.target.dtype, attn_implementation=attention,
                local_files_only=True,
            )  # fmt: skip
        except (OSError, ValueError, TypeError) as error:
            raise ValueError(f"transformers cannot read {name}: {str(error).splitlines()[0]}") from error
        placed: Any = model
        models.append(placed.to(pair.target.device).eval())
    return models[0], models[1]


@torch.inference_mode()
def logit_difference(pair: Pair, theirs: Sequence[Any], prompts: Prompts) -> float:
    """Returns the largest difference between their logits and ours, over both models and all prompts."""
    worst = 0.0
    for prompt in prompts:
        ids = torch.tensor([list(prompt)], device=pair.target.device)
        for ours, other in zip((pair.target, pair.draft), theirs, strict=True):
            worst = max(worst, float((ours(ids) - other(ids).logits).abs().max()))
    return worst


@contextmanager
def counting(model: Any) -> Iterator[list[int]]:
    """Counts a model's forwards for a while: the list that it gives has an entry per forward, its width."""
    widths: list[int] = []

    def note(module: Any, args: Any, kwargs: Any) -> None:
        widths.append(int((args[0] if args else kwargs["input_ids"]).shape[1]))

    handle = model.register_forward_pre_hook(note, with_kwargs=True)
    try:
        yield widths
    finally:
        handle.remove()
