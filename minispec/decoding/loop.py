"""The loop: draft, verify, commit, rollback, until every row is done.

`generate` is the target alone, one token a step. It is the oracle that everything is compared with, and
stays plain for ever. `speculate` yields the same law in fewer target calls.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from minispec.decoding.clock import Clock
from minispec.decoding.commit import Eos, Rows, commit
from minispec.decoding.draft import Drafter
from minispec.decoding.lean import lean_greedy
from minispec.decoding.native import native_greedy
from minispec.decoding.prefill import device_of, prefill
from minispec.decoding.records import CacheLengths, Draft, Round, Trace, check_prompts
from minispec.decoding.rng import BlockRng, Rng
from minispec.decoding.rollback import rollback
from minispec.decoding.verify import Verifier, verify_greedy
from minispec.decoding.warp import Warp
from minispec.lm.model import LanguageModel

Prompts = Sequence[Sequence[int]]
# Rules that need temperature 0.
GREEDY: tuple[Verifier, ...] = (verify_greedy, lean_greedy, native_greedy)


@torch.inference_mode()
def generate(
    target: LanguageModel,
    prompts: Prompts,
    *,
    max_new_tokens: int,
    warp: Warp,
    rng: Rng,
    eos: Eos = None,
) -> Iterator[tuple[int | None, ...]]:
    """Decodes with the target alone: one forward, one token a row.

    Args:
        target: the model.
        prompts: token ids, one sequence per row; lengths may differ.
        max_new_tokens: at most this many tokens a row.
        warp: from logits to the law that is sampled.
        rng: the door to chance.
        eos: end-of-sequence, one id or several; None: rows end at the cap or the context's end.

    Yields:
        Per step, one token per row; None for a row that was done.

    Raises:
        ValueError: on unusable prompts or a negative cap.
    """
    _check(target, prompts, max_new_tokens)
    rows = Rows(prompts, max_new_tokens, target.max_length, eos)
    device = device_of(target)
    cache = prefill(target, prompts, device) if any(rows.live) else None
    while any(rows.live):
        live = None if all(rows.live) else torch.tensor(rows.live, device=device)
        logits = target(rows.pending[:, None].to(device), cache)[:, -1]  # [B, V]
        place = torch.tensor(rows.lengths, device=device)
        token = rng.categorical(warp(logits), positions=place, live=live).tolist()
        kept = [rows.commit(row, token[row : row + 1]) for row in range(len(prompts))]
        if cache is not None and not all(rows.live):
            rollback(cache, rows.committed)  # rows that are done stay frozen
        yield tuple(tokens[0] if tokens else None for tokens in kept)


@torch.inference_mode()
def speculate(
    target: LanguageModel,
    drafter: Drafter | None,
    prompts: Prompts,
    *,
    k: int,
    verifier: Verifier,
    max_new_tokens: int,
    warp: Warp,
    rng: Rng,
    eos: Eos = None,
) -> Iterator[Round]:
    """Decodes with a drafter and a verifier, several tokens per target call.

    Leviathan et al. 2023, algorithm 1, for batches whose rows accept different numbers of tokens.

    Args:
        target: the model whose law the output has.
        drafter: proposes tokens; not used, and may be None, for k = 0.
        prompts: token ids, one sequence per row; lengths may differ.
        k: how many tokens to draft a round, K; 0 is target-only.
        verifier: the rule that keeps a prefix, such as `verify_rejection`.
        max_new_tokens: at most this many tokens a row, never one more.
        warp: from logits to laws, for the target and, unless it has its own, the drafter.
        rng: the door to chance.
        eos: end-of-sequence, one id or several.

    Yields:
        A `Round` after each rollback: both caches then hold all committed tokens but the pending one.

    Raises:
        ValueError: on unusable prompts, a negative k or cap, a missing drafter, different vocabularies,
            or the greedy verifier at a temperature above 0.
    """
    _check(target, prompts, max_new_tokens)
    _check_pairing(target, drafter, prompts, k, verifier, warp)
    rows = Rows(prompts, max_new_tokens, _shared_context(target, drafter, k), eos)
    if not any(rows.live):
        return
    device = device_of(target)
    clock = Clock()
    cache = prefill(target, prompts, device)
    active = drafter if k > 0 else None
    if active is not None:
        active.start(prompts)
    clock.lap("prefill")
    index = 0
    pending = rows.pending.to(device)
    while any(rows.live):
        live = rows.live
        start, room = rows.lengths, [rows.room(row) for row in range(len(prompts))]
        before, draft_before = cache.row_lengths, _lengths(active)
        clock.lap("other")

        # The last token that fits is never drafted: it comes from the target.
        draftable = [max(n - 1, 0) for n in room]
        width = min(k, max(draftable))
        draft = _draft(
            active, pending, width, warp, BlockRng(rng, start, draftable, device), draftable, target
        )
        draft_verified = _lengths(active)
        clock.lap("draft")

        block = torch.cat([pending[:, None], draft.tokens], dim=1)  # [B, K+1]
        logits = target(block, cache)  # [B, K+1, V]
        verified = cache.row_lengths
        probs = warp(logits)
        verdict = verifier(draft, probs, BlockRng(rng, start, room, device))
        clock.lap("verify")

        emitted = commit(rows, draft, verdict)
        clock.lap("other")

        rollback(cache, rows.committed)
        clock.lap("rollback")

        lengths = CacheLengths(before, verified, cache.row_lengths)
        done = Round(
            index,
            pending,
            draft,
            probs,
            logits,
            verdict,
            emitted,
            live,
            tuple(rows.finish),
            lengths,
            None,
            {},
        )
        clock.lap("other")
        if active is not None:
            active.commit(done)  # catches up after full acceptance, and rolls back: part of drafting
        clock.lap("draft")
        yield done.completed(_drafted(draft_before, draft_verified, active), clock.take())
        index += 1
        # A row that goes on ends in the verdict's token; one that is done may have been cut before it.
        pending = verdict.token if all(rows.live) else rows.pending.to(device)


def record(target: LanguageModel, drafter: Drafter | None, prompts: Prompts, **settings: Any) -> Trace:
    """Runs `speculate` to its end and returns the whole trace.

    Args:
        target: as in `speculate`.
        drafter: as in `speculate`.
        prompts: as in `speculate`.
        **settings: the keyword arguments of `speculate`.
    """
    rounds = tuple(speculate(target, drafter, prompts, **settings))
    config = run_config(target, drafter, settings)
    return Trace(tuple(tuple(prompt) for prompt in prompts), config, rounds)


def run_config(target: LanguageModel, drafter: Drafter | None, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Returns what a trace says of the settings that `speculate` was called with."""
    warp: Warp = settings["warp"]
    return {
        "k": settings["k"],
        "verifier": getattr(settings["verifier"], "__name__", str(settings["verifier"])),
        "max_new_tokens": settings["max_new_tokens"],
        "temperature": warp.temperature,
        "top_k": warp.top_k,
        "top_p": warp.top_p,
        "context": _shared_context(target, drafter, settings["k"]),
    }


