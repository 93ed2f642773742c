"""The sections on our own models, from t(n) and the target alone to drafts, automatic K and other rules."""

from collections import Counter
from collections.abc import Sequence
from copy import deepcopy
from dataclasses import asdict, replace
from itertools import chain, product
from pathlib import Path

import torch

from minispec.core.model import GPT
from minispec.core.warp import Warp
from minispec.drafters.adaptive import LARGEST_K, AdaptiveDrafter
from minispec.evidence.bench.costs import costs_of
from minispec.evidence.bench.interleaved import (
    Run,
    Setting,
    figures,
    ratio,
    speed_up_of,
    tokens_per_second,
    total_of,
)
from minispec.evidence.bench.machine import thread_counts, using_threads
from minispec.evidence.bench.measure import forward_ratio, measure_latency
from minispec.evidence.bench.section import DECODINGS, BenchRun, Results
from minispec.evidence.theory.acceptance import acceptance_rate
from minispec.evidence.theory.advice import ADVICE_BELOW, advise
from minispec.io.checkpoint import Pair, cache_folder, weights_hash
from minispec.io.source import load_model
from minispec.train.initialise import draw_weights

TRIED_K = 5  # at which backends and threads are compared
AUTO_REPEATS = 4  # times the plan's: automatic and fixed K are so close that it takes more to tell
CACHED = 64  # tokens in the cache before a forward that is timed
SWEEPS = ("widths", "temperature", "drafts")  # the sections that choose K
RULES = {"token": "rejection", "block": "block", "compare": "compare"}  # verifiers of the section `rules`


def latency(bench: BenchRun) -> Results:
    """Times forwards of target and draft for n = 1 … 17, on every backend and number of threads."""
    available, unavailable = bench.backends()
    points: list[Results] = []
    for (backend, models), threads in product(available.items(), thread_counts()):
        bench.tell(f"{backend}, {threads} threads")
        with using_threads(threads):
            for name, model in (("target", models.target), ("draft", models.draft)):
                widths = range(1, min(17, model.max_length - CACHED) + 1)
                latencies = measure_latency(model, widths, CACHED, bench.plan.latencies, name)
                points += [{"path": backend, "threads": threads} | asdict(point) for point in latencies]
    return {"cached_tokens": CACHED, "points": points, "unavailable": unavailable}


def target_only(bench: BenchRun) -> Results:
    """Decodes on every backend, with one thread and with all; the fastest is what all speed-ups are over.

    Speculative decoding is tried on the same combinations, so that each side of a speed-up runs where it is
    fastest. Both choices are made on the prompts that choose K.
    """
    available, unavailable = bench.backends()
    combinations = [*product(DECODINGS, available.items(), thread_counts())]
    settings = {
        (number, k): Setting(models, k, *decoding, threads, drafter=bench.lookup if k else None)
        for number, (decoding, (_, models), threads) in enumerate(combinations)
        for k in (0, TRIED_K)
    }
    runs = bench.compare(settings, bench.choosing, "every backend")
    rows = [
        {
            "path": backend,
            "verifier": verifier,
            "temperature": temperature,
            "threads": threads,
            "target_only": tokens_per_second(runs[number, 0]),
            "speculative": tokens_per_second(runs[number, TRIED_K]),
        }
        for number, ((verifier, temperature), (backend, _), threads) in enumerate(combinations)
    ]
    fastest_settings = {
        "baseline": fastest_setting(rows, "target_only"),
        "speculative": fastest_setting(rows, "speculative"),
    }
    return {"k": TRIED_K, "rows": rows, "unavailable": unavailable} | fastest_settings


def fastest_setting(rows: Sequence[Results], side: str) -> Results:
    """Returns the backend and number of threads whose tokens take least time, greedy and sampled together."""
    seconds = Counter[tuple[str, int]]()
    for row in rows:
        seconds[row["path"], row["threads"]] += 1 / row[side]
    backend, threads = min(seconds, key=seconds.__getitem__)
    return {"path": backend, "threads": threads}


def widths(bench: BenchRun) -> Results:
    """Measures both verifiers at every K on the choosing half, and at the best K on the other."""
    sweeps = settings_of(bench, "widths")
    sweep, best = choose_k(bench, sweeps)
    runs = bench.speed_ups(best, bench.reporting, "the best K")
    settings = []
    for setting in best:
        row = figures(bench.pair.name, setting, *runs[setting])
        row |= {"alpha": alpha(bench, setting, runs[setting][0]), "advice": advice(bench, setting, row)}
        settings.append(row)
    return {"sweep": sweep, "settings": settings, "backends": backends(bench, settings)}


