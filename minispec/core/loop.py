"""The loop: draft, verify, commit, rollback, until every row is done.

`generate` is the target alone, one token a step. It is the oracle that everything is compared with, and
is kept simple on purpose. `speculate` yields tokens of the same distribution in fewer target calls.
`basic.py` has the same loop for one row; this one adds ragged batches, ends, and records.
"""

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from minispec.core.cache import KVCache
from minispec.core.commit import Eos, Rows, commit, end_ids
from minispec.core.draft import Drafter, draft_within
from minispec.core.model import LanguageModel, Tree, read_tree
from minispec.core.prefill import Prompts, check_prompts, device_of, prefill, refill
from minispec.core.records import Draft, Round
from minispec.core.rng import BlockRng, DraftingRng, Rng
from minispec.core.rollback import keep_paths, rollback
from minispec.core.verify import Verifier
from minispec.core.warp import Warp


@torch.inference_mode()
def generate(
    target: LanguageModel, prompts: Prompts, *, max_new_tokens: int, warp: Warp, rng: Rng, eos: Eos = None
) -> Iterator[tuple[int | None, ...]]:
    """Decodes with the target alone: one forward, one token a row. Arguments are those of `speculate`.

    Yields:
        Per step, one token per row; None for a row that was done.

    Raises:
        ValueError: on unusable prompts or ends, or a negative cap.
    """
    rows = checked_rows(target, None, prompts, max_new_tokens, eos)
    device = device_of(target)
    cache = prefill(target, prompts) if any(rows.live) else None
    while any(rows.live):
        live = None if all(rows.live) else torch.tensor(rows.live, device=device)
        logits = target(rows.pending[:, None].to(device), cache)[:, -1]  # [B, V]
        positions = torch.tensor(rows.lengths, device=device)
        token = rng.categorical(warp(logits), positions=positions, live=live).tolist()
        kept = [rows.append(row, token[row : row + 1]) for row in range(len(prompts))]
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
    at_once: int | None = None,
) -> Iterator[Round]:
    """Decodes with a drafter and a verifier, several tokens per target call.

    Leviathan et al. 2023, algorithm 1, for batches whose rows accept different numbers of tokens.

    Args:
        target: the model whose distribution the output has.
        drafter: proposes tokens; not used, and may be None, for k = 0.
        prompts: token ids, one sequence or tensor per row; lengths may differ.
        k: how many tokens to draft a round, K; 0 is target-only.
        verifier: the rule that keeps a prefix, such as `verify_rejection`.
        max_new_tokens: at most this many tokens a row, never one more.
        warp: from logits to distributions, for the target and, unless it has its own, the drafter.
        rng: draws, and decides what is accepted.
        eos: end-of-sequence, one id, several, or a tensor of them.
        at_once: how many prompts are decoded at once; the others wait for a row that is done (continuous
            batching, Yu et al. 2022, Orca). By default all.

    Yields:
        A `Round` after each rollback: both caches then hold all committed tokens but the pending one.

    Raises:
        ValueError: on unusable prompts or ends, a negative k or cap, no row, a missing drafter, different
            vocabularies, a greedy verifier at a temperature above 0, a draft that does not fit its round, or
            a tree for a target that reads none.
    """
    check_settings(target, drafter, k, verifier, warp)
    if at_once is not None and at_once < 1:
        raise ValueError(f"at least 1 prompt must be decoded at once, not {at_once}")
    drafter = drafter if k > 0 else None
    rows = checked_rows(target, drafter, prompts, max_new_tokens, eos)
    if at_once is not None:
        rows.hold(at_once)
        rows.refill()
    if not any(rows.live):
        return
    device = device_of(target)
    stops = getattr(verifier, "stops_at_first_rejection", True)
    seen = Remembering(target) if getattr(drafter, "wants_hidden", False) else None
    target = seen or target
    cache = prefill(target, rows.committed)

    def start(prompts: Prompts, **taken: Sequence[int]) -> None:
        if drafter is not None:
            drafter.start(prompts, *([seen.last] if seen else []), **taken)

    start(rows.committed)
    index = 0
    while any(rows.live):
        live = rows.live
        lengths = rows.lengths
        pending = rows.pending.to(device)
        budgets = [rows.budget(row) for row in range(len(live))]
        # The last token that fits is never drafted: it comes from the target.
        draftable = [max(budget - 1, 0) for budget in budgets]
        names = None if at_once is None else list(rows.names)

        drafting = DraftingRng(rng, lengths, draftable, device, names)
        draft = draft_within(drafter, pending, k, warp, drafting, target)
        logits = score(target, pending, draft, cache)
        probs = warp(logits)
        verdict = verifier(draft, probs, BlockRng(rng, lengths, budgets, device, names))
        emitted = commit(rows, draft, verdict)
        keep_paths(cache, lengths, verdict)
        rollback(cache, rows.committed)

        done = Round(
            index=index,
            pending=pending,
            draft=draft,
            target_probs=probs,
            target_logits=logits,
            verdict=verdict,
            emitted=emitted,
            live=live,
            finish=tuple(rows.finish),
            lengths=tuple(n - 1 for n in rows.lengths),
            names=tuple(rows.names),
            target_hidden=seen.last if seen else None,
            stops_at_first_rejection=stops,
        )
        if drafter is not None:
            drafter.commit(done)  # catches up after full acceptance, and rolls back
        yield done
        index += 1

        if taken := rows.refill():
            begun = [rows.committed[row] for row in taken]
            refill(target, cache, taken, begun)
            start(begun, rows=taken)


