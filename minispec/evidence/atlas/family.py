"""What all rules are compared on: a fixed family of distributions, and some of the shipped pair.

A position is a p and a q. Half of the family's are flat and half are peaked, with three to six tokens. They
are made of small integers, so they are the same on every machine.
"""

from collections.abc import Iterator
from pathlib import Path

import torch
from torch import Tensor

from minispec.core.records import Draft
from minispec.evidence.checker.instance import Instance, PossibleDrafts, possible_drafts
from minispec.evidence.checker.instances import hashed_integers
from minispec.io.files import read_json

RECORDED = Path(__file__).parents[1] / "recorded" / "positions.json"
COUNT = 300  # positions
SIZES = (3, 4, 5, 6)  # tokens
WEIGHTS = ((1, 2, 3), (1, 10, 100))  # flat, peaked: what probabilities are proportional to
FIRST_SEED = 4  # of the seeds tried, its means lie nearest to those of thousands of such positions
CHAINS = 10
CHAIN_SHAPE = (5, 8)  # K and V
CHAIN_WEIGHTS = torch.tensor([1, 2, 3, 4, 6], dtype=torch.float64)
THIRDS = torch.tensor([1 / 3, 2 / 3], dtype=torch.float64)  # and the draft has them the other way round


def positions(seed: int = 0) -> tuple[Tensor, Tensor]:
    """Returns p and q of the family's positions, [N, V] each; what a position lacks has probability 0.

    Another seed gives another family of the same kind.
    """
    number = torch.arange(COUNT)
    sizes = torch.tensor(SIZES)[number % len(SIZES)]
    tables = torch.tensor(WEIGHTS, dtype=torch.float64)[number // len(SIZES) % 2]  # [N, 3]
    in_vocabulary = torch.arange(max(SIZES)) < sizes[:, None]
    faces = (dice_tensor(in_vocabulary.shape, 3, FIRST_SEED + 2 * seed + n) for n in range(2))
    p, q = (normalised(tables.gather(1, face) * in_vocabulary) for face in faces)
    return p, q


def dice_tensor(shape: torch.Size, sides: int, seed: int) -> Tensor:
    """Returns numbers from 0 to sides − 1 of a shape [...]."""
    return torch.tensor(hashed_integers(shape.numel(), sides, seed)).view(shape)


def normalised(weights: Tensor) -> Tensor:
    """Returns distributions in proportion to weights: [..., V] -> [..., V]."""
    return weights / weights.sum(-1, keepdim=True)


def recorded() -> PossibleDrafts:
    """Returns drafts that the shipped pair once made, each of probability 1.

    Of each distribution the most probable tokens are kept, the drafted one first; the last entry is the sum
    of all others.
    """
    drafts = read_json(RECORDED)["drafts"]
    p, q = (
        normalised(torch.tensor([position[name] for position in drafts], dtype=torch.float64))
        for name in "pq"
    )
    zeros = torch.zeros(p.shape[:2], dtype=torch.long)  # the drafted token is always 0, the text too
    return PossibleDrafts(Draft(zeros[:, 1:], q), p, zeros, p.new_ones(len(p)))


def candidates(p: Tensor, q: Tensor, choice: str, k: int) -> PossibleDrafts:
    """Returns every draft of k candidates for each position, with p and q [N, V]; see `CHOICES`.

    Its `prefixes` begin with the position's number. The target is certain of what comes after a candidate, so
    that no number is drawn for it.
    """
    certain = torch.zeros(p.numel(), p.shape[1], dtype=torch.float64)
    certain[:, 0] = 1
    return possible_drafts((p, certain), (q,), (0,) * k, choice, (k,))


def chain(p: Tensor, q: Tensor) -> PossibleDrafts:
    """Returns every draft of K tokens where distributions do not depend on the text: [K+1, V], [K, V]."""
    target, draft = (tuple((tuple(dist),) for dist in dists.tolist()) for dists in (p, q))
    return Instance(target, draft).drafts()


def chains(seed: int = 0) -> Iterator[tuple[str, PossibleDrafts]]:
    """Yields chains with their names: the smallest on which rules differ, then those of the family.

    The first has p = (1/3, 2/3) and q = (2/3, 1/3), K = 2: token verification accepts 10/9, block 11/9.
    """
    yield "thirds", chain(THIRDS.expand(3, -1), THIRDS.flip(0).expand(2, -1))
    k, size = CHAIN_SHAPE
    for number in range(CHAINS):
        faces = dice_tensor(torch.Size((2 * k + 1, size)), len(CHAIN_WEIGHTS), 100 + number + CHAINS * seed)
        p, q = normalised(CHAIN_WEIGHTS[faces]).split([k + 1, k])
        yield "family", chain(p, q)
