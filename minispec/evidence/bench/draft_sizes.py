"""Drafts of several sizes for one target, each trained as the pair's own draft was, but shorter.

Each learns the corpus by cross-entropy, then from the target. They are kept in the cache folder, one folder
for each target, and a training that was cut goes on where it stopped.

`python -m minispec.evidence.bench.draft_sizes [--pair NAME] [--scale 1.0]` trains those that are missing.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path

import torch

from minispec.core.model import GPT, GPTConfig
from minispec.io.checkpoint import (
    Pair,
    cache_folder,
    load_model,
    load_pair,
    save_model,
    weights_hash,
    write_json,
)
from minispec.train.attention import for_training
from minispec.train.dataset import Dataset, gather
from minispec.train.initialise import draw_weights
from minispec.train.recipes import CURRICULA, CurriculumStage, Recipe, gpt
from minispec.train.training import Progress, Run

PLAIN_STEPS, DISTILL_STEPS = 900, 300
# Layers × width. The vocabulary is the target's.
SIZES: dict[str, GPTConfig] = {
    "1×16": gpt(layers=1, width=16, heads=2, kv_heads=1, ffn=32, vocab_size=512),
    "1×32": gpt(layers=1, width=32, heads=2, kv_heads=1, ffn=64, vocab_size=512),
    "1×64": gpt(layers=1, width=64, heads=4, kv_heads=2, ffn=176, vocab_size=512),
    "1×128": gpt(layers=1, width=128, heads=4, kv_heads=2, ffn=352, vocab_size=512),
    "2×128": gpt(layers=2, width=128, heads=8, kv_heads=4, ffn=352, vocab_size=512),
    "4×128": gpt(layers=4, width=128, heads=8, kv_heads=4, ffn=352, vocab_size=512),
}

Tell = Callable[[float, str], None]


def find_drafts(
    pair: Pair, folder: Path | None = None, sizes: Mapping[str, GPTConfig] = SIZES
) -> dict[str, GPT]:
    """Returns the drafts of a target that are trained and whole, by size.

    Args:
        pair: the target.
        folder: where they are kept; by default in the cache folder.
        sizes: by name.
    """
    folder = folder or folder_of(pair)
    found = {}
    for name in sizes:
        place = folder / name
        if (place / "draft.json").is_file():
            found[name] = load_model(place, device=pair.target.device, dtype=pair.target.dtype)
    return found


def train_drafts(
    pair: Pair,
    folder: Path | None = None,
    sizes: Mapping[str, GPTConfig] = SIZES,
    scale: float = 1.0,
    tell: Tell = lambda share, text: None,
) -> dict[str, GPT]:
    """Trains the drafts that are missing, and returns all of them.

    Args:
        pair: the target; its `pair.json` says on what it was trained.
        folder: where they are kept; by default in the cache folder.
        sizes: by name.
        scale: of the number of steps.
        tell: told how much is done, from 0 to 1, and what comes next.

    Raises:
        ValueError: if `pair.json` does not say how the pair was trained, or the folder cannot be written.
    """
    folder = folder or folder_of(pair, scale)
    missing = [name for name in sizes if not (folder / name / "draft.json").is_file()]
    if missing:
        recipe = recipe_of(pair, scale)
        tell(0.0, "the corpus")
        dataset = gather(recipe, pair.tokenizer)
        for done, name in enumerate(missing):
            report = _reporter(tell, name, done, len(missing))
            draft = train_one(pair, recipe, dataset, replace(sizes[name], vocab_size=pair.target.vocab_size),
                              folder / name, report)  # fmt: skip
            _keep(draft, recipe, folder / name)
    return find_drafts(pair, folder, sizes)


def train_one(
    pair: Pair,
    recipe: Recipe,
    dataset: Dataset,
    config: GPTConfig,
    folder: Path,
    report: Callable[[Progress], None],
) -> GPT:
    """Trains one draft: by cross-entropy, then from the target. It takes up what a cut run has left.

    Args:
        pair: the target.
        recipe: its `draft_stages` and `distill_stages`.
        dataset: of the recipe.
        config: sizes of the draft.
        folder: where the state of the run is kept.
        report: told about progress.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(recipe.seed)
        model = draw_weights(GPT(replace(config, max_length=pair.target.max_length)))
        model = for_training(model).to(pair.target.device)
    mark = hashlib.sha256(json.dumps([recipe.to_json(), asdict(model.config)], sort_keys=True).encode())
    for name, stages, teacher in (
        ("draft-plain", recipe.draft_stages, None),
        ("draft", recipe.distill_stages, pair.target),
    ):
        path = folder / f"{name}.safetensors"
        run = Run(recipe, name, model, teacher, tuple(stages), path, f"{mark.hexdigest()}-{name}")
        model = run.finish(dataset, report).model.requires_grad_(True)
    return model.requires_grad_(False).eval()