def settings_of(bench: BenchRun, section: str) -> list[list[Setting]]:
    """Returns what one of the sections `SWEEPS` decodes with: its settings, each with every K."""
    widths = bench.plan.few_widths
    if section == "widths":
        widths = bench.plan.widths
        settings = [bench.drafted(*decoding) for decoding in DECODINGS]
    elif section == "temperature":
        settings = [bench.drafted("rejection", temperature) for temperature in bench.plan.temperatures]
    else:
        drafts = drafts_of(bench.pair).items()
        settings = [
            bench.drafted("rejection", 1.0, draft=draft, label=f"draft {name}") for name, draft in drafts
        ]
    return [[replace(setting, k=k) for k in widths] for setting in settings]


def alpha(bench: BenchRun, setting: Setting, alone: Sequence[Run]) -> float:
    """Returns α of a setting over the texts that the target alone has written for the reporting prompts."""
    prompts = [prompt for batch in bench.reporting for prompt in batch]
    texts = [text for run in alone for text in run.texts]
    models = setting.models
    return acceptance_rate(models.target, models.draft, prompts, texts, Warp(setting.temperature))


def advice(bench: BenchRun, setting: Setting, row: Results) -> list[str]:
    """Returns why a setting loses or gains little, and what would help; nothing where it gains enough."""
    if row["speedup"] >= ADVICE_BELOW:
        return []
    costs = costs_of(setting, bench.prompts.learning[0])
    backend = setting.models.backend.name
    return list(advise(costs, row["acceptance"] or 0.0, row["k"], backend, row["speedup"]))


def temperature(bench: BenchRun) -> Results:
    """Measures the rejection verifier at several temperatures, each at the K that suits it."""
    return {"points": choose_and_report(bench, settings_of(bench, "temperature"))[1]}


def choose_and_report(
    bench: BenchRun, sweeps: Sequence[Sequence[Setting]]
) -> tuple[list[Results], list[Results]]:
    """Chooses K for each setting on the choosing half, and measures it there on the other half.

    Returns figures of the choosing half, for every K, and those of the reporting half, one a setting.
    """
    sweep, best = choose_k(bench, sweeps)
    runs = bench.speed_ups(best, bench.reporting, "the best K")
    return sweep, [figures(bench.pair.name, setting, *runs[setting]) for setting in best]


def choose_k(bench: BenchRun, sweeps: Sequence[Sequence[Setting]]) -> tuple[list[Results], list[Setting]]:
    """Chooses K on the choosing half, for lists of settings that differ in it.

    Returns figures of all settings, and the fastest of each list.
    """
    runs = bench.speed_ups(chain(*sweeps), bench.choosing, "every K")
    sweep = [figures(bench.pair.name, setting, *sides) for setting, sides in runs.items()]
    return sweep, [max(settings, key=lambda setting: speed_up_of(*runs[setting])[1]) for settings in sweeps]


def backends(bench: BenchRun, settings: Sequence[Results]) -> Results:
    """Decodes on every backend, each with the number of threads that suits it, at the K that was chosen."""
    available, unavailable = bench.backends()
    threads = threads_of(bench)
    rows: list[Results] = []
    for row in settings:
        fields = {name: row[name] for name in ("verifier", "temperature", "k")}
        by_backend = {
            name: Setting(models, threads=threads[name], **fields) for name, models in available.items()
        }
        runs_by_backend = bench.compare(by_backend, bench.reporting, "every backend")
        rows += [
            {"path": name, "threads": threads[name]}
            | fields
            | {"tokens_per_second": tokens_per_second(runs)}
            | ratio("over_readable", runs_by_backend.get("torch", runs), runs)
            for name, runs in runs_by_backend.items()
        ]
    return {"rows": rows, "unavailable": unavailable}


def threads_of(bench: BenchRun, side: str = "speculative") -> dict[str, int]:
    """Returns for each backend the number of threads with which one side of a speed-up was fastest."""
    rows = sorted(bench.results["target-only"]["rows"], key=lambda row: row[side])
    return {row["path"]: row["threads"] for row in rows}  # the fastest comes last


