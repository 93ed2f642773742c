"""`minispec train --drafter`: make what a pair's target needs to draft for itself."""

import math
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from torch import Tensor

from minispec.cli import options
from minispec.drafters.eagle3 import EAGLE3
from minispec.drafters.registry import DRAFTERS
from minispec.evidence.bench.interleaved import Setting
from minispec.io.checkpoint import Pair, cache_folder, json_hash, load_pair
from minispec.io.files import check_folder, check_writable, make_folder_of
from minispec.io.heads import eagle3_folder, heads_folder, save_heads, target_hash
from minispec.io.speculators import holds_eagle3, save_eagle3
from minispec.native.backend import AUTO, TORCH, Models, on_backend
from minispec.native.drafters import make_drafter
from minispec.train.dataset import gather, stage_key
from minispec.train.eagle3 import Eagle3Recipe, tapped_for, train_eagle3, write_texts
from minispec.train.heads import RECIPES, train_heads
from minispec.train.recipes import Recipe
from minispec.train.teacher import write_sequences
from minispec.train.training import Progress as Training
from minispec.train.training import Reporter

TARGET_TEXTS = ((256, 1.0), (128, 0.0))  # what the target writes for its drafter, as in `Recipe.written`
CORPUS = 4000  # sequences of the corpus that are kept, at most


def train_drafter(
    kind: str,
    pair_name: str,
    seed: int,
    scale: float,
    out: Path | None,
    console: Console,
    device: str,
) -> dict[str, Any]:
    """Trains a kind of drafter on a pair's target, writes it, and returns what `--json` prints."""
    recipe = RECIPES[options.choose(kind, list(RECIPES), "--drafter")]
    recipe = replace(recipe, steps=max(1, round(recipe.steps * scale)))
    pair = load_pair(pair_name, device=options.check_device(device))
    if "recipe" not in pair.info:
        raise ValueError(f"{pair.folder}/pair.json does not say which text the pair was trained on")
    path = (out or heads_folder(pair)) / f"{kind}.safetensors"
    check_creatable(path)  # now, not after the training
    console.print(f"Gathering the text of {pair.name}, and letting its target write.")
    sequences = sequences_for(pair, seed, scale)
    progress: list[Training] = []
    with training_bars(console, progress) as report:
        module = train_heads(recipe, pair.target, sequences, seed, report)
    info = {
        "kind": kind,
        "target_sha256": target_hash(pair),
        "seed": seed,
        "seconds": round(progress[-1].seconds, 1),
        "loss": progress[-1].loss,
        "number": recipe.number(pair.target),
        "steps": recipe.steps,
        "parameters": sum(weight.numel() for weight in module.parameters()),
    }
    save_heads(module, path, info)
    calls = tokens_per_call(pair, kind) if out is None and pair.info.get("prompts") else None
    return {"drafter": kind, "pair": pair.name, "file": str(path), **info, "tokens_per_target_call": calls}


def train_for(
    pair: str | None, target: str | None, seed: int, scale: float, out: Path | None, console: Console
) -> dict[str, Any]:
    """Trains an EAGLE-3 drafter on what a target writes; returns what `--json` prints. A killed run goes on.

    The target is that of a pair, or any: computed in bfloat16, natively where that can be had.
    """
    models = options.open_models(pair, target, None, "cpu", "bfloat16")
    folder = out or eagle3_folder(models)
    check_folder(folder, holds_eagle3)
    recipe = Eagle3Recipe(seed=seed).scaled(scale)
    sha256 = target_hash(models)
    run = cache_folder() / "runs" / f"eagle3-{sha256[:16]}-{json_hash(asdict(recipe))[:16]}"
    progress: list[Training] = []
    with training_bars(console, progress) as report:
        writer = on_backend(models, AUTO)
        texts = write_texts(writer, models.tokenizer, recipe, run, report)
        tapped = tapped_for(models.target, writer)
        layer = train_eagle3(models.target, tapped, texts, recipe, run / "state", report)
    seconds = {step.model: step.seconds for step in progress}  # the last of each part
    info = {
        "target_sha256": sha256,
        "seed": seed,
        "seconds": round(sum(seconds.values()), 1),
        "seconds_of": seconds,
        "loss": progress[-1].loss,
        "steps": recipe.steps,
        "tokens": sum(len(text.ids) - text.begin for text in texts),
        "ids": len(layer.ids),
        "parameters": sum(weight.numel() for weight in layer.parameters()),
    }
    save_eagle3(layer, folder, target or models.name, recipe.unrolled, info)
    shutil.rmtree(run)
    names = {"drafter": EAGLE3.name, "pair": models.name, "file": str(folder)}
    return {**names, **info, "tokens_per_target_call": None}


