"""Forwards at real sizes: our backends with the same weights, interleaved; decoding beside native forwards.

The weights are random: how long a forward takes does not depend on what they are. Before anything is timed,
each backend's logits are compared with those of the readable code in float32.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import replace
from functools import partial
from itertools import product
from statistics import median

import torch
from torch import nn

from minispec.core.model import GPT, GPTConfig, LanguageModel
from minispec.drafters.adaptive import rates
from minispec.drafters.costs import Costs
from minispec.evidence.bench.interleaved import Run, Setting, interleave, quartiles
from minispec.evidence.bench.machine import using_threads
from minispec.evidence.bench.measure import forward_task, interleaved_seconds
from minispec.evidence.bench.section import BenchRun, Results
from minispec.io.files import read_table
from minispec.native.backend import NATIVE, Models
from minispec.native.model import NativeGPT

SHAPES = {name: GPTConfig(**sizes) for name, sizes in read_table(__file__, "real_sizes.toml").items()}
Make = Callable[[GPT], LanguageModel]  # makes a backend's model
MAKERS: Mapping[str, Make] = {"torch": lambda model: model, "native": NativeGPT}
IN_8_BITS: Mapping[str, Make] = {"native": partial(NativeGPT, kept=torch.int8)}  # of float32
# How far logits may be from those in float32: root of mean square, relative to that of the logits. The
# readable code in bfloat16 is 0.01 to 0.03 away itself, matrices of 8 bits are 0.03 to 0.05; a model with
# another base of its angles, 0.5.
TOLERANCES = {"float32": 1e-4, "bfloat16": 0.05, "int8": 0.1}
TOKENS = (1, 5, 9)  # new ones, in one forward
CACHED = 64  # tokens in the cache before
SETTLE = 0.02  # seconds: threads of another library may spin for so long after their last forward
DRAFTS = (0.1, 0.05)  # costs in target steps, for which we predict
ACCEPTANCES = (0.6, 0.7, 0.8)  # the same of α
K = 4  # tokens of a draft where decoding is timed
NEW = 32  # tokens that are decoded then


def measure(
    bench: BenchRun, makers: Mapping[str, Make] = MAKERS, in_8_bits: Mapping[str, Make] = IN_8_BITS
) -> Results:
    """Times forwards in all shapes, types and numbers of threads; what cannot be had says why."""
    points: list[Results] = []
    unavailable: dict[str, str] = {}
    parameters = {}
    for shape, config in SHAPES.items():
        bench.tell(f"{shape}: random weights")
        with using_threads(None):
            models: dict[tuple[str, str], LanguageModel] = {}
            for dtype in TOLERANCES:
                gpt = random_model(config, dtype)
                parameters[shape] = gpt.parameters_count
                computed = backends(gpt, dtype, in_8_bits if dtype == "int8" else makers, unavailable)
                models |= {(name, dtype): model for name, model in computed.items()}
            bench.tell(f"{shape}: {len(models)} models in turn")
            points += [{"shape": shape} | point for point in measure_models(models, bench.plan.latencies)]
            # Of each the last counts, with most threads.
            most = {(point["backend"], point["dtype"]): point for point in points}
            for key, made in models.items():
                if key[0] == NATIVE.name:
                    bench.tell(f"{shape}: decoding, {key[1]}")
                    most[key]["decoding"] = [*decoding(made, config, most[key], bench.plan.latencies)]
    return {
        "cached_tokens": CACHED,
        "decoding": {"k": K, "new_tokens": NEW},
        "parameters": parameters,
        "points": points,
        "unavailable": unavailable,
    }


@torch.no_grad()
def random_model(config: GPTConfig, dtype: str) -> GPT:
    """Draws weights with which no part of the forward is idle; in bfloat16 they are the same, rounded.

    For int8 they are in float32: a backend rounds them itself.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = GPT(config)
        for weight in model.parameters():
            if weight.dim() == 2:
                nn.init.normal_(weight, std=weight.shape[1] ** -0.5)
            else:
                nn.init.uniform_(weight, 0.5, 1.5)
    return model.to(torch.bfloat16 if dtype == "bfloat16" else torch.float32).requires_grad_(False).eval()


@torch.inference_mode()
def backends(
    model: GPT, dtype: str, makers: Mapping[str, Make], unavailable: dict[str, str]
) -> dict[str, LanguageModel]:
    """Returns a model on all backends that compute it; `unavailable` says why others do not."""
    ids = (7 * torch.arange(CACHED + TOKENS[-1]) + 3)[None] % model.vocab_size
    expected = deepcopy(model).float()(ids)
    models = {}
    for name, make in makers.items():
        try:
            computed = make(model)
            cache = computed.new_cache(1)
            blocks = (computed.head(computed.hidden(part, cache)).clone() for part in ids.split(CACHED, 1))
            error = difference(torch.cat([*blocks], dim=1), expected)
            if not error <= TOLERANCES[dtype]:
                raise ValueError(f"its logits are not the model's: they are off by {error:.1e}")
            models[name] = computed
        except ValueError as reason:
            unavailable[f"{name}, {dtype}"] = str(reason)
    return models


