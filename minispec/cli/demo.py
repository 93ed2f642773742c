"""`minispec demo`: speculative decoding at work, then a pair trained before your eyes."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from time import perf_counter
from typing import Annotated

import typer
from rich.console import Console
from rich.terminal_theme import SVG_EXPORT_THEME, TerminalTheme
from rich.text import Text

from minispec.cli import options
from minispec.cli.generate import read_prompt
from minispec.cli.train import train_and_publish
from minispec.core.loop import generate
from minispec.core.prefill import check_prompts
from minispec.io.walkthrough import VERIFIERS
from minispec.io.checkpoint import Pair, cache_folder, known_pairs, load_pair
from minispec.io.files import check_writable, write_whole
from minispec.io.observe import observe
from minispec.io.trace import ObservedRound, Trace
from minispec.io.walkthrough import record_pair
from minispec.native.backend import Backend, Models, on_backend
from minispec.show.step_page import page
from minispec.show.text import (
    COLOURS,
    Outcome,
    glyphs_for,
    legend,
    losses_table,
    marked,
    outcome_table,
)
from minispec.train.recipes import QUICK
from minispec.train.publish import verdict

# On this ground all colours but the bonus's blue have the contrast that small text needs: 4.5 to 1.
NIGHT = TerminalTheme(
    (20, 20, 20),
    SVG_EXPORT_THEME.foreground_color,
    [SVG_EXPORT_THEME.ansi_colors[number] for number in range(8)],
    [SVG_EXPORT_THEME.ansi_colors[number] for number in range(8, 16)],
)
BONUS_BY_NIGHT = "#56b4e9"  # Okabe and Ito's lighter blue


@dataclass(frozen=True)
class Settings:
    """How the demo decodes.

    Attributes:
        k: drafted tokens per round.
        max_new_tokens: at most this many.
        seed: of the sampling.
        backends: on which it is timed.
    """

    k: int
    max_new_tokens: int
    seed: int
    backends: tuple[Backend, ...]


def demo(
    pair: options.PairOption = "stories",
    prompt: Annotated[str | None, typer.Option("--prompt", help="By default the pair's own.")] = None,
    k: Annotated[int, typer.Option("--k", help="Drafted tokens per round.")] = 5,
    max_new_tokens: Annotated[int, typer.Option("--max-new-tokens", help="At most this many tokens.")] = 100,
    seed: options.SeedOption = 0,
    no_train: Annotated[bool, typer.Option("--no-train", help="Leave out the live training.")] = False,
    svg: Annotated[Path | None, typer.Option("--svg", help="Also write the output as a picture.")] = None,
    html: Annotated[
        Path | None, typer.Option("--html", help="Also write a page on which to walk through the runs.")
    ] = None,
    backend: options.BackendOption = "auto",
    threads: options.ThreadsOption = None,
    as_json: options.JsonOption = False,
) -> None:
    """Show speculative decoding on real text, target-only beside it; then train a small pair and use it."""
    if k < 1:
        raise ValueError(f"--k must be at least 1 for the demo, not {k}")
    if max_new_tokens < 1:
        raise ValueError(f"--max-new-tokens must be at least 1 for the demo, not {max_new_tokens}")
    for path in (svg, html):
        if path is not None:
            check_writable(path)  # better said now than after a training
    options.set_threads(threads)
    prompt = read_prompt(prompt) if prompt is not None else None
    console = options.console(as_json)
    if svg is not None:
        console = Console(
            file=console.file, highlight=False, markup=False, emoji=False, record=True, width=100
        )
    models = load_pair(pair)
    shown = [(models, prompt_of(models, prompt))]
    prompt_ids(*shown[0])  # refused before anything is built
    backends = options.find_backends(backend)
    settings = Settings(k, max_new_tokens, seed, tuple(backends))
    documents = [decode_both_ways(*shown[0], settings, console)]
    if not no_train and pair != QUICK.name:
        quick = live_pair(console)
        shown.append((quick, prompt_of(quick, None)))
        documents.append(decode_both_ways(*shown[1], settings, console))
    if svg is not None:
        write_picture(console, svg)
    if html is not None:
        write_whole(html, walk_page(shown, k, max_new_tokens, seed))
        console.print(f"\nTo walk through it, open {html} in a browser.")
    if as_json:
        options.print_json({"pairs": documents})


def write_picture(console: Console, path: Path) -> None:
    """Writes what a recording console has shown as an SVG that loads nothing from elsewhere.

    Raises:
        ValueError: if the file cannot be written.
    """
    # A terminal wraps long lines by itself. A picture would cut them off, so they are set once more.
    shown = Text.from_ansi(console.export_text(clear=False, styles=True))
    paper = Console(file=io.StringIO(), record=True, width=console.width, color_system="truecolor")
    paper.print(shown)
    picture = paper.export_svg(title="minispec demo", theme=NIGHT, unique_id="demo")
    picture = re.sub(r"@font-face \{.*?\}", "", picture, flags=re.DOTALL)
    write_whole(path, picture.replace(COLOURS["bonus"].lower(), BONUS_BY_NIGHT))


def walk_page(shown: list[tuple[Pair, str]], k: int, max_new_tokens: int, seed: int) -> str:
    """Runs once more what was shown, with notes taken, and returns a page with a stepper for each run."""
    from minispec.show.stepper import Stepper  # matplotlib, which has the colours, takes half a second

    pieces = [
        Stepper(record_pair(models, text, verifier, k=k, max_new_tokens=max_new_tokens, seed=seed)).html()
        for models, text in shown
        for verifier in VERIFIERS
    ]
    return page("minispec demo, step by step", pieces)


def live_pair(console: Console) -> Pair:
    """Returns the `quick` pair, trained now if it is not in the cache."""
    console.rule("A pair trained here")
    if QUICK.name not in known_pairs():
        console.print("Training a small target and its draft. It takes a minute or two, once.")
        train_and_publish(QUICK, cache_folder() / QUICK.name, "minispec train --preset quick", console)
    models = load_pair(QUICK.name)
    console.print(losses_table(models.info["models"], models.info["entropy_floor"]))
    if problem := verdict(models.info):
        console.print(f"minispec: {problem}", style="bold #D55E00", soft_wrap=True)
    return models


def decode_both_ways(models: Pair, text: str, settings: Settings, console: Console) -> dict[str, object]:
    """Decodes a prompt with both verifiers, target-only beside each, on every backend, and prints everything.

    Returns:
        The figures, for `--json`.
    """
    ids = prompt_ids(models, text)
    console.rule(f"Pair {models.name}")
    console.print(
        f"target {models.target.parameters_count:,} parameters, draft {models.draft.parameters_count:,}"
    )
    ready = [on_backend(models, backend.name) for backend in settings.backends]
    runs = []
    warm_up = replace(settings, max_new_tokens=min(settings.max_new_tokens, 8))
    for verifier in VERIFIERS:
        for each in ready:
            time_run(each, models, ids, verifier, warm_up)
        stream_run(models, ready[-1], text, ids, verifier, settings, console)
        runs += [(each, verifier, time_run(each, models, ids, verifier, settings)) for each in ready]
        console.print(f"Target-only, temperature {VERIFIERS[verifier][1]:g}:", style="bold")
        shown = runs[-1][2][0].text
        console.print(models.tokenizer.decode(list(shown)), style="#888888", markup=False, soft_wrap=True)
    console.print(outcome_table([run for *_, run in runs], f"{models.name}, K = {settings.k}"))
    console.print(
        "  speed-up: over the target alone on the same backend, prefill included\n"
        "  same text: a sampled one may differ from the target's own; its distribution does not",
        style="dim",
    )
    return {"pair": models.name, "prompt": text, "runs": [describe(*run) for run in runs]}


def describe(models: Models, verifier: str, run: tuple[Outcome, Outcome]) -> dict[str, object]:
    """Returns one line of the table, and the target alone beside it, for `--json`."""
    alone, fast = run
    statistics = fast.statistics
    return {
        "backend": models.backend.name,
        "verifier": verifier,
        "tokens": fast.tokens,
        "target_calls": fast.target_calls,
        "seconds": fast.seconds,
        "target_only_seconds": alone.seconds,
        "target_only_tokens": alone.tokens,
        "acceptance": statistics.acceptance if statistics else None,
        "accepted_over_drafted": statistics.accepted_over_drafted if statistics else None,
        "mean_acceptance_length": statistics.mean_acceptance_length if statistics else None,
        "same_as_target_only": fast.same,
    }


def prompt_of(models: Pair, prompt: str | None) -> str:
    """Returns the prompt that was asked for, else the pair's own."""
    return prompt if prompt is not None else models.walkthrough or first_prompt(models)


