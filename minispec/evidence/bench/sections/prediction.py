"""Prediction: the speed-up of every setting that is going to be measured, written down before it is.

It is made of the costs of the parts, measured alone, and of how often tokens of target-only texts would have
been accepted; these texts continue prompts that nothing is measured on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import cycle, islice
from math import fsum
from typing import Any

from minispec.core.model import GPT
from minispec.core.warp import Warp
from minispec.drafters.costs import Costs
from minispec.evidence.bench.sections.batch import K as BATCH_K
from minispec.evidence.bench.sections.cost_requests import Asked, is_plain, measure_all, written
from minispec.evidence.bench.sections.drafts import drafts_of
from minispec.evidence.bench.sections.section import Bench, Found, setting_name
from minispec.evidence.bench.sections.widths import LAWS
from minispec.evidence.theory.formulas import speed_up
from minispec.evidence.theory.predict import Text, chances, mean_alpha, rounds, target_only_texts
from minispec.evidence.theory.predict_batch import batch_rounds

TEXTS = 24  # target-only texts at least, where sampling can give as many
Predicted = dict[str, Any]


@dataclass(frozen=True)
class Setting:
    """What is going to be measured, and what a prediction of it is made from.

    Attributes:
        section: that measures it.
        name: as the measurement is called.
        asked: the costs that it takes.
        texts: chances of target-only texts.
        k: K.
        batch: whether the texts are rows of one batch.
    """

    section: str
    name: str
    asked: Asked
    texts: list[Text]
    k: int
    batch: bool = False


def measure(bench: Bench) -> Found:
    """Predicts the settings of all selected sections that measure speed-ups."""
    parts: dict[str, Callable[[Bench], Iterator[Setting]]] = {
        "widths": _widths,
        "temperature": _temperatures,
        "drafts": _drafts,
        "batch": _batches,
    }
    bench.tell(0.0, "texts of the target alone")
    settings = [setting for name in parts if name in bench.selected for setting in parts[name](bench)]
    costs = measure_all(bench, [setting.asked for setting in settings])
    return {
        "written": datetime.now(UTC).isoformat(timespec="seconds"),
        "prompts": len(bench.prompts.learning),
        "costs": [written(one, sides[1]) for one, sides in costs.items() if is_plain(one)],
        "settings": [
            {"section": s.section} | predicted(s.name, costs[s.asked], s.texts, s.k, s.batch)
            for s in settings
        ],
    }


def _widths(bench: Bench) -> Iterator[Setting]:
    for verifier, temperature in LAWS:
        texts = texts_of(bench, temperature, None)
        for k in bench.plan.widths:
            name = setting_name(verifier, temperature, k)
            yield Setting("widths", name, Asked(verifier, temperature > 0), texts, k)


def _temperatures(bench: Bench) -> Iterator[Setting]:
    for temperature in bench.plan.temperatures:
        texts = texts_of(bench, temperature, None)
        for k in bench.plan.few_widths:
            name = setting_name("rejection", temperature, k)
            yield Setting("temperature", name, Asked("rejection", temperature > 0), texts, k)


def _drafts(bench: Bench) -> Iterator[Setting]:
    for name, draft in drafts_of(bench.pair).items():
        texts = texts_of(bench, 1.0, draft)
        asked = Asked("rejection", True, None if draft is bench.pair.draft else draft)
        for k in bench.plan.few_widths:
            yield Setting("drafts", setting_name("rejection", 1.0, k, f"draft {name}"), asked, texts, k)


def _batches(bench: Bench) -> Iterator[Setting]:
    texts = texts_of(bench, 1.0, None)
    for rows in bench.plan.rows:
        name = setting_name("rejection", 1.0, BATCH_K, f"{rows} rows")
        asked = Asked("rejection", True, rows=rows, tokens=(1, 2, BATCH_K + 1))
        yield Setting("batch", name, asked, list(islice(cycle(texts), rows)), BATCH_K, batch=True)


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
