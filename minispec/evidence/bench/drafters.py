"""The section on drafters: every way to draft, on every pair that is there, side by side in one table.

Each drafter decodes on each backend that it has, greedy and sampled, at the K that suits it there. Its
speed-up is over the target alone on the same backend; beside it stands that over the target alone where it
is fastest.

A tree has `NODES` tokens. The draft model drafts as many in a chain, too: a pair with equal verified tokens.
"""

import gc
import sys
from collections.abc import Iterator
from dataclasses import replace
from types import FunctionType, ModuleType
from typing import Any

from torch import Tensor, nn

from minispec.core.cache import KVCache
from minispec.drafters.entry import NODES
from minispec.drafters.exit import EarlyExitGPT
from minispec.drafters.parallel import ParallelGPT
from minispec.drafters.registry import DRAFTERS
from minispec.evidence.bench.interleaved import Setting, figures, positions_of, ratio, total_of
from minispec.evidence.bench.section import DECODINGS, BenchRun, Results, group
from minispec.evidence.bench.sections import choose_k, target_only, threads_of
from minispec.io.checkpoint import Pair, load_pair
from minispec.io.heads import MAKERS, load_heads
from minispec.native.drafters import make_drafter
from minispec.native.model import NativeGPT

PAIRS = ("stories", "english", "python")  # with the first come the others, where they were trained
MODELS = (nn.Module, NativeGPT, EarlyExitGPT, ParallelGPT)
CODE = (type, FunctionType, ModuleType)
# Rows: for each name a drafter, a kind of heads and values of K; None: what is usual.
ROWS: dict[str, tuple[str, str | None, tuple[int, ...] | None]] = {
    **{name: (name, None, None) for name, entry in DRAFTERS.items() if not entry.chooses},
    f"model, {NODES} tokens": ("model", None, (NODES,)),
    "eagle, 1 layer": ("eagle", "eagle-1", None),
}


def measure(bench: BenchRun) -> Results:
    """Measures all drafters of the pair; if it is the first of `PAIRS`, those of the other pairs as well."""
    unavailable: dict[str, str] = {}
    rows = [
        row for pair_bench in benches(bench, unavailable) for row in measure_pair(pair_bench, unavailable)
    ]
    return {"rows": rows, "unavailable": unavailable}


def benches(bench: BenchRun, unavailable: dict[str, str]) -> Iterator[BenchRun]:
    """Yields a bench for each pair, with the target alone measured; notes which pairs are not there."""
    yield bench
    target = bench.pair.target
    for name in PAIRS[1:] if bench.pair.name == PAIRS[0] else ():
        try:
            pair = load_pair(name, device=target.device, dtype=target.dtype)
            prompts = group(pair, bench.plan)
        except ValueError as error:
            unavailable[name] = str(error)
            continue
        pair_bench = replace(bench, pair=pair, prompts=prompts, results={}, _models={})
        pair_bench.results["target-only"] = target_only(pair_bench)
        yield pair_bench


def measure_pair(bench: BenchRun, unavailable: dict[str, str]) -> Iterator[Results]:
    """Yields what each drafter of a pair comes to, at its best K; notes which it has not."""
    _, chosen = choose_k(bench, [*settings_of(bench, unavailable)])
    sides = {
        setting: (
            bench.alone(setting.verifier, setting.temperature),
            setting,
            alone_on_backend(bench, setting),
        )
        for setting in chosen
    }
    for setting, runs in bench.interleave(sides, bench.reporting, "the best K").items():
        alone, drafted, same_backend = runs
        name = setting.label.rpartition(", ")[0]
        parameters, seconds = training_of(bench.pair, name)
        total = total_of(drafted)
        yield figures(bench.pair.name, setting, same_backend, drafted) | {
            "name": name,
            "backend": setting.models.backend.name,
            "lossless": True,  # both rules are, whatever is drafted: `minispec prove`
            "acceptance_by_position": [kept / tested for tested, kept in positions_of(drafted)],
            **ratio("speedup_over_fastest", alone, drafted),
            "verified_per_target_call": total.drafted / total.row_rounds,
            "parameters": parameters,
            "extra_bytes": bytes_held(setting.drafter),
            "seconds_to_train": seconds,
        }


def alone_on_backend(bench: BenchRun, setting: Setting) -> Setting:
    """Returns the target alone on the backend of a setting, as fast as this bench has seen it there."""
    backend = setting.models.backend.name
    threads = threads_of(bench, "target_only")[backend]
    return Setting(bench.models(backend), 0, setting.verifier, setting.temperature, threads)


def settings_of(bench: BenchRun, unavailable: dict[str, str]) -> Iterator[list[Setting]]:
    """Yields every drafter on every backend, greedy and sampled, each with every K; notes what is missing."""
    available, missing = bench.backends()
    pair = bench.pair
    unavailable |= {f"{pair.name}, {backend}": reason for backend, reason in missing.items()}
    threads = threads_of(bench)
    for name, (drafter_name, kind, widths) in ROWS.items():
        entry = DRAFTERS[drafter_name]
        widths = widths or bench.plan.few_widths
        reasons: dict[str, str] = {}
        for backend, models in available.items():
            try:  # a tree of candidates has another shape for each K
                drafters = [(k, *make_drafter(entry, pair, models, k, kind)) for k in widths]
            except ValueError as error:
                reasons[backend] = str(error)
                continue
            for decoding in DECODINGS:
                fields = (*decoding, threads[backend], f"{name}, {backend}")
                yield [
                    Setting(replace(models, target=target), k, *fields, drafter, entry.proposes_trees)
                    for k, target, drafter in drafters
                ]
        is_common = len(set(reasons.values())) == 1 and len(reasons) == len(available)
        for backend, reason in reasons.items():  # a reason common to all backends is given once
            unavailable[f"{pair.name}, {name}" if is_common else f"{pair.name}, {name}, {backend}"] = reason


def training_of(pair: Pair, name: str) -> tuple[int, float | None]:
    """Returns a drafter's parameters beside the target's, and the seconds that it took to train them."""
    name, kind, _ = ROWS[name]
    kind = kind or name.removesuffix("-tree")  # which has the same heads
    if kind in MAKERS:
        info = load_heads(pair, kind)[1]
        return info["parameters"], info["seconds"]
    if not DRAFTERS[name].uses_draft_model:
        return 0, 0.0
    models = pair.info.get("models", {})
    seconds = [models.get(name, {}).get("seconds") for name in ("draft-plain", "draft")]
    return pair.draft.parameters_count, None if None in seconds else sum(seconds)


def bytes_held(value: Any, visited: set[int] | None = None) -> int:
    """Returns the bytes of what a drafter keeps of a text: cache and states, or an index; no weights."""
    visited = set() if visited is None else visited
    if id(value) in visited or isinstance(value, MODELS + CODE):
        return 0
    visited.add(id(value))
    if isinstance(value, KVCache | Tensor):
        return value.bytes if isinstance(value, KVCache) else value.nbytes
    return sys.getsizeof(value) + sum(bytes_held(part, visited) for part in gc.get_referents(value))