def prompt_ids(models: Pair, text: str) -> list[int]:
    """Returns a prompt's token ids.

    Raises:
        ValueError: if they do not fit the pair.
    """
    ids = models.tokenizer.encode(text)
    check_prompts([ids], models.target.vocab_size, min(models.target.max_length, models.draft.max_length))
    return ids


def first_prompt(models: Pair) -> str:
    """Returns the first held-out prompt of a pair that has no walkthrough."""
    return models.tokenizer.decode(models.info["prompts"][0]) if models.info.get("prompts") else "The "


def stream_run(
    pair: Pair, models: Models, text: str, ids: list[int], verifier: str, settings: Settings, console: Console
) -> None:
    """Streams one speculative run, its tokens marked; the terminal slows it, so it is not timed."""
    glyphs = glyphs_for(console.encoding)
    temperature = VERIFIERS[verifier][1]
    console.print(f"\nSpeculative, {verifier} verifier, temperature {temperature:g}:", style="bold")
    console.print(text, style="dim", end="", markup=False, soft_wrap=True)
    rounds = speculative(pair, models, ids, verifier, settings)
    for piece in marked(rounds, pair.tokenizer, glyphs):
        console.print(piece, end="", soft_wrap=True)
        console.file.flush()
    console.print()
    console.print(legend(glyphs))


