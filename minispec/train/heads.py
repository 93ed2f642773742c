"""Heads: what a target needs to draft for itself, trained on the target, which stays as it is.

An exit, Medusa's heads, a feature layer and a parallel drafter all learn the same thing: the target's own
distribution of a later token (Kullback–Leibler divergence, Hinton et al. 2015), on the corpus and on what the
target writes. Each guesses in a way of its own; the loss and the loop are the same for all.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
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
from minispec.train.training import Reporter, autocast, descend, divergence

UNROLLED_STEPS = 2  # tokens of a draft that a feature layer learns to guess: on true features, on its own
PARALLEL_TOKENS = 6  # tokens of a draft that a parallel drafter learns to guess
DECAY = 0.8  # what a position further ahead counts in the loss (Cai et al. 2024, equation 1)

# For each token of a draft: logits [B, m, V], and the m positions of the text after which they stand.
Guesses = Sequence[tuple[Tensor, slice | Tensor]]


@dataclass(frozen=True)
class HeadRecipe:
    """How to train what drafts for a target, on sequences [B, n + 1] of it."""

    kind: str  #: `exit`, `medusa`, `eagle`, the same with one layer (`eagle-1`), or `parallel`
    number: Callable[[GPT], int]  #: for a target: the exit's layer, or how many heads or layers
    make: Callable[[GPT, int], nn.Module]  #: makes the module, untrained, for a target and that number
    #: of the module for a target: along a text [B, n], of which the target has features [B, n, D]
    guesses: Callable[[Any, GPT, Tensor, Tensor], Guesses]
    steps: int  #: how many optimizer steps
    rows: int = 8  #: sequences per step
    rate: float = 2e-3  #: the highest learning rate (AdamW)

    def loss(self, module: nn.Module, target: GPT, rows: Tensor) -> Tensor:
        """Returns how far the module's guesses are from the target's distributions: rows [B, n + 1] -> []."""
        tokens = rows[:, :-1]
        with torch.no_grad():
            hidden = target.hidden(tokens)
            target_logits = target.head(hidden)
        guesses = self.guesses(module, target, tokens, hidden)
        return decayed_mean([divergence(target_logits[:, at], logits) for logits, at in guesses])


class UnrolledCache(KVCache):
    """Takes the place of a cache in training: keys and values of all steps so far stand one after another."""

    def __init__(self) -> None:
        self.entries: dict[int, tuple[Tensor, Tensor]] = {}  # by layer: keys and values

    def append(self, layer: int, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """Adds those of a step, [B, kv_heads, n, head_dim]; returns all, joined along n."""
        if layer in self.entries:
            old_keys, old_values = self.entries[layer]
            keys = torch.cat([old_keys, keys], dim=2)
            values = torch.cat([old_values, values], dim=2)
        self.entries[layer] = (keys, values)
        return self.entries[layer]


def decayed_mean(losses: Sequence[Tensor]) -> Tensor:
    """Returns the mean of losses, nearest position first, each counting `DECAY` times the one before: []."""
    weights = torch.tensor([DECAY**i for i in range(len(losses))], device=losses[0].device)
    return (torch.stack(list(losses)) * weights).sum() / weights.sum()


def unrolled_mask(n: int, step: int) -> Tensor:
    """Returns which keys a token sees as token number `step` of a draft: [n, (step + 1) · n] bool.

    A draft that has come to position t began at t − step. Up to there the features are the target's, and the
    keys those of step 0. After that each token has the key of its own step (Li et al. 2025, section 3.2).
    """
    distance = torch.arange(n)[:, None] - torch.arange(n)
    return torch.cat([distance >= step, *(distance == step - i for i in range(1, step + 1))], dim=1)


def unrolled_views(target: GPT, n: int, steps: int) -> Iterator[View]:
    """Yields what a layer sees of a text of n tokens at each step of drafts that begin everywhere."""
    cache = UnrolledCache()
    for step in range(steps):
        yield target.view(n, None)._replace(mask=unrolled_mask(n, step).to(target.device), cache=cache)


def one_later(features: Tensor) -> Tensor:
    """Moves features [B, n, D] to the next token; before the first there are none."""
    return F.pad(features[:, :-1], (0, 0, 1, 0))


def unroll(layer: FeatureLayer, target: GPT, tokens: Tensor, hidden: Tensor, steps: int) -> list[Tensor]:
    """Drafts along a text [B, n], of which the target has features [B, n, D], from everywhere at once.

    The drafted tokens are those of the text, and each draft reads `steps` of them. Returns, per step,
    [B, n, D]: the layer's features for the token at t if the draft began `step` tokens before.
    """
    n = tokens.shape[1]
    features = [hidden]
    for view in unrolled_views(target, n, steps):
        features.append(layer.through(tokens, one_later(features[-1]), target, view))
    return features[1:]


def parallel_layout(n: int, k: int) -> tuple[Tensor, Tensor, Tensor]:
    """Cuts a text of n tokens into drafts of k: the first token of each is pending, masks follow.

    Returns:
        Of the n tokens and of m masks after them, each [n + m]: the position of each, and how far that is
        into its draft, 0 for the tokens. And which of them each sees, [n + m, n + m] bool: tokens of the text
        up to where its draft begins, and the masks of the same draft up to itself.
    """
    text = torch.arange(n)
    positions = torch.cat([text, text[text % k > 0]])
    offsets = torch.where(torch.arange(len(positions)) < n, 0, positions % k)
    starts = positions - offsets
    visible_masks = (starts[n:] == starts[:, None]) & (offsets[n:] <= offsets[:, None])
    return positions, offsets, torch.cat([text <= starts[:, None], visible_masks], dim=1)


def exit_guesses(head: Exit, target: GPT, tokens: Tensor, hidden: Tensor) -> Guesses:
    """Returns the exit's logits after each of tokens [B, n]; they should be those of the last layer."""
    with torch.no_grad():
        view = target.view(tokens.shape[1], None)
        early_hidden = target.layers[: head.layers](target.embed_tokens(tokens), view)
    return [(target.head(head(early_hidden)), slice(None))]


