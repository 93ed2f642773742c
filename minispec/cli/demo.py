"""`minispec demo`: speculative decoding at work, then a pair trained before your eyes."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
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
from minispec.decoding.draft import ModelDrafter
from minispec.decoding.loop import generate, speculate
from minispec.decoding.records import Round, Trace, check_prompts
from minispec.decoding.rng import SeededRng
from minispec.decoding.warp import Warp
from minispec.evidence.bench import VERIFIERS
from minispec.evidence.walkthrough import record_pair
from minispec.lm.checkpoint import Pair, cache_folder, known_pairs, load_pair
from minispec.lm.files import check_file_place, write_whole
from minispec.lm.presets import QUICK
from minispec.lm.publish import verdict
from minispec.show.step_page import page
from minispec.show.text import (
    COLOURS,
    Glyphs,
    Outcome,
    glyphs_for,
    legend,
    losses_table,
    marked,
    outcome_table,
)

# On this ground all colours but the bonus's blue have the contrast that small text needs: 4.5 to 1.
NIGHT = TerminalTheme(
    (20, 20, 20),
    SVG_EXPORT_THEME.foreground_color,
    [SVG_EXPORT_THEME.ansi_colors[number] for number in range(8)],
    [SVG_EXPORT_THEME.ansi_colors[number] for number in range(8, 16)],
)
BONUS_BY_NIGHT = "#56b4e9"  # Okabe and Ito's lighter blue


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
            check_file_place(path)  # better said now than after a training
    options.set_threads(threads)
    prompt = read_prompt(prompt) if prompt is not None else None
    console = options.console(as_json)
    if svg is not None:
        console = Console(
            file=console.file, highlight=False, markup=False, emoji=False, record=True, width=100
        )
    models = load_pair(pair)
    shown = [(models, prompt_of(models, prompt))]
    documents = [decode_both_ways(*shown[0], k, max_new_tokens, seed, console)]
    if not no_train and pair != QUICK.name:
        quick = live_pair(console)
        shown.append((quick, prompt_of(quick, None)))
        documents.append(decode_both_ways(*shown[1], k, max_new_tokens, seed, console))
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


def decode_both_ways(
    models: Pair, text: str, k: int, max_new_tokens: int, seed: int, console: Console
) -> dict[str, object]:
    """Decodes one prompt with both verifiers, target-only beside each, and prints everything.

    Returns:
        The figures, for `--json`.
    """
    ids = models.tokenizer.encode(text)
    check_prompts([ids], models.target.vocab_size, min(models.target.max_length, models.draft.max_length))
    glyphs = glyphs_for(console.encoding)
    console.rule(f"Pair {models.name}")
    console.print(
        f"target {models.target.parameters_count:,} parameters, draft {models.draft.parameters_count:,}"
    )
    outcomes = []
    for verifier in VERIFIERS:
        outcomes.append(show_run(models, text, ids, verifier, k, max_new_tokens, seed, console, glyphs))
    console.print(outcome_table(outcomes, f"{models.name}, K = {k}, prefill included"))
    console.print(
        "  in law: a sampled text may differ from the target's own; its distribution does not", style="dim"
    )
    return {
        "pair": models.name,
        "prompt": text,
        "runs": [
            {
                "verifier": verifier,
                "tokens": fast.tokens,
                "target_calls": fast.target_calls,
                "seconds": fast.seconds,
                "target_only_seconds": alone.seconds,
                "target_only_tokens": alone.tokens,
                "acceptance": fast.statistics.acceptance if fast.statistics else None,
                "same_as_target_only": fast.same,
            }
            for verifier, (alone, fast) in zip(VERIFIERS, outcomes, strict=True)
        ],
    }


def prompt_of(models: Pair, prompt: str | None) -> str:
    """Returns the prompt that was asked for, else the pair's own."""
    return prompt if prompt is not None else models.walkthrough or first_prompt(models)


def first_prompt(models: Pair) -> str:
    """Returns the first held-out prompt of a pair that has no walkthrough."""
    return models.tokenizer.decode(models.info["prompts"][0]) if models.info.get("prompts") else "The "


def show_run(
    models: Pair,
    text: str,
    ids: list[int],
    verifier: str,
    k: int,
    max_new_tokens: int,
    seed: int,
    console: Console,
    glyphs: Glyphs,
) -> tuple[Outcome, Outcome]:
    """Streams one speculative run, then target-only on the same prompt; returns both outcomes.

    What is streamed is slowed by the terminal, so the seconds come from a second, silent run.
    """
    rule, temperature = VERIFIERS[verifier]

    def speculative() -> Iterator[Round]:
        return speculate(
            models.target,
            ModelDrafter(models.draft),
            [ids],
            k=k,
            verifier=rule,
            max_new_tokens=max_new_tokens,
            warp=Warp(temperature),
            rng=SeededRng(seed),
            eos=models.tokenizer.end_of_text,
        )

    console.print(f"\nSpeculative, {verifier} verifier, temperature {temperature:g}:", style="bold")
    console.print(text, style="dim", end="", markup=False, soft_wrap=True)
    for piece in marked(speculative(), models.tokenizer, glyphs):
        console.print(piece, end="", soft_wrap=True)
        console.file.flush()
    console.print()
    console.print(legend(glyphs))
    alone_tokens, alone_seconds = target_only(models, ids, temperature, max_new_tokens, seed)
    started = perf_counter()
    trace = Trace((tuple(ids),), {}, tuple(speculative()))
    seconds = perf_counter() - started
    tokens = trace.tokens()
    console.print(f"Target-only, temperature {temperature:g}:", style="bold")
    console.print(models.tokenizer.decode(alone_tokens), style="#888888", markup=False, soft_wrap=True)
    same = tokens == alone_tokens if temperature == 0 else None
    return (
        Outcome("target-only", len(alone_tokens), len(alone_tokens), alone_seconds),
        Outcome(verifier, len(tokens), len(trace.rounds), seconds, trace.statistics(), same),
    )


def target_only(
    models: Pair, ids: list[int], temperature: float, max_new_tokens: int, seed: int
) -> tuple[list[int], float]:
    """Decodes with the target alone; returns its tokens and its seconds, prefill included."""
    started = perf_counter()
    steps = generate(
        models.target,
        [ids],
        max_new_tokens=max_new_tokens,
        warp=Warp(temperature),
        rng=SeededRng(seed),
        eos=models.tokenizer.end_of_text,
    )
    tokens = [step[0] for step in steps if step[0] is not None]
    return tokens, perf_counter() - started
