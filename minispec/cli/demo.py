"""`minispec demo`: speculative decoding round by round, its speed, then the same with a pair trained here."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path

from rich.console import Console

from minispec.cli import options
from minispec.cli.train import train_and_publish
from minispec.core.batch import Request, checked_prompt
from minispec.core.draft import ModelDrafter
from minispec.core.loop import generate, speculate
from minispec.core.records import Round
from minispec.core.rng import SeededRng
from minispec.core.warp import Warp
from minispec.evidence.bench.speed import SpeedUp, halves, measure_speed_up, recorded_k
from minispec.io.checkpoint import Pair, cache_folder, known_pairs, load_pair
from minispec.io.files import check_writable, printable_line, write_text_file
from minispec.io.walkthrough import VERIFIERS, record_pair
from minispec.native.backend import AUTO, BACKENDS, NATIVE, on_backend
from minispec.show.stepper import Stepper, page
from minispec.show.text import count, glyphs_for, legend, losses_table, printable, round_line
from minispec.train.publish import failure_message
from minispec.train.recipes import QUICK

PAUSE = 0.15  # seconds between two rounds on a terminal: without a pause nobody could follow them
SAMPLED = (
    "A sampled text differs from the target's own because other random numbers make it; "
    "its distribution is the same."
)


def demo(
    pair: str = "stories",
    prompt: str | None = None,
    k: int | None = None,
    max_new_tokens: int = 100,
    seed: int = 0,
    no_train: bool = False,
    html: Path | None = None,
    backend: str = AUTO,
    threads: int | None = None,
    as_json: bool = False,
) -> None:
    """Show speculative decoding round by round, and time it; then train a small pair and use it."""
    # What can be refused is refused now, not after a training.
    options.choose(backend, (*BACKENDS, AUTO), "--backend")
    if html is not None:
        check_writable(html)
    options.set_threads(threads)
    text = None if prompt is None else options.read_prompt(prompt)
    models = load_pair(pair)
    text = text or prompt_of(models)
    context = min(models.target.max_length, models.draft.max_length)
    checked_prompt(0, models.tokenizer.encode(text), models.target.vocab_size, context)
    if backend == NATIVE.name:
        options.find_backends(backend)

    console = options.console(as_json)
    prompts = [(models, text)]
    documents = [show_pair(models, text, k, max_new_tokens, seed, backend, console)]
    if not no_train and pair != QUICK.name:
        quick = live_pair(console)
        prompts.append((quick, prompt_of(quick)))
        documents.append(show_pair(*prompts[1], k, max_new_tokens, seed, backend, console))
    if html is not None:
        write_text_file(html, walk_page(prompts, k, max_new_tokens, seed))
        console.print(f"\nTo walk through it, open {printable_line(str(html))} in a browser.")
    if as_json:
        options.print_json({"pairs": documents})


def show_pair(
    pair: Pair, text: str, k: int | None, max_new_tokens: int, seed: int, backend: str, console: Console
) -> dict[str, object]:
    """Decodes a prompt greedily and sampled, round by round, then prints one speed-up.

    k: drafted tokens a round; None: as many as the pair's training found fastest.

    Returns what `--json` prints.
    """
    k = k or recorded_k(pair)
    console.rule(f"Pair {pair.name}")
    sizes = [f"{model.parameters_count:,}" for model in (pair.target, pair.draft)]
    console.print("The target has {} parameters, the draft model {}.\n".format(*sizes))
    console.print(printable(text), style="dim")
    runs = [show_run(pair, text, name, k, max_new_tokens, seed, console) for name in VERIFIERS]
    console.print(legend(glyphs_for(console.encoding)))

    # The rounds above were computed by the code to read. What is timed is the fastest backend.
    models = on_backend(pair, options.find_backends(backend)[-1].name)
    prompts = halves(pair)[1] or [pair.tokenizer.encode(text)]
    speed = measure_speed_up(models, prompts, k)
    console.print(f"\n{speed_line(speed)}")
    return {"pair": pair.name, "prompt": text, "k": k, "runs": runs, "speed": asdict(speed)}


def show_run(
    pair: Pair, text: str, verifier: str, k: int, max_new_tokens: int, seed: int, console: Console
) -> dict[str, object]:
    """Decodes a prompt with one verifier, prints a line a round, and compares with the target alone."""
    rule, temperature = VERIFIERS[verifier]
    warp = Warp(temperature)
    request = Request(pair.tokenizer.encode(text), max_new_tokens, pair.tokenizer.ends)
    alone = [token for (token,) in generate(pair.target, [request], warp=warp, rng=SeededRng(seed))]

    console.print(f"\nSpeculative, {verifier} verifier, temperature {temperature:g}, K = {k}:", style="bold")
    drafter = ModelDrafter(pair.draft, warp)
    run = speculate(pair.target, drafter, [request], k=k, verifier=rule, warp=warp, rng=SeededRng(seed))
    rounds = show_rounds(run, pair, console)

    tokens = [token for r in rounds for token in r.emitted[0]]
    calls = count(len(rounds), "target call")
    identical = tokens == alone if warp.is_greedy else None
    counts = f"{count(len(tokens), 'token')} in {calls} instead of {len(tokens)}"
    console.print(f"{counts}. {comparison(identical)}")
    return {
        "verifier": verifier,
        "temperature": temperature,
        "text": pair.tokenizer.decode(tokens),
        "tokens": len(tokens),
        "target_calls": len(rounds),
        "same_as_target_only": identical,
    }


def show_rounds(rounds: Iterator[Round], pair: Pair, console: Console) -> list[Round]:
    """Prints each round as it comes, and returns all of them."""
    glyphs = glyphs_for(console.encoding)
    shown = []
    for r in rounds:
        console.print(round_line(r, 0, pair.tokenizer, glyphs))
        shown.append(r)
        if console.is_terminal:
            time.sleep(PAUSE)
    return shown


def comparison(identical: bool | None) -> str:
    """Says how a text compares with the target's own; `identical` is None where both were sampled."""
    if identical is None:
        return SAMPLED
    if identical:
        return "The text is identical to the target's own."
    return "The text differs from the target's own, which in float32 is right only at a near tie."