def check_creatable(path: Path) -> None:
    """Raises ValueError if no file can be written at a path, whose folder is made if it is not there."""
    make_folder_of(path)
    check_writable(path)


@contextmanager
def training_bars(console: Console, progress: list[Training]) -> Iterator[Reporter]:
    """Gives a function that shows how a training goes, a bar for each model, and notes it in a list."""
    bars = Progress(
        TextColumn("{task.description:<12}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("loss {task.fields[loss]}"),
        TimeRemainingColumn(),
        console=console,
        refresh_per_second=2,
    )
    tasks: dict[str, Any] = {}

    def report(step: Training) -> None:
        progress.append(step)
        model = step.model
        if model not in tasks:
            bars.start()  # not sooner: an unusable text gives one line and no bars
            tasks[model] = bars.add_task(model, total=step.steps, loss="…")
        loss = "…" if math.isnan(step.loss) else f"{step.loss:.3f}"
        bars.update(tasks[model], completed=step.step, loss=loss)
        if step.validation is not None and not console.is_terminal:  # a log has no bars
            console.print(f"{model} {step.step}/{step.steps}: held-out loss {step.validation:.4f}")

    try:
        yield report
    finally:
        if tasks:
            bars.stop()


def sequences_for(pair: Pair, seed: int, scale: float) -> Tensor:
    """Returns what a drafter of a pair learns from, of its corpus and of its target's making: [N, W]."""
    recipe = Recipe.from_json(pair.info["recipe"])
    recipe = replace(recipe, written=TARGET_TEXTS, target_stages=(), draft_stages=()).scaled(scale)
    with TemporaryDirectory() as folder:
        dataset = gather(recipe, pair.tokenizer, folder=Path(folder))
        sequences = dataset.sequences[stage_key(recipe.distill_stages[-1])]
        sequences = sequences[list(range(min(CORPUS, len(sequences))))]
    return torch.cat([sequences, write_sequences(pair.target, sequences, recipe.written, seed)])


def tokens_per_call(pair: Pair, kind: str) -> float | None:
    """Returns the tokens per target call of the drafter that was just written, at temperature 1."""
    models = Models(pair.target, pair.draft, TORCH)
    entry = DRAFTERS[kind.removesuffix("-1")]
    target, drafter = make_drafter(entry, pair, models, kind=kind)
    setting = Setting(replace(models, target=target), 4, "rejection", 1.0, drafter=drafter)
    statistics = setting.decode(pair.info["prompts"], seed=0, new_tokens=60).statistics
    assert statistics is not None
    return statistics.tokens_per_target_call


def report_line(report: Mapping[str, Any]) -> str:
    """Returns in a line what `train_drafter` reports."""
    calls = report["tokens_per_target_call"]
    gain = "" if calls is None else f"{calls:.2f} tokens a target call at temperature 1, K = 4; "
    size = f"{report['parameters']:,} parameters, {report['steps']} steps, {report['seconds']:.0f} s"
    return f"{report['drafter']} drafter of {report['pair']}: {size}; {gain}saved in {report['file']}"
