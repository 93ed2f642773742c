"""Accept rules for `check_verifier` to judge, written for the occasion, and parts of such rules."""

import torch

from minispec import SeededRng, Verdict
from minispec.core.verify import as_verifier, residual
from minispec.verifiers.tree import walk


def rule_of(accept=lambda left, p, q: left / q, correction=residual, after=lambda p, q, i: p[:, i + 1]):
    """Returns recursive rejection with one part exchanged; on a chain it is plain rejection.

    Args:
        accept: from what is left on a candidate, its p and its q, the probability to accept it: [B] each.
        correction: from what is left and q, what is left after a rejection.
        after: from all distributions of target and draft, the one after token i.
    """

    def rule(draft, target_probs, rng):
        p = target_probs.double()
        q = draft.probs.double()
        left = here = p[:, 0]

        def accepts(i, testing, depth):
            nonlocal left, here
            said = accept(*(dist.gather(1, draft.tokens[:, i, None])[:, 0] for dist in (left, here, q[:, i])))
            kept = rng.bernoulli(said.clamp(max=1), depth, testing)
            left = torch.where((testing & ~kept)[:, None], correction(left, q[:, i]), left)
            left = torch.where(kept[:, None], after(p, q, i), left)
            here = torch.where(kept[:, None], p[:, i + 1], here)
            return kept

        path = walk(draft, accepts)
        token = rng.categorical(left, path.sum(-1))
        return Verdict(path.sum(-1), token, None if draft.parents is None else path)

    return rule


def of_its_own(rule):
    """Returns the same rule, with numbers that no script leads."""
    verifier = as_verifier(rule)
    return lambda draft, p, rng: verifier(draft, p, SeededRng(int(torch.randint(2**32, ()))))
