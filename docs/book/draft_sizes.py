"""Drafts of several sizes for one target, which `minispec bench --section drafts` then compares.

    cd docs && python -m book.draft_sizes [PAIR]

They are trained as the pair's own draft was, but shorter: on the corpus by cross-entropy, then from the
target. They are kept in the cache folder, one folder for each target, and a training that was cut goes on
where it stopped.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

import torch

from minispec.core.model import GPT, GPTConfig
from minispec.evidence.bench.sections import find_drafts, folder_of_drafts
from minispec.io.checkpoint import Pair, load_pair, save_model
from minispec.train.attention import for_training
from minispec.train.dataset import Dataset, gather
from minispec.train.initialise import draw_weights
from minispec.train.recipes import CURRICULA, CurriculumStage, Recipe, gpt
from minispec.train.teacher import Teacher
from minispec.train.training import Progress, State, make_optimizers, train_model

PLAIN_STEPS = 900
DISTILL_STEPS = 300
# Layers × width. The vocabulary is the target's.
SIZES: dict[str, GPTConfig] = {
    "1×16": gpt(layers=1, width=16, heads=2, kv_heads=1, ffn=32, vocab_size=512),
    "1×32": gpt(layers=1, width=32, heads=2, kv_heads=1, ffn=64, vocab_size=512),
    "1×64": gpt(layers=1, width=64, heads=4, kv_heads=2, ffn=176, vocab_size=512),
    "1×128": gpt(layers=1, width=128, heads=4, kv_heads=2, ffn=352, vocab_size=512),
    "2×128": gpt(layers=2, width=128, heads=8, kv_heads=4, ffn=352, vocab_size=512),
    "4×128": gpt(layers=4, width=128, heads=8, kv_heads=4, ffn=352, vocab_size=512),
}
Report = Callable[[Progress], None]


def train_drafts(pair: Pair, tell: Callable[[str], None] = print) -> dict[str, GPT]:
    """Trains the drafts of the sizes that are missing, and returns all that are there.

    Args:
        pair: the target; its `pair.json` says on what it was trained.
        tell: told what is being done.

    Raises:
        ValueError: if `pair.json` does not say how the pair was trained, or the folder cannot be written.
    """
    there = find_drafts(pair)
    missing = [name for name in SIZES if name not in there]
    if missing:
        recipe = recipe_of(pair)
        tell("the corpus")
        dataset = gather(recipe, pair.tokenizer)
        for name in missing:

            def report(progress: Progress, name: str = name) -> None:
                tell(f"draft {name}: {progress.model}, step {progress.step} of {progress.steps}")

            train_one(pair, recipe, dataset, name, report)
    return find_drafts(pair)


def train_one(pair: Pair, recipe: Recipe, dataset: Dataset, size: str, report: Report) -> None:
    """Trains one draft: by cross-entropy, then from the target. It resumes what a cut run has left.

    Args:
        pair: the target.
        recipe: its `draft_stages` and `distill_stages`.
        dataset: of the recipe.
        size: a key of `SIZES`.
        report: told about progress.
    """
    config = replace(SIZES[size], vocab_size=pair.target.vocab_size, max_length=pair.target.max_length)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(recipe.seed)
        model = for_training(draw_weights(GPT(config))).to(pair.target.device)
    mark = hashlib.sha256(json.dumps([recipe.to_json(), asdict(config)], sort_keys=True).encode()).hexdigest()
    folder = folder_of_drafts(pair) / size
    paths = {name: folder / f"{name}.safetensors" for name in ("draft-plain", "draft")}
    runs = ((recipe.draft_stages, None), (recipe.distill_stages, Teacher(pair.target, 0)))
    for (name, path), (stages, teacher) in zip(paths.items(), runs, strict=True):
        state = State(path, f"{mark}-{name}", model, make_optimizers(model, recipe))
        trained = train_model(name, state, stages, dataset, teacher, recipe.seed, report)
        model = trained.model.requires_grad_(True)
    save_model(model, folder, torch.float32)
    for path in paths.values():
        path.unlink()


def recipe_of(pair: Pair) -> Recipe:
    """Returns how the pair's draft was trained, with as many steps as drafts of several sizes get.

    Raises:
        ValueError: if `pair.json` does not say.
    """
    try:
        recipe = _read(pair.info["recipe"])
    except (KeyError, TypeError) as error:
        raise ValueError(f"{pair.folder}/pair.json does not say how the pair was trained") from error
    plain = _stretch(recipe.draft_stages, PLAIN_STEPS)
    distill = _stretch(recipe.distill_stages, DISTILL_STEPS)
    # Sequences are made for every curriculum stage that is named, so the target's are left out.
    return replace(recipe, target_stages=plain, draft_stages=plain, distill_stages=distill)


def _read(written: Mapping[str, Any]) -> Recipe:
    """Reads what `Recipe.to_json` returned; a KeyError or a TypeError if something is missing or unknown."""
    fields = dict(written)
    for name in ("target", "draft"):
        fields[name] = GPTConfig(**fields[name])
    for name, key in CURRICULA.items():
        fields[name] = tuple(
            CurriculumStage(**stage | {"mix": tuple(map(tuple, stage["mix"]))}) for stage in fields.pop(key)
        )
    return Recipe(**fields)


def _stretch(stages: Sequence[CurriculumStage], steps: int) -> tuple[CurriculumStage, ...]:
    whole = sum(stage.steps for stage in stages)
    return tuple(replace(stage, steps=max(1, round(stage.steps * steps / whole))) for stage in stages)


def main(arguments: Sequence[str]) -> int:
    """Trains the drafts that are missing; returns an exit status."""
    try:
        drafts = train_drafts(load_pair(arguments[0] if arguments else "stories"))
    except ValueError as error:
        print(f"minispec: {error}", file=sys.stderr)
        return 2
    for name, draft in drafts.items():
        print(f"{name}: {draft.parameters_count:,} parameters")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
