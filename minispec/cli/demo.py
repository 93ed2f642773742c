"""`minispec demo`: speculative decoding at work, then a pair trained before your eyes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from time import perf_counter
from typing import Annotated, Any

import typer
from rich.console import Console

from minispec.cli import options
from minispec.cli.generate import show
from minispec.cli.train import train_and_publish
from minispec.core.loop import generate
from minispec.core.prefill import check_prompts
from minispec.io.checkpoint import Pair, cache_folder, known_pairs, load_pair
from minispec.io.files import check_writable, write_whole
from minispec.io.observe import observe
from minispec.io.trace import ObservedRound, Trace
from minispec.io.walkthrough import VERIFIERS, record_pair
from minispec.native.backend import Backend, Models, on_backend
from minispec.show.step_page import page
from minispec.show.text import Outcome, losses_table, outcome_table
from minispec.train.publish import verdict
from minispec.train.recipes import QUICK


@dataclass(frozen=True)
class Decoding:
    """How one prompt is decoded, with a draft and by the target alone.

    Attributes:
        pair: its tokenizer and end-of-text.
        models: its models on a backend.
        prompt: token ids.
        verifier: by name.
        k: drafted tokens per round.
        max_new_tokens: at most this many.
        seed: of the sampling.
    """

    pair: Pair
    models: Models
    prompt: list[int]
    verifier: str
    k: int
    max_new_tokens: int
    seed: int

    @property
    def temperature(self) -> float:
        """The temperature that the verifier is shown at."""
        return VERIFIERS[self.verifier][1]

    def settings(self) -> dict[str, Any]:
        """Returns what both sides decode with."""
        backend = self.models.backend
        return {
            "max_new_tokens": self.max_new_tokens,
            "warp": backend.warp(self.temperature),
            "rng": backend.rng(self.seed),
            "eos": self.pair.tokenizer.end_of_text,
        }

    def speculative(self) -> Iterator[ObservedRound]:
        """Decodes with the draft."""
        backend = self.models.backend
        drafter, rule = backend.drafter(self.models.draft), backend.rules[self.verifier]
        return observe(self.models.target, drafter, [self.prompt], k=self.k, verifier=rule, **self.settings())

    def timed(self) -> tuple[Outcome, Outcome]:
        """Decodes silently with the target alone and with the draft; returns both outcomes."""
        name = self.models.backend.name
        started = perf_counter()
        steps = generate(self.models.target, [self.prompt], **self.settings())
        alone = tuple(step[0] for step in steps if step[0] is not None)
        middle = perf_counter()
        trace = Trace((tuple(self.prompt),), {}, tuple(self.speculative()))
        seconds, tokens, calls = perf_counter() - middle, tuple(trace.tokens()), len(trace.rounds)
        same = tokens == alone if self.temperature == 0 else None
        return (
            Outcome("target-only", len(alone), len(alone), middle - started, backend=name, text=alone),
            Outcome(self.verifier, len(tokens), calls, seconds, trace.statistics(), same, name, tokens),
        )

    def stream(self, text: str, console: Console) -> None:
        """Streams one speculative run, its tokens marked; the terminal slows it, so it is not timed."""
        title = f"\nSpeculative, {self.verifier} verifier, temperature {self.temperature:g}:"
        console.print(title, style="bold")
        console.print(text, style="dim", end="", markup=False, soft_wrap=True)
        for _ in show(self.speculative(), self.pair, console):
            pass


def demo(
    pair: options.PairOption = "stories",
    prompt: Annotated[str | None, typer.Option("--prompt", help="By default the pair's own.")] = None,
    k: Annotated[int, typer.Option("--k", help="Drafted tokens per round.")] = 5,
    max_new_tokens: options.NewTokensOption = 100,
    seed: options.SeedOption = 0,
    no_train: Annotated[bool, typer.Option("--no-train", help="Leave out the live training.")] = False,
    html: Annotated[
        Path | None, typer.Option("--html", help="Also write a page on which to walk through the runs.")
    ] = None,
    backend: options.BackendOption = "auto",
    threads: options.ThreadsOption = None,
    as_json: options.JsonOption = False,
) -> None:
    """Show speculative decoding on real text, target-only beside it; then train a small pair and use it."""
    for name, number in (("--k", k), ("--max-new-tokens", max_new_tokens)):
        if number < 1:
            raise ValueError(f"{name} must be at least 1 for the demo, not {number}")
    if html is not None:
        check_writable(html)  # better said now than after a training
    options.set_threads(threads)
    prompt = options.read_prompt(prompt) if prompt is not None else None
    console = options.console(as_json)
    models = load_pair(pair)
    shown = [(models, prompt if prompt is not None else prompt_of(models))]
    prompt_ids(*shown[0])  # refused before anything is built
    backends = options.find_backends(backend)
    settings: dict[str, Any] = {"k": k, "max_new_tokens": max_new_tokens, "seed": seed}
    documents = [decode_both_ways(*shown[0], backends, settings, console)]
    if not no_train and pair != QUICK.name:
        quick = live_pair(console)
        shown.append((quick, prompt_of(quick)))
        documents.append(decode_both_ways(*shown[1], backends, settings, console))
    if html is not None:
        write_whole(html, walk_page(shown, settings))
        console.print(f"\nTo walk through it, open {html} in a browser.")
    if as_json:
        options.print_json({"pairs": documents})


def walk_page(shown: Sequence[tuple[Pair, str]], settings: Mapping[str, Any]) -> str:
    """Runs once more what was shown, with notes taken, and returns a page with a stepper for each run."""
    from minispec.show.stepper import Stepper  # matplotlib, which has the colours, takes half a second

    runs = (record_pair(pair, text, verifier, **settings) for pair, text in shown for verifier in VERIFIERS)
    return page("minispec demo, step by step", [Stepper(run).html() for run in runs])


def live_pair(console: Console) -> Pair:
    """Returns the `quick` pair, trained now if it is not in the cache."""
    console.rule("A pair trained here")
    if QUICK.name not in known_pairs():
        console.print("Training a small target and its draft. It takes a minute or two, once.")
        train_and_publish(QUICK, cache_folder() / QUICK.name, "minispec train --preset quick", console)
    models = load_pair(QUICK.name)
    console.print(losses_table(models.info["models"], models.info["entropy_floor"]))
    if problem := verdict(models.info):
        options.warn(problem, console)
    return models


def decode_both_ways(
    pair: Pair, text: str, backends: Sequence[Backend], settings: Mapping[str, Any], console: Console
) -> dict[str, object]:
    """Decodes a prompt with both verifiers, target-only beside each, on every backend, and prints all of it.

    Returns:
        The figures, for `--json`.
    """
    ids = prompt_ids(pair, text)
    console.rule(f"Pair {pair.name}")
    console.print(
        f"target {pair.target.parameters_count:,} parameters, draft {pair.draft.parameters_count:,}"
    )
    ready = [on_backend(pair, backend.name) for backend in backends]
    outcomes: list[tuple[Outcome, Outcome]] = []
    for verifier in VERIFIERS:
        runs = [Decoding(pair, models, ids, verifier, **settings) for models in ready]
        for run in runs:  # a short one first, to warm up
            replace(run, max_new_tokens=min(run.max_new_tokens, 8)).timed()
        runs[-1].stream(text, console)
        outcomes += [run.timed() for run in runs]
        console.print(f"Target-only, temperature {runs[-1].temperature:g}:", style="bold")
        alone = pair.tokenizer.decode(outcomes[-1][0].text)
        console.print(alone, style="#888888", markup=False, soft_wrap=True)
    console.print(outcome_table(outcomes, f"{pair.name}, K = {settings['k']}"))
    console.print(
        "  speed-up: over the target alone on the same backend, prefill included\n"
        "  same text: a sampled one may differ from the target's own; its distribution does not",
        style="dim",
    )
    return {"pair": pair.name, "prompt": text, "runs": [describe(*both) for both in outcomes]}


def describe(alone: Outcome, fast: Outcome) -> dict[str, object]:
    """Returns one line of the table, and the target alone beside it, for `--json`."""
    statistics = fast.statistics
    assert statistics is not None
    return {
        "backend": fast.backend,
        "verifier": fast.label,
        "tokens": fast.tokens,
        "target_calls": fast.target_calls,
        "seconds": fast.seconds,
        "target_only_seconds": alone.seconds,
        "target_only_tokens": alone.tokens,
        "acceptance": statistics.acceptance,
        "accepted_over_drafted": statistics.accepted_over_drafted,
        "mean_acceptance_length": statistics.mean_acceptance_length,
        "same_as_target_only": fast.same,
    }


def prompt_of(pair: Pair) -> str:
    """Returns the pair's own prompt: its walkthrough, or else the first that it is measured on."""
    prompts = pair.info.get("prompts")
    return pair.walkthrough or (pair.tokenizer.decode(prompts[0]) if prompts else "The ")


def prompt_ids(pair: Pair, text: str) -> list[int]:
    """Returns a prompt's token ids.

    Raises:
        ValueError: if they do not fit the pair.
    """
    ids = pair.tokenizer.encode(text)
    check_prompts([ids], pair.target.vocab_size, min(pair.target.max_length, pair.draft.max_length))
    return ids
