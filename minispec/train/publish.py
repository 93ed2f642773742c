"""Publish: measure what a training has made and write it as a pair.

What is measured is what was written: the weights are rounded to their type on disk first, so that whoever
loads the pair measures the same losses.
"""

from __future__ import annotations

import math
import platform
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch

from minispec.io.checkpoint import (
    Pair,
    load_pair,
    save_model,
    weights_hash,
)
from minispec.io.files import read_json, replacing, write_json
from minispec.train.dataset import Dataset
from minispec.train.evaluate import entropy_floor, forced_accuracy, mean_loss, whole_documents
from minispec.train.recipes import Recipe
from minispec.train.training import Progress, Trained

PROMPTS = 64  # at most
PROMPT_TOKENS = 32


def publish(
    recipe: Recipe,
    dataset: Dataset,
    trained: Mapping[str, Trained],
    folder: Path,
    command: str,
    finish: Callable[[Pair], Mapping[str, Any]] = lambda _: {},
) -> dict[str, Any]:
    """Writes a pair, all of it or nothing.

    Args:
        recipe: what it was made by.
        dataset: its corpus and tokenizer.
        trained: the models by name: `target`, `draft-plain`, `draft`.
        folder: where to; a pair that is there is replaced.
        command: what to type to make it again.
        finish: measures the written pair; what it returns is added to `pair.json`.

    Returns:
        What `pair.json` says.

    Raises:
        ValueError: if the folder cannot be written; what was there is left whole.
    """
    with replacing(folder) as temporary:
        dataset.tokenizer.save(temporary / "tokenizer.json")
        for name, result in trained.items():
            (temporary / name).mkdir()
            save_model(result.model, temporary / name)
        info = describe(recipe, dataset, trained, command)
        write_json(temporary / "pair.json", info)
        pair = load_pair(temporary)
        info |= {"models": measure(temporary, dataset, trained)}
        info |= finish(pair)
        if corpus_is_stories(dataset):
            facts = {
                "target": pair.target,
                "draft-plain": load_pair(temporary, draft="draft-plain").draft,
                "draft": pair.draft,
            }
            info["forced_accuracy"] = {
                name: forced_accuracy(model, dataset.corpus, dataset.tokenizer)
                for name, model in facts.items()
            }
        write_json(temporary / "pair.json", info)
    return info


def corpus_is_stories(dataset: Dataset) -> bool:
    """Whether the corpus comes from the grammar."""
    return bool(dataset.corpus.stories)


def describe(
    recipe: Recipe, dataset: Dataset, trained: Mapping[str, Trained], command: str
) -> dict[str, Any]:
    """Returns what is known before anything is measured."""
    corpus, tokenizer = dataset.corpus, dataset.tokenizer
    return {
        "name": recipe.name,
        "command": command,
        "corpus": {
            "name": corpus.name,
            "sha256": corpus.sha256,
            "train_documents": len(corpus.train),
            "validation_documents": len(corpus.validation),
        },
        "seed": recipe.seed,
        "vocab_size": tokenizer.vocab_size,
        "entropy_floor": entropy_floor(corpus, tokenizer, recipe.target.max_length),
        "versions": {
            "python": platform.python_version(),
            "torch": torch.__version__,
            "threads": torch.get_num_threads(),
        },
        "recipe": recipe.to_json(),
        "prompts": prompts(dataset),
    }


def prompts(dataset: Dataset) -> list[list[int]]:
    """Returns the beginnings of held-out documents to measure on, 32 tokens each where any is so long."""
    rows = dataset.tokenizer.encode_batch(dataset.corpus.validation)
    return ([row[:PROMPT_TOKENS] for row in rows if len(row) >= PROMPT_TOKENS] or rows)[:PROMPTS]


def measure(folder: Path, dataset: Dataset, trained: Mapping[str, Trained]) -> dict[str, Any]:
    """Returns size, time and loss of every model, read back from the disk."""
    tokens, mask = whole_documents(
        dataset.tokenizer, dataset.corpus.validation, trained["target"].model.max_length
    )
    figures = {}
    for name, result in trained.items():
        model = load_pair(folder, draft=name).draft
        figures[name] = {
            "parameters": model.parameters_count,
            "steps": result.steps,
            "tokens": result.tokens,
            "seconds": round(result.seconds, 1),
            "validation_loss": mean_loss(model, tokens, mask),
            "sha256": weights_hash(model.to(torch.bfloat16)),
        }
    return figures


def verdict(info: Mapping[str, Any]) -> str | None:
    """Says why a pair is a failed training, or None if it is a good one.

    Args:
        info: what `pair.json` says.
    """
    target = info["models"]["target"]["validation_loss"]
    draft = info["models"]["draft"]["validation_loss"]
    if not target < draft:
        return (
            f"the training failed: the target's loss {target:.4f} is not below the draft's {draft:.4f}, "
            f"so there is nothing to speculate on; train the target for more steps"
        )
    return None


def history_of(info: Mapping[str, Any]) -> list[Progress]:
    """Returns the held-out losses in the course of a training; of old pairs, only the last of each model.

    Args:
        info: what `pair.json` says.
    """
    if "history" in info:
        return [Progress.from_json(point) for point in info["history"]]
    return [
        Progress(name, of["steps"], of["steps"], math.nan, of["seconds"], of["validation_loss"])
        for name, of in info["models"].items()
    ]


def pair_info(folder: Path) -> dict[str, Any]:
    """Reads what `pair.json` says of a pair."""
    return read_json(folder / "pair.json")
