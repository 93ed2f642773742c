"""Engines that decode models whose distributions are known exactly, in batches."""

from dataclasses import replace
from functools import cache

from minispec import SeededRng, check_engine, in_batches
from minispec.evidence.proof.by_hand import logits_after
from minispec.evidence.proof.cases import Case
from minispec.evidence.proof.distributions import outcomes
from minispec.evidence.proof.models import TableModel, table_pair

PLAIN = Case("tables", *table_pair(3, seed=2, distance=1.5), ((0, 1), (2,)), k=2, max_new_tokens=3)


def engine_of(case, rows=512):
    """The shipped loop in a case, as it is at the moment."""

    def draw(prompt, n, seed, rows):
        rounds = list(replace(case, max_new_tokens=n).rounds([prompt] * rows, SeededRng(seed)))
        return [text for text, _ in outcomes(rounds, rows)]

    return in_batches(draw, rows)


@cache
def distribution_after(model, warp, ids):
    """What a GPT says after ids, without a cache of keys and values."""
    return warp(logits_after(model, [ids]))[0]


def target_of(case):
    """What the case's table says after the last two tokens, or its GPT after all."""
    if not isinstance(case.target, TableModel):
        return lambda ids: distribution_after(case.target, case.warp, tuple(ids))
    probs = case.warp(case.target.table)
    size = case.target.vocab_size
    return lambda ids: probs[(ids[-2] if len(ids) > 1 else size) * size + ids[-1]]


def check(case, engine=None, **settings):
    """The report on an engine of a case, by default the shipped loop."""
    settings = {"prompts": case.prompts, "tokens": case.max_new_tokens, "eos": case.eos} | settings
    return check_engine(engine or engine_of(case), target_of(case), **settings)
