"""`minispec train`: make a pair."""

import os
import shlex
import shutil
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

from rich.console import Console

from minispec.cli import options
from minispec.cli.train_heads import check_creatable, report_line, train_drafter, train_for, training_bars
from minispec.drafters.eagle3 import EAGLE3
from minispec.evidence.bench.measure import measure_acceptance
from minispec.evidence.bench.speed import fastest_k, halves
from minispec.io.checkpoint import Pair, cache_folder, check_pair_name
from minispec.io.files import check_folder, format_path, printable_line
from minispec.native.backend import AUTO, on_backend
from minispec.show.text import losses_table
from minispec.train.corpus import CORPUS_NAMES
from minispec.train.heads import RECIPES
from minispec.train.processes import ALONE, PARALLEL, Processes, joined
from minispec.train.publish import failure_message, publish
from minispec.train.recipes import OWN_TEXT, PRESETS, QUICK, WALKTHROUGHS, Recipe
from minispec.train.training import Progress, train_pair

SCALE_LIMIT = 1000
FAILED = 3  # the exit status of a training whose target is no better than its draft


def train(
    preset: Annotated[str | None, PRESETS] = None,
    text: Path | None = None,
    drafter: Annotated[str | None, (*RECIPES, EAGLE3.name)] = None,
    pair: str | None = None,
    as_for: str | None = None,
    tokenizer: str | None = None,
    out: Path | None = None,
    seed: int | None = None,
    scale: float = 1.0,
    fresh: bool = False,
    device: str = "cpu",
    threads: int | None = None,
    parallel: str | None = None,
    accumulate: int = 1,
    as_json: bool = False,
) -> int:
    """Train a target and a draft from scratch; a killed run is resumed."""
    options.set_threads(threads)
    if not 0 < scale <= SCALE_LIMIT:
        raise ValueError(f"--scale must be above 0 and at most {SCALE_LIMIT}, not {scale}")
    console = options.console(as_json)
    values: dict[str, Any] = {"preset": preset, "text": text, "tokenizer": tokenizer}
    if drafter is not None:
        excluded = values | {"fresh": fresh, "parallel": parallel, "accumulate": accumulate > 1}
        if wrong := [f"--{name}" for name, value in excluded.items() if value not in (None, False)]:
            raise ValueError(f"--drafter trains on the text of its pair: leave out {' and '.join(wrong)}")
        if as_for is not None and (drafter != EAGLE3.name or pair is not None):
            raise ValueError("--for names the target of --drafter eagle3, in place of --pair")
        if drafter == EAGLE3.name:
            if device != "cpu":
                raise ValueError("--drafter eagle3 is trained on processors: leave out --device")
            report = train_for(pair, as_for, seed or 0, scale, out, console)
        else:
            report = train_drafter(drafter, pair or "stories", seed or 0, scale, out, console, device)
        options.print_json(report) if as_json else console.out(report_line(report))
        return 0
    if as_for is not None:
        raise ValueError("--for names the target of a drafter: give --drafter eagle3, too")
    if pair is not None:
        raise ValueError("--pair names the target that a --drafter is trained for; give both, or neither")
    if preset is None and text is None:
        values["preset"] = preset = QUICK.name
    recipe = choose_recipe(preset, text, tokenizer, seed, scale)
    # What can be refused is refused now, not after the training.
    options.check_device(device)
    if parallel is not None and options.choose(parallel, PARALLEL, "--parallel") and device != "cpu":
        raise ValueError("--parallel computes on processors: leave out --device")
    folder = out or cache_folder() / recipe.name
    check_pair_name(folder)
    if not recipe.name.isprintable():
        raise ValueError(f"{format_path(Path(recipe.name))} is no name for a pair: rename the text's file")
    check_folder(folder)
    runs = cache_folder() / "runs"
    check_creatable(runs / "state")
    with suppress(OSError):  # it holds other trainings
        runs.rmdir()
    values |= {"seed": seed, "scale": scale if scale != 1 else None}
    arguments = (f"--{name} {shlex.quote(str(value))}" for name, value in values.items() if value is not None)
    command = " ".join(("minispec train", *arguments))
    with joined(parallel, accumulate) as processes:
        console.quiet = processes.rank > 0
        info = train_and_publish(
            recipe, folder, command, console, device=device, fresh=fresh, processes=processes
        )
    return 0 if info is None else show_outcome(info, folder, console, as_json)


