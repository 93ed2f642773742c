"""Prediction: the speed-up of every setting that is going to be measured, written down before it is.

It is made of the costs of the parts, measured alone, and of how often tokens of target-only texts would have
been accepted; these texts continue prompts that nothing is measured on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from itertools import cycle, islice
from math import fsum
from typing import Any

from minispec.decoding.costs import Costs
from minispec.decoding.kit import KITS
from minispec.decoding.warp import Warp
from minispec.evidence.machine import using_threads
from minispec.evidence.measure_costs import ALL, measure_costs
from minispec.evidence.predict import Text, chances, mean_alpha, rounds, target_only_texts
from minispec.evidence.predict_batch import batch_rounds
from minispec.evidence.sections.batch import K as BATCH_K
from minispec.evidence.sections.drafts import drafts_of
from minispec.evidence.sections.section import Bench, Found, setting_name
from minispec.evidence.sections.widths import LAWS
from minispec.evidence.theory import speed_up
from minispec.lm.model import GPT

TEXTS = 24  # target-only texts at least, where sampling can give as many
Predicted = dict[str, Any]


def measure(bench: Bench) -> Found:
    """Predicts the settings of all selected sections that measure speed-ups."""
    parts: dict[str, Callable[[Bench], Iterator[Predicted]]] = {
        "widths": _widths,
        "temperature": _temperatures,
        "drafts": _drafts,
        "batch": _batches,
    }
    wanted = [name for name in parts if name in bench.selected]
    settings: list[Predicted] = []
    for done, name in enumerate(wanted):
        for prediction in parts[name](bench):
            bench.tell(done / len(wanted), prediction["setting"])
            settings.append({"section": name} | prediction)
    return {
        "written": datetime.now(UTC).isoformat(timespec="seconds"),
        "prompts": len(bench.prompts.learning),
        "settings": settings,
    }


def _widths(bench: Bench) -> Iterator[Predicted]:
    for verifier, temperature in LAWS:
        texts = texts_of(bench, temperature, None)
        costs = costs_of(bench, verifier, temperature)
        for k in bench.plan.widths:
            yield predicted(setting_name(verifier, temperature, k), costs, texts, k)


def _temperatures(bench: Bench) -> Iterator[Predicted]:
    # How hot a law is does not change what it costs, but an argmax is another thing than a softmax.
    costs = {hot: costs_of(bench, "rejection", float(hot)) for hot in (False, True)}
    for temperature in bench.plan.temperatures:
        texts = texts_of(bench, temperature, None)
        for k in bench.plan.few_widths:
            name = setting_name("rejection", temperature, k)
            yield predicted(name, costs[temperature > 0], texts, k)


def _drafts(bench: Bench) -> Iterator[Predicted]:
    for name, draft in drafts_of(bench.pair).items():
        texts, costs = texts_of(bench, 1.0, draft), costs_of(bench, "rejection", 1.0, draft)
        for k in bench.plan.few_widths:
            yield predicted(setting_name("rejection", 1.0, k, f"draft {name}"), costs, texts, k)


def _batches(bench: Bench) -> Iterator[Predicted]:
    texts = texts_of(bench, 1.0, None)
    for rows in bench.plan.rows:
        name = setting_name("rejection", 1.0, BATCH_K, f"{rows} rows")
        costs = costs_of(bench, "rejection", 1.0, rows=rows, tokens=(1, 2, BATCH_K + 1))
        yield predicted(name, costs, list(islice(cycle(texts), rows)), BATCH_K, batch=True)


def predicted(
    name: str, costs: tuple[Costs, Costs], texts: list[Text], k: int, batch: bool = False
) -> Predicted:
    """Returns what a setting should come to, by the refined model and by theorem 3.8.

    Args:
        name: of the setting.
        costs: of the target alone where it is fastest, and of speculative decoding where that is.
        texts: chances of target-only texts.
        k: K.
        batch: whether the texts are rows of one batch.
    """
    base, own = costs
    parts = [batch_rounds(texts, k)] if batch else [rounds(text, k) for text in texts]
    length = len(texts[0])
    alone = (base.prefill + length * base.of_step()) * (1 if batch else len(texts))
    alpha, c = mean_alpha(texts), own.t_draft / base.t_target[1]
    return {
        "setting": name,
        "k": k,
        "speedup": alone / fsum(part.seconds(own) for part in parts),
        "simple": speed_up(alpha, k, c),
        "alpha": alpha,
        "c": c,
        "tokens_per_target_call": fsum(p.emitted for p in parts) / fsum(p.row_rounds for p in parts),
    }


def texts_of(bench: Bench, temperature: float, draft: GPT | None) -> list[Text]:
    """Returns the chances of target-only texts that continue the prompts which nothing is measured on."""
    prompts, warp = bench.prompts.learning, Warp(temperature)
    again = max(-(-TEXTS // len(prompts)), 1) if temperature > 0 else 1  # at 0 a text is always the same
    rows = [prompt for prompt in prompts for _ in range(again)]
    texts = target_only_texts(bench.pair.target, rows, bench.plan.new_tokens, warp, bench.seed)
    return [*chances(bench.pair.target, draft or bench.pair.draft, rows, texts, warp)]


def costs_of(
    bench: Bench,
    verifier: str,
    temperature: float,
    draft: GPT | None = None,
    rows: int = 1,
    tokens: tuple[int, ...] = ALL,
) -> tuple[Costs, Costs]:
    """Measures costs: of the target alone where it is fastest, of speculative decoding where that is."""
    places = [bench.found["target-only"][side] for side in ("baseline", "speculative")]
    prompts, found = list(islice(cycle(bench.prompts.learning), rows)), []
    for place in places if places[0] != places[1] else places[:1]:
        models, kit = bench.models(place["path"], draft), KITS[place["path"]]
        with using_threads(place["threads"]):
            found.append(
                measure_costs(
                    models.target,
                    models.draft,
                    prompts,
                    warp=kit.warp(temperature),
                    verifier=kit.rules[verifier],
                    kit=kit,
                    tokens=tokens,
                    new_tokens=min(64, bench.plan.new_tokens),
                    repeats=bench.plan.latencies,
                )
            )
    return found[0], found[-1]
