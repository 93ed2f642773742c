"""Drafts of several sizes for one target, which `minispec bench --section drafts` then compares.

    cd docs && python -m book drafts [--pair PAIR]

They are trained as the pair's own draft was, but shorter: on the corpus by cross-entropy, then from the
target. They are kept in the cache folder, one folder for each target, and a training that was cut goes on
where it stopped.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from dataclasses import replace

import torch

from minispec.core.model import GPT
from minispec.evidence.bench.sections import find_drafts, folder_of_drafts
from minispec.io.checkpoint import Pair, save_model
from minispec.train.attention import for_training
from minispec.train.dataset import Dataset, gather
from minispec.train.initialise import draw_weights
from minispec.train.recipes import CurriculumStage, Recipe, gpt
from minispec.train.teacher import Teacher
from minispec.train.training import Progress, State, make_optimizers, train_model

PLAIN_STEPS = 900
DISTILL_STEPS = 300
# By layers × width: layers, width, heads, heads of keys and values, width between. The rest is the target's.
SIZES = {
    "1×16": (1, 16, 2, 1, 32),
    "1×32": (1, 32, 2, 1, 64),
    "1×64": (1, 64, 4, 2, 176),
    "1×128": (1, 128, 4, 2, 352),
    "2×128": (2, 128, 8, 4, 352),
    "4×128": (4, 128, 8, 4, 352),
}
Tell = Callable[[str], None]


def train_drafts(pair: Pair, tell: Tell = print) -> dict[str, GPT]:
    """Trains the drafts of the sizes that are missing, and returns all that are there.

    Args:
        pair: the target; its `pair.json` says on what it was trained.
        tell: told what is being done.

    Raises:
        ValueError: if `pair.json` does not say how the pair was trained, or the folder cannot be written.
    """
    there = find_drafts(pair)
    missing = [size for size in SIZES if size not in there]
    if missing:
        recipe = recipe_of(pair)
        tell("the corpus")
        dataset = gather(recipe, pair.tokenizer)
        for size in missing:
            train_one(pair, recipe, dataset, size, tell)
    return find_drafts(pair)


def train_one(pair: Pair, recipe: Recipe, dataset: Dataset, size: str, tell: Tell) -> None:
    """Trains one draft: by cross-entropy, then from the target. It resumes what a cut run has left.

    Args:
        pair: the target.
        recipe: its `draft_stages` and `distill_stages`.
        dataset: of the recipe.
        size: a key of `SIZES`.
        tell: told about progress.
    """
    config = gpt(*SIZES[size], vocab_size=pair.target.vocab_size)
    recipe = replace(recipe, draft=replace(config, max_length=pair.target.max_length))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(recipe.seed)
        model = for_training(draw_weights(GPT(recipe.draft))).to(pair.target.device)

    def report(progress: Progress) -> None:
        tell(f"draft {size}: {progress.model}, step {progress.step} of {progress.steps}")

    folder = folder_of_drafts(pair) / size
    runs = {
        "draft-plain": (recipe.draft_stages, None),
        "draft": (recipe.distill_stages, Teacher(pair.target, 0)),
    }
    states = []
    for name, (stages, teacher) in runs.items():
        model.requires_grad_(True)
        optimizers = make_optimizers(model, recipe)
        states.append(State(folder / name, recipe.fingerprint(), model, optimizers))
        train_model(name, states[-1], stages, dataset, teacher, recipe.seed, report)
    save_model(model, folder, torch.float32)
    for saved in (saved for state in states for saved in state.saved()):
        shutil.rmtree(saved)


def recipe_of(pair: Pair) -> Recipe:
    """Returns how the pair's draft was trained, with as many steps as drafts of several sizes get.

    Raises:
        ValueError: if `pair.json` does not say.
    """
    if "recipe" not in pair.info:
        raise ValueError(f"{pair.folder}/pair.json does not say how the pair was trained")
    recipe = Recipe.from_json(pair.info["recipe"])
    plain = _stretch(recipe.draft_stages, PLAIN_STEPS)
    distill = _stretch(recipe.distill_stages, DISTILL_STEPS)
    # Sequences are made for every curriculum stage that is named, so the target's are left out.
    return replace(recipe, target_stages=plain, draft_stages=plain, distill_stages=distill)


def _stretch(stages: Sequence[CurriculumStage], steps: int) -> tuple[CurriculumStage, ...]:
    whole = sum(stage.steps for stage in stages)
    return tuple(replace(stage, steps=max(1, round(stage.steps * steps / whole))) for stage in stages)
