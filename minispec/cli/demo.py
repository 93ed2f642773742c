"""`minispec demo`: speculative decoding at work, then a pair trained before your eyes."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console

from minispec.cli import options
from minispec.cli.decoding import Decoding, chosen_drafter, print_advice, read_k, why_lossy
from minispec.cli.generate import show
from minispec.cli.train import train_and_publish
from minispec.core.batch import Request, checked_prompt
from minispec.drafters.registry import MODEL
from minispec.io.checkpoint import Pair, cache_folder, known_pairs, load_pair
from minispec.io.files import check_writable, printable_line, write_text_file
from minispec.io.walkthrough import VERIFIERS, K, record_pair
from minispec.native.backend import AUTO, Backend, on_backend
from minispec.show.stepper import Stepper, page
from minispec.show.text import Outcome, losses_table, outcome_table, printable
from minispec.train.publish import failure_message
from minispec.train.recipes import QUICK
from minispec.verifiers.registry import CHAINS, verifier_for


def demo(
    pair: str = "stories",
    prompt: str | None = None,
    k: str = AUTO,
    drafter: str = MODEL.name,
    verifier: str | None = None,
    max_new_tokens: int = 100,
    seed: int = 0,
    no_train: bool = False,
    html: Path | None = None,
    backend: str = "auto",
    threads: int | None = None,
    as_json: bool = False,
) -> None:
    """Show speculative decoding on real text, target-only beside it; then train a small pair and use it."""
    width = read_k(k)
    if width < 1:
        raise ValueError(f"--k must be at least 1 for the demo, not {width}")
    entry = chosen_drafter(drafter, k)
    if verifier is not None:
        options.choose(verifier, tuple(CHAINS), "--verifier")
        verifier_for(verifier, entry.proposes_trees)  # refused here if it verifies no trees
    if html is not None:
        if verifier is not None:
            raise ValueError("--html shows both usual verifiers; leave out --verifier")
        if entry is not MODEL:
            raise ValueError(f"--html shows how a model drafts; leave out --drafter {drafter}")
        check_writable(html)  # better said now than after a training
    options.set_threads(threads)
    text = None if prompt is None else options.read_prompt(prompt)
    console = options.console(as_json)
    models = load_pair(pair)
    text = text or prompt_of(models)
    context = min(models.target.max_length, models.draft.max_length)
    # Refused before anything is built.
    checked_prompt(0, models.tokenizer.encode(text), models.target.vocab_size, context)
    decode = partial(
        decode_both_ways,
        backends=options.find_backends(backend),
        verifiers=tuple(VERIFIERS) if verifier is None else (verifier,),
        max_new_tokens=max_new_tokens,
        settings={"k": width, "seed": seed, "drafter": entry},
        automatic_k=k == AUTO or entry.chooses,
        console=console,
    )
    prompts = [(models, text)]
    documents = [decode(models, text)]
    if not no_train and pair != QUICK.name:
        quick = live_pair(console)
        prompts.append((quick, prompt_of(quick)))
        documents.append(decode(*prompts[1]))
    if html is not None:
        fixed = K if k == AUTO else width  # a page is the same on every machine
        write_text_file(html, walk_page(prompts, k=fixed, max_new_tokens=max_new_tokens, seed=seed))
        console.print(
            f"\nTo walk through it with K = {fixed}, open {printable_line(str(html))} in a browser."
        )
    if as_json:
        options.print_json({"pairs": documents})


def walk_page(prompts: Sequence[tuple[Pair, str]], **settings: int) -> str:
    """Decodes prompts once more with each verifier, and returns a page with a stepper for each run."""
    runs = (record_pair(pair, text, verifier, **settings) for pair, text in prompts for verifier in VERIFIERS)
    return page("minispec demo, step by step", [Stepper(run).html() for run in runs])


def live_pair(console: Console) -> Pair:
    """Returns the `quick` pair, trained now if it is not in the cache."""
    console.rule("A pair trained here")
    if QUICK.name not in known_pairs():
        console.print("Training a small target and its draft. It takes a minute or two, once.")
        train_and_publish(QUICK, cache_folder() / QUICK.name, "minispec train --preset quick", console)
    models = load_pair(QUICK.name)
    console.print(losses_table(models.info["models"], models.info["entropy_floor"]))
    if problem := failure_message(models.info):
        options.warn(problem, console)
    return models


def decode_both_ways(
    pair: Pair,
    text: str,
    backends: Sequence[Backend],
    verifiers: Sequence[str],
    max_new_tokens: int,
    settings: Mapping[str, Any],
    automatic_k: bool,
    console: Console,
) -> dict[str, object]:
    """Decodes a prompt with each verifier, target-only beside it, on every backend, and prints all of it.

    `settings` are those of each `Decoding`; `automatic_k` says whether K is chosen. Returns the figures,
    for `--json`.
    """
    request = Request(pair.tokenizer.encode(text), max_new_tokens, pair.tokenizer.ends)
    warm_up = replace(request, max_new_tokens=min(max_new_tokens, 8))
    console.rule(f"Pair {pair.name}")
    counts = [f"{model.parameters_count:,}" for model in (pair.target, pair.draft)]
    console.print("target {} parameters, draft {}".format(*counts))
    if settings["drafter"] is not MODEL:
        console.print(f"drafter: {settings['drafter'].name}")
    computed = [on_backend(pair, backend.name) for backend in backends]
    outcomes: list[tuple[Decoding, Outcome, Outcome]] = []
    for verifier in verifiers:
        temperature = 0.0 if verifier == "greedy" else 1.0
        runs = [
            Decoding(pair, models, verifier, models.backend.warp(temperature), **settings)
            for models in computed
        ]
        if automatic_k:
            runs = [replace(run, costs=run.measured_costs(request)) for run in runs]
        for run in runs:
            run.timed(warm_up)
        console.print(f"\nSpeculative, {verifier} verifier, temperature {temperature:g}:", style="bold")
        if note := why_lossy(verifier, temperature):
            console.print(note)
        console.out(printable(text), style="dim", end="")
        show(runs[-1].speculative([request]), pair, console)  # the terminal slows it: it is not timed
        outcomes += [(run, *run.timed(request)) for run in runs]
        console.print(f"Target-only, temperature {temperature:g}:", style="bold")
        text_alone = pair.tokenizer.decode(outcomes[-1][1].text)
        console.out(printable(text_alone), style="#888888")
    title = f"{pair.name}, K = {AUTO if automatic_k else settings['k']}"
    console.print(outcome_table([(alone, drafted) for _, alone, drafted in outcomes], title))
    console.print(
        "  speed-up: over the target alone on the same backend, prefill included\n"
        "  accepted: over tested tokens; in engines: over all drafted tokens\n"
        "  tokens a call: in engines: mean acceptance length, 1 + accepted / rounds\n"
        "  same text: a sampled one may differ from the target's own; its distribution does not",
        style="dim",
    )
    documents = []
    for run, alone, drafted in outcomes:
        advice = run.advice(request, alone, drafted)
        title = f"{drafted.label} on the {drafted.backend} backend"
        print_advice(title, drafted.speed_up(alone), advice, console)
        documents.append(describe(run, alone, drafted, advice))
    return {"pair": pair.name, "prompt": text, "runs": documents}


def describe(run: Decoding, alone: Outcome, drafted: Outcome, advice: Sequence[str]) -> dict[str, object]:
    """Returns one line of the table, the target alone beside it, and advice, for `--json`."""
    figures = ("backend", "k", "tokens", "target_calls", "seconds")
    counts = ("acceptance", "accepted_over_drafted", "mean_acceptance_length")
    return {
        "drafter": run.drafter.name,
        "verifier": drafted.label,
        "lossless": why_lossy(run.verifier, run.warp.temperature) is None,
        **{name: getattr(drafted, name) for name in figures},
        **{name: getattr(drafted.statistics, name) for name in counts},
        "target_only_seconds": alone.seconds,
        "target_only_tokens": alone.tokens,
        "same_as_target_only": drafted.same,
        "speedup": drafted.speed_up(alone),
        "advice": list(advice),
    }


def prompt_of(pair: Pair) -> str:
    """Returns the pair's own prompt: its walkthrough, or else the first that it is measured on."""
    prompts = pair.info.get("prompts")
    return pair.walkthrough or (pair.tokenizer.decode(prompts[0]) if prompts else "The ")