def time_run(
    models: Models, pair: Pair, ids: list[int], verifier: str, settings: Settings
) -> tuple[Outcome, Outcome]:
    """Decodes silently with the target alone and with the draft; returns both outcomes."""
    name, temperature = models.backend.name, VERIFIERS[verifier][1]
    started = perf_counter()
    steps = generate(
        models.target,
        [ids],
        max_new_tokens=settings.max_new_tokens,
        warp=models.backend.warp(temperature),
        rng=models.backend.rng(settings.seed),
        eos=pair.tokenizer.end_of_text,
    )
    alone = tuple(step[0] for step in steps if step[0] is not None)
    middle = perf_counter()
    trace = Trace((tuple(ids),), {}, tuple(speculative(pair, models, ids, verifier, settings)))
    seconds, tokens = perf_counter() - middle, tuple(trace.tokens())
    same = tokens == alone if temperature == 0 else None
    return (
        Outcome("target-only", len(alone), len(alone), middle - started, backend=name, text=alone),
        Outcome(
            verifier, len(tokens), len(trace.rounds), seconds, trace.statistics(), same, name, text=tokens
        ),
    )


def speculative(
    pair: Pair, models: Models, ids: list[int], verifier: str, settings: Settings
) -> Iterator[ObservedRound]:
    """Decodes one prompt with a verifier, at its temperature."""
    backend = models.backend
    return observe(
        models.target,
        backend.drafter(models.draft),
        [ids],
        k=settings.k,
        verifier=backend.rules[verifier],
        max_new_tokens=settings.max_new_tokens,
        warp=backend.warp(VERIFIERS[verifier][1]),
        rng=backend.rng(settings.seed),
        eos=pair.tokenizer.end_of_text,
    )
