"""The section on a checkpoint that people use: five kinds of prompt, drafters that need no training.

A pass decodes all prompts of a kind; its seconds are added up, and medians are over passes. The target alone
takes part twice: how far it is from itself is how well this machine measures. Greedy texts are compared with
those of the target alone, token by token.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from itertools import chain, islice
from typing import NamedTuple

from minispec.core.batch import Prompts
from minispec.core.model import LanguageModel
from minispec.drafters.adaptive import LARGEST_K
from minispec.drafters.choice import CHOICE
from minispec.drafters.costs import Costs
from minispec.drafters.eagle3 import EAGLE3, EAGLE3_CHOICE
from minispec.drafters.entry import Parts
from minispec.drafters.exit import untrained_exit
from minispec.drafters.registry import DRAFTERS
from minispec.evidence.bench import real_sizes
from minispec.evidence.bench.costs import measure_forwards
from minispec.evidence.bench.interleaved import (
    Decodes,
    Run,
    Setting,
    interleave,
    limit_of,
    quartiles,
    ratio,
    share_of,
    total_of,
)
from minispec.evidence.bench.section import DECODINGS, BenchRun, Results
from minispec.evidence.proof.ties import first_flip
from minispec.io.chat import render_chats
from minispec.io.checkpoint import Pair
from minispec.io.files import read_table
from minispec.io.heads import find_eagle3
from minispec.io.tokenizer import Tokenizer
from minispec.native.backend import NATIVE, Models
from minispec.native.drafters import target_for
from minispec.native.loop import Forwards

KINDS: Mapping[str, Sequence[str]] = read_table(__file__, "real.toml")
OURS = "minispec"
ALONE = "target-only"
AGAIN = "target-only again"
# K of each drafter: a native forward reads nine tokens in little more time than one. An exit without training
# is seldom right, so it drafts less, and in one pass only.
WIDTHS = {
    "ngram": 8,
    "suffix": 8,
    "exit": 4,
    CHOICE.name: LARGEST_K,
    EAGLE3.name: 2,
    EAGLE3_CHOICE.name: LARGEST_K,
}
TRAINED = (EAGLE3.name, EAGLE3_CHOICE.name)  # take part where a target has them
ONCE = ("exit",)
CACHED = 200  # tokens in the cache when forwards are timed
FEW = 4  # prompts of a kind, where it is not our greedy texts that are measured
PREFILL = 512  # tokens of the prompt whose reading is timed
LISTS = ("real_models", "beside", "prefill", "real_sizes")  # of rows, in what is found


class Side(NamedTuple):
    """Somebody who decodes."""

    project: str  #: whose code
    weights: str  #: in which type they are kept
    drafter: str  #: its name; `ALONE`: none
    decodes: Decodes


@cache
def prompts_of(tokenizer: Tokenizer) -> Mapping[str, Prompts]:
    """Returns the token ids of all prompts, by kind; by the chat template, if there is one."""
    texts = [text.strip() for text in chain(*KINDS.values())]
    if tokenizer.config.chat_template is None:
        ids = iter(tokenizer.encode_batch(texts))
    else:
        chats = [[{"role": "user", "content": text}] for text in texts]
        ids = map(tokenizer.encode_rendered, render_chats(tokenizer, chats))
    return {kind: [*islice(ids, len(texts))] for kind, texts in KINDS.items()}


def all_prompts(tokenizer: Tokenizer) -> Prompts:
    """Returns the token ids of all prompts."""
    return [*chain(*prompts_of(tokenizer).values())]


def measure(bench: BenchRun, peers: Sequence[Side] = (), kinds: Sequence[str] = tuple(KINDS)) -> Results:
    """Measures how a target drafts for itself on some kinds of prompt, its prefill, and its forwards.

    The plan's number of prompts are of each kind, and greedy it repeats the passes; sampled, and beside
    `peers`, which need not be ours, a few of the prompts are decoded once.
    """
    models = fastest_models(bench)
    rows: list[Results] = []
    beside: list[Results] = []
    costs = measure_forwards(models.target, CACHED)
    greedy, sampled = ([*sides_of(bench.pair, models, costs, *decoding)] for decoding in DECODINGS)
    few = replace(bench, plan=replace(bench.plan, reporting=min(bench.plan.reporting, FEW), repeats=1))
    for kind in kinds:
        rows += compare(bench, models.target, greedy, kind)
        rows += compare(few, models.target, sampled, kind, temperature=1.0)
        if peers:
            ours = [side for side in greedy if side.drafter not in (AGAIN, *ONCE)]
            beside += compare(few, models.target, [*ours, *peers], kind)
    return {"real_models": rows, "beside": beside, "widths": WIDTHS}


def forwards(bench: BenchRun, peers: Sequence[Side] = ()) -> Results:
    """Measures the prefill of a long prompt, beside `peers`; and decoding beside forwards, on native."""
    models = fastest_models(bench)
    alone = side_alone(bench.pair, models, *DECODINGS[0])
    sides = [alone, *(side for side in peers if side.drafter == ALONE)]
    points: list[Results] = []
    if models.backend is NATIVE:
        bench.tell("forwards")
        target = models.target
        points = [*real_sizes.measure_models({(NATIVE.name, alone.weights): target}, bench.plan.latencies)]
        settings = bench.pair.target.config, points[-1], bench.plan.latencies
        points[-1]["decoding"] = [*real_sizes.decoding(target, *settings)]
    return {
        "prefill": [*prefill(bench, sides)],
        "real_sizes": [{"shape": bench.pair.name} | point for point in points],
    }


def section(bench: BenchRun) -> Results:
    """Measures all of it, without anybody else."""
    return measure(bench) | forwards(bench)


def fastest_models(bench: BenchRun) -> Models:
    """Returns the models on the backend that comes last: native where it can be had."""
    return [*bench.backends()[0].values()][-1]


def side_alone(pair: Pair, models: Models, verifier: str, temperature: float) -> Side:
    """Returns the target alone."""
    weights = str(pair.kept or pair.target.dtype).removeprefix("torch.")
    return Side(OURS, weights, ALONE, Setting(models, 0, verifier, temperature))


def sides_of(pair: Pair, models: Models, costs: Costs, verifier: str, temperature: float) -> Iterator[Side]:
    """Yields the target alone, twice, and every drafter of `WIDTHS`; costs: what the choice goes by."""
    alone = side_alone(pair, models, verifier, temperature)
    yield alone
    yield alone._replace(drafter=AGAIN)
    exit = untrained_exit(pair.target, max(pair.target.config.layers // 2, 1))
    # The choice is between look-ups: a draft model that is there does not take part.
    head = find_eagle3(pair)
    parts = Parts(
        models.target, models.target, pair.target, lambda kind: exit if kind == "exit" else head, costs=costs
    )
    for name, k in WIDTHS.items():
        if name in TRAINED and head is None:
            continue
        drafter = models.backend.makers.get(name, DRAFTERS[name].make)(parts, k)
        target = target_for(drafter, models.target)
        setting = Setting(replace(models, target=target), k, verifier, temperature, drafter=drafter)
        yield alone._replace(drafter=name, decodes=setting)


def compare(
    bench: BenchRun, target: LanguageModel, sides: Sequence[Side], kind: str, temperature: float = 0.0
) -> Iterator[Results]:
    """Has all sides decode the prompts of a kind, interleaved; yields a row for each.

    Speed-ups are over the same project's target alone with the same weights, texts are compared with its
    texts. target: judges near ties of texts that differ; it has the weights of all sides.
    """
    prompts = prompts_of(bench.pair.tokenizer)[kind][: bench.plan.reporting]
    passes: dict[Side, list[Run]] = {side: [] for side in sides}
    for number in range(bench.plan.repeats):
        decoding: dict[Side, Decodes] = {
            side: side.decodes for side in sides if number == 0 or side.drafter not in ONCE
        }
        decoded = bench.compare(decoding, [[prompt] for prompt in prompts], f"{kind}, pass {number + 1}")
        for side, of_prompts in decoded.items():
            passes[side].append(together(of_prompts))
    alone = {side[:2]: runs for side, runs in passes.items() if side.drafter == ALONE}
    for side, runs in passes.items():
        baseline = alone[side[:2]][: len(runs)]
        row = {"kind": kind, "temperature": temperature, "passes": len(runs)}
        row |= dict(zip(Side._fields[:3], side[:3], strict=True)) | figures(baseline, runs)
        yield row | ({} if temperature else texts(target, prompts, baseline, runs))


def together(runs: Sequence[Run]) -> Run:
    """Returns runs one after the other as one run."""
    draft, target, prefill = (
        sum(vars(run.forwards)[name] for run in runs) for name in ("draft", "target", "prefill")
    )
    return Run(
        sum(run.seconds for run in runs),
        tuple(chain.from_iterable(run.texts for run in runs)),
        total_of(runs) if runs[0].statistics else None,
        forwards=Forwards(draft, target, prefill),
    )


def figures(alone: Sequence[Run], runs: Sequence[Run]) -> Results:
    """Returns what passes have come to, beside the target alone in the same passes."""
    low, middle, high = quartiles(1000 * run.seconds_per_token for run in runs)
    total = total_of(runs)
    return {
        "milliseconds_per_token": middle,
        "quartiles": [low, high],
        **ratio("speedup", alone, runs),
        "limit": limit_of(alone, runs),
        "share": share_of(runs),
        "tokens_per_target_call": total.tokens_per_target_call,
        "acceptance": total.acceptance,
    }


def texts(target: LanguageModel, prompts: Prompts, alone: Sequence[Run], runs: Sequence[Run]) -> Results:
    """Counts texts, those that equal the target's own, and near ties among the others."""
    flips = [
        first_flip(target, prompt, *both)
        for baseline, run in zip(alone, runs, strict=True)
        for prompt, *both in zip(prompts, baseline.texts, run.texts, strict=True)
    ]
    ties = sum(flip is not None and flip.is_near_tie for flip in flips)
    return {"texts": len(flips), "equal": flips.count(None), "near_ties": ties}


def prefill(bench: BenchRun, sides: Sequence[Side]) -> Iterator[Results]:
    """Yields for each side the milliseconds that it takes to read a long prompt, and to emit one token."""
    ids = [*chain(*all_prompts(bench.pair.tokenizer))][: bench.pair.target.max_length - 1]
    batches = [[ids[:PREFILL]]] * bench.plan.latencies
    decoding = [side.decodes for side in sides]
    for side, runs in zip(sides, interleave({"": decoding}, batches, bench.seed, 1)[""], strict=True):
        low, middle, high = quartiles(1000 * run.seconds for run in runs)
        row = {"project": side.project, "weights": side.weights, "tokens": len(batches[0][0])}
        yield row | {"milliseconds": middle, "quartiles": [low, high]}
