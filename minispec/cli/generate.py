"""`minispec generate`: decode one prompt and say exactly what happened, or decode many."""

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from itertools import tee
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

from rich.console import Console

from minispec.cli import options
from minispec.cli.decoding import Decoding, chosen_drafter, read_k, usual_k, why_lossy
from minispec.cli.requests import BATCH_SIZE, parse_requests, print_ended, read_file, request_of
from minispec.core.batch import Request
from minispec.core.model import LanguageModel
from minispec.core.records import Round
from minispec.core.warp import Warp
from minispec.drafters.choice import CHOICE
from minispec.drafters.registry import MODEL
from minispec.evidence.bench.measure import forward_task, interleaved_seconds
from minispec.io.chat import chat_prompt
from minispec.io.checkpoint import Pair
from minispec.io.stream import before_stop, until
from minispec.io.trace import ObservedRound, Trace
from minispec.native.backend import AUTO, BACKENDS, TORCH, Models, on_backend
from minispec.show.text import glyphs_for, legend, marked, printable
from minispec.verifiers.fixed_width import FixedWidth
from minispec.verifiers.registry import CHAINS

FIGURES = (  # of a run's statistics
    "target_calls",
    "tokens_per_target_call",
    "acceptance",
    "accepted_over_drafted",
    "mean_acceptance_length",
)


