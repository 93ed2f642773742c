"""What all rules are compared on: a fixed family of distributions, and some of the shipped pair.

A position is a p and a q. Half of the family's are flat and half are peaked, with three to six tokens. They
are made of small integers, so they are the same on every machine.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import torch
from torch import Tensor

from minispec.core.records import Draft
from minispec.drafters.chain import Choice
from minispec.evidence.checker.instances import dice
from minispec.io.files import read_json

RECORDED = Path(__file__).parents[1] / "recorded" / "positions.json"
COUNT = 300  # positions
SIZES = (3, 4, 5, 6)  # tokens
WEIGHTS = ((1, 2, 3), (1, 10, 100))  # flat, peaked: what probabilities are proportional to
FIRST = 4  # of the seeds tried, its means lie nearest to those of thousands of such positions
CHAINS, CHAIN_SHAPE = 10, (5, 8)  # how many, with K and V
CHAIN_WEIGHTS = torch.tensor([1, 2, 3, 4, 6], dtype=torch.float64)
THIRDS = torch.tensor([1 / 3, 2 / 3], dtype=torch.float64)  # and the draft has them the other way round


@dataclass(frozen=True)
class Drafts:
    """Drafts with their probabilities, as rows that a rule can be given.

    Attributes:
        draft: of B rows.
        target_probs: [B, K+1, V] float64.
        weights: [B] float64, the probability of each draft in its own instance.
        instances: [B], which instance each row belongs to.
    """

    draft: Draft
    target_probs: Tensor
    weights: Tensor
    instances: Tensor


def positions(seed: int = 0) -> tuple[Tensor, Tensor]:
    """Returns p and q of the family's positions; tokens that a position lacks have probability 0.

    Args:
        seed: another one gives another family of the same kind.

    Returns:
        [N, V] and [N, V], float64.
    """
    number = torch.arange(COUNT)
    sizes = torch.tensor(SIZES)[number % len(SIZES)]
    tables = torch.tensor(WEIGHTS, dtype=torch.float64)[number // len(SIZES) % 2]  # [N, 3]
    inside = torch.arange(max(SIZES)) < sizes[:, None]
    faces = (thrown(inside.shape, 3, FIRST + 2 * seed + n) for n in range(2))
    p, q = (normalised(tables.gather(1, face) * inside) for face in faces)
    return p, q


def thrown(shape: torch.Size, sides: int, seed: int) -> Tensor:
    """Returns numbers from 0 to sides − 1 of a shape [...]."""
    return torch.tensor(dice(shape.numel(), sides, seed)).view(shape)


def normalised(weights: Tensor) -> Tensor:
    """Returns distributions in proportion to weights: [..., V] -> [..., V]."""
    return weights / weights.sum(-1, keepdim=True)


def recorded() -> Drafts:
    """Returns drafts that the shipped pair once made, each an instance of its own.

    Of each distribution the most probable tokens are kept, the drafted one first; the last entry is the sum
    of all others.
    """
    found = read_json(RECORDED)["drafts"]
    p, q = (normalised(torch.tensor([one[name] for one in found], dtype=torch.float64)) for name in "pq")
    draft = Draft(torch.zeros(q.shape[:2], dtype=torch.long), q)
    return Drafts(draft, p, torch.ones(len(p), dtype=torch.float64), torch.arange(len(p)))


def candidates(p: Tensor, q: Tensor, choice: Choice, k: int) -> Drafts:
    """Returns every draft of k candidates for one position; k = 1 is a chain of one token.

    The target is certain of what comes after a candidate, so that no number is drawn for it.

    Args:
        p: [N, V].
        q: [N, V].
        choice: how candidates are chosen.
        k: how many.
    """
    which = torch.arange(len(p))
    tokens, weights = torch.zeros(len(p), 0, dtype=torch.long), torch.ones(len(p), dtype=torch.float64)
    probs = torch.zeros(len(p), 0, p.shape[1], dtype=torch.float64)
    for _ in range(k):
        chosen = torch.zeros(len(which), p.shape[1], dtype=torch.bool).scatter_(1, tokens, True)
        here = choice(q[which], q[which].log(), chosen)  # [B, V]
        row, token = here.nonzero(as_tuple=True)
        which, weights = which[row], weights[row] * here[row, token]
        tokens = torch.cat([tokens[row], token[:, None]], dim=1)
        probs = torch.cat([probs[row], here[row, None]], dim=1)
    target_probs = torch.zeros(len(which), k + 1, p.shape[1], dtype=torch.float64)
    target_probs[:, 0], target_probs[:, 1:, 0] = p[which], 1
    draft = Draft(tokens, probs, parents=torch.zeros_like(tokens) if k > 1 else None)
    return Drafts(draft, target_probs, weights, which)


def chain(p: Tensor, q: Tensor) -> Drafts:
    """Returns every draft of K tokens where distributions do not depend on the text: [K+1, V], [K, V]."""
    k, size = q.shape
    tokens = torch.tensor(list(product(range(size), repeat=k)))  # [V^K, K]
    weights = q.expand(len(tokens), -1, -1).gather(2, tokens[..., None])[..., 0].prod(-1)
    draft = Draft(tokens, q.expand(len(tokens), -1, -1))
    return Drafts(draft, p.expand(len(tokens), -1, -1), weights, torch.zeros(len(tokens), dtype=torch.long))


def chains(seed: int = 0) -> Iterator[tuple[str, Drafts]]:
    """Yields chains with their names: the smallest on which rules differ, then those of the family.

    The first has p = (1/3, 2/3) and q = (2/3, 1/3), K = 2: token verification accepts 10/9, block 11/9.
    """
    yield "thirds", chain(THIRDS.expand(3, -1), THIRDS.flip(0).expand(2, -1))
    k, size = CHAIN_SHAPE
    for number in range(CHAINS):
        faces = thrown(torch.Size((2 * k + 1, size)), len(CHAIN_WEIGHTS), 100 + number + CHAINS * seed)
        p, q = normalised(CHAIN_WEIGHTS[faces]).split([k + 1, k])
        yield "family", chain(p, q)