def difference(logits: torch.Tensor, expected: torch.Tensor) -> float:
    """Returns the root of mean square of differences of logits [B, n, V], relative to the expected ones."""
    return float((logits.double() - expected.double()).norm() / expected.double().norm())


def measure_models(models: Mapping[tuple[str, str], LanguageModel], repeats: int) -> Iterable[Results]:
    """Times forwards of models, by backend and type, in turn, with one thread, with two and with all.

    Yields milliseconds by new tokens, as outside checks read them. Tokens per second are those of forwards
    over one token, one after the other, and no more.
    """
    cores = torch.get_num_threads()
    combinations = [*product(models.items(), sorted({1, min(2, cores), cores}))]
    tasks = {
        (*key, threads, n): partial(with_threads, threads, forward_task(model, CACHED, n))
        for ((key, model), threads), n in product(combinations, TOKENS)
    }
    seconds = interleaved_seconds(tasks, repeats, SETTLE)
    for ((backend, dtype), _), threads in combinations:
        times = {str(n): [1000 * t for t in quartiles(seconds[backend, dtype, threads, n])] for n in TOKENS}
        milliseconds = {n: median for n, (_, median, _) in times.items()}
        yield {
            "backend": backend,
            "dtype": dtype,
            "threads": threads,
            "milliseconds": milliseconds,
            "quartiles": {n: [low, high] for n, (low, _, high) in times.items()},
            "tokens_per_second": 1000 / milliseconds["1"],
            "predicted_speedup": predicted(milliseconds),
        }


def decoding(model: LanguageModel, config: GPTConfig, point: Results, repeats: int) -> Iterator[Results]:
    """Times decoding with a native model, alone and with a draft, greedy and sampled.

    Which tokens a small random draft model drafts does not matter: what counts is how much longer decoding
    takes than its forwards, which were timed alone. Prefill is left out.

    point: what the forwards came to, with most threads.
    """
    small = replace(config, layers=1, width=64, heads=1, kv_heads=1, ffn=64)
    make = (IN_8_BITS if point["dtype"] == "int8" else MAKERS)["native"]
    draft = make(random_model(small, point["dtype"]))
    (seconds,) = interleaved_seconds({"": forward_task(draft, CACHED, 1)}, repeats).values()
    costs = Costs(1000 * median(seconds), {int(n): t for n, t in point["milliseconds"].items()})
    models = Models(model, draft, NATIVE)
    settings = [
        Setting(models, k, "rejection", temperature, point["threads"])
        for k, temperature in product((0, K), (0.0, 1.0))
    ]
    batches = [[[id % config.vocab_size for id in range(CACHED)]]] * repeats
    for setting, runs in zip(settings, interleave({"": settings}, batches, 0, NEW)[""], strict=True):
        yield {"temperature": setting.temperature, "k": setting.k} | decoding_of(runs, costs)


def decoding_of(runs: Sequence[Run], costs: Costs) -> Results:
    """Returns medians of the milliseconds of a token, and of these over those of its forwards alone."""
    milliseconds = [1000 * (run.seconds - run.forwards.prefill) for run in runs]
    return {
        "milliseconds_per_token": median(t / run.tokens for t, run in zip(milliseconds, runs, strict=True)),
        "over_forward": median(
            t / forwards_of(run, costs) for t, run in zip(milliseconds, runs, strict=True)
        ),
    }


def forwards_of(run: Run, costs: Costs) -> float:
    """Returns the time of a run's forwards, timed alone."""
    total = run.statistics
    if total is None:
        return run.tokens * costs.call(1)
    width = 1 + round(total.drafted / total.target_calls)
    return total.drafted * costs.t_draft + total.target_calls * costs.call(width)


def with_threads(threads: int, task: Callable[[], object]) -> None:
    """Runs a task with so many threads, on every backend."""
    torch.set_num_threads(threads)
    task()


def predicted(milliseconds: Mapping[str, float]) -> list[Results]:
    """Returns the speed-up at the best K for several drafts, by `rates` (rule and loop for free).

    t(n) in milliseconds is given by n; between them it is taken to be a straight line.
    """
    step = milliseconds["1"]
    times = {int(n): t for n, t in milliseconds.items()}
    rows = []
    for draft, alpha in product(DRAFTS, ACCEPTANCES):
        speeds = rates(Costs(draft * step, times), [alpha] * (max(times) - 1))
        k = speeds.index(max(speeds))
        rows.append({"draft": draft, "acceptance": alpha, "k": k, "speedup": speeds[k] / speeds[0]})
    return rows