def _check(target: LanguageModel, prompts: Prompts, max_new_tokens: int) -> None:
    check_prompts(prompts, target.vocab_size, target.max_length)
    if max_new_tokens < 0:
        raise ValueError(f"max_new_tokens must be at least 0, not {max_new_tokens}")


def _check_pairing(
    target: LanguageModel, drafter: Drafter | None, prompts: Prompts, k: int, verifier: Verifier, warp: Warp
) -> None:
    if k < 0:
        raise ValueError(f"k must be at least 0, not {k}")
    if verifier in GREEDY and not warp.is_greedy:
        raise ValueError(
            f"the greedy verifier needs temperature 0, not {warp.temperature}; "
            f"use the rejection verifier, or temperature 0"
        )
    if k == 0:
        return
    if drafter is None:
        raise ValueError(f"k = {k} needs a drafter; give one, or k = 0 for target-only")
    vocab_size = getattr(drafter, "vocab_size", target.vocab_size)
    if vocab_size != target.vocab_size:
        raise ValueError(
            f"draft and target must share one vocabulary: the draft has {vocab_size} tokens, "
            f"the target {target.vocab_size}"
        )
    check_prompts(prompts, target.vocab_size, getattr(drafter, "max_length", target.max_length))


def _shared_context(target: LanguageModel, drafter: Drafter | None, k: int) -> int:
    """The longest text that both models can hold."""
    own = getattr(drafter, "max_length", target.max_length) if k > 0 else target.max_length
    return min(own, target.max_length)


def _draft(
    drafter: Drafter | None,
    pending: Tensor,
    width: int,
    warp: Warp,
    rng: Rng,
    room: list[int],
    target: LanguageModel,
) -> Draft:
    """Asks for a draft of a width, and shortens it where a row has less room."""
    device = pending.device
    if drafter is None or width <= 0:
        empty = Draft.empty(len(room), target.vocab_size)
        return Draft(empty.tokens.to(device), empty.probs.to(device))
    draft = drafter.propose(pending, width, warp, rng)
    if draft.k <= min(room) and draft.tokens.device == device:
        return draft
    lengths = torch.minimum(draft.lengths.cpu(), torch.tensor(room))
    return Draft(draft.tokens.to(device), draft.probs.to(device), lengths)


def _lengths(drafter: Drafter | None) -> tuple[int, ...] | None:
    return drafter.cache_lengths if drafter is not None else None


def _drafted(
    before: tuple[int, ...] | None, verified: tuple[int, ...] | None, drafter: Drafter | None
) -> CacheLengths | None:
    after = _lengths(drafter)
    if before is None or verified is None or after is None:
        return None
    return CacheLengths(before, verified, after)
