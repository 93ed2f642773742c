"""Transformers: our target-only and speculative decoding compared with that library's, on the same weights.

Greedy, end-of-sequence off, key-value cache on. Its assisted generation gets the settings that suit it best:
how many tokens the assistant proposes, always as many (a constant schedule), and whether it stops early where
the assistant is unsure. They are chosen on the choosing half; then all four decode the reporting half,
interleaved.

Needs the extra `peers`: `pip install -e '.[peers]'` in minispec's folder.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from time import perf_counter
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor

from minispec.core.model import GPT
from minispec.evidence.bench.interleaved import Batch, Decodes, Run, speed_up_of, tokens_per_second
from minispec.evidence.bench.machine import thread_counts, using_threads
from minispec.evidence.bench.section import BenchRun, Found, installed
from minispec.evidence.proof.ties import first_flip
from minispec.io.checkpoint import Pair
from minispec.io.llama import config_to_json

TOKENS = (3, 4, 6, 8, 20)  # num_assistant_tokens
THRESHOLDS = (0.0, 0.4)  # assistant_confidence_threshold: never stop early, and the library's default
SAME = 1e-3  # logits of the same weights may differ by this
CHOOSING = 12  # prompts at most that choose among its many settings


@dataclass(frozen=True)
class Theirs:
    """transformers' `generate`, as a setting of ours is run."""

    target: Any  #: a `LlamaForCausalLM`
    assistant: Any = None  #: another, or None for plain generation
    tokens: int = 0  #: num_assistant_tokens
    threshold: float = 0.0  #: assistant_confidence_threshold
    threads: int | None = None  #: processor threads; None: as many as torch uses anyway

    def decode(self, prompts: Batch, seed: int, new_tokens: int) -> Run:
        """Continues one prompt greedily (assisted generation takes one), and times it; no seed is used."""
        from transformers import GenerationConfig

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


def measure(bench: BenchRun) -> Found:
    """Finds the library's best settings, then compares.

    Raises:
        ValueError: if transformers is not installed (`Skipped`), or its logits on our weights are not ours.
    """
    target, draft = (TransformersGPT(own).model for own in (bench.pair.target, bench.pair.draft))
    difference = logit_difference(bench.pair, (target, draft), bench.prompts.choosing[:2])
    if difference > SAME:
        raise ValueError(f"transformers' logits differ from ours by {difference:.2g} on the same weights")
    threads = thread_counts()
    plain, plain_rows = _fastest(bench, [Theirs(target, threads=n) for n in threads])
    assisted, assisted_rows = _fastest(
        bench, [Theirs(target, draft, k, least, n) for k in TOKENS for least in THRESHOLDS for n in threads]
    )
    k = bench.best_k("greedy")
    four: dict[str, Decodes] = {
        "ours alone": bench.alone(),
        "theirs plain": plain,
        "ours speculative": bench.drafted("greedy", 0.0, k),
        "theirs assisted": assisted,
    }
    runs = bench.compare(four, bench.reporting, "all four")
    from transformers import __version__

    return {
        "version": __version__,
        "logit_difference": difference,
        "plain": plain_rows,
        "assisted": assisted_rows,
        "k": k,
        "tokens_per_second": {name: tokens_per_second(of) for name, of in runs.items()},
        "target_only_over_plain": _over(runs["theirs plain"], runs["ours alone"]),
        "speculative_over_assisted": _over(runs["theirs assisted"], runs["ours speculative"]),
        "assisted_over_plain": _over(runs["theirs plain"], runs["theirs assisted"]),
        "texts": _texts(bench, runs),
    }


def _fastest(bench: BenchRun, tried: Sequence[Theirs]) -> tuple[Theirs, Found]:
    """Returns the fastest of some settings on the choosing half, and how fast all of them are."""
    runs = bench.compare(dict(enumerate(tried)), bench.choosing[:CHOOSING], "its settings")
    rows: list[Found] = [
        {"tokens": one.tokens, "threshold": one.threshold, "threads": one.threads}
        | {"tokens_per_second": tokens_per_second(runs[number])}
        for number, one in enumerate(tried)
    ]
    best = max(range(len(rows)), key=lambda number: rows[number]["tokens_per_second"])
    return tried[best], {"best": rows[best], "tried": rows}


def _over(slow: Sequence[Run], fast: Sequence[Run]) -> Found:
    low, middle, high = speed_up_of(slow, fast)
    return {"ratio": middle, "quartiles": [low, high]}


def _texts(bench: BenchRun, runs: Mapping[str, Sequence[Run]]) -> Found:
    """Returns how many greedy texts equal those of our target alone, and how many others are near ties."""
    found: Found = {}
    prompts = bench.prompts.reporting * bench.plan.repeats
    for name in ("ours speculative", "theirs plain", "theirs assisted"):
        texts = zip(prompts, runs["ours alone"], runs[name], strict=True)
        flips = [first_flip(bench.pair.target, prompt, a.texts[0], b.texts[0]) for prompt, a, b in texts]
        found[name] = {
            "texts": len(flips),
            "equal": sum(flip is None for flip in flips),
            "near_ties": sum(flip is not None and flip.is_near_tie for flip in flips),
        }
    return found


class TransformersGPT:
    """Our weights in transformers' Llama, called as our models are; the weights are not copied."""

    def __init__(self, model: GPT) -> None:
        """Takes a model's weights; raises `Skipped` if transformers is not installed."""
        library, self.vocab_size = installed("transformers", "transformers", "peers"), model.vocab_size
        library.logging.set_verbosity_error()
        library.logging.disable_progress_bar()
        config = library.LlamaConfig(**config_to_json(model.config, model.dtype))
        self.model = library.LlamaForCausalLM(config).to(model.device).eval()
        weights = {
            ("" if n.startswith("lm_head") else "model.") + n: w for n, w in model.state_dict().items()
        }
        self.model.load_state_dict(weights, assign=True)
        self._cache = library.DynamicCache

    def new_cache(self, rows: int) -> SimpleNamespace:
        """Returns an empty cache."""
        past = self._cache()  # cropped by a negative number, by so many tokens, in every version
        return SimpleNamespace(
            past=past, truncate=lambda lengths: past.crop(lengths[0] - past.get_seq_length())
        )

    def __call__(self, tokens: Tensor, cache: SimpleNamespace) -> Any:
        """Reads tokens [B, n] after those of the cache; returns logits [B, n, V]."""
        return self.model(tokens, past_key_values=cache.past, use_cache=True).logits


@torch.inference_mode()
def logit_difference(pair: Pair, theirs: Sequence[Any], prompts: Batch) -> float:
    """Returns the largest difference between their logits and ours, over both models and all prompts."""
    worst = 0.0
    for prompt in prompts:
        ids = torch.tensor([list(prompt)], device=pair.target.device)
        for ours, other in zip((pair.target, pair.draft), theirs, strict=True):
            worst = max(worst, float((ours(ids) - other(ids).logits).abs().max()))
    return worst
