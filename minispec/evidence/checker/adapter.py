"""Rules with a signature of their own: a verdict is read from the ids that an engine returns."""

import torch
import torch.nn.functional as F
from torch import Tensor

from minispec.core.model import Tree
from minispec.core.records import Draft, Verdict
from minispec.verifiers.tree import parents_of


def verdict_of(emitted: Tensor, draft: Draft, placeholder: int = -1) -> Verdict:
    """Returns the verdict of a rule that returns the ids that each row continues with.

    Of candidates that leave the same text it takes the first: they differ in nothing else.

    Args:
        emitted: [B, n] int64: the drafted tokens that are kept, the one that follows, and padding.
        draft: what was proposed, a chain or a tree.
        placeholder: what the padding is.

    Raises:
        ValueError: if a row emits nothing, goes on after padding, or keeps what was not drafted.
    """
    is_token = emitted != placeholder
    accepted = is_token.sum(-1) - 1
    if bool(
        (is_token != (torch.arange(emitted.shape[1]) <= accepted[:, None])).any() or (accepted < 0).any()
    ):
        raise ValueError("each row must emit ids, at least one, and only then padding")
    # [B, K+1, K+1]: a token's ancestors, and itself.
    ancestors = Tree.after(draft.lengths, parents_of(draft)).mask
    depths = ancestors.sum(-1) - 1  # [B, K+1]
    tokens_at_depth = emitted.gather(1, (depths[:, 1:] - 1).clamp(max=emitted.shape[1] - 1))  # [B, K]
    matches = F.pad((draft.tokens == tokens_at_depth) & draft.mask, (1, 0), value=True)
    ends = ~(ancestors & ~matches[:, None]).any(-1) & (depths == accepted[:, None])
    if not bool(ends.any(-1).all()):
        row = int(ends.any(-1).long().argmin())
        raise ValueError(f"{emitted[row, : accepted[row]].tolist()} is kept, and was not drafted")
    rows = torch.arange(len(emitted))
    path = None if draft.parents is None else ancestors[rows, ends.long().argmax(-1), 1:]
    return Verdict(accepted, emitted[rows, accepted], path)
