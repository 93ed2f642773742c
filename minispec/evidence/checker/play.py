"""Playing a rule on an instance: every draft, every branch of chance, every verdict looked at.

A rule is somebody's function. It may return nonsense, change what it was handed, ask chance for the
impossible, or draw from a source of its own. What is plainly wrong is said in plain words; what cannot be led
by a script is handed over to sampling.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Unpack

import torch
from torch import Tensor

from minispec.core.records import Draft, Verdict
from minispec.core.rng import Rng, Which
from minispec.core.verify import Verifier
from minispec.evidence.checker.instances import Instance, Rows, go_on
from minispec.evidence.proof.enumeration import EnumeratingRng, walk

MOST_ROWS = 512  # rows of a batch
MOST_BRANCHES = 30_000  # of one instance

Way = tuple[tuple[int, int], ...]


class Broken(Exception):
    """A rule did what no rule may do. The message says what."""


class NotScripted(Exception):
    """A rule follows no script: its chance is its own, or it does not say which row a question is about."""


class TooMany(Exception):
    """An instance has too many branches under this rule."""


@dataclass(frozen=True)
class Leaf:
    """One draft, one way that chance took, and what the rule said.

    Attributes:
        start: which row of the instance's `Rows`.
        accepted: how many drafted tokens were kept.
        token: what follows them.
        chance: of the draft and the way together; all leaves sum to 1.
    """

    start: int
    accepted: int
    token: int
    chance: float


@contextmanager
def scripted() -> Iterator[None]:
    """Turns a complaint about a script into `NotScripted`."""
    try:
        yield
    except ValueError as error:
        raise NotScripted(str(error)) from error


class Door:
    """The door to chance as a rule under test sees it: an `Rng` that knows what was asked.

    With one row every question belongs to it, so any shape will do. With several, a question must be about
    all rows, or name those that it is about.
    """

    def __init__(self, rng: EnumeratingRng, rows: int) -> None:
        """Stands before `rng`, for a batch of `rows` rows."""
        self._rng = rng
        self._rows = rows

    def bernoulli(self, probs: Tensor, **which: Unpack[Which]) -> Tensor:
        """Decides: probs [B] -> [B] bool (see `Rng`)."""
        rows, live = self._whose(probs.shape, which)
        flat = probs.reshape(-1)
        if bool(flat[live].isnan().any()):
            raise Broken("it asked for a chance that is not a number")
        with scripted():
            return self._rng.bernoulli(flat, rows=rows, live=live).bool().reshape(probs.shape)

    def categorical(self, probs: Tensor, **which: Unpack[Which]) -> Tensor:
        """Picks: probs [B, V] -> [B] ids (see `Rng`)."""
        rows, live = self._whose(probs.shape[:-1], which)
        flat = probs.reshape(-1, probs.shape[-1])
        asked = flat[live]
        if not bool(((asked >= 0) & asked.isfinite()).all()):
            raise Broken("it asked to pick from a law with negative or infinite entries, or with NaN")
        if not bool((asked.sum(-1) > 0).all()):
            raise Broken("it asked to pick from a law that is 0 everywhere")
        with scripted():
            return self._rng.categorical(flat, rows=rows, live=live).long().reshape(probs.shape[:-1])

    def _whose(self, shape: torch.Size, which: Which) -> tuple[Tensor | None, Tensor]:
        """Returns which row each of the questions is about, and which are to be decided: [n], [n]."""
        rows, live = which.get("rows"), which.get("live")
        if rows is not None:
            rows = rows.expand(shape).reshape(-1)
        elif self._rows == 1:
            rows = torch.zeros(shape.numel(), dtype=torch.long)
        elif shape != (self._rows,):
            raise NotScripted(f"it puts {list(shape)} questions to chance in a batch of {self._rows} rows")
        if live is None:
            return rows, torch.ones(shape.numel(), dtype=torch.bool)
        return rows, live.bool().expand(shape).reshape(-1)


def decide(rule: Verifier, rows: Rows, starts: Tensor, rng: Rng) -> tuple[Tensor, Tensor]:
    """Calls a rule once and looks at what it did.

    Args:
        rule: anybody's accept rule.
        rows: of an instance.
        starts: [B], which of them to hand over.
        rng: chance.

    Returns:
        accepted [B] and token [B], int64.

    Raises:
        Broken: if it raised, changed its input, or returned what is not a verdict on these rows.
        ImportError: if it needs what is not installed; that says nothing about the rule.
    """
    draft, target_probs = rows.draft(starts), rows.target_probs[starts]
    try:
        verdict = rule(draft, target_probs, rng)
    except (Broken, NotScripted, ImportError):
        raise
    except Exception as error:  # whatever somebody's function may raise
        what = str(error).strip().split("\n")[0]
        raise Broken(f"it raised {type(error).__name__}: {what}") from error
    fresh = rows.draft(starts)
    for name, given, now in (
        ("draft.tokens", fresh.tokens, draft.tokens),
        ("draft.probs", fresh.probs, draft.probs),
        ("draft.lengths", fresh.lengths, draft.lengths),
        ("target_probs", rows.target_probs[starts], target_probs),
    ):
        if not torch.equal(given, now):
            raise Broken(f"it changed its input: {name}")
    check_verdict(verdict, fresh, target_probs.shape[-1])
    return verdict.accepted.cpu().long(), verdict.token.cpu().long()


def check_verdict(verdict: object, draft: Draft, vocab_size: int) -> None:
    """Refuses what cannot be a verdict on a draft.

    Raises:
        Broken: and says why.
    """
    if not isinstance(verdict, Verdict):
        raise Broken(f"it returned a {type(verdict).__name__}, not a Verdict")
    rows = draft.tokens.shape[0]
    for name, values in (("accepted", verdict.accepted), ("token", verdict.token)):
        if values.shape != (rows,):
            raise Broken(f"it returned {name} of shape {list(values.shape)} for {rows} rows")
        if values.dtype.is_floating_point and bool(values.isnan().any()):
            raise Broken(f"it returned a NaN as {name}")
        if values.dtype.is_floating_point or values.dtype.is_complex or values.dtype == torch.bool:
            raise Broken(f"it returned {name} as {str(values.dtype).removeprefix('torch.')}, not as integers")
    accepted, lengths = verdict.accepted.cpu(), draft.lengths
    beyond = (accepted < 0) | (accepted > lengths)
    if bool(beyond.any()):
        row = int(beyond.long().argmax())
        raise Broken(f"it accepted {int(accepted[row])} of {int(lengths[row])} drafted tokens")
    outside = verdict.token[(verdict.token < 0) | (verdict.token >= vocab_size)]
    if len(outside):
        raise Broken(f"it picked token {int(outside[0])}; the ids are 0 to {vocab_size - 1}")


def play(
    rule: Verifier, rows: Rows, most_rows: int = MOST_ROWS, backwards: bool = False
) -> dict[tuple[int, Way], Leaf]:
    """Plays every branch of a rule on every draft.

    Args:
        rule: an accept rule.
        rows: of an instance.
        most_rows: how many rows to hand over at once.
        backwards: begin with the last draft, so that each row has other neighbours.

    Returns:
        The leaves, by start and way.

    Raises:
        Broken: if the rule did what no rule may do.
        NotScripted: if it does not follow a script.
        TooMany: if there are more than 30,000 branches.
    """

    def run(rng: EnumeratingRng, keys: Sequence[int]) -> list[tuple[int, int, Way]]:
        accepted, token = decide(rule, rows, torch.tensor(keys), Door(rng, len(keys)))
        ways = [tuple(way) for way in rng.ways]
        return list(zip(accepted.tolist(), token.tolist(), ways, strict=True))

    chances = rows.chances.tolist()
    starts = range(len(rows))[:: -1 if backwards else 1]
    leaves: dict[tuple[int, Way], Leaf] = {}
    with scripted():  # the rule's own ValueErrors are Broken by now
        for start, (accepted, token, way), weight in walk(run, starts, most_rows):
            leaves[start, way] = Leaf(start, accepted, token, chances[start] * weight)
            if len(leaves) > MOST_BRANCHES:
                raise TooMany(f"more than {MOST_BRANCHES:,} branches")
    return leaves


def same(left: dict[tuple[int, Way], Leaf], right: dict[tuple[int, Way], Leaf]) -> bool:
    """Whether two plays took the same ways to the same verdicts, at the same chances up to rounding."""
    return left.keys() == right.keys() and all(
        (a.accepted, a.token) == (b.accepted, b.token) and abs(a.chance - b.chance) < 1e-9
        for a, b in ((left[key], right[key]) for key in left)
    )


def law_of(leaves: Sequence[Leaf], instance: Instance, rows: Rows) -> Tensor:
    """Returns the law of the texts that come out, in the order of `instance.law`.

    A rule emits between one and n+1 tokens. What it leaves open, the target says itself: behind each emitted
    text stands the target's law of what follows, up to n+1 tokens. So all rules can be compared.

    Args:
        leaves: of a complete play.
        instance: that was played.
        rows: its rows.

    Returns:
        [N] float64, as long as `instance.law`.
    """
    start = torch.tensor([leaf.start for leaf in leaves])
    accepted = torch.tensor([leaf.accepted for leaf in leaves])
    token = torch.tensor([leaf.token for leaf in leaves])
    chance = torch.tensor([leaf.chance for leaf in leaves], dtype=torch.float64)
    parts = []
    for n in instance.lengths:
        law = torch.zeros(1, dtype=torch.float64)
        for place in range(n + 1):
            law = go_on(law, instance.target(place))
            here = (rows.lengths[start] == n) & (accepted == place)
            text = rows.prefixes[start[here], place] * instance.vocab_size + token[here]
            law.index_add_(0, text, chance[here])
        parts.append(law)
    return torch.cat(parts)
