"""Trying a rule on one instance: by enumerating all of its branches, or by sampling it."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import torch
from torch import Tensor

from minispec.core.rng import SEEDS, SeededRng
from minispec.core.verify import Verifier
from minispec.evidence.checker.calls import Broken, CheckedRng, Raised, Refused, decide
from minispec.evidence.checker.instance import Instance, PossibleDrafts
from minispec.evidence.proof.enumeration import EnumeratingRng, NotScripted, enumerate_branches
from minispec.evidence.theory.statistics import Cell, check_sample, margin

MAX_ROWS = 512  # rows of a batch
MAX_BRANCHES = 30_000  # of one instance; with more it is sampled
SMALL = 9  # instances with at most so many drafts are enumerated twice
CONFIRMED = 40  # enumerations of an instance before a rule that looks wrong on it is called so
SINGLE = 1e-6  # an error below this looks like the rounding of float32
CHUNK = 8192  # rows sampled at once
MAX_TEXTS = 2000  # of an instance that is sampled; with more, tokens are compared place by place
BRANCHES = f"they have more than {MAX_BRANCHES:,} branches"

Choices = tuple[tuple[int, int], ...]  # per decision: the outcome that was taken, and how many there were


class TooMany(Exception):
    """An instance has too many branches under this rule."""


class TextProbability(NamedTuple):
    """One text of an instance, its right probability, and its actual one (or its frequency)."""

    text: tuple[int, ...]
    expected: float
    actual: float


class Leaf(NamedTuple):
    """The end of one branch: what a rule decided about a draft."""

    draft: int  #: which of the instance's `PossibleDrafts`
    last: int  #: the last token of it that was kept: 0 for none, i + 1 for token i
    token: int
    weight: float  #: probability of the draft and of the rule's draws together; all leaves sum to 1


Leaves = dict[tuple[int, Choices], Leaf]


@dataclass(frozen=True)
class InstanceResult:
    """What a rule did on an instance."""

    instance: Instance
    reason: str | None = None  #: what is wrong, in plain words; None if nothing is
    distance: float | None = None  #: total variation from the target; None if there is nothing to compare
    margin: float = 0.0  #: the true distance is within this of `distance`; 0 if exact
    error: float = 0.0  #: the largest difference in the probability of a text
    branches: int = 0  #: how many were enumerated
    samples: int = 0  #: how many were drawn
    detects: float = 0.0  #: what is at least this far off is caught, but for a probability of 1e-6
    left_out: str | None = None  #: why the instance was not checked; None if it was
    applies: bool = True  #: whether the rule takes it: it neither refused it nor raised an exception
    texts: tuple[TextProbability, ...] = ()  #: all that can come or did, if their distribution is wrong


def enumerate_rule(
    verifier: Verifier, drafts: PossibleDrafts, max_rows: int = MAX_ROWS, reverse: bool = False
) -> Leaves:
    """Takes every branch of a rule on every draft of an instance; returns its leaves.

    At most `max_rows` are handed over at once; `reverse` the last draft comes first, so that each row has
    other neighbours.

    Raises:
        Broken: if the rule did what no rule may do.
        NotScripted: if it does not follow a script.
        Refused: if it does not take such drafts.
        TooMany: if there are more than 30,000 branches.
    """

    def run(rng: EnumeratingRng, keys: Sequence[int]) -> list[tuple[int, int, Choices]]:
        last, token = decide(verifier, drafts, torch.tensor(keys), CheckedRng(rng))
        return list(zip(last.tolist(), token.tolist(), map(tuple, rng.ways), strict=True))

    weights = drafts.weights.tolist()
    starts = range(len(drafts))[:: -1 if reverse else 1]
    leaves: Leaves = {}
    for key, (last, token, choices), weight in enumerate_branches(run, starts, max_rows):
        leaves[key, choices] = Leaf(key, last, token, weights[key] * weight)
        if len(leaves) > MAX_BRANCHES:
            raise TooMany
    return leaves


def same_leaves(leaves: Leaves, others: Leaves) -> bool:
    """Whether two enumerations took the same choices to the same verdicts, with the same probabilities."""
    return leaves.keys() == others.keys() and all(
        leaves[key][:3] == others[key][:3] and abs(leaves[key].weight - others[key].weight) < 1e-9
        for key in leaves
    )


def text_distribution(leaves: Iterable[Leaf], instance: Instance, drafts: PossibleDrafts) -> Tensor:
    """Returns the distribution of the texts that come out, [texts] in the order of `Instance.distribution`.

    A rule emits between one token and one more than the draft is deep. The target then goes on to so many, by
    its own distributions. So all rules can be compared. The leaves' weights sum to 1.
    """
    *columns, weights = zip(*leaves, strict=True)
    draft, last, token = map(torch.tensor, columns)
    weight = torch.tensor(weights, dtype=torch.float64)
    depth = torch.tensor(instance.depths)[last]
    texts = drafts.prefixes[draft, last] * instance.vocab_size + token  # depth + 1 tokens

    def emitted_weights(n: int, position: int) -> Tensor:
        rows = (drafts.draft.lengths[draft] == n) & (depth == position)
        return weight.new_zeros(instance.vocab_size ** (position + 1)).index_add_(
            0, texts[rows], weight[rows]
        )

    return instance.continue_texts(emitted_weights)


def compare_exactly(
    verifier: Verifier, instance: Instance, max_rows: int, tolerance: float
) -> InstanceResult:
    """Compares the exact distribution of what a rule emits with the target's; it may differ by `tolerance`.

    Raises:
        NotScripted: if the rule does not follow a script, or not twice in the same way.
    """
    drafts = instance.drafts()
    try:
        leaves = enumerate_rule(verifier, drafts, max_rows)
        if len(drafts) <= SMALL and not same_leaves(
            leaves, enumerate_rule(verifier, drafts, max_rows, reverse=True)
        ):
            raise NotScripted("the same draft and the same draws did not give the same verdict twice")
    except (Broken, Refused, TooMany) as stopped:
        return failed_call(instance, stopped)
    expected = instance.distribution()
    actual = text_distribution(leaves.values(), instance, drafts)
    differences = (actual - expected).abs()
    error = float(differences.max())
    distance = float(differences.sum()) / 2
    result = InstanceResult(instance, distance=distance, error=error, branches=len(leaves))
    return add_reason(result, expected, actual, tolerance) if error > tolerance else result


def failed_call(instance: Instance, stopped: Exception) -> InstanceResult:
    """Returns what is known of an instance on which no distribution came out."""
    if isinstance(stopped, Broken):
        return InstanceResult(instance, str(stopped), applies=not isinstance(stopped, Raised))
    if isinstance(stopped, TooMany):
        return InstanceResult(instance, left_out=BRANCHES)
    return InstanceResult(instance, left_out=f"the rule refuses them: {stopped}", applies=False)


def add_reason(result: InstanceResult, expected: Tensor, actual: Tensor, tolerance: float) -> InstanceResult:
    """Adds what is wrong with the probabilities of texts [N], in the order of `Instance.distribution`."""
    columns = zip(result.instance.texts(), expected.tolist(), actual.tolist(), strict=True)
    texts = tuple(TextProbability(*row) for row in columns if row[1] > 0 or row[2] > 0)
    impossible = [text.text for text in texts if text.expected == 0 and text.actual > tolerance]
    reason = "what it emits is not distributed as the target's text"
    if impossible:
        reason = f"it emits {' '.join(map(str, impossible[0]))}, which the target never emits"
    elif 0 < result.error < SINGLE:
        difference = f"its distribution is off by {result.error:.1g}"
        reason = f"{difference}, as by rounding in float32; rules compute in float64"
    return replace(result, reason=reason, texts=texts)


def confirm_repeatable(verifier: Verifier, instance: Instance, max_rows: int) -> None:
    """Enumerates an instance again and again; `NotScripted` if the rule once decides otherwise."""
    drafts = instance.drafts()
    first = enumerate_rule(verifier, drafts, max_rows)
    for again in range(CONFIRMED):
        try:
            repeated = same_leaves(first, enumerate_rule(verifier, drafts, max_rows, reverse=again % 2 == 0))
        except Broken:  # it had not broken before
            repeated = False
        if not repeated:
            raise NotScripted("the same draft and the same draws did not always give the same verdict")


def compare_samples(
    verifier: Verifier, instance: Instance, samples: int, false_alarm: float, seed: int, one_by_one: bool
) -> InstanceResult:
    """Compares samples of what a rule emits with the target's distribution.

    A right rule fails with probability `false_alarm` at most; one whose distribution is at least `detects`
    away passes with probability 10^−6 at most (see `check_sample`). The true distance is within `margin` of
    the measured one with probability 1 − 2·`false_alarm` at least: the empirical distribution of m cells is
    within its mean, at most ½·√((m − 1)/N), plus the deviation, of the true one. What the target adds to a
    text is not drawn, but counted with its probability: that only brings it nearer to the mean. The rule may
    have a generator of its own; `one_by_one` it is handed one row at a time.

    Where there are more than 2,000 texts, each place of the text is compared alone, with its share of the
    false alarm. So few samples that nothing can fail are none: the instance is left out.
    """
    drafts = instance.drafts()
    try:
        leaves = drawn_leaves(verifier, drafts, samples, seed, one_by_one)
    except (Broken, Refused) as stopped:
        return failed_call(instance, stopped)
    expected = instance.distribution()
    actual = text_distribution(leaves, instance, drafts)
    by_token = len(expected) > MAX_TEXTS and instance.lengths == (instance.k,)
    columns = [
        token_distributions(dist, instance) if by_token else [dist.tolist()]
        for dist in (expected, samples * actual)
    ]
    share = false_alarm / len(columns[0])
    tests = [
        check_sample("rule", dict[Cell, Any](enumerate(counts)), dict(enumerate(exact)), share)
        for exact, counts in zip(*columns, strict=True)
    ]
    worst = max(tests, key=lambda test: (not test.passed, test.distance - test.threshold))
    detects = max(test.detects for test in tests)
    bound = margin(worst.cells, samples, share)
    result = InstanceResult(instance, None, worst.distance, bound, samples=samples, detects=detects)
    if not worst.passed:
        return add_reason(result, expected, actual, 0.0)
    if detects >= 1:
        return InstanceResult(instance, left_out=f"{samples:,} samples of them can show nothing")
    return result


def drawn_leaves(
    verifier: Verifier, drafts: PossibleDrafts, samples: int, seed: int, one_by_one: bool
) -> list[Leaf]:
    """Draws drafts and lets a rule decide them; returns each outcome with its share of the samples.

    Raises:
        Broken: if the rule did what no rule may do.
        Refused: if it does not take such drafts.
    """
    drafting_rng = SeededRng(seed)
    deciding_rng = SeededRng((seed + 1) % SEEDS)
    counts: Counter[tuple[int, int, int]] = Counter()  # a draft, the last token that stays, the next one
    for drawn in range(0, samples, CHUNK):
        rows = drafting_rng.categorical(drafts.weights.expand(min(CHUNK, samples - drawn), -1))
        for call in rows.split(1 if one_by_one else CHUNK):
            last, token = decide(verifier, drafts, call, deciding_rng)
            counts.update(zip(call.tolist(), last.tolist(), token.tolist(), strict=True))
    return [Leaf(*outcome, count / samples) for outcome, count in sorted(counts.items())]


def token_distributions(texts: Tensor, instance: Instance) -> list[list[float]]:
    """Returns the distribution of each token of texts with D+1 tokens: [V^(D+1)] -> D+1 times [V]."""
    size = instance.vocab_size
    return [texts.reshape(-1, size, size**i).sum((0, 2)).tolist() for i in reversed(range(len(instance.p)))]
