"""Records: what the phases hand to each other, and what everybody else reads.

They are frozen and check themselves when made. Figures, statistics, streamed text and the command line
read a `Trace`, never a model.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import torch
from torch import Tensor

Kind = Literal["correction", "bonus", "draft"]
Finish = Literal["eos", "cap", "context"]


@dataclass(frozen=True)
class Draft:
    """K proposed tokens a row, with the law that each was drawn from.

    Attributes:
        tokens: [B, K] int64.
        probs: [B, K, V]; probs[b, i] is the very distribution that tokens[b, i] was drawn from.
        lengths: [B] int64, how many of the K are proposals; behind them is padding. By default all K.
    """

    tokens: Tensor
    probs: Tensor
    lengths: Tensor = field(default=None)  # type: ignore[assignment]

    def __post_init__(self) -> None:
        rows, k = self.tokens.shape
        if self.lengths is None:
            object.__setattr__(self, "lengths", torch.full((rows,), k))
        if self.probs.shape[:2] != (rows, k) or self.probs.dim() != 3:
            raise ValueError(f"probs must be [{rows}, {k}, V], not {list(self.probs.shape)}")
        if self.lengths.shape != (rows,):
            raise ValueError(f"lengths must be [{rows}], not {list(self.lengths.shape)}")

    @property
    def k(self) -> int:
        """The width K of the block."""
        return self.tokens.shape[1]

    @staticmethod
    def empty(rows: int, vocab_size: int) -> Draft:
        """Returns a draft of nothing: [rows, 0]."""
        return Draft(torch.zeros(rows, 0, dtype=torch.long), torch.zeros(rows, 0, vocab_size))


@dataclass(frozen=True)
class Verdict:
    """What a verifier decides.

    Attributes:
        accepted: [B] int64, how many drafted tokens each row keeps.
        token: [B] int64, the token that follows them: a correction, or a bonus when all were kept.
    """

    accepted: Tensor
    token: Tensor

    def __post_init__(self) -> None:
        if self.accepted.shape != self.token.shape or self.token.dim() != 1:
            raise ValueError(
                f"accepted and token must both be [B], not {list(self.accepted.shape)} and "
                f"{list(self.token.shape)}"
            )


@dataclass(frozen=True)
class CacheLengths:
    """How many tokens a cache held, row by row, at three moments of a round.

    Attributes:
        before: when the round began.
        verified: after the target had read the draft; for the draft's cache, after drafting.
        after: after rollback.
    """

    before: tuple[int, ...]
    verified: tuple[int, ...]
    after: tuple[int, ...]


@dataclass(frozen=True)
class Round:
    """One draft, verify, commit, rollback.

    Attributes:
        index: counted from 0.
        pending: [B] int64, the last committed token of each row, read in this round.
        draft: what the drafter proposed.
        target_probs: [B, K+1, V], the target's warped distributions at the drafted positions and behind.
        target_logits: [B, K+1, V], what they were computed from.
        verdict: what the verifier decided.
        emitted: for each row the tokens that were committed; empty for a row that was done.
        live: for each row whether it took part in the round.
        finish: for each row why it ended, or None while it goes on.
        target_cache: lengths of the target's cache.
        draft_cache: lengths of the drafter's cache, or None if it has none.
        seconds: time spent in `draft`, `verify`, `rollback` and `other`; the first round also has `prefill`.
    """

    index: int
    pending: Tensor
    draft: Draft
    target_probs: Tensor
    target_logits: Tensor
    verdict: Verdict
    emitted: tuple[tuple[int, ...], ...]
    live: tuple[bool, ...]
    finish: tuple[Finish | None, ...]
    target_cache: CacheLengths
    draft_cache: CacheLengths | None
    seconds: Mapping[str, float]

    def completed(self, draft_cache: CacheLengths | None, seconds: Mapping[str, float]) -> Round:
        """Returns the same round with what is known only when its drafter has caught up.

        Args:
            draft_cache: see above.
            seconds: see above.
        """
        whole = object.__new__(Round)  # `dataclasses.replace` would take as long as a draft step
        whole.__dict__.update(self.__dict__, draft_cache=draft_cache, seconds=seconds)
        return whole

    def drafted(self, row: int) -> int:
        """How many tokens were proposed for a row."""
        return int(self.draft.lengths[row])

    def accepted(self, row: int) -> int:
        """How many of them the verifier kept."""
        return int(self.verdict.accepted[row])

    def tested(self, row: int) -> int:
        """How many it looked at: those kept, and the one that was rejected."""
        return min(self.accepted(row) + 1, self.drafted(row)) if self.live[row] else 0

    def kind(self, row: int) -> Kind:
        """What the row's last token of this round is: a correction, a bonus, or an accepted draft.

        The last happens where end-of-sequence or a limit cut the block inside the accepted draft.
        """
        if len(self.emitted[row]) <= self.accepted(row):
            return "draft"
        return "correction" if self.accepted(row) < self.drafted(row) else "bonus"


@dataclass(frozen=True)
class Trace:
    """A whole run: a header and its rounds.

    Attributes:
        prompts: token ids, one list per row.
        config: what the run was called with (k, verifier, temperature, …), for people and files.
        rounds: in order.
    """

    prompts: tuple[tuple[int, ...], ...]
    config: Mapping[str, Any]
    rounds: tuple[Round, ...]

    @property
    def prefill_lengths(self) -> tuple[int, ...]:
        """How many tokens of each prompt were read before the first round: all but the pending one."""
        if not self.rounds:
            return (0,) * len(self.prompts)
        return self.rounds[0].target_cache.before

    @property
    def prefill_seconds(self) -> float:
        """How long that took, both models together."""
        return self.rounds[0].seconds.get("prefill", 0.0) if self.rounds else 0.0

    def tokens(self, row: int = 0) -> list[int]:
        """Everything emitted for a row, without the prompt."""
        return [token for r in self.rounds for token in r.emitted[row]]

    def finish(self, row: int = 0) -> Finish | None:
        """Why the row ended, or None if it had not."""
        if self.rounds:
            return self.rounds[-1].finish[row]
        # Without a round there was no room from the start.
        full = len(self.prompts[row]) >= self.config.get("context", float("inf"))
        return "context" if full else "cap" if self.config.get("max_new_tokens") == 0 else None

    def statistics(self) -> Statistics:
        """Counts over all rows and rounds."""
        rows = range(len(self.prompts))
        seconds: dict[str, float] = {}
        for r in self.rounds:
            for phase, value in r.seconds.items():
                seconds[phase] = seconds.get(phase, 0.0) + value
        return Statistics(
            emitted=sum(len(r.emitted[b]) for r in self.rounds for b in rows),
            target_calls=len(self.rounds),
            row_rounds=sum(r.live[b] for r in self.rounds for b in rows),
            accepted=sum(r.accepted(b) for r in self.rounds for b in rows if r.live[b]),
            tested=sum(r.tested(b) for r in self.rounds for b in rows),
            drafted=sum(r.drafted(b) for r in self.rounds for b in rows if r.live[b]),
            seconds=seconds,
        )


@dataclass(frozen=True)
class Statistics:
    """Counts of a trace.

    Attributes:
        emitted: tokens, all rows together.
        target_calls: forwards of the target, prefill left out.
        row_rounds: the same counted per live row.
        accepted: drafted tokens that were kept.
        tested: drafted tokens that were looked at; those behind a rejection were not.
        drafted: drafted tokens.
        seconds: by phase.
    """

    emitted: int
    target_calls: int
    row_rounds: int
    accepted: int
    tested: int
    drafted: int
    seconds: Mapping[str, float]

    @property
    def acceptance(self) -> float | None:
        """Accepted over tested, or None if nothing was drafted."""
        return self.accepted / self.tested if self.tested else None

    @property
    def tokens_per_target_call(self) -> float | None:
        """Tokens a row gains in one target call, or None if there was none."""
        return self.emitted / self.row_rounds if self.row_rounds else None


def check_prompts(prompts: Sequence[Sequence[int]], vocab_size: int, max_length: int) -> None:
    """Refuses prompts that cannot be decoded.

    Args:
        prompts: token ids, one sequence per row.
        vocab_size: V.
        max_length: the model's context.

    Raises:
        ValueError: if there is no prompt, one is empty, too long, or has an id outside 0 … V−1.
    """
    if not prompts:
        raise ValueError("there is no prompt; give at least one")
    for row, prompt in enumerate(prompts):
        if len(prompt) == 0:
            raise ValueError(f"prompt {row} is empty; it needs at least one token")
        if len(prompt) > max_length:
            raise ValueError(f"prompt {row} has {len(prompt)} tokens; the context holds {max_length}")
        if not all(0 <= token < vocab_size for token in prompt):
            raise ValueError(f"prompt {row} has a token id outside 0 to {vocab_size - 1}")
