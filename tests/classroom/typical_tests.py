"""Typical wrong answers to "write a test": the exercise knows each by the alarms that it raises."""

import torch

from minispec.core.records import Draft
from minispec.core.rng import SeededRng
from minispec.core.verify import verify_rejection

P = torch.tensor([[3, 2, 1], [1, 1, 4], [2, 3, 1]]).double() / 6
Q = torch.tensor([[1, 1, 4], [3, 1, 2]]).double() / 6
CERTAIN = torch.eye(3).double()


def sampled_rounds(verifier, p, q, rows):
    """Samples rounds: returns the drafted tokens [rows, K], and the verdict; p is [K+1, V] and q [K, V]."""
    rng = SeededRng(5)
    probs = q.expand(rows, *q.shape)
    tokens = torch.stack([rng.categorical(probs[:, i]) for i in range(len(q))], 1)
    return tokens, verifier(Draft(tokens, probs), p.expand(rows, *p.shape), rng)


def frequencies(verifier, p, q, rows, slack):
    """Counts first and second tokens of sampled rounds: what most tests look like."""
    tokens, verdict = sampled_rounds(verifier, p, q, rows)
    text = torch.cat([tokens, torch.zeros(rows, 1, dtype=torch.long)], 1)
    text[torch.arange(rows), verdict.accepted] = verdict.token
    seconds = text[verdict.accepted >= 1, 1]
    observed = [torch.bincount(ids, minlength=3) / len(ids) for ids in (text[:, 0], seconds)]
    return all(bool((frequency - p[i]).abs().max() < slack) for i, frequency in enumerate(observed))


def same_draws(verifier):
    """Compares token by token with the shipped rule."""
    return torch.equal(
        *(sampled_rounds(rule, P[:2], Q[:1], 500)[1].token for rule in (verifier, verify_rejection))
    )


def accepts_as_often(verifier):
    """Looks at the share of accepted tokens."""
    accepted = sampled_rounds(verifier, P[:2], Q[:1], 20_000)[1].accepted
    return bool((accepted.double().mean() - 0.5).abs() < 0.02)


TYPICAL = {
    "always-true": lambda verifier: True,
    "always-false": lambda verifier: False,
    "temperature-0": lambda verifier: frequencies(verifier, CERTAIN, CERTAIN[[0, 2]], 500, 0.01),
    "same-draws": same_draws,
    "acceptance": accepts_as_often,
    "one-token": lambda verifier: frequencies(verifier, P[:2], Q[:1], 20_000, 0.02),
    "too-few-samples": lambda verifier: frequencies(verifier, P, Q, 100, 0.08),
}
