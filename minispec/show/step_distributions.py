"""The laws behind a step: the few most probable tokens, for the draft and for the target."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from minispec.core.records import Round
from minispec.core.verify import residual
from minispec.io.recording import Recording

TOP = 4  # tokens of each law


@dataclass(frozen=True)
class Bar:
    """One token in a chart of laws.

    Attributes:
        id: of the token.
        text: of the token.
        p: its probability for the target, or None where the target is not asked.
        q: for the draft, or None.
        residual: in norm(max(0, p − q)), or None where nothing is drawn from it.
        mark: `guess` for the drafted token, `picked` for the one that is taken, else an empty string.
    """

    id: int
    text: str
    p: float | None = None
    q: float | None = None
    residual: float | None = None
    mark: str = ""


def is_one_hot(law: Tensor) -> bool:
    """Whether a law leaves nothing to chance: [V]."""
    return bool(law.max() == law.sum())


def draft_bars(r: Round, row: int, place: int, words: Sequence[str]) -> tuple[Bar, ...]:
    """Returns what a token was drafted from; nothing where there was no choice."""
    q, token = r.draft.probs[row, place], int(r.draft.tokens[row, place])
    if is_one_hot(q):
        return ()
    ids = leading([q], [token])
    return tuple(Bar(i, words[i], q=float(q[i]), mark="guess" if i == token else "") for i in ids)


def test_bars(r: Round, row: int, place: int, recording: Recording) -> tuple[tuple[Bar, ...], str]:
    """Returns what a drafted token is tested by, and what to call it."""
    p, q = r.target_probs[row, place], r.draft.probs[row, place]
    token = int(r.draft.tokens[row, place])
    if is_one_hot(p):
        return target_bars(r, row, place, recording, token)
    ids = leading([p, q], [token])
    mark = {token: "guess"}
    words = recording.words
    bars = [Bar(i, words[i], p=float(p[i]), q=float(q[i]), mark=mark.get(i, "")) for i in ids]
    return tuple(bars), "the target's law p beside the draft's law q"


def next_bars(r: Round, row: int, recording: Recording) -> tuple[tuple[Bar, ...], str]:
    """Returns what a correction or a bonus is taken from, and what to call it."""
    place, picked = r.accepted(row), int(r.verdict.token[row])
    p = r.target_probs[row, place]
    rejected = place < r.drafted(row)
    guess = int(r.draft.tokens[row, place]) if rejected else None
    if is_one_hot(p):
        return target_bars(r, row, place, recording, guess, picked)
    words, marks = recording.words, {picked: "picked"} | ({guess: "guess"} if guess is not None else {})
    if not rejected or recording.trace.config.get("verifier") != "verify_rejection":
        ids = leading([p], list(marks))
        return tuple(
            Bar(i, words[i], p=float(p[i]), mark=marks.get(i, "")) for i in ids
        ), "the target's law p, from which the token is drawn"
    q = r.draft.probs[row, place]
    short = residual(p.double(), q.double())
    ids = leading([short, q], list(marks))
    bars = [Bar(i, words[i], float(p[i]), float(q[i]), float(short[i]), mark=marks.get(i, "")) for i in ids]
    return tuple(bars), "the residual, norm(max(0, p − q)), from which the correction is drawn"


def target_bars(
    r: Round, row: int, place: int, recording: Recording, guess: int | None, picked: int | None = None
) -> tuple[tuple[Bar, ...], str]:
    """Returns the target's law as it is before temperature 0 puts all of it on one token."""
    plain = torch.softmax(r.target_logits[row, place].double(), -1)
    best = int(r.target_probs[row, place].argmax())
    marks = {} if picked is None else {picked: "picked"}
    marks |= {} if guess is None else {guess: "guess"}
    ids = leading([plain], [best, *marks])
    bars = [Bar(i, recording.words[i], p=float(plain[i]), mark=marks.get(i, "")) for i in ids]
    return tuple(bars), "what the target thinks; at temperature 0 the largest is taken"


def leading(laws: Sequence[Tensor], always: Iterable[int]) -> list[int]:
    """Returns the ids that lead one of the laws, and those asked for, most probable first: [V] each."""
    found = set(always)
    for law in laws:
        found |= set(law.double().topk(min(TOP, len(law))).indices.tolist())
    first = laws[0].double()
    kept = [i for i in found if i in set(always) or max(float(law[i]) for law in laws) >= 5e-4]
    return sorted(kept, key=lambda i: (-float(first[i]), i))
