"""Accept rules for `check_verifier` to judge, written for the occasion, and parts of such rules."""

import torch

from minispec import SeededRng, Verdict
from minispec.classroom.rules import BUGGY_RULES
from minispec.core.verify import accept_rejection, as_verifier, residual
from minispec.native.drafter import DrawnDraft
from minispec.verifiers.tree import accept_tree, walk


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


# Wrong rules, beside those of the zoo.


def the_likeliest(p, q):
    """All mass on the id that the residual has most of."""
    remaining = residual(p, q)
    return torch.nn.functional.one_hot(remaining.argmax(-1), remaining.shape[-1]).double()


accepts_everything = rule_of(accept=lambda remaining, p, q: torch.ones_like(p))


def wrong_from_three_on(draft, target_probs, rng):
    return (accept_rejection if draft.k < 3 else accepts_everything)(draft, target_probs, rng)


def forgets_siblings(draft, target_probs, rng):
    """Takes the q of a position's first candidate for that of all, as if they were drawn with replacement."""
    parents = draft.parents[0].tolist()
    first = [parents.index(parent) for parent in parents]
    # `Draft` would refuse a candidate that the first one's q does not have.
    wrong = DrawnDraft(draft.tokens, draft.probs[:, first], draft.lengths, draft.parents)
    return accept_tree(wrong, target_probs, rng)


NEEDS_TWO_TOKENS = ("residual-of-the-last-place", "going-on-after-a-rejection", "one-number-for-all-places")
# What is wrong -> (rule, how candidates of a tree are chosen, K, V) of the smallest instance that shows it.
WRONG = {
    **{bug: (rule, None, 2 if bug in NEEDS_TWO_TOKENS else 1, 2) for bug, rule in BUGGY_RULES.items()},
    "accepts everything": (accepts_everything, None, 1, 2),
    "ratio in one digit": (rule_of(accept=lambda remaining, p, q: (p / q).round(decimals=1)), None, 1, 2),
    # With two ids there is only one candidate anyway.
    "the likeliest correction": (rule_of(correction=the_likeliest), None, 1, 3),
    "wrong from three tokens on": (wrong_from_three_on, None, 3, 2),
    "tests against p again": (rule_of(accept=lambda remaining, p, q: p / q), "with replacement", 2, 2),
    "corrects from p": (rule_of(correction=lambda remaining, q: remaining), "most probable", 2, 2),
    "goes on after the slot before": (rule_of(after=lambda p, q, i: p[:, i]), "greedy drafting", 2, 2),
    "forgets siblings": (forgets_siblings, "without replacement", 2, 3),
    "forgets that they are fixed": (forgets_siblings, "most probable", 2, 3),
    "forgets the last one's q": (forgets_siblings, "greedy drafting", 3, 3),
}
