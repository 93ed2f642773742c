"""Trying a rule on one instance: by walking all of its branches, or by sampling it."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from minispec.core.rng import Rng, SeededRng
from minispec.core.verify import Verifier
from minispec.evidence.checker.instances import Instance, Rows
from minispec.evidence.checker.play import Broken, NotScripted, TooMany, decide, law_of, play, same
from minispec.evidence.theory.statistics import check_sample, deviation

TWICE = 9  # instances with at most so many drafts are played twice
CONFIRMED = 40  # plays, before a law that looks wrong is called so
SINGLE = 1e-6  # an error below this looks like the rounding of float32
CHUNK = 8192  # rows sampled at once

RARE_TEXT = "it says {}, which the target never says"
OFF = "what it says is not distributed as the target's text"
ROUNDED = "its law is off by {:.1g}, as by rounding in float32; rules compute in float64"


@dataclass(frozen=True)
class Line:
    """One text of an instance: how likely it should be, and how likely it is (or how often it came)."""

    text: tuple[int, ...]
    should: float
    came: float


@dataclass(frozen=True)
class Finding:
    """What came of a rule on an instance.

    Attributes:
        instance: that was tried.
        reason: what is wrong, in plain words; None if nothing is.
        distance: total variation from the target's law; None if there is no law to compare.
        margin: the true distance is within this of `distance`; 0 if exact.
        error: the largest difference in the chance of a text.
        branches: how many were walked.
        samples: how many were drawn.
        detects: a law at least this far off would have been caught, but for one chance in a million.
        skipped: whether the instance was left out, for having too many branches.
        lines: the texts, if something is wrong with their law.
    """

    instance: Instance
    reason: str | None = None
    distance: float | None = None
    margin: float = 0.0
    error: float = 0.0
    branches: int = 0
    samples: int = 0
    detects: float = 0.0
    skipped: bool = False
    lines: tuple[Line, ...] = ()


def walk_through(rule: Verifier, instance: Instance, most_rows: int, tolerance: float) -> Finding:
    """Compares the exact law of what a rule says with the target's.

    Args:
        rule: an accept rule.
        instance: to try it on.
        most_rows: how many rows to hand over at once.
        tolerance: chances may differ by this.

    Raises:
        NotScripted: if the rule does not follow a script, or not twice in the same way.
    """
    rows = instance.rows()
    try:
        leaves = play(rule, rows, most_rows)
        if len(rows) <= TWICE and not same(leaves, play(rule, rows, most_rows, backwards=True)):
            raise NotScripted("the same draft and the same chance did not give the same verdict twice")
    except Broken as broken:
        return Finding(instance, str(broken))
    except TooMany:
        return Finding(instance, skipped=True)
    should, came = instance.law(), law_of(list(leaves.values()), instance, rows)
    error = float((came - should).abs().max())
    distance = float((came - should).abs().sum()) / 2
    lines: tuple[Line, ...] = ()
    reason = None
    if error > tolerance:
        lines = lines_of(instance, should, came)
        reason = what_is_wrong(lines, error, tolerance)
    return Finding(instance, reason, distance, error=error, branches=len(leaves), lines=lines)


def repeats_itself(rule: Verifier, instance: Instance, most_rows: int) -> None:
    """Plays an instance again and again, before a rule's law is called wrong.

    Raises:
        NotScripted: if the rule says something else, once.
    """
    rows = instance.rows()
    first = play(rule, rows, most_rows)
    for again in range(CONFIRMED):
        try:
            repeated = same(first, play(rule, rows, most_rows, backwards=again % 2 == 0))
        except Broken:  # it had not broken before
            repeated = False
        if not repeated:
            raise NotScripted("the same draft and the same chance did not always give the same verdict")


def lines_of(instance: Instance, should: Tensor, came: Tensor) -> tuple[Line, ...]:
    """Returns the texts of an instance with both chances: [N] each, in the order of `instance.law`."""
    texts = zip(instance.texts(), should.tolist(), came.tolist(), strict=True)
    return tuple(Line(text, a, b) for text, a, b in texts)


def what_is_wrong(lines: tuple[Line, ...], error: float, tolerance: float) -> str:
    """Says what is wrong with a law that is off by `error` in some chance."""
    junk = [line.text for line in lines if line.should == 0 and line.came > tolerance]
    if junk:
        return RARE_TEXT.format(" ".join(map(str, junk[0])))
    return ROUNDED.format(error) if error < SINGLE else OFF


def sample(
    rule: Verifier, instance: Instance, samples: int, false_alarm: float, seed: int, one_by_one: bool
) -> Finding:
    """Compares samples of what a rule says with the target's law.

    A right rule fails with chance `false_alarm` at most; a rule whose law is at least `detects` away passes
    with chance 10^−6 at most (see `check_sample`). The true distance is within `margin` of the measured one
    with chance 1 − 2·`false_alarm` at least: the empirical law of m cells is within its mean, at most
    ½·√((m − 1)/N) whatever the law, plus the deviation, of the true one.

    Args:
        rule: an accept rule, with any source of chance.
        instance: to try it on.
        samples: N.
        false_alarm: between 0 and 1.
        seed: of the drafts, of the chance that the rule is handed, and of what follows its tokens.
        one_by_one: hand over one row at a time.
    """
    rows = instance.rows()
    drafts, chance = SeededRng(seed), SeededRng(seed + 1)
    law = instance.law()
    counts = torch.zeros(len(law), dtype=torch.long)
    try:
        for size in chunks(samples):
            starts = drafts.categorical(rows.chances.expand(size, -1))
            accepted, token = decide_all(rule, rows, starts, chance, one_by_one)
            cells = complete(instance, rows, starts, accepted, token, drafts)
            counts += torch.bincount(cells, minlength=len(law))
    except Broken as broken:
        return Finding(instance, str(broken))
    seen: dict[Hashable, int] = dict(enumerate(counts.tolist()))
    wanted: dict[Hashable, float] = dict(enumerate(law.tolist()))
    tested = check_sample("rule", seen, wanted, false_alarm)
    margin = math.sqrt((len(law) - 1) / samples) / 2 + deviation(false_alarm, samples)
    lines = () if tested.passed else lines_of(instance, law, counts / samples)
    reason = None if tested.passed else what_is_wrong(lines, 1.0, 0.0)
    return Finding(
        instance, reason, tested.distance, margin, samples=samples, detects=tested.detects, lines=lines
    )


def chunks(samples: int) -> Iterator[int]:
    """Yields sizes of at most 8192 that sum to `samples`."""
    while samples > 0:
        yield min(samples, CHUNK)
        samples -= CHUNK


def decide_all(
    rule: Verifier, rows: Rows, starts: Tensor, rng: Rng, one_by_one: bool
) -> tuple[Tensor, Tensor]:
    """Returns accepted [B] and token [B], from one call of the rule or from B calls."""
    if not one_by_one:
        return decide(rule, rows, starts, rng)
    verdicts = [decide(rule, rows, start[None], rng) for start in starts]
    return torch.cat([accepted for accepted, _ in verdicts]), torch.cat([token for _, token in verdicts])


def complete(
    instance: Instance, rows: Rows, starts: Tensor, accepted: Tensor, token: Tensor, rng: Rng
) -> Tensor:
    """Lets the target finish each text, up to n+1 tokens; returns its place in `instance.law`: [B]."""
    size = instance.vocab_size
    lengths = rows.lengths[starts]
    text = torch.zeros_like(starts)  # what is there so far, read as a number in base V
    for place in range(instance.k + 1):
        drafted = rows.tokens[starts, place] if place < instance.k else token
        inside = lengths >= place
        law = instance.target(place)[text]
        own = rng.categorical(law, live=inside & (accepted < place))
        said = torch.where(accepted > place, drafted, torch.where(accepted == place, token, own))
        text = torch.where(inside, text * size + said, text)
    first = torch.zeros(instance.k + 1, dtype=torch.long)  # where each length's texts begin
    begin = 0
    for n in instance.lengths:
        first[n] = begin
        begin += size ** (n + 1)
    return first[lengths] + text
