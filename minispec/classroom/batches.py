"""Accept rules that take a batch row by row: how they are called, so that every branch is still enumerated.

A rule may loop over the rows of a batch and ask for the draws of one row at a time. Such requests name no
row, so a batch of branches cannot be told apart. Handed its rows one by one, the same rule can be enumerated.
That its rows do not influence each other is enumerated in batches of two.
"""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from time import perf_counter
from typing import Unpack

import torch
from torch import Tensor

from minispec.core.records import Draft, Verdict
from minispec.core.rng import Rng, SeededRng, Which
from minispec.core.verify import Verifier
from minispec.evidence.checker.calls import Broken, CheckedRng, Refused, decide
from minispec.evidence.checker.instance import Instance, PossibleDrafts
from minispec.evidence.checker.trials import TooMany, enumerate_rule, same
from minispec.evidence.proof.enumeration import EnumeratingRng, NotScripted, enumerate_branches

SECONDS = 5.0  # of sampling, where a rule draws from a generator of its own
TIMED_ROWS = 64
LEAST_SAMPLES = 500  # fewer can show nothing
RowVerdict = tuple[int, int]  # how many drafted tokens a row keeps, and the token after them


class OneRowRng:
    """An `Rng` for one row of a batch: whatever the shape of a request, it is about this row."""

    def __init__(self, rng: Rng, row: int) -> None:
        """Names the row in each request to `rng`."""
        self._rng = rng
        self._row = row

    def bernoulli(self, probs: Tensor, **which: Unpack[Which]) -> Tensor:
        """Decides: probs [...], of any shape -> [...] bool (see `Rng`)."""
        named = self._named(probs.shape, which)
        return self._rng.bernoulli(probs.reshape(-1), **named).reshape(probs.shape)

    def categorical(self, probs: Tensor, **which: Unpack[Which]) -> Tensor:
        """Draws: distributions [..., V] -> ids [...] (see `Rng`)."""
        shape = probs.shape[:-1]
        named = self._named(shape, which)
        return self._rng.categorical(probs.reshape(-1, probs.shape[-1]), **named).reshape(shape)

    def _named(self, shape: torch.Size, which: Which) -> Which:
        """Returns to which row each of so many decisions belongs, and which are to be made."""
        rows = torch.full((shape.numel(),), self._row)
        live = which.get("live")
        return Which(rows=rows, live=None if live is None else live.expand(shape).reshape(-1))


def row_by_row(rule: Verifier) -> Verifier:
    """Returns a rule for batches that calls another one once for each row."""

    def each_row(draft: Draft, target_probs: Tensor, rng: Rng) -> Verdict:
        verdicts = []
        for row in range(len(draft.tokens)):
            one = slice(row, row + 1)
            alone = Draft(draft.tokens[one], draft.probs[one], draft.lengths[one])
            verdicts.append(rule(alone, target_probs[one], OneRowRng(rng, row)))
        for verdict in verdicts:
            if not isinstance(verdict, Verdict) or verdict.accepted.shape != (1,):
                raise Broken("for one row it did not return a Verdict of one row")
        accepted = torch.cat([verdict.accepted for verdict in verdicts])
        return Verdict(accepted, torch.cat([verdict.token for verdict in verdicts]))

    return each_row


def follows_scripts(rule: Verifier, instances: Sequence[Instance]) -> bool:
    """Whether a rule names rows, or draws for all at once, so that batches of branches can be told apart.

    False also for a rule that draws from a generator of its own. A rule that refuses batches, or breaks,
    follows scripts as far as is known.
    """
    for instance in instances:
        drafts = instance.drafts()
        try:
            if not same(enumerate_rule(rule, drafts), enumerate_rule(rule, drafts, backwards=True)):
                return False
        except (Broken, Refused, TooMany):
            continue
        except NotScripted:
            return False
    return True


def samples_in_time(rule: Verifier, instances: Sequence[Instance], most: int, shares: int) -> int:
    """Returns how many rows a rule takes in five seconds, divided by `shares`; 500 at least, `most` at most.

    It is timed on 64 rows of the last instance.
    """
    drafts = instances[-1].drafts()
    rows = torch.arange(TIMED_ROWS) % len(drafts)
    started = perf_counter()
    try:
        decide(rule, drafts, rows, SeededRng(0))
    except (Broken, Refused):
        return most  # it refuses this batch, and whoever samples it finds that out
    per_row = (perf_counter() - started) / TIMED_ROWS
    return max(LEAST_SAMPLES, min(most, int(SECONDS / per_row / shares)))


def rows_that_influence(rule: Verifier, instances: Sequence[Instance]) -> str:
    """Enumerates a rule on all pairs of neighbouring drafts; describes the first pair that goes wrong.

    In a batch of two, what comes of both rows must be as probable as what comes of each alone, multiplied.
    The text is empty if it is, or if the rule takes no batch at all.

    Raises:
        Broken: if the rule takes one of the rows neither in a batch nor alone.
        NotScripted: if it draws from a generator of its own.
    """
    for instance in instances:
        drafts = instance.drafts()
        alone = [dict(outcomes_of(rule, drafts, [row])) for row in range(len(drafts))]
        for first, second in pairwise(range(len(drafts))):
            try:
                together = dict(outcomes_of(rule, drafts, [first, second]))
            except (Broken, Refused):
                return ""
            products = {
                (*a, *b): alone[first][a] * alone[second][b] for a in alone[first] for b in alone[second]
            }
            for verdicts in {*products, *together}:
                should, came = products.get(verdicts, 0.0), together.get(verdicts, 0.0)
                if abs(should - came) > 1e-9:
                    return describe_pair(drafts, (first, second), verdicts, should, came)
    return ""


def outcomes_of(
    rule: Verifier, drafts: PossibleDrafts, rows: Sequence[int]
) -> Iterator[tuple[tuple[RowVerdict, ...], float]]:
    """Enumerates a rule on a batch of rows as a whole; yields what comes of all rows, and how probably."""

    def run(rng: EnumeratingRng, keys: Sequence[int]) -> list[tuple[RowVerdict, ...]]:
        last, token = decide(rule, drafts, torch.tensor(rows), CheckedRng(rng, 1))
        return [tuple(zip(last.tolist(), token.tolist(), strict=True))]

    sums: dict[tuple[RowVerdict, ...], float] = {}
    for _, verdicts, probability in enumerate_branches(run, [0], most_rows=1):
        sums[verdicts] = sums.get(verdicts, 0.0) + probability
    yield from sums.items()


def describe_pair(
    drafts: PossibleDrafts,
    rows: tuple[int, int],
    verdicts: tuple[RowVerdict, ...],
    should: float,
    came: float,
) -> str:
    """Writes down two rows, what may come of them, and the probabilities that differ."""
    lines = ["two rows in one batch"]
    for row, (kept, token) in zip(rows, verdicts, strict=True):
        tokens = drafts.draft.tokens[row, : int(drafts.draft.lengths[row])].tolist()
        lines.append(f"  drafted {tokens}: keeps {kept}, then {token}")
    lines.append(f"both together should have probability {should:.4g}; it is {came:.4g}")
    return "\n".join(lines)