def recipe_of(pair: Pair, scale: float = 1.0) -> Recipe:
    """Returns how the pair's draft was trained, with as many steps as drafts of several sizes get.

    Raises:
        ValueError: if `pair.json` does not say.
    """
    try:
        recipe = Recipe.from_json(pair.info["recipe"])
    except (KeyError, TypeError) as error:
        raise ValueError(f"{pair.folder}/pair.json does not say how the pair was trained") from error
    plain = _stretch(recipe.draft_stages, PLAIN_STEPS * scale)
    distill = _stretch(recipe.distill_stages, DISTILL_STEPS * scale)
    # Sequences are made for every curriculum stage that is named, so the target's are left out.
    return replace(recipe, target_stages=plain, draft_stages=plain, distill_stages=distill)


def folder_of(pair: Pair, scale: float = 1.0) -> Path:
    """Returns where the drafts of a target are kept: other weights or other steps, another folder."""
    steps = f"{PLAIN_STEPS * scale:.0f}-{DISTILL_STEPS * scale:.0f}"
    target = weights_hash(pair.target)[:16]
    return cache_folder() / "drafts" / f"{pair.name}-{target}-{steps}"


def _stretch(stages: Sequence[CurriculumStage], steps: float) -> tuple[CurriculumStage, ...]:
    whole = sum(stage.steps for stage in stages)
    return tuple(replace(stage, steps=max(1, round(stage.steps * steps / whole))) for stage in stages)


def _reporter(tell: Tell, name: str, done: int, of: int) -> Callable[[Progress], None]:
    begins = {"draft-plain": 0.0, "draft": 0.5}

    def report(progress: Progress) -> None:
        share = begins[progress.model] + 0.5 * progress.step / max(progress.steps, 1)
        tell((done + share) / of, f"training draft {name}: {progress.model}, step {progress.step}")

    return report


def _keep(draft: GPT, recipe: Recipe, folder: Path) -> None:
    """Writes a trained draft; its `draft.json` comes last and says that it is whole."""
    folder.mkdir(parents=True, exist_ok=True)
    save_model(draft, folder, torch.float32)
    steps = {
        CURRICULA[name]: sum(stage.steps for stage in getattr(recipe, name))
        for name in ("draft_stages", "distill_stages")
    }
    write_json(folder / "draft.json", {"parameters": draft.parameters_count} | steps)
    for name in ("draft-plain", "draft"):
        (folder / f"{name}.safetensors").unlink(missing_ok=True)


def main(arguments: Sequence[str]) -> int:
    """Trains the drafts that are missing; returns an exit status."""
    words = dict(zip(arguments[::2], arguments[1::2], strict=False))
    if len(arguments) % 2 or set(words) - {"--pair", "--scale"}:
        print(
            "usage: python -m minispec.evidence.bench.draft_sizes [--pair NAME] [--scale 1.0]",
            file=sys.stderr,
        )
        return 2
    try:
        pair, scale = load_pair(words.get("--pair", "stories")), float(words.get("--scale", 1.0))
        if not 0 < scale <= 100:
            raise ValueError(f"--scale must be above 0 and at most 100, not {scale}")
        drafts = train_drafts(pair, scale=scale, tell=lambda share, text: print(f"{share:4.0%} {text}"))
    except ValueError as error:
        print(f"minispec: {error}", file=sys.stderr)
        return 2
    for name, draft in drafts.items():
        print(f"{name}: {draft.parameters_count:,} parameters")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
