"""Publish: measure what a training has made and write it as a pair.

What is measured is what was written: the weights are rounded to their type on disk first, so that whoever
loads the pair measures the same losses.
"""

import platform
from collections.abc import Callable, Mapping
from copy import deepcopy
from itertools import islice
from pathlib import Path
from typing import Any

import torch

from minispec.core.model import GPT
from minispec.io.checkpoint import Pair, json_hash, load_pair, save_model, weights_hash
from minispec.io.files import read_json, replace_folder, write_json
from minispec.io.source import load_model
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
    """Writes a pair of a recipe, all of it or nothing, and returns what `pair.json` says.

    `trained` has the models by name: `target`, `draft-plain`, `draft`. A pair that is in the folder is
    replaced. `command` is what to type to make it again. `finish` measures the written pair; what it returns
    is added to `pair.json`. Raises ValueError if the folder cannot be written; what was there is left whole.
    """
    corpus = dataset.corpus
    tokenizer = dataset.tokenizer
    with replace_folder(folder) as temporary:
        tokenizer.save(temporary / "tokenizer.json")
        for name, result in trained.items():
            (temporary / name).mkdir()
            save_model(result.model, temporary / name)
        info = describe(recipe, dataset, command)
        info["tokenizer_sha256"] = json_hash(read_json(temporary / "tokenizer.json"))
        write_json(temporary / "pair.json", info)
        written = {name: load_model(temporary / name) for name in trained}
        info |= {"models": measure(written, dataset, trained)}
        for name, model in info["models"].items():
            model["config_sha256"] = json_hash(read_json(temporary / name / "config.json"))
        info |= finish(load_pair(temporary))
        if corpus.stories:
            info["forced_accuracy"] = {
                name: forced_accuracy(model, corpus, tokenizer) for name, model in written.items()
            }
        write_json(temporary / "pair.json", info)
    return info


def describe(recipe: Recipe, dataset: Dataset, command: str) -> dict[str, Any]:
    """Returns what is known before anything is measured."""
    corpus = dataset.corpus
    tokenizer = dataset.tokenizer
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
    documents = dataset.corpus.validation
    rows = (row[:PROMPT_TOKENS] for row in map(dataset.tokenizer.encode, documents))
    long = list(islice((row for row in rows if len(row) == PROMPT_TOKENS), PROMPTS))
    return long or dataset.tokenizer.encode_batch(documents[:PROMPTS])


def measure(
    models: Mapping[str, GPT], dataset: Dataset, trained: Mapping[str, Trained]
) -> dict[str, dict[str, Any]]:
    """Returns size, time and loss of every model as it was written."""
    max_length = models["target"].max_length
    tokens, mask = whole_documents(dataset.tokenizer, dataset.corpus.validation, max_length)
    return {
        name: {
            "parameters": model.parameters_count,
            "steps": trained[name].steps,
            "tokens": trained[name].tokens,
            "seconds": round(trained[name].seconds, 1),
            "validation_loss": mean_loss(model, tokens, mask),
            "sha256": weights_hash(deepcopy(model).to(torch.bfloat16)),
        }
        for name, model in models.items()
    }


def failure_message(info: Mapping[str, Any]) -> str | None:
    """Says why a pair is a failed training, or None if it is a good one, from what `pair.json` says."""
    target, draft = (info["models"][name]["validation_loss"] for name in ("target", "draft"))
    if target < draft:
        return None
    return (
        f"the training failed: the target's loss {target:.4f} is not below the draft's {draft:.4f}, "
        f"so there is nothing to speculate on; train the target for more steps"
    )


def history_of(info: Mapping[str, Any]) -> list[Progress]:
    """Returns the held-out losses in the course of a training, from what `pair.json` says."""
    return [Progress(model=point.pop("stage"), **point) for point in map(dict, info["history"])]