def generate(
    prompt: str | None = None,
    chat: bool = False,
    system: str | None = None,
    requests: Path | None = None,
    batch_size: int | None = None,
    pair: str | None = None,
    target: str | None = None,
    draft: str | None = None,
    drafter: str | None = None,
    heads: Path | None = None,
    verifier: str = "rejection",
    k: str | None = None,
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
    """Continue a prompt, or a file of them, speculatively."""
    options.choose(verifier, tuple(CHAINS), "--verifier")
    has_draft = target is None or draft is not None
    drafter = drafter or (MODEL if has_draft else CHOICE).name
    entry = chosen_drafter(drafter, k, has_draft)
    backend = options.choose(backend, (*BACKENDS, AUTO), "--backend")
    if exact and backend != TORCH.name:
        raise ValueError(f"--exact computes with torch; leave out --backend {backend}")
    if temperature is None:
        temperature = 0.0 if verifier == "greedy" else 1.0
    Warp(temperature, top_k, top_p)  # refuses wrong settings before anything is loaded
    stops = stop or []
    if "" in stops:
        raise ValueError("a stop text must not be empty")
    automatic = k == AUTO
    width = read_k(usual_k(entry) if k is None else k)
    if target_only:
        width = 0
    single = {"prompt": prompt is not None, "stop": stop, "stream": stream, "logprobs": logprobs}
    check_together(requests, batch_size, single | {"json": as_json, "k auto": automatic})
    if system is not None and not chat:
        raise ValueError("--system is a chat's: give --chat too")
    options.set_threads(threads)
    text = options.read_prompt(prompt) if requests is None else read_file(requests, "requests")
    models = replace(options.open_models(pair, target, draft, device, dtype, backend), heads=heads)
    context = models.target.max_length
    if width and entry.uses_draft_model:
        context = min(context, models.draft.max_length)
    defaults = {"max_new_tokens": max_new_tokens, "eos": not ignore_eos}
    encode = partial(chat_prompt, models.tokenizer, system=system) if chat else models.tokenizer.encode
    if requests is None:
        queue = [request_of(defaults | {"prompt": text}, 0, models, context, encode)]
    else:
        queue = parse_requests(text, defaults, models, context, encode)
    computed, cost = prepare(models, backend, exact)
    warp = computed.backend.warp(temperature, top_k, top_p)
    decoding = Decoding(models, computed, verifier, warp, width, seed, entry)
    if width and (automatic or (entry.chooses and requests is None)):
        decoding = replace(decoding, costs=decoding.measured_costs(queue[0], 5))
    note = why_lossy(verifier, temperature) if width else None
    if requests is not None:
        rounds = decoding.speculative(queue, batch_size or BATCH_SIZE)
        print_notes(note, cost)
        print_ended(rounds, queue, models.tokenizer, context)
        return
    console = options.console(as_json)
    if stream:
        console.out(printable(text), end="", style="dim")
    trace, seconds = decode(decoding, queue[0], stops, context, console if stream else None)
    print_notes(note, cost)
    document = describe(trace, models, stops, seconds, logprobs)
    document |= {"drafter": drafter if width else None, "lossless": note is None}
    if cost is not None:
        document["exact"] = cost
    if decoding.costs is not None:
        document["costs"] = asdict(decoding.costs)  # seconds, by which K was chosen
    if as_json:
        options.print_json(document)
    elif not stream:
        shown = "" if chat else text
        output = f"{shown}{document['text']}\n"  # as it is: nothing wrapped, no tab expanded
        sys.stdout.write(printable(output) if sys.stdout.isatty() else output)


def check_together(requests: Path | None, batch_size: int | None, single: Mapping[str, object]) -> None:
    """Refuses options that contradict --requests, those for a `single` prompt, or that need --requests."""
    if requests is None and batch_size is not None:
        raise ValueError("--batch-size is how many --requests are decoded together: give a file of them")
    for name, value in single.items():
        if value and requests is not None:
            raise ValueError(f"--requests and --{name} exclude each other")


def prepare(pair: Pair, backend: str, exact: bool) -> tuple[Models, dict[str, float] | None]:
    """Returns a pair's models on a backend, and the costs of exact mode if it is on."""
    if backend != TORCH.name:
        options.tell_of_build()
    models = on_backend(pair, backend)
    if models.note is not None:
        print(models.note, file=sys.stderr)
    if not exact:
        return models, None
    target = FixedWidth(pair.target)
    draft = FixedWidth(pair.draft) if pair.has_draft else target
    return replace(models, target=target, draft=draft), cost_of_exactness(pair.target, target)


def print_notes(note: str | None, cost: Mapping[str, float] | None) -> None:
    """Prints notes on standard error, not in the text: another program may read that."""
    if note:
        print(note, file=sys.stderr)
    if cost is not None:
        times = f"{1e3 * cost['fixed']:.2f} ms a token instead of {1e3 * cost['plain']:.2f} ms"
        print(
            f"exact mode, width {cost['width']}: {times}, {cost['ratio']:.2f} times as long", file=sys.stderr
        )


def cost_of_exactness(plain: LanguageModel, exact: FixedWidth) -> dict[str, float]:
    """Returns the seconds of a forward over one token after half a context, plain and exact."""
    models = {"plain": plain, "fixed": exact}
    tasks = {name: forward_task(model, exact.max_length // 2, 1) for name, model in models.items()}
    seconds = {name: median(values) for name, values in interleaved_seconds(tasks, 10).items()}
    return {**seconds, "width": exact.width, "ratio": seconds["fixed"] / seconds["plain"]}


def decode(
    decoding: Decoding, request: Request, stops: Sequence[str], context: int, console: Console | None
) -> tuple[Trace, float]:
    """Decodes a request, shown on a console if there is one; returns the trace, and the seconds."""
    rounds = until(decoding.speculative([request]), decoding.pair.tokenizer, stops)
    started = perf_counter()
    if console is not None:
        rounds = iter(show(rounds, decoding.pair, console, stops))
    # Without a round, the trace says by these two why it ended.
    config = {"max_new_tokens": request.max_new_tokens, "context": context}
    trace = Trace((tuple(request.prompt),), config, tuple(rounds))
    return trace, perf_counter() - started


def show(
    rounds: Iterator[ObservedRound], pair: Pair, console: Console, stops: Sequence[str]
) -> list[ObservedRound]:
    """Prints rounds as they come, up to a stop text, and what the signs mean, and returns the rounds."""
    glyphs = glyphs_for(console.encoding)
    rounds, recorded = tee(rounds)
    for piece in marked(rounds, pair.tokenizer, glyphs, stops=stops):
        console.print(piece, end="", soft_wrap=True)
        console.file.flush()
    console.print()
    console.print(legend(glyphs))
    return list(recorded)


def describe(
    trace: Trace, models: Pair, stops: Sequence[str], seconds: float, logprobs: bool
) -> dict[str, Any]:
    """Returns the JSON document of one decoded row; what came after a stop text is in its rounds alone."""
    tokens, text, is_stopped = before_stop(trace.tokens(), models.tokenizer, stops)
    statistics = replace(trace.statistics(), emitted=len(tokens))
    document: dict[str, Any] = {
        "text": text,
        "tokens": tokens,
        "prompt_tokens": list(trace.prompts[0]),
        **{name: getattr(statistics, name) for name in FIGURES},
        "seconds": seconds,
        "phases": dict(statistics.seconds),
        "finish": "stop" if is_stopped else trace.finish(),
        "rounds": [describe_round(r, models) for r in trace.rounds],
    }
    if logprobs:
        emitted = [
            float(r.target_logits[0, i].double().log_softmax(-1)[token])
            for r in trace.rounds
            for i, token in zip([0, *(n + 1 for n in r.verdict.kept()[0])], r.emitted[0], strict=False)
        ]
        document["logprobs"] = emitted[: len(tokens)]  # the target's, in nats, before the warp
    return document


def describe_round(r: Round, models: Pair) -> dict[str, Any]:
    """Returns one round: what was drafted, how much was accepted, what was emitted."""
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
