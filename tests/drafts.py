"""Random drafts for tests of rules: distributions of several shapes, some drafts shorter than K."""

import torch

from minispec.core.records import Draft
from minispec.core.rng import SeededRng


def decides_alike(rule, other, draft, target_probs, seed=0):
    """Asserts that two rules give the same verdict by the same numbers; returns it."""
    found, wanted = (each(draft, target_probs, SeededRng(seed)) for each in (rule, other))
    assert torch.equal(found.accepted, wanted.accepted) and torch.equal(found.token, wanted.token)
    return found


def random_dists(shape, seed=0, dtype=torch.float32):
    """Returns distributions from normal logits."""
    logits = 3 * torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)
    return torch.softmax(logits, -1)


def random_draft(rows, k, vocab, seed, short=False, dtype=torch.float32):
    """Returns a draft of K tokens a row, and the target's distributions; every second row accepts all."""
    p = random_dists((rows, k + 1, vocab), seed, dtype)
    q = random_dists((rows, k, vocab), seed + 1, dtype)
    q[1::2] = p[1::2, :k]  # the first row, often alone, does not
    generator = torch.Generator().manual_seed(seed)
    tokens = torch.zeros(rows, 0).long()
    if k:
        tokens = torch.multinomial(q.reshape(-1, vocab), 1, generator=generator).view(rows, k)
    lengths = torch.randint(k + 1, (rows,), generator=generator) if short else torch.full((rows,), k)
    return Draft(tokens, q, lengths), p
