"""Transformers: our target-only and speculative decoding compared with that library's, on the same weights.

    python docs/peers/transformers.py --output report.json

Greedy, end-of-sequence off, key-value cache on. Its assisted generation gets the settings that suit it best:
how many tokens the assistant proposes, always as many (a constant schedule), and whether it stops early where
the assistant is unsure. They are chosen on the choosing half; then all four decode the reporting half,
interleaved. With `--full` the report has all sections on the pair, as that of the results page.

Needs the extra `peers`: `pip install -e '.[peers]'` in minispec's folder.
"""

import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from types import SimpleNamespace
from typing import Any, NamedTuple

import torch
import typer
from torch import Tensor

if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).resolve().parents[1])  # here this file would be the library of its name

from minispec.cli.bench import run_shown
from minispec.core.batch import Prompts
from minispec.core.model import GPT
from minispec.evidence.bench.interleaved import Decodes, Run, speed_up_of, tokens_per_second
from minispec.evidence.bench.machine import thread_counts, using_threads
from minispec.evidence.bench.run import CHOSEN, NAMES
from minispec.evidence.bench.section import FULL, BenchRun, Results, Section
from minispec.evidence.proof.ties import first_flip
from minispec.io.checkpoint import Pair, load_pair, save_model

TOKENS = (3, 4, 6, 8, 20)  # num_assistant_tokens
THRESHOLDS = (0.0, 0.4)  # assistant_confidence_threshold: never stop early, and the library's default
SAME = 1e-3  # logits of the same weights may differ by this
CHOOSING = 12  # prompts at most that choose among its many settings


def installed(module: str, package: str, extra: str) -> Any:
    """Imports a library of an extra; a ValueError says how to install it."""
    try:
        return import_module(module)
    except (ImportError, OSError, RuntimeError) as error:  # the last two: it is there, and cannot be loaded
        raise ValueError(
            f"{package} is not installed: in minispec's folder, pip install -e '.[{extra}]'"
        ) from error


def load_llama(folder: Path, dtype: torch.dtype = torch.float32) -> Any:
    """Returns transformers' model of one of our checkpoints; a ValueError if it is not installed."""
    library = installed("transformers", "transformers", "peers")
    library.logging.set_verbosity_error()
    library.logging.disable_progress_bar()
    return library.LlamaForCausalLM.from_pretrained(folder, dtype=dtype, local_files_only=True).eval()


class TransformersGPT:
    """Our weights in transformers' Llama, called as our models are."""

    def __init__(self, model: GPT) -> None:
        """Hands weights over, through files; a ValueError if transformers is not installed."""
        self.vocab_size = model.vocab_size
        self.device = model.device
        self.folder = TemporaryDirectory()  # as long as this is here: the library may read on
        save_model(model, Path(self.folder.name), model.dtype)
        self.model = load_llama(Path(self.folder.name), model.dtype)

    def new_cache(self, rows: int) -> SimpleNamespace:
        """Returns an empty cache."""
        past = import_module("transformers").DynamicCache()
        return SimpleNamespace(  # cropped by a negative number, by so many tokens, in every version
            past=past, truncate=lambda lengths: past.crop(lengths[0] - past.get_seq_length())
        )

    def hidden(self, tokens: Tensor, cache: SimpleNamespace) -> Tensor:
        """Reads tokens [B, n] after those of the cache; returns hidden states [B, n, D]."""
        return self.model.model(tokens, past_key_values=cache.past, use_cache=True).last_hidden_state

    def head(self, hidden: Tensor) -> Tensor:
        """Maps hidden states [B, n, D] to logits [B, n, V]."""
        return self.model.lm_head(hidden)


def assistant(model: Any, tokens: int, threshold: float = THRESHOLDS[-1]) -> dict[str, Any]:
    """Returns how `generate` is told of an assistant that proposes so many tokens."""
    config = model.generation_config
    config.num_assistant_tokens = tokens
    config.num_assistant_tokens_schedule = "constant"
    config.assistant_confidence_threshold = threshold
    return {"assistant_model": model}


@torch.inference_mode()
def continued(model: Any, prompt: Sequence[int], new_tokens: int, **how: Any) -> list[int]:
    """Continues one prompt (assisted generation takes one) by `generate`, end-of-sequence off."""
    ids = torch.tensor([list(prompt)])
    how |= {"max_new_tokens": new_tokens, "eos_token_id": None, "pad_token_id": 0}
    return model.generate(ids, attention_mask=torch.ones_like(ids), **how)[0, len(prompt) :].tolist()


