"""Heads: what a target needs to draft for itself, trained on the target, which stays as it is.

An exit, Medusa's heads, a feature layer and a parallel drafter all learn the same thing: the target's own
distribution of a later token (Kullback–Leibler divergence, Hinton et al. 2015), on the corpus and on what the
target writes. Each guesses in a way of its own; the loss and the loop are the same for all.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from minispec.core.cache import KVCache
from minispec.core.model import GPT, View, rotary_tables
from minispec.drafters.eagle import FeatureLayer
from minispec.drafters.exit import Exit, untrained_exit
from minispec.drafters.medusa import Medusa
from minispec.drafters.parallel import ParallelLayers
from minispec.train.dataset import batch
from minispec.train.training import Tell, autocast, descend, divergence

UNROLLED = 2  # tokens of a draft that a feature layer learns to guess: on true features, on its own
GUESSED = 6  # tokens of a draft that a parallel drafter learns to guess
DECAY = 0.8  # what a position further ahead counts in the loss (Cai et al. 2024, equation 1)


# What a drafter guesses along a text, for each token of a draft: logits [B, m, V], and after which m places.
Guesses = tuple[Sequence[Tensor], Sequence[slice | Tensor]]


@dataclass(frozen=True)
class HeadRecipe:
    """How to train what drafts for a target, on sequences [B, n + 1] of it."""

    kind: str  #: `exit`, `medusa`, `eagle` or `parallel`
    number: Callable[[GPT], int]  #: for a target: the exit's layer, or how many heads or layers
    make: Callable[[GPT, int], nn.Module]  #: makes it, untrained, for a target and that number
    #: of the module for a target: along a text [B, n], of which the target has features [B, n, D]
    guesses: Callable[[Any, GPT, Tensor, Tensor], Guesses]
    steps: int  #: how many optimizer steps
    rows: int = 8  #: sequences per step
    rate: float = 2e-3  #: the highest learning rate (AdamW)

    def loss(self, module: nn.Module, target: GPT, rows: Tensor) -> Tensor:
        """Returns how far what it guesses is from what the target says there: rows [B, n + 1] -> []."""
        tokens = rows[:, :-1]
        with torch.no_grad():
            hidden = target.hidden(tokens)
            logits = target.head(hidden)
        guesses, places = self.guesses(module, target, tokens, hidden)
        return decayed([divergence(logits[:, at], guess) for at, guess in zip(places, guesses, strict=True)])


class Unrolled(KVCache):
    """Takes the place of a cache in training: keys and values of all steps so far stand one after another."""

    def __init__(self) -> None:
        self.kept: dict[int, list[tuple[Tensor, Tensor]]] = {}  # per layer, of each step

    def append(self, layer: int, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """Adds those of a step, [B, kv_heads, n, head_dim]; returns all, joined along n."""
        cached = self.kept.setdefault(layer, [])
        cached.append((keys, values))
        return torch.cat([k for k, _ in cached], dim=2), torch.cat([v for _, v in cached], dim=2)


def decayed(parts: Sequence[Tensor]) -> Tensor:
    """Returns the mean of losses, nearest position first, each counting `DECAY` times the one before: []."""
    weights = torch.tensor([DECAY**i for i in range(len(parts))], device=parts[0].device)
    return (torch.stack(list(parts)) * weights).sum() / weights.sum()


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
    n = tokens.shape[1]
    features = hidden
    unrolled = list[Tensor]()
    cache = Unrolled()
    for step in range(steps):
        before = F.pad(features[:, :-1], (0, 0, 1, 0))  # none before the first token
        view = target.view(n, None)._replace(mask=seen(n, step).to(tokens.device), cache=cache)
        features = layer.through(tokens, before, target, view)
        unrolled.append(features)
    return unrolled


def cut(n: int, k: int) -> tuple[Tensor, Tensor, Tensor]:
    """Cuts a text of n tokens into drafts of k: the first token of each is pending, masks follow.

    Returns:
        Of the n tokens and of m masks after them, each [n + m]: the position of each, and how far that is
        into its draft, 0 for the tokens. And which of them each sees, [n + m, n + m] bool: tokens of the text
        up to where its draft begins, and the masks of the same draft up to itself.
    """
    text = torch.arange(n)
    places = torch.cat([text, text[text % k > 0]])
    offset = torch.where(torch.arange(len(places)) < n, 0, places % k)
    begin = places - offset
    same_draft = (begin[n:] == begin[:, None]) & (offset[n:] <= offset[:, None])
    return places, offset, torch.cat([text <= begin[:, None], same_draft], dim=1)


def guess(parts: ParallelLayers, target: GPT, tokens: Tensor, k: int) -> Guesses:
    """Drafts k tokens along a text [B, n] in parallel, all drafts in one forward.

    The text also is what is drafted. Returns, per position of a draft, the logits [B, m, V] after some places
    of the text, and these places [m].
    """
    n = tokens.shape[1]
    config = target.config
    places, offsets, sees = cut(n, k)
    chosen = [(offsets == i).nonzero()[:, 0].to(tokens.device) for i in range(min(k, n))]
    places = places.to(tokens.device)
    sees = sees.to(tokens.device)
    x = target.embed_tokens(tokens)
    x = torch.cat([x, parts.mask.expand(len(x), len(places) - n, -1)], dim=1)
    cos, sin = (table[places] for table in rotary_tables(config, target.dtype, target.device))
    states = parts(x, View(cos, sin, sees, Unrolled()))
    logits = target.head(parts.correct(states, target.embed_tokens(tokens[:, places])))
    return [logits[:, step] for step in chosen], [places[step] for step in chosen]


def exit_guesses(head: Exit, target: GPT, tokens: Tensor, hidden: Tensor) -> Guesses:
    """What leaves after the first layers should be what leaves after the last; tokens [B, n]."""
    with torch.no_grad():
        view = target.view(tokens.shape[1], None)
        stream = target.layers[: head.layers](target.embed_tokens(tokens), view)
    return [target.head(head(stream))], [slice(None)]


def medusa_guesses(heads: Medusa, target: GPT, tokens: Tensor, hidden: Tensor) -> Guesses:
    """Head i, on the state at t of hidden [B, n, D], guesses what the target has at t + 1 + i."""
    logits = [head(hidden[:, : -i - 1]) for i, head in enumerate(heads)]
    return logits, [slice(i + 1, None) for i in range(len(logits))]


def feature_guesses(layer: FeatureLayer, target: GPT, tokens: Tensor, hidden: Tensor) -> Guesses:
    """After each token of a draft, the layer guesses what the target has there; states are [B, n, D]."""
    steps = unroll(layer, target, tokens, hidden, UNROLLED)
    logits = [target.head(states[:, i:]) for i, states in enumerate(steps)]
    return logits, [slice(i, None) for i in range(UNROLLED)]


def parallel_guesses(parts: ParallelLayers, target: GPT, tokens: Tensor, hidden: Tensor) -> Guesses:
    """At each position of a draft, it guesses what the target has there; tokens [B, n]."""
    return guess(parts, target, tokens, GUESSED)


def make_medusa(target: GPT, number: int) -> Medusa:
    """Returns heads that begin as copies of the target's own."""
    heads = Medusa(target.config.width, target.vocab_size, number)
    weight = target.lm_head.weight.detach()
    heads.load_state_dict({name: weight for name in heads.state_dict() if "lm_head" in name}, strict=False)
    return heads


