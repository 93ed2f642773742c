"""Branches: every way the loop can go in a case, with its probability and its rounds, row by row.

`EnumeratingRng` takes the place of the random number generator, and the loop is the shipped one: cache, warp,
end-of-sequence, cap, ragged batch and all.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from minispec.core.records import Finish, Round
from minispec.evidence.proof.cases import Case, Text
from minispec.evidence.proof.enumeration import EnumeratingRng, enumerate_branches

Outcome = tuple[Text, Finish | None]  # the tokens of a row, and why it ended


@dataclass(frozen=True)
class RowRound:
    """One row's share of one round.

    Attributes:
        round: the whole round.
        row: which row of it.
        text: what was committed before, prompt included.
        drafted: the tokens proposed.
        accepted: how many of them were kept.
        emitted: what was committed.
        finish: why the row ended, or None.
    """

    round: Round
    row: int
    text: Text
    drafted: Text
    accepted: int
    emitted: Text
    finish: Finish | None

    @property
    def tested(self) -> int | None:
        """How many drafted tokens were looked at, as the round reports it."""
        return self.round.tested(self.row)

    @property
    def p(self) -> list[list[float]]:
        """The target's distributions, as the round reports them, one more than drafted."""
        return self.round.target_probs[self.row, : len(self.drafted) + 1].tolist()

    @property
    def q(self) -> list[list[float]]:
        """The draft's distributions."""
        return self.round.draft.probs[self.row, : len(self.drafted)].tolist()


Steps = tuple[RowRound, ...]


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
    steps: Steps
    decisions: int | None

    @property
    def tokens(self) -> Text:
        """All that was emitted."""
        return tuple(token for step in self.steps for token in step.emitted)

    @property
    def finish(self) -> Finish | None:
        """Why the row ended; None if nothing could be emitted from the start."""
        return self.steps[-1].finish if self.steps else None


def branches(case: Case, together: bool = False) -> Iterator[Branch]:
    """Enumerates every branch of a case.

    Args:
        case: the setting.
        together: whether to enumerate the batch of all prompts as a whole. That is right even where rows
            influence each other, and takes the product of the rows' branches, one at a time. By default
            branches run as rows of batches.
    """

    def run(rng: EnumeratingRng, keys: Sequence[int]) -> list[tuple[list[Steps], int | None]]:
        if together:
            return [(by_row(case.rounds(case.prompts, rng), case.prompts), None)]
        prompts = [case.prompts[key] for key in keys]
        rows = by_row(case.rounds(prompts, rng), prompts)
        return [([row], len(way)) for row, way in zip(rows, rng.ways, strict=True)]

    starts, most_rows = (range(1), 1) if together else (range(len(case.prompts)), case.rows)
    for start, (rows, decisions), weight in enumerate_branches(run, starts, most_rows):
        for prompt, steps in enumerate(rows, start):
            yield Branch(prompt, weight, steps, decisions)


def by_row(rounds: Iterable[Round], prompts: Sequence[Sequence[int]]) -> list[Steps]:
    """Sorts rounds by row; rounds in which a row took no part are left out."""
    texts = [tuple(prompt) for prompt in prompts]
    steps: list[list[RowRound]] = [[] for _ in prompts]
    for r in rounds:
        drafted, lengths = r.draft.tokens.tolist(), r.draft.lengths.tolist()
        accepted = r.verdict.accepted.tolist()
        for row, (emitted, finish) in enumerate(zip(r.emitted, r.finish, strict=True)):
            if r.live[row] or emitted:
                proposed = tuple(drafted[row][: lengths[row]])
                steps[row].append(RowRound(r, row, texts[row], proposed, accepted[row], emitted, finish))
                texts[row] += emitted
    return [tuple(own) for own in steps]


def outcomes(rounds: Sequence[Round], rows: int) -> list[Outcome]:
    """Returns each row's tokens, and why it ended."""
    tokens: list[list[int]] = [[] for _ in range(rows)]
    for r in rounds:
        for row, emitted in enumerate(r.emitted):
            tokens[row].extend(emitted)
    ends: Sequence[Finish | None] = rounds[-1].finish if rounds else [None] * rows
    return [(tuple(row), end) for row, end in zip(tokens, ends, strict=True)]
