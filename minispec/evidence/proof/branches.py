"""Branches: every way that the loop can take, with all that happened on it.

`law` keeps of a branch only what came out. Here its rounds are kept too, row by row, as plain numbers: which
tokens were drafted from which laws, how many were accepted, how many decisions were open.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Unpack

import torch
from torch import Tensor

from minispec.core.loop import speculate
from minispec.core.records import Finish, Round
from minispec.core.rng import Rng, Which
from minispec.evidence.proof.distributions import Case, Law
from minispec.evidence.proof.enumeration import EnumeratingRng, walk

Text = tuple[int, ...]


@dataclass(frozen=True)
class Step:
    """One row's share of one round.

    Attributes:
        text: what was committed before, prompt included.
        drafted: the tokens proposed.
        accepted: how many of them were kept.
        tested: how many were looked at, as the round reports it.
        emitted: what was committed.
        finish: why the row ended, or None.
        p: the target's laws, as the round reports them, one more than drafted.
        q: the draft's laws.
    """

    text: Text
    drafted: Text
    accepted: int
    tested: int | None
    emitted: Text
    finish: Finish | None
    p: Sequence[Sequence[float]]
    q: Sequence[Sequence[float]]


@dataclass(frozen=True)
class Branch:
    """One branch of one row, from its prompt to its end.

    Attributes:
        prompt: which prompt of the case.
        weight: the probability of the branch.
        steps: its rounds.
        decisions: how many decisions of the row were open; None where rows were not told apart.
    """

    prompt: int
    weight: float
    steps: tuple[Step, ...]
    decisions: int | None

    @property
    def tokens(self) -> Text:
        """All that was emitted."""
        return tuple(token for step in self.steps for token in step.emitted)

    @property
    def finish(self) -> Finish | None:
        """Why the row ended; None if there was no room from the start."""
        return self.steps[-1].finish if self.steps else None


@dataclass(frozen=True)
class Figures:
    """What all branches of a case come to.

    Attributes:
        laws: of the outcomes, one per prompt.
        acceptance: expected accepted tokens over expected tested ones; None if nothing was tested.
        tokens_per_call: expected tokens over expected rounds; None if there was no round.
    """

    laws: list[Law]
    acceptance: float | None
    tokens_per_call: float | None


class OneScript:
    """An `Rng` that lets all rows of a batch follow one script: so the batch is walked through as a whole."""

    def __init__(self, rng: EnumeratingRng) -> None:
        """Asks `rng`, which has one script, for one row after another."""
        self._rng = rng

    def bernoulli(self, probs: Tensor, **which: Unpack[Which]) -> Tensor:
        """Says what the script says: probs [B] -> [B] bool (see `Rng`)."""
        return self._rng.bernoulli(probs, **self._one_row(probs, which))

    def categorical(self, probs: Tensor, **which: Unpack[Which]) -> Tensor:
        """Picks what the script says: probs [B, V] -> [B] ids (see `Rng`)."""
        return self._rng.categorical(probs, **self._one_row(probs, which))

    def _one_row(self, probs: Tensor, which: Which) -> Which:
        return Which(rows=torch.zeros(len(probs), dtype=torch.long), live=which.get("live"))


def rounds_of(case: Case, prompts: Sequence[Sequence[int]], rng: Rng) -> Iterator[Round]:
    """Runs the shipped loop as a case says, on any prompts."""
    return speculate(
        case.target,
        case.new_drafter(),
        prompts,
        k=case.k,
        verifier=case.verifier,
        max_new_tokens=case.max_new_tokens,
        warp=case.warp,
        rng=rng,
        eos=case.eos,
    )


def branches(case: Case, as_one: bool = False) -> Iterator[Branch]:
    """Walks through every branch of a case.

    Args:
        case: the setting.
        as_one: whether to walk through the batch of all prompts as a whole. That is right even where rows
            influence each other, and takes the product of the rows' branches, one at a time. By default
            branches run as rows of batches.
    """

    def run(rng: EnumeratingRng, keys: Sequence[int]) -> list[tuple[tuple[Step, ...], int]]:
        prompts = [case.prompts[key] for key in keys]
        steps = steps_of(rounds_of(case, prompts, rng), prompts)
        return [(own, len(way)) for own, way in zip(steps, rng.ways, strict=True)]

    def run_as_one(rng: EnumeratingRng, keys: Sequence[int]) -> list[list[tuple[Step, ...]]]:
        return [steps_of(rounds_of(case, case.prompts, OneScript(rng)), case.prompts)]

    if as_one:
        for _, batch, weight in walk(run_as_one, [0], most_rows=1):
            for prompt, own in enumerate(batch):
                yield Branch(prompt, weight, own, None)
    else:
        for prompt, (own, decisions), weight in walk(run, range(len(case.prompts)), case.rows):
            yield Branch(prompt, weight, own, decisions)


def steps_of(rounds: Iterator[Round], prompts: Sequence[Sequence[int]]) -> list[tuple[Step, ...]]:
    """Sorts rounds by row; rounds in which a row took no part are left out."""
    texts = [tuple(prompt) for prompt in prompts]
    steps: list[list[Step]] = [[] for _ in prompts]
    for r in rounds:
        drafted, p, q = r.draft.tokens.tolist(), r.target_probs.tolist(), r.draft.probs.tolist()
        for row, emitted in enumerate(r.emitted):
            if not (r.live[row] or emitted):
                continue
            n = r.drafted(row)
            steps[row].append(
                Step(
                    texts[row],
                    tuple(drafted[row][:n]),
                    r.accepted(row),
                    r.tested(row),
                    emitted,
                    r.finish[row],
                    p[row][: n + 1],
                    q[row][:n],
                )
            )
            texts[row] += emitted
    return [tuple(own) for own in steps]


def figures(case: Case, as_one: bool = False) -> Figures:
    """Adds all branches of a case up."""
    laws: list[Law] = [{} for _ in case.prompts]
    accepted = tested = emitted = calls = 0.0
    for branch in branches(case, as_one):
        outcome = (branch.tokens, branch.finish)
        laws[branch.prompt][outcome] = laws[branch.prompt].get(outcome, 0.0) + branch.weight
        accepted += branch.weight * sum(step.accepted for step in branch.steps)
        tested += branch.weight * sum(step.tested or 0 for step in branch.steps)
        emitted += branch.weight * len(branch.tokens)
        calls += branch.weight * len(branch.steps)
    return Figures(laws, accepted / tested if tested else None, emitted / calls if calls else None)