def drafts(bench: BenchRun) -> Results:
    """Measures every draft of the target, each at the K that suits it."""
    sweeps = settings_of(bench, "drafts")
    rows = choose_and_report(bench, sweeps)[1]
    points = []
    for (name, draft), (setting, *_), row in zip(drafts_of(bench.pair).items(), sweeps, rows, strict=True):
        models = (setting.models.target, setting.models.draft)
        with using_threads(setting.threads):
            c = forward_ratio(
                *(measure_latency(model, [1], repeats=bench.plan.latencies) for model in models)
            )
        low, high = row["speedup_quartiles"]
        points.append(
            row
            | {"name": name, "parameters": draft.parameters_count}
            | {"alpha": row["acceptance"] or 0.0, "gain": row["speedup"], "low": low, "high": high, "c": c}
        )
    return {"points": sorted(points, key=lambda point: point["parameters"])}


def drafts_of(pair: Pair) -> dict[str, GPT]:
    """Returns the drafts for a target, from one that guesses at random to the target itself.

    In between are the sizes that were trained for this target, and the pair's draft, also in bfloat16.
    """
    config = replace(pair.draft.config, layers=1, width=8, heads=1, kv_heads=1, ffn=8, tied=True)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        untrained = draw_weights(GPT(config)).to(pair.target.device, pair.target.dtype)
    untrained.requires_grad_(False).eval()
    drafts = {"untrained": untrained, **find_drafts(pair), "the pair's": pair.draft}
    if pair.draft.dtype != torch.bfloat16:
        drafts["the pair's, bfloat16"] = deepcopy(pair.draft).to(torch.bfloat16)
    by_size = sorted(drafts.items(), key=lambda item: item[1].parameters_count)
    return dict(by_size) | {"the target": pair.target}


def find_drafts(pair: Pair) -> dict[str, GPT]:
    """Returns the drafts of several sizes that were trained for a target and are whole, by size."""
    return {
        path.parent.name: load_model(path.parent, device=pair.target.device, dtype=pair.target.dtype)
        for path in sorted(folder_of_drafts(pair).glob("*/config.json"))  # written last
    }


def folder_of_drafts(pair: Pair) -> Path:
    """Returns where the drafts of a target are kept: for other weights it is another folder."""
    return cache_folder() / "drafts" / f"{pair.name}-{weights_hash(pair.target)[:16]}"


def auto(bench: BenchRun) -> Results:
    """Compares a drafter that chooses its own K with the best fixed K, which other prompts chose.

    What the drafter learns it keeps from prompt to prompt.
    """
    rows: list[Results] = []
    for verifier, temperature in DECODINGS:
        fixed = bench.drafted(verifier, temperature, bench.best_k(verifier))
        costs = costs_of(fixed, bench.prompts.learning[0])
        drafter = AdaptiveDrafter(fixed.models.backend.drafter(fixed.models.draft), costs)
        automatic = replace(fixed, k=min(LARGEST_K, costs.most), drafter=drafter)
        runs = bench.compare(
            {"fixed": fixed, "chosen": automatic}, [*bench.reporting] * AUTO_REPEATS, verifier
        )
        low, median, high = speed_up_of(runs["fixed"], runs["chosen"])
        total = total_of(runs["chosen"])
        rows.append(
            {
                **fixed.fields,
                "over_best_fixed": median,
                "quartiles": [low, high],
                "mean_width": total.drafted / total.row_rounds,
                "tokens_per_second": tokens_per_second(runs["chosen"]),
            }
        )
    return {"rows": rows}


def rules(bench: BenchRun) -> Results:
    """Measures other lossless rules beside rejection sampling, with the same drafts, on every backend.

    All verify at temperature 1, with the same seeds, interleaved. On the native backend only rejection
    sampling is in C++; there another rule has to accept more to be as fast.
    """
    available, unavailable = bench.backends()
    threads = threads_of(bench)
    groups = {
        (backend, k): [Setting(models, k, verifier, 1.0, threads[backend]) for verifier in RULES.values()]
        for (backend, models), k in product(available.items(), bench.plan.few_widths)
    }
    rows: list[Results] = []
    for (backend, k), group in bench.interleave(groups, bench.reporting, "every rule").items():
        for rule, runs in zip(RULES, group, strict=True):
            total = total_of(runs)
            rows.append(
                {
                    "pair": bench.pair.name,
                    "rule": rule,
                    "backend": backend,
                    "k": k,
                    "tokens_per_target_call": total.tokens_per_target_call,
                    "accepted_over_drafted": total.accepted_over_drafted,
                    **ratio("over_token", group[0], runs),
                }
            )
    return {"rows": rows, "unavailable": unavailable}
