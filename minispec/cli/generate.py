"""`minispec generate`: decode one prompt and say exactly what happened."""

import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from itertools import tee
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

from rich.console import Console

from minispec.cli import options
from minispec.cli.decoding import RULES, Decoding, loss, read_k
from minispec.core.batch import checked_prompt
from minispec.core.model import LanguageModel
from minispec.core.records import Round
from minispec.core.warp import Warp
from minispec.evidence.bench.measure import forward_task, interleaved_seconds
from minispec.io.checkpoint import Pair
from minispec.io.stream import cut, until
from minispec.io.trace import ObservedRound, Trace
from minispec.native.backend import AUTO, BACKENDS, TORCH, on_backend
from minispec.native.drafters import MODEL, named
from minispec.show.text import glyphs_for, legend, marked, printable
from minispec.verifiers.fixed_width import FixedWidth

FIGURES = (  # of a run's statistics
    "target_calls",
    "tokens_per_target_call",
    "acceptance",
    "accepted_over_drafted",
    "mean_acceptance_length",
)


def generate(
    prompt: str | None = None,
    pair: str | None = None,
    target: Path | None = None,
    draft: Path | None = None,
    drafter: str = MODEL,
    verifier: str = "rejection",
    k: str = "4",
    temperature: float | None = None,
    top_k: int | None = None,
    top_p: float | None = None,
    max_new_tokens: int = 100,
    stop: list[str] | None = None,
    ignore_eos: bool = False,
    seed: int = 0,
    target_only: bool = False,
    stream: bool = False,
    logprobs: bool = False,
    exact: bool = False,
    backend: str = "torch",
    device: str = "cpu",
    dtype: str = "float32",
    threads: int | None = None,
    as_json: bool = False,
) -> None:
    """Continue a prompt, speculatively."""
    options.choose(verifier, tuple(RULES), "--verifier")
    kind = named(drafter, k)
    asked = kind.backend(options.choose(backend, (*BACKENDS, AUTO), "--backend"))
    if exact and asked != TORCH.name:
        raise ValueError(f"--exact computes with torch; leave out --backend {asked}")
    degree = temperature if temperature is not None else (0.0 if verifier == "greedy" else 1.0)
    Warp(degree, top_k, top_p)  # refuses wrong settings before anything is loaded
    stops = stop or []
    if "" in stops:
        raise ValueError("a stop text must not be empty")
    widest = read_k(k)
    most = 0 if target_only else widest
    options.set_threads(threads)
    text = options.read_prompt(prompt)
    models = options.open_models(pair, target, draft, device, dtype)
    ids = models.tokenizer.encode(text)
    out = options.console(as_json)
    context = models.target.max_length
    if most and kind.has_model:
        context = min(context, models.draft.max_length)
    checked_prompt(0, ids, models.target.vocab_size, context)  # before anything is built
    if asked != TORCH.name:
        options.tell_of_build()
    ready = on_backend(models, asked)
    if ready.note is not None:
        print(ready.note, file=sys.stderr)
    cost = None
    if exact:
        fixed = FixedWidth(models.target)
        ready = replace(ready, target=fixed, draft=FixedWidth(models.draft))
        cost = cost_of_exactness(models.target, fixed)
    warp = ready.backend.warp(degree, top_k, top_p)
    run = Decoding(models, ready, ids, verifier, warp, most, max_new_tokens, seed, drafter)
    run = replace(run, ignore_eos=ignore_eos, costs=run.measured_costs(5) if most and k == AUTO else None)

    rounds = until(run.speculative(), models.tokenizer, stops)
    started = perf_counter()
    if stream:
        out.print(printable(text), end="", style="dim", soft_wrap=True)
        rounds = iter(show(rounds, models, out))
    # Without a round, the trace says by these two why it ended.
    config = {"max_new_tokens": max_new_tokens, "context": context}
    trace = Trace((tuple(ids),), config, tuple(rounds))
    document = describe(trace, models, stops, perf_counter() - started, logprobs)
    document["drafter"] = drafter if most else None
    lossy = loss(verifier, degree) if most else None
    document["lossless"] = lossy is None
    # What is to be said stands on standard error, not in the text: another program may read that.
    if lossy:
        print(lossy, file=sys.stderr)
    if cost is not None:
        document["exact"] = cost
        times = f"{1e3 * cost['fixed']:.2f} ms a token instead of {1e3 * cost['plain']:.2f} ms"
        print(
            f"exact mode, width {cost['width']}: {times}, {cost['ratio']:.2f} times as long", file=sys.stderr
        )
    if run.costs is not None:
        document["costs"] = asdict(run.costs)  # seconds, by which K was chosen
    if as_json:
        options.print_json(document)
    elif not stream:
        whole = text + document["text"] + "\n"  # as it is: nothing wrapped, no tab expanded
        sys.stdout.write(printable(whole) if sys.stdout.isatty() else whole)


def cost_of_exactness(plain: LanguageModel, exact: FixedWidth) -> dict[str, float]:
    """Returns the seconds of a forward over one token, half of the context read before: plain and exact."""
    sides = {"plain": plain, "fixed": exact}
    tasks = {name: forward_task(side, exact.max_length // 2, 1) for name, side in sides.items()}
    seconds = {name: median(taken) for name, taken in interleaved_seconds(tasks, 10).items()}
    return {**seconds, "width": exact.width, "ratio": seconds["fixed"] / seconds["plain"]}


def show(rounds: Iterator[ObservedRound], models: Pair, out: Console) -> list[ObservedRound]:
    """Prints rounds as they come, and what the signs mean, and returns them."""
    glyphs = glyphs_for(out.encoding)
    shown, kept = tee(rounds)
    for piece in marked(shown, models.tokenizer, glyphs):
        out.print(piece, end="", soft_wrap=True)
        out.file.flush()
    out.print()
    out.print(legend(glyphs))
    return list(kept)


def describe(
    trace: Trace, models: Pair, stops: Sequence[str], seconds: float, logprobs: bool
) -> dict[str, Any]:
    """Returns the JSON document of one decoded row."""
    statistics = trace.statistics()
    tokens = trace.tokens()
    whole = models.tokenizer.decode(tokens)
    text = cut(whole, stops)
    document: dict[str, Any] = {
        "text": text,
        "tokens": tokens,
        "prompt_tokens": list(trace.prompts[0]),
        **{name: getattr(statistics, name) for name in FIGURES},
        "seconds": seconds,
        "phases": dict(statistics.seconds),
        "finish": "eos" if text != whole else trace.finish(),
        "rounds": [describe_round(r, models) for r in trace.rounds],
    }
    if logprobs:
        document["logprobs"] = [  # the target's, in nats, before the warp
            float(r.target_logits[0, i].double().log_softmax(-1)[token])
            for r in trace.rounds
            for i, token in zip([0, *(n + 1 for n in r.verdict.kept()[0])], r.emitted[0], strict=False)
        ]
    return document


def describe_round(r: Round, models: Pair) -> dict[str, Any]:
    """Returns one round: what was drafted, what was kept, what was emitted."""
    drafted = r.draft.tokens[0, : r.drafted(0)].tolist()
    piece = models.tokenizer.piece
    return {
        "drafted": drafted,
        "drafted_text": [*map(piece, drafted)],
        "accepted": r.accepted(0),
        "emitted": list(r.emitted[0]),
        "emitted_text": [*map(piece, r.emitted[0])],
        "kind": r.kind(0),
    }