def show_outcome(info: Mapping[str, Any], folder: Path, console: Console, as_json: bool) -> int:
    """Prints what a training has made, and returns the exit status."""
    if as_json:
        options.print_json(summary(info))
    else:
        console.print(losses_table(info["models"], info["entropy_floor"]))
        console.out(
            f"acceptance at temperature 1: {info['acceptance']:.1%}; saved in {printable_line(str(folder))}"
        )
    if problem := failure_message(info):
        options.warn(problem, console)
        return FAILED
    return 0


def choose_recipe(
    preset: str | None, text: Path | None, tokenizer: str | None, seed: int | None, scale: float
) -> Recipe:
    """Returns the recipe that the options describe; without a preset it is the one for any text."""
    recipe = OWN_TEXT if preset is None else PRESETS[options.choose(preset, list(PRESETS), "--preset")]
    if text is not None:
        corpus = (
            str(text) if str(text) not in CORPUS_NAMES else f"./{text}"
        )  # a file, not the corpus of that name
        recipe = replace(recipe, name=Path(os.path.abspath(text)).stem, corpus=corpus)
    if tokenizer is not None:
        recipe = replace(recipe, tokenizer=options.choose(tokenizer, ("bpe", "characters"), "--tokenizer"))
    if seed is not None:
        recipe = replace(recipe, seed=seed)
    return recipe.scaled(scale)


def run_folder(recipe: Recipe) -> Path:
    """Returns where a training keeps its state."""
    return cache_folder() / "runs" / f"{recipe.name}-{recipe.fingerprint()}"


def train_and_publish(
    recipe: Recipe,
    folder: Path,
    command: str,
    console: Console,
    *,
    device: str = "cpu",
    fresh: bool = False,
    processes: Processes = ALONE,
) -> dict[str, Any] | None:
    """Trains with a progress bar, writes the pair, and returns its `pair.json`.

    The first of several processes does so; the others return None.
    """
    run = run_folder(recipe)
    if fresh and processes.rank == 0:
        shutil.rmtree(run, ignore_errors=True)
    progress: list[Progress] = []
    with training_bars(console, progress) as report:
        dataset, trained = train_pair(recipe, run, report, options.check_device(device), processes=processes)
    if processes.rank:
        return None
    history = {"history": [step.to_json() for step in progress if step.validation is not None]}
    return publish(recipe, dataset, trained, folder, command, lambda pair: measured(pair, recipe) | history)


def measured(pair: Pair, recipe: Recipe) -> dict[str, Any]:
    """Measures acceptance and the best K on held-out prompts, adds the own prompt: part of `pair.json`."""
    statistics = measure_acceptance(pair, pair.info["prompts"]).statistics()
    preset = PRESETS.get(recipe.name)
    is_preset = preset is not None and preset.corpus == recipe.corpus
    return {
        "acceptance": statistics.acceptance,
        "acceptance_tested": statistics.tested,
        "k": best_k(pair),
        "walkthrough": WALKTHROUGHS.get(recipe.name) if is_preset else None,
    }


def best_k(pair: Pair) -> int:
    """Returns the K that is fastest here, on the fastest backend."""
    models = on_backend(pair, options.find_backends(AUTO)[-1].name)
    return fastest_k(models, halves(pair)[0])


def summary(info: Mapping[str, Any]) -> dict[str, Any]:
    """Returns what `--json` prints."""
    keys = ("parameters", "seconds", "steps", "validation_loss", "sha256")
    models = {
        name.replace("-", "_"): {key: figures[key] for key in keys}
        for name, figures in info["models"].items()
    }
    return {
        "pair": info["name"],
        **models,
        **{key: info.get(key) for key in ("entropy_floor", "acceptance", "forced_accuracy")},
        "failed": failure_message(info),
    }
