"""Native versions of the warp and the rules: the same decisions, each of them one call into a library.

Behind the native forward, even NumPy's starting times would be a fifth of a round. `warp.py` and `verify.py`
are the ones to read; the loops are in `minispec/lm/cpp/decisions.h`. Where the library does not fit, because
numbers are on a GPU or chance does not tell its numbers, the lean versions decide. Tests hold all of them to
each other, draw by draw.
"""

from __future__ import annotations

import ctypes

import torch
from torch import Tensor

from minispec.decoding.lean import LeanWarp, lean_greedy, lean_rejection
from minispec.decoding.records import Draft, Verdict
from minispec.decoding.rng import BlockRng, Rng
from minispec.lm.model import DAMAGED
from minispec.lm.native_library import NAMES, native_functions

NO_DRAFT = "the draft has a token id outside 0 to {}, or a length outside 0 to {}"


class NativeWarp(LeanWarp):
    """A `Warp` that is quick at every temperature; top-k and top-p it leaves to its parent."""

    def __call__(self, logits: Tensor) -> Tensor:
        """Returns probabilities, [..., V] -> [..., V], those of `Warp` up to rounding.

        Args:
            logits: [..., V], of any floating type.

        Raises:
            ValueError: if a row has NaN or plus infinity, or nothing but minus infinity.
        """
        if self.top_k is not None or self.top_p is not None or not fits(logits):
            return super().__call__(logits)
        probs, vocab = torch.empty_like(logits), logits.shape[-1]
        rows, laws = logits.numel() // vocab, native_functions(logits.dtype).laws
        if not laws(logits.data_ptr(), rows, vocab, self.temperature, probs.data_ptr()):
            raise ValueError(DAMAGED)
        return probs


def native_greedy(draft: Draft, target_probs: Tensor, rng: Rng) -> Verdict:
    """Decides as `verify_greedy` does (Leviathan et al. 2023, section 2.2).

    Args:
        draft: as in `Verifier`; its probabilities are not read.
        target_probs: [B, K+1, V].
        rng: not used.

    Returns:
        As in `Verifier`.

    Raises:
        ValueError: if the draft has a token or a length that cannot be.
    """
    tokens, lengths = draft.tokens, draft.lengths
    (rows, k), vocab = tokens.shape, target_probs.shape[-1]
    if not (fits(target_probs) and target_probs.shape == (rows, k + 1, vocab) and are_whole(tokens, lengths)):
        return lean_greedy(draft, target_probs, rng)
    accepted, token = torch.empty(rows, dtype=torch.long), torch.empty(rows, dtype=torch.long)
    places = accepted.data_ptr(), token.data_ptr()
    agree = native_functions(target_probs.dtype).agree
    if agree(target_probs.data_ptr(), tokens.data_ptr(), lengths.data_ptr(), rows, k, vocab, *places) < 0:
        raise ValueError(NO_DRAFT.format(vocab - 1, k))
    return Verdict(accepted, token)


def native_rejection(draft: Draft, target_probs: Tensor, rng: Rng) -> Verdict:
    """Decides as `verify_rejection` does (Leviathan et al. 2023, algorithm 1), with the same draws.

    Args:
        draft: as in `Verifier`.
        target_probs: [B, K+1, V].
        rng: decides each test, and draws the correction or the bonus.

    Returns:
        As in `Verifier`.

    Raises:
        ValueError: if the draft has a token or a length that cannot be.
    """
    p, q, tokens, lengths = target_probs, draft.probs, draft.tokens, draft.lengths
    (rows, k), vocab = tokens.shape, p.shape[-1]
    alike = p.dtype == q.dtype and p.shape == (rows, k + 1, vocab) and q.shape == (rows, k, vocab)
    usable = alike and fits(p) and fits(q) and are_whole(tokens, lengths)
    if not usable or not isinstance(rng, BlockRng) or (numbers := rng.lend(rows * (k + 1))) is None:
        return lean_rejection(draft, target_probs, rng)
    accepted, token = torch.empty(rows, dtype=torch.long), torch.empty(rows, dtype=torch.long)
    used = native_functions(p.dtype).reject(
        p.data_ptr(),
        q.data_ptr(),
        tokens.data_ptr(),
        lengths.data_ptr(),
        (ctypes.c_int64 * rows)(*rng.rooms),
        rows,
        k,
        vocab,
        numbers.data_ptr(),
        accepted.data_ptr(),
        token.data_ptr(),
    )
    if used < 0:
        raise ValueError(NO_DRAFT.format(vocab - 1, k))
    rng.give_back(len(numbers) - used)
    return Verdict(accepted, token)


def fits(numbers: Tensor) -> bool:
    """Whether the library can read a tensor as it lies: on the CPU, without gaps, of a type that it knows.

    Args:
        numbers: [..., V], logits or laws.
    """
    return numbers.dtype in NAMES and numbers.is_cpu and numbers.is_contiguous()


def are_whole(tokens: Tensor, lengths: Tensor) -> bool:
    """Whether it can read a draft.

    Args:
        tokens: [B, K].
        lengths: [B].
    """
    return all(n.dtype == torch.long and n.is_cpu and n.is_contiguous() for n in (tokens, lengths))
