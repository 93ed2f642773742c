"""Drafts along a text, for training: what a drafter would compute there, from many places at once."""

from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor

from minispec.core.cache import KVCache
from minispec.core.model import GPT, View, rotary_tables
from minispec.drafters.eagle import FeatureLayer
from minispec.drafters.parallel import ParallelLayers


class Unrolled:
    """Takes the place of a cache in training: keys and values of all steps so far stand one after another."""

    def __init__(self) -> None:
        self.kept: dict[int, list[tuple[Tensor, Tensor]]] = {}  # per layer, of each step

    def append(self, layer: int, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """Adds those of a step, [B, kv_heads, n, head_dim]; returns all, joined along n."""
        kept = self.kept.setdefault(layer, [])
        kept.append((keys, values))
        return torch.cat([k for k, _ in kept], dim=2), torch.cat([v for _, v in kept], dim=2)


def seen(n: int, step: int) -> Tensor:
    """Says which keys a token sees that a draft reads as its token number `step`: [n, (step + 1) · n] bool.

    A draft that has come to position t began at t − step. Up to there the features are the target's, and the
    keys those of step 0. After that each token has the key of its own step (Li et al. 2025, section 3.2).
    """
    ago = torch.arange(n)[:, None] - torch.arange(n)
    return torch.cat([ago >= step, *(ago == step - i for i in range(1, step + 1))], dim=1)


def unroll(layer: FeatureLayer, target: GPT, tokens: Tensor, hidden: Tensor, steps: int) -> list[Tensor]:
    """Drafts along a text [B, n], of which the target has features [B, n, D], from everywhere at once.

    The text also is what is drafted, and each draft reads so many tokens. Returns, per step, [B, n, D]: what
    the layer makes of the token at t if the draft began `step` tokens before.
    """
    n, features, found, cache = tokens.shape[1], hidden, list[Tensor](), cast(KVCache, Unrolled())
    for step in range(steps):
        before = F.pad(features[:, :-1], (0, 0, 1, 0))  # none before the first token
        view = target.view(n, None)._replace(mask=seen(n, step).to(tokens.device), cache=cache)
        features = layer.through(tokens, before, target, view)
        found.append(features)
    return found


def cut(n: int, k: int) -> tuple[Tensor, Tensor, Tensor]:
    """Cuts a text of n tokens into drafts of k: the first token of each is pending, masks follow.

    Returns:
        Of the n tokens and of m masks after them, each [n + m]: the position of each, and how far that is
        into its draft, 0 for the tokens. And which of them each sees, [n + m, n + m] bool: tokens of the text
        up to where its draft begins, and the masks of the same draft up to itself.
    """
    text = torch.arange(n)
    places = torch.cat([text, text[text % k > 0]])
    far = torch.where(torch.arange(len(places)) < n, 0, places % k)
    begin = places - far
    same = (begin[n:] == begin[:, None]) & (far[n:] <= far[:, None])
    return places, far, torch.cat([text <= begin[:, None], same], dim=1)


def guess(parts: ParallelLayers, target: GPT, tokens: Tensor, k: int) -> tuple[list[Tensor], list[Tensor]]:
    """Drafts k tokens along a text [B, n] in parallel, all drafts in one forward.

    The text also is what is drafted. Returns, per position of a draft, the logits [B, m, V] after some places
    of the text, and these places [m].
    """
    n, config = tokens.shape[1], target.config
    places, far, sees = cut(n, k)
    chosen = [(far == i).nonzero()[:, 0].to(tokens.device) for i in range(min(k, n))]
    places, sees = places.to(tokens.device), sees.to(tokens.device)
    x = target.embed_tokens(tokens)
    x = torch.cat([x, parts.mask.expand(len(x), len(places) - n, -1)], dim=1)
    cos, sin = (table[places] for table in rotary_tables(config, target.dtype, target.device))
    states = parts(x, View(cos, sin, sees, cast(KVCache, Unrolled())))
    logits = target.head(parts.correct(states, target.embed_tokens(tokens[:, places])))
    return [logits[:, which] for which in chosen], [places[which] for which in chosen]