def speed_line(speed: SpeedUp) -> str:
    """Returns what was measured as one sentence, and how."""
    low, median, high = (f"{value:.2f}" for value in speed.quartiles)
    noise_low, _, noise_high = (f"{value:.2f}" for value in speed.noise)
    how = (
        f"{speed.backend} backend, K = {speed.k}, greedy, median of {speed.runs} interleaved runs of "
        f"{speed.tokens} tokens, prefill included; the target against itself: {noise_low} to {noise_high}"
    )
    if not speed.differs:
        return f"Speed: no difference from the target alone, {median}x ({how})."
    return f"Speed: {median}x the target alone, quartiles {low} to {high} ({how})."


def live_pair(console: Console) -> Pair:
    """Returns the `quick` pair, trained now if it is not in the cache."""
    console.rule("A pair trained here")
    if QUICK.name not in known_pairs():
        console.print("Training a small target and its draft model. It takes a minute or two, once.")
        train_and_publish(QUICK, cache_folder() / QUICK.name, "minispec train --preset quick", console)
    models = load_pair(QUICK.name)
    console.print(losses_table(models.info["models"], models.info["entropy_floor"]))
    if problem := failure_message(models.info):
        options.warn(problem, console)
    return models


def walk_page(prompts: Sequence[tuple[Pair, str]], k: int | None, max_new_tokens: int, seed: int) -> str:
    """Decodes prompts once more with each verifier, and returns a page with a stepper for each run."""
    runs = [
        record_pair(pair, text, name, k=k or recorded_k(pair), max_new_tokens=max_new_tokens, seed=seed)
        for pair, text in prompts
        for name in VERIFIERS
    ]
    return page("minispec demo, step by step", [Stepper(run).html() for run in runs])


def prompt_of(pair: Pair) -> str:
    """Returns the pair's own prompt: its walkthrough, or else the first that it is measured on."""
    prompts = pair.info.get("prompts")
    return pair.walkthrough or (pair.tokenizer.decode(prompts[0]) if prompts else "The ")