def medusa_guesses(heads: Medusa, target: GPT, tokens: Tensor, hidden: Tensor) -> Guesses:
    """Returns the logits of head i, which reads hidden [B, n, D] at t and guesses what follows t + 1 + i."""
    return [(head(hidden[:, : -i - 1]), slice(i + 1, None)) for i, head in enumerate(heads)]


def feature_guesses(layer: FeatureLayer, target: GPT, tokens: Tensor, hidden: Tensor) -> Guesses:
    """Returns the logits after each token of a draft, from the layer's features [B, n, D]."""
    steps = unroll(layer, target, tokens, hidden, UNROLLED_STEPS)
    return [(target.head(features[:, i:]), slice(i, None)) for i, features in enumerate(steps)]


def parallel_guesses(
    layers: ParallelLayers, target: GPT, tokens: Tensor, hidden: Tensor, k: int = PARALLEL_TOKENS
) -> Guesses:
    """Drafts k tokens along a text [B, n] in parallel, all drafts in one forward.

    The drafted tokens are those of the text. Returns, per position of a draft, the logits [B, m, V], and the
    positions [m] of the text after which they stand.
    """
    n = tokens.shape[1]
    positions, offsets, visible = parallel_layout(n, k)
    chosen = [(offsets == i).nonzero()[:, 0].to(tokens.device) for i in range(min(k, n))]
    positions = positions.to(tokens.device)
    x = target.embed_tokens(tokens)
    x = torch.cat([x, layers.mask.expand(len(x), len(positions) - n, -1)], dim=1)
    cos, sin = (table[positions] for table in rotary_tables(target.config, n, target.dtype, target.device))
    states = layers(x, View(cos, sin, visible.to(tokens.device), UnrolledCache()))
    logits = target.head(layers.correct(states, target.embed_tokens(tokens[:, positions])))
    return [(logits[:, entries], positions[entries]) for entries in chosen]


def make_medusa(target: GPT, number: int) -> Medusa:
    """Returns heads that begin as copies of the target's own."""
    heads = Medusa(target.config.width, target.vocab_size, number)
    for head_weight in (weight for name, weight in heads.named_parameters() if "lm_head" in name):
        head_weight.data.copy_(target.lm_head.weight)
    return heads


def make_feature_layer(target: GPT, layers: int) -> FeatureLayer:
    """Returns what begins as the target's first layers and its last norm, and as yet ignores the features.

    That is an untrained early exit. What to make of features it learns from there.
    """
    layer = FeatureLayer(target.config, layers)
    copy_first_layers(layer, target)
    layer.fuse.weight.data.copy_(torch.eye(layer.width, 2 * layer.width))
    return layer


def make_parallel(target: GPT, layers: int) -> ParallelLayers:
    """Returns what begins as the target's first layers and its last norm: an untrained early exit."""
    mask = 0.02 * torch.randn(target.config.width)
    parallel = ParallelLayers(target.config, layers)
    copy_first_layers(parallel, target)
    parallel.mask.data.copy_(mask)
    return parallel


def copy_first_layers(module: FeatureLayer | ParallelLayers, target: GPT) -> None:
    """Copies the target's first layers and its last norm into a module that has such parts."""
    for layer, target_layer in zip(module.layers, target.layers, strict=False):
        layer.load_state_dict(target_layer.state_dict())
    module.norm.load_state_dict(target.norm.state_dict())


def first_layers(target: GPT) -> int:
    """Returns how many of the target's layers such a drafter starts as: two, or all that there are."""
    return min(2, target.config.layers)


RECIPES: Mapping[str, HeadRecipe] = {
    recipe.kind: recipe
    for recipe in (
        # A quarter of the layers: so much of a forward is a step of the draft.
        HeadRecipe("exit", lambda t: max(1, t.config.layers // 4), untrained_exit, exit_guesses, steps=800),
        HeadRecipe("medusa", lambda _: 6, make_medusa, medusa_guesses, steps=800),
        HeadRecipe("eagle", first_layers, make_feature_layer, feature_guesses, steps=500, rate=1e-3),
        HeadRecipe("eagle-1", lambda _: 1, make_feature_layer, feature_guesses, steps=500, rate=1e-3),
        HeadRecipe("parallel", first_layers, make_parallel, parallel_guesses, steps=250),
    )
}


def train_heads(recipe: HeadRecipe, target: GPT, sequences: Tensor, seed: int, report: Reporter) -> nn.Module:
    """Trains what drafts for a target, which is not changed, on sequences [N, W] of token ids.

    The seed is of the initialisation and the order. The module comes in float32, in evaluation mode.
    """
    torch.manual_seed(seed)
    module = recipe.make(target, recipe.number(target)).to(target.device).float()
    module.requires_grad_(True).train()
    optimizer = torch.optim.AdamW(module.parameters(), lr=recipe.rate, betas=(0.9, 0.95), weight_decay=0.01)

    def losses(step: int) -> list[Tensor]:
        rows = batch(sequences, recipe.rows, step, seed).to(target.device)
        with autocast(target.device):
            return [recipe.loss(module, target, rows)]

    descend(recipe.kind, module, [(optimizer, recipe.rate)], recipe.steps, losses, report)
    return module.eval().requires_grad_(False)
