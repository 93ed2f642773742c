"""The loop: draft, verify, commit, rollback, until every row is done.

`generate` is the target alone, one token a step. It is the oracle that everything is compared with, and
is kept simple on purpose. `speculate` yields tokens of the same distribution in fewer target calls.
`basic.py` has the same loop for one row; this one adds ragged batches, ends, and records.
"""

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from minispec.core.batch import Batch, Eos, Request, requests_of
from minispec.core.cache import KVCache
from minispec.core.draft import Drafter, NoDrafter, draft_within
from minispec.core.model import LanguageModel, Tree
from minispec.core.prefill import prefill, refill
from minispec.core.records import Draft, Round
from minispec.core.rng import Rng, RoundRng
from minispec.core.rollback import rollback
from minispec.core.verify import Decide, Verifier, as_verifier
from minispec.core.warp import Warp


@torch.inference_mode()
def generate(
    target: LanguageModel,
    prompts: Sequence[Sequence[int] | Request],
    *,
    max_new_tokens: int | None = None,
    warp: Warp,
    rng: Rng,
    eos: Eos = None,
) -> Iterator[tuple[int | None, ...]]:
    """Decodes with the target alone: one forward, one token a row. Arguments are those of `speculate`.

    Yields:
        Per step, one token per row; None for a row that was done.

    Raises:
        ValueError: on requests that cannot be decoded.
    """
    sizes = target.vocab_size, target.max_length
    batch = Batch(requests_of(prompts, max_new_tokens, eos, *sizes), *sizes)
    if any(batch.live):
        cache, _ = prefill(target, batch.texts)
    while any(batch.live):
        hidden = target.hidden(batch.pending(target.device)[:, None], cache)
        probs = warp(target.head(hidden)[:, -1])  # [B, V]
        tokens = rng.categorical(probs, batch.plan(target.device).at(0)).tolist()
        emitted = [row.append([token]) for row, token in zip(batch.rows, tokens, strict=True)]
        if not all(batch.live):
            cache.truncate(batch.cache_lengths)  # rows that are done stay as they are
        yield tuple(tokens[0] if tokens else None for tokens in emitted)


@torch.inference_mode()
def speculate(
    target: LanguageModel,
    drafter: Drafter | None,
    prompts: Sequence[Sequence[int] | Request],
    *,
    k: int,
    verifier: Verifier | Decide,
    max_new_tokens: int | None = None,
    warp: Warp,
    rng: Rng,
    eos: Eos = None,
    batch_size: int | None = None,
) -> Iterator[Round]:
    """Decodes with a drafter and a verifier, several tokens per target call.

    Leviathan et al. 2023, algorithm 1, for batches whose rows accept different numbers of tokens.

    Args:
        target: the model whose distribution the output has.
        drafter: proposes tokens; not used, and may be None, for k = 0.
        prompts: token ids, one sequence or tensor for each; their lengths may differ. Or a `Request` for
            each, with a cap and ends of its own.
        k: how many tokens to draft a round, K; 0 is target-only.
        verifier: keeps a prefix of a draft, such as `verify_rejection`; a plain function of a draft, the
            target's distributions and an rng will do.
        max_new_tokens: at most this many tokens for each prompt that is no `Request`, never one more.
        warp: from logits to distributions, for the target and, unless it has its own, the drafter.
        rng: draws, and decides what is accepted.
        eos: end-of-sequence for these prompts, one id, several, or a tensor of them.
        batch_size: how many prompts are decoded together; the others wait for a row that is done (continuous
            batching, Yu et al. 2022, Orca). By default all.

    Yields:
        A `Round` after each rollback: both caches then hold all committed tokens but the pending one.

    Raises:
        ValueError: on requests that cannot be decoded, a negative k, no row, a missing drafter, different
            vocabularies, a greedy verifier at a temperature above 0, a draft that does not fit its round, a
            tree for a target or a verifier that takes none, or a tree whose candidates were drawn in a way
            for which the verifier is not lossless.
    """
    verifier = as_verifier(verifier)
    drafter = checked_drafter(drafter, k, target, verifier, warp)
    sizes = target.vocab_size, min(target.max_length, drafter.max_length)
    batch = Batch(requests_of(prompts, max_new_tokens, eos, *sizes), *sizes, batch_size)
    if not any(batch.live):
        return
    cache, hidden = prefill(target, batch.texts)
    drafter.start(batch.texts, hidden)
    index = 0
    while any(batch.live):
        live = batch.live
        before = batch.cache_lengths
        pending = batch.pending(target.device)
        plan = batch.plan(target.device)

        draft = draft_within(drafter, pending, k, warp, rng, plan.without_last(), target.max_length)
        hidden = read(target, pending, draft, cache)
        logits = target.head(hidden)
        probs = warp(logits)
        verdict = verifier(draft, probs, RoundRng(rng, plan))
        emitted = batch.commit(draft, verdict)
        lengths = batch.cache_lengths
        rollback(cache, verdict, before, lengths)

        round = Round(
            index=index,
            prompt_ids=plan.prompt_ids,
            pending=pending,
            draft=draft,
            target_hidden=hidden,
            target_logits=logits,
            target_probs=probs,
            verdict=verdict,
            stops_at_first_rejection=verifier.stops_at_first_rejection,
            live=live,
            emitted=emitted,
            finish=tuple(row.finish for row in batch.rows),
            lengths=lengths,
        )
        drafter.commit(round)  # catches up after full acceptance, and rolls back
        yield round
        index += 1

        if refilled := batch.refill():
            texts = [batch.rows[row].tokens for row in refilled]
            drafter.admit(refilled, texts, refill(target, cache, refilled, texts))


def read(target: LanguageModel, pending: Tensor, draft: Draft, cache: KVCache) -> Tensor:
    """Has the target read the pending tokens [B] and a draft of K, in one forward: hidden [B, K+1, D]."""
    block = draft.after(pending)
    if draft.parents is None:
        return target.hidden(block, cache)
    return target.hidden(block, cache, Tree.after(cache.lengths, draft.parents))


def checked_drafter(
    drafter: Drafter | None, k: int, target: LanguageModel, verifier: Verifier, warp: Warp
) -> Drafter:
    """Returns the drafter, for k = 0 none; a ValueError says which settings do not go together."""
    if k < 0:
        raise ValueError(f"k must be at least 0, not {k}")
    if verifier.greedy and not warp.is_greedy:
        raise ValueError(
            f"the greedy verifier needs temperature 0, not {warp.temperature}; "
            f"use the rejection verifier, or temperature 0"
        )
    if k == 0:
        return NoDrafter(target)
    if drafter is None:
        raise ValueError(f"k = {k} needs a drafter; give one, or k = 0 for target-only")
    if drafter.vocab_size != target.vocab_size:
        raise ValueError(
            f"draft and target must share one vocabulary: the draft has {drafter.vocab_size} tokens, "
            f"the target {target.vocab_size}"
        )
    return drafter