def score(target: LanguageModel, pending: Tensor, draft: Draft, cache: KVCache) -> Tensor:
    """Has the target read the pending tokens [B] and a draft of K, in one forward: logits [B, K+1, V].

    The tokens of a tree see their own ancestors only. For that the target's `hidden` must take a `Tree`.
    """
    block = draft.after(pending)
    if draft.parents is None:
        return target(block, cache)
    tree = Tree.after(cache.lengths, draft.parents)
    return target.head(read_tree(target, block, cache, tree))


class Remembering:
    """A target that keeps the hidden states of its last forward, for a drafter that `wants_hidden`.

    Attributes:
        last: [B, n, D], or None before the first forward.
    """

    def __init__(self, model: LanguageModel) -> None:
        self.model = model
        self.vocab_size = model.vocab_size
        self.max_length = model.max_length
        self.device = device_of(model)
        self.head = model.head
        self.last: Tensor | None = None

    def new_cache(self, rows: int) -> KVCache:
        """Returns an empty cache of the model."""
        self.last = None
        return self.model.new_cache(rows)

    def hidden(self, tokens: Tensor, cache: KVCache | None = None, **tree: Tree) -> Tensor:
        """Reads tokens [B, n] as the model does: [B, n, D]."""
        self.last = self.model.hidden(tokens, cache, **tree)
        return self.last

    def __call__(self, tokens: Tensor, cache: KVCache | None = None) -> Tensor:
        """Returns head(hidden(tokens, cache)): logits [B, n, V]."""
        return self.head(self.hidden(tokens, cache))


def check_settings(
    target: LanguageModel, drafter: Drafter | None, k: int, verifier: Verifier, warp: Warp
) -> None:
    """Refuses, by ValueError, settings that do not go together."""
    if k < 0:
        raise ValueError(f"k must be at least 0, not {k}")
    if getattr(verifier, "greedy", False) and not warp.is_greedy:
        raise ValueError(
            f"the greedy verifier needs temperature 0, not {warp.temperature}; "
            f"use the rejection verifier, or temperature 0"
        )
    if k > 0 and drafter is None:
        raise ValueError(f"k = {k} needs a drafter; give one, or k = 0 for target-only")
    vocab_size = getattr(drafter, "vocab_size", target.vocab_size)
    if k > 0 and vocab_size != target.vocab_size:
        raise ValueError(
            f"draft and target must share one vocabulary: the draft has {vocab_size} tokens, "
            f"the target {target.vocab_size}"
        )


def checked_rows(
    target: LanguageModel, drafter: Drafter | None, prompts: Prompts, max_new_tokens: int, eos: Eos
) -> Rows:
    """Returns the rows of prompts that both models can hold; a ValueError says what cannot be decoded."""
    context = min(target.max_length, getattr(drafter, "max_length", target.max_length))
    prompts = check_prompts(prompts, target.vocab_size, context)
    if max_new_tokens < 0:
        raise ValueError(f"max_new_tokens must be at least 0, not {max_new_tokens}")
    return Rows(prompts, max_new_tokens, context, end_ids(eos, target.vocab_size))
