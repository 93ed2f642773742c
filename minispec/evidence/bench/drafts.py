"""Drafts: one target, and drafts from one that guesses at random to the target itself, each at its best K.

The sizes in between are trained as the pair's own draft was, but shorter: on the corpus by cross-entropy,
then from the target. They are kept in the cache folder, one folder for each target, and a training that was
cut goes on where it stopped.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path

import torch

from minispec.core.model import GPT, GPTConfig
from minispec.evidence.bench.interleaved import Setting, Tell, silent
from minispec.evidence.bench.machine import using_threads
from minispec.evidence.bench.measure import cost_ratio, measure_latency
from minispec.evidence.bench.section import BenchRun, Found
from minispec.evidence.bench.sections import choose_and_report
from minispec.io.checkpoint import Pair, cache_folder, load_model, save_model, weights_hash
from minispec.io.files import write_json
from minispec.train.attention import for_training
from minispec.train.dataset import Dataset, gather
from minispec.train.initialise import draw_weights
from minispec.train.recipes import CurriculumStage, Recipe, gpt
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


def measure(bench: BenchRun) -> Found:
    """Measures every draft at several K on the choosing half, and at its best K on the other."""
    drafts = drafts_of(bench)
    settings = drafts_settings(bench, drafts)
    rows = choose_and_report(bench, settings, bench.plan.few_widths)[1]
    points = []
    for (name, draft), setting, row in zip(drafts.items(), settings, rows, strict=True):
        models, (low, high) = setting.models, row["speedup_quartiles"]
        with using_threads(setting.threads):
            ones = [
                measure_latency(m, [1], repeats=bench.plan.latencies) for m in (models.target, models.draft)
            ]
        points.append(
            {
                "setting": row["setting"],
                "name": name,
                "parameters": draft.parameters_count,
                "alpha": row["acceptance"] or 0.0,
                "c": cost_ratio(*ones),
                "k": row["k"],
                "gain": row["speedup"],
                "low": low,
                "high": high,
            }
        )
    return {
        "steps": {"cross_entropy": PLAIN_STEPS, "distillation": DISTILL_STEPS},
        "missing": [name for name in SIZES if name not in drafts],
        "points": sorted(points, key=lambda point: point["parameters"]),
    }


def drafts_settings(bench: BenchRun, drafts: Mapping[str, GPT] | None = None) -> list[Setting]:
    """Returns what the section `drafts` tries with several K, a setting for each draft."""
    drafts = drafts or drafts_of(bench)
    return [
        bench.drafted("rejection", 1.0, draft=draft, label=f"draft {name}") for name, draft in drafts.items()
    ]


def drafts_of(bench: BenchRun) -> dict[str, GPT]:
    """Returns the drafts for a target, from too small to the target itself; --full trains missing sizes.

    Returns:
        `untrained`, which guesses at random; the trained sizes that are found; `the pair's`; `the target`,
        always right, and as slow as itself.
    """
    pair, trained = bench.pair, find_drafts(bench.pair)
    if bench.plan.train:
        with suppress(ValueError):  # a pair that does not say how it was trained: the sizes are missing
            trained = train_drafts(pair, tell=bench.tell)
    config = replace(pair.draft.config, layers=1, width=8, heads=1, kv_heads=1, ffn=8, tied=True)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        untrained = draw_weights(GPT(config)).to(pair.target.device, pair.target.dtype)
    ours = {"untrained": untrained.requires_grad_(False).eval(), **trained, "the pair's": pair.draft}
    order = sorted(ours, key=lambda name: ours[name].parameters_count)
    return {name: ours[name] for name in order} | {"the target": pair.target}


def find_drafts(pair: Pair) -> dict[str, GPT]:
    """Returns the drafts of a target that are trained and whole, by size."""
    folders = {name: folder_of(pair) / name for name in SIZES}
    return {
        name: load_model(folder, device=pair.target.device, dtype=pair.target.dtype)
        for name, folder in folders.items()
        if (folder / "draft.json").is_file()
    }


def train_drafts(pair: Pair, tell: Tell = silent) -> dict[str, GPT]:
    """Trains the drafts of the sizes that are missing, and returns all of them.

    Args:
        pair: the target; its `pair.json` says on what it was trained.
        tell: told how much is done, from 0 to 1, and what comes next.

    Raises:
        ValueError: if `pair.json` does not say how the pair was trained, or the folder cannot be written.
    """
    folder, missing = folder_of(pair), sorted(SIZES.keys() - find_drafts(pair), key=[*SIZES].index)
    if missing:
        recipe = recipe_of(pair)
        tell(0.0, "the corpus")
        dataset = gather(recipe, pair.tokenizer)
        for done, name in enumerate(missing):

            def report(progress: Progress, done: int = done, name: str = name) -> None:
                half = 0.5 * (progress.model == "draft") + 0.5 * progress.step / max(progress.steps, 1)
                tell((done + half) / len(missing), f"draft {name}: {progress.model}, step {progress.step}")

            train_one(pair, recipe, dataset, name, folder / name, report)
    return find_drafts(pair)


def train_one(
    pair: Pair, recipe: Recipe, dataset: Dataset, size: str, folder: Path, report: Callable[[Progress], None]
) -> None:
    """Trains one draft: by cross-entropy, then from the target. It resumes what a cut run has left.

    Args:
        pair: the target.
        recipe: its `draft_stages` and `distill_stages`.
        dataset: of the recipe.
        size: a key of `SIZES`.
        folder: where the draft goes, and the state of the run until then.
        report: told about progress.
    """
    config = replace(SIZES[size], vocab_size=pair.target.vocab_size, max_length=pair.target.max_length)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(recipe.seed)
        model = for_training(draw_weights(GPT(config))).to(pair.target.device)
    mark = hashlib.sha256(json.dumps([recipe.to_json(), asdict(config)], sort_keys=True).encode()).hexdigest()
    paths = {name: folder / f"{name}.safetensors" for name in ("draft-plain", "draft")}
    runs = ((recipe.draft_stages, None), (recipe.distill_stages, pair.target))
    for (name, path), (stages, teacher) in zip(paths.items(), runs, strict=True):
        run = Run(recipe, name, model, teacher, tuple(stages), path, f"{mark}-{name}")
        model = run.finish(dataset, report).model.requires_grad_(True)
    save_model(model.eval(), folder, torch.float32)
    write_json(folder / "draft.json", {"parameters": model.parameters_count})  # last: the draft is whole
    for path in paths.values():
        path.unlink(missing_ok=True)


def recipe_of(pair: Pair) -> Recipe:
    """Returns how the pair's draft was trained, with as many steps as drafts of several sizes get.

    Raises:
        ValueError: if `pair.json` does not say.
    """
    try:
        recipe = Recipe.from_json(pair.info["recipe"])
    except (KeyError, TypeError) as error:
        raise ValueError(f"{pair.folder}/pair.json does not say how the pair was trained") from error
    plain = _stretch(recipe.draft_stages, PLAIN_STEPS)
    distill = _stretch(recipe.distill_stages, DISTILL_STEPS)
    # Sequences are made for every curriculum stage that is named, so the target's are left out.
    return replace(recipe, target_stages=plain, draft_stages=plain, distill_stages=distill)


def folder_of(pair: Pair) -> Path:
    """Returns where the drafts of a target are kept: other weights or other steps, another folder."""
    target = weights_hash(pair.target)[:16]
    return cache_folder() / "drafts" / f"{pair.name}-{target}-{PLAIN_STEPS}-{DISTILL_STEPS}"


def _stretch(stages: Sequence[CurriculumStage], steps: int) -> tuple[CurriculumStage, ...]:
    whole = sum(stage.steps for stage in stages)
    return tuple(replace(stage, steps=max(1, round(stage.steps * steps / whole))) for stage in stages)