class Theirs(NamedTuple):
    """transformers' `generate`, as a setting of ours is run."""

    target: Any  #: a `LlamaForCausalLM`
    threads: int  #: of the processor
    draft: Any = None  #: another, or None for plain generation
    tokens: int = 0  #: num_assistant_tokens
    threshold: float = 0.0  #: assistant_confidence_threshold

    def decode(self, prompts: Prompts, seed: int, new_tokens: int) -> Run:
        """Continues one prompt greedily, and times it; no seed is used."""
        how = assistant(self.draft, self.tokens, self.threshold) if self.draft else {}
        with using_threads(self.threads):
            started = perf_counter()
            text = continued(self.target, prompts[0], new_tokens, do_sample=False, **how)
            return Run(perf_counter() - started, (tuple(text),))


def measure(bench: BenchRun) -> Results:
    """Finds the library's best settings, then compares.

    Raises:
        ValueError: if transformers is not installed, or its logits on our weights are not ours.
    """
    target, draft = (
        load_llama(bench.pair.folder / name, bench.pair.target.dtype) for name in ("target", "draft")
    )
    difference = logit_difference(bench.pair, (target, draft), bench.prompts.choosing[:2])
    if difference > SAME:
        raise ValueError(f"transformers' logits differ from ours by {difference:.2g} on the same weights")
    threads = thread_counts()
    plain, plain_rows = fastest(bench, [Theirs(target, n) for n in threads])
    assisted, assisted_rows = fastest(
        bench, [Theirs(target, n, draft, k, least) for k in TOKENS for least in THRESHOLDS for n in threads]
    )
    k = bench.best_k("greedy")
    settings: dict[str, Decodes] = {
        "ours alone": bench.alone(),
        "theirs plain": plain,
        "ours speculative": bench.drafted("greedy", 0.0, k),
        "theirs assisted": assisted,
    }
    runs = bench.compare(settings, bench.reporting, "all four")
    prompts = bench.prompts.reporting * bench.plan.repeats

    def over(slow, fast):
        low, middle, high = speed_up_of(runs[slow], runs[fast])
        return {"ratio": middle, "quartiles": [low, high]}

    def texts(name):
        """Counts greedy texts that equal those of our target alone, and near ties among the others."""
        both = zip(prompts, runs["ours alone"], runs[name], strict=True)
        flips = [first_flip(bench.pair.target, prompt, a.texts[0], b.texts[0]) for prompt, a, b in both]
        ties = sum(flip is not None and flip.is_near_tie for flip in flips)
        return {"texts": len(flips), "equal": flips.count(None), "near_ties": ties}

    return {
        "version": import_module("transformers").__version__,
        "logit_difference": difference,
        "plain": plain_rows,
        "assisted": assisted_rows,
        "k": k,
        "tokens_per_second": {name: tokens_per_second(of) for name, of in runs.items()},
        "target_only_over_plain": over("theirs plain", "ours alone"),
        "speculative_over_assisted": over("theirs assisted", "ours speculative"),
        "assisted_over_plain": over("theirs plain", "theirs assisted"),
        "texts": {name: texts(name) for name in ("ours speculative", "theirs plain", "theirs assisted")},
    }


def fastest(bench: BenchRun, tried: Sequence[Theirs]) -> tuple[Theirs, Results]:
    """Returns the fastest of some settings on the choosing half, and how fast all of them are."""
    runs = bench.compare({setting: setting for setting in tried}, bench.choosing[:CHOOSING], "its settings")
    rows = {
        setting: {name: getattr(setting, name) for name in ("tokens", "threshold", "threads")}
        | {"tokens_per_second": tokens_per_second(of)}
        for setting, of in runs.items()
    }
    best = max(rows, key=lambda setting: rows[setting]["tokens_per_second"])
    return best, {"best": rows[best], "tried": [*rows.values()]}


@torch.inference_mode()
def logit_difference(pair: Pair, theirs: Sequence[Any], prompts: Prompts) -> float:
    """Returns the largest difference between their logits and ours, over both models and all prompts."""
    return max(
        float((ours(ids) - other(ids).logits).abs().max())
        for ids in (torch.tensor([prompt]) for prompt in prompts)
        for ours, other in zip((pair.target, pair.draft), theirs, strict=True)
    )


def main(output: Path | None = None, full: bool = False) -> None:
    """Compares with transformers on the shipped pair."""
    try:
        installed("transformers", "transformers", "peers")
    except ValueError as reason:
        raise typer.BadParameter(str(reason)) from None
    names = [name for name in NAMES if name not in {"real-sizes", "drafters", "rules"}] if full else CHOSEN
    more = [Section("transformers", measure, CHOSEN)]
    run_shown(load_pair("stories"), output, sections=(*names, "transformers"), plan=FULL, more=more)


if __name__ == "__main__":
    typer.run(main)
