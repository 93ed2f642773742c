"""Trees of drafted tokens, each drawn from the distribution that is reported for it; and shared checks."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from minispec.core.model import LanguageModel
from minispec.core.records import PARENTS_ORDER, Draft, are_parents
from minispec.core.rng import RoundRng
from minispec.core.warp import Warp

Choice = Callable[[Tensor, Tensor, Tensor], Tensor]
"""From q [M, V], logits [M, V] and which tokens were chosen [M, V]: what the next is drawn from [M, V]."""


class TargetDrafter:
    """What all drafters have that go on from the target's own states.

    Such a drafter cannot rest for some rounds: it would miss the states of the tokens that come meanwhile.
    """

    def __init__(self, target: LanguageModel, warp: Warp | None) -> None:
        """Takes the sizes of the target, and how to warp logits; None: like the target's."""
        self.vocab_size = target.vocab_size
        self.max_length = target.max_length
        self.warp = warp


def check_width(given: int, read: int) -> None:
    """Raises ValueError if the target's hidden states are not as wide as what reads them."""
    if given != read:
        raise ValueError(
            f"the target's hidden states have {given} numbers, and {read} are read: "
            f"what reads them was made for another target"
        )


def checked_parents(parents: Sequence[int], max_length: int) -> list[int]:
    """Returns the parents of a tree; ValueError if they are those of none, or do not fit a context."""
    if len(parents) >= max_length:
        raise ValueError(f"a tree of {len(parents)} tokens does not fit a context of {max_length}")
    if not are_parents(torch.tensor([parents], dtype=torch.long)):
        raise ValueError(PARENTS_ORDER)
    return list(parents)


def depths_of(parents: Sequence[int]) -> list[int]:
    """Returns the depth of the pending token, 0, and of each token of a tree, whose parents come first."""
    depths = [0]
    for parent in parents:
        depths.append(depths[parent] + 1)
    return depths


def draw_tree(
    read: Callable[[Tensor, Sequence[int]], Tensor],
    pending: Tensor,
    parents: Sequence[int],
    space: Tensor,
    choice: Choice,
    warp: Warp,
    rng: RoundRng,
) -> Draft:
    """Draws a tree level by level.

    Args:
        read: takes the tokens so far [B, K+1], and which M of them; returns the logits after these [B, M, V].
        pending: [B], the last committed tokens.
        parents: of each token, as in a `Draft`.
        space: [B], how many of the tokens each row may draw.
        choice: how candidates of one position are chosen.
        warp: from logits to distributions.
        rng: draws the candidates, at the position that is their depth.
    """
    depths = depths_of(parents)
    tokens = torch.cat([pending[:, None], pending.new_zeros(len(pending), len(parents))], dim=1)  # [B, K+1]
    dists: list[Tensor] = [torch.empty(0)] * len(parents)
    for depth in range(depths[-1]):
        children = [i for i in range(1, len(depths)) if depths[i] == depth + 1]
        at = sorted({parents[i - 1] for i in children})
        logits = read(tokens, at)
        q = warp(logits)
        chosen = torch.zeros_like(q, dtype=torch.bool)
        for i in children:
            m = at.index(parents[i - 1])
            dists[i - 1] = choice(q[:, m], logits[:, m], chosen[:, m])
            tokens[:, i] = rng.categorical(dists[i - 1], depth, i <= space)
            chosen[:, m].scatter_(1, tokens[:, i, None], True)
    shape = torch.tensor([parents], device=pending.device).expand(len(pending), -1)
    return Draft(tokens[:, 1:], torch.stack(dists, 1), parents=shape)