def make_feature_layer(target: GPT, number: int) -> FeatureLayer:
    """Returns what begins as the target's first layers and its last norm, and as yet ignores the features.

    That is an untrained early exit. What to make of features it learns from there.
    """
    layer = FeatureLayer(target.config, number)
    begin(layer, target)
    with torch.no_grad():
        layer.fuse.weight.copy_(torch.eye(layer.width, 2 * layer.width))
    return layer


def begin(part: FeatureLayer | ParallelLayers, target: GPT) -> None:
    """Copies the target's first layers and its last norm into what has such parts."""
    for layer, target_layer in zip(part.layers, target.layers, strict=False):
        layer.load_state_dict(target_layer.state_dict())
    part.norm.load_state_dict(target.norm.state_dict())


def make_parallel(target: GPT, number: int) -> ParallelLayers:
    """Returns what begins as the target's first layers and its last norm: an untrained early exit."""
    mask = 0.02 * torch.randn(target.config.width)
    parts = ParallelLayers(target.config, number)
    begin(parts, target)
    parts.mask.data.copy_(mask)
    return parts


def few(target: GPT) -> int:
    """Returns how many layers a drafter has that begins as the target's first: two, or all that there are."""
    return min(2, target.config.layers)


RECIPES: Mapping[str, HeadRecipe] = {
    one.kind: one
    for one in (
        # A quarter of the layers: so much of a forward is a step of the draft.
        HeadRecipe("exit", lambda t: max(1, t.config.layers // 4), untrained_exit, exit_guesses, steps=800),
        HeadRecipe("medusa", lambda _: 6, make_medusa, medusa_guesses, steps=800),
        HeadRecipe("eagle", few, make_feature_layer, feature_guesses, steps=500, rate=1e-3),
        HeadRecipe("parallel", few, make_parallel, parallel_guesses, steps=250),
    )
}


def train_heads(recipe: HeadRecipe, target: GPT, sequences: Tensor, seed: int, report: Tell) -> nn.Module:
    """Trains what drafts for a target, which is not changed, on sequences [N, W] of token ids.

    The seed is of the initialisation and the order. The module comes in float32, in evaluation mode.
    """
    torch.manual_seed(seed)
    module = recipe.make(target, recipe.number(target)).to(target.device).float()
    module.requires_grad_(True).train()
    optimizer = torch.optim.AdamW(module.parameters(), lr=recipe.rate, betas=(0.9, 0.95), weight_decay=0.01)

    def loss(step: int) -> Tensor:
        rows = batch(sequences, recipe.rows, step, seed).to(target.device)
        with autocast(target.device):
            return recipe.loss(module, target, rows)

    descend(recipe.kind, module, [(optimizer, recipe.rate)], recipe.steps, loss, report)
    return module.eval().requires_grad_(False)
