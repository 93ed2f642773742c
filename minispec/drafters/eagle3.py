"""EAGLE-3: a layer that drafts from three of the target's layers, in a vocabulary of its own.

`eagle.py` is the one to read first. Three things differ. What the target's last layer makes is close to the
next token, and says little about those after it: so the streams after an early, a middle and a late layer are
joined by a matrix (Li et al. 2025, EAGLE-3, section 3.1). The other two are known from its published weights.
The layer makes its queries, keys and values of that feature and of the token's embedding, side by side. And
its head knows only the ids that come most often. An id that it does not know has q = 0, which is lossless; a
head of 8,192 ids takes a sixth of the time of one of 49,152.

Weights are named, and the first token of a text is left out, as by the library speculators.
"""

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor, nn

from minispec.core.cache import KVCache
from minispec.core.model import GPT, Attention, FeedForward, GPTConfig, RMSNorm, Tree, View
from minispec.core.warp import Warp
from minispec.drafters.adaptive import AdaptiveDrafter
from minispec.drafters.chain import TargetDrafter, check_width
from minispec.drafters.choice import ASSUMED, ChoosingDrafter, look_ups_for
from minispec.drafters.eagle import FeatureDrafter, FeatureModel
from minispec.drafters.entry import DrafterEntry, Parts
from minispec.drafters.exit import SHARES


class JoinedBlock(nn.Module):
    """A layer whose queries, keys and values are made of an embedding and a feature, side by side."""

    def __init__(self, config: GPTConfig, adds_to_normed: bool) -> None:
        super().__init__()
        self.adds_to_normed = adds_to_normed
        self.input_layernorm = RMSNorm(config.width, config.norm_eps)
        self.hidden_norm = RMSNorm(config.width, config.norm_eps)
        self.self_attn = Attention(replace(config, width=2 * config.width, head_size=config.head_dim))
        self.self_attn.o_proj = nn.Linear(config.heads * config.head_dim, config.width, bias=False)
        self.post_attention_layernorm = RMSNorm(config.width, config.norm_eps)
        self.mlp = FeedForward(config)

    def forward(self, embedded: Tensor, features: Tensor, view: View) -> Tensor:
        """Adds attention and feed-forward to features, from them and embeddings: [B, n, D] each."""
        both, x = self.inputs(embedded, features)
        x = x + self.self_attn(both, view, 0)
        return x + self.mlp(self.post_attention_layernorm(x))

    def inputs(self, embedded: Tensor, features: Tensor) -> tuple[Tensor, Tensor]:
        """Returns what attention reads [B, n, 2 · D], and the stream that it adds to [B, n, D]."""
        normed = self.hidden_norm(features)
        both = torch.cat([self.input_layernorm(embedded), normed], dim=-1)
        return both, normed if self.adds_to_normed else features


class Eagle3Layer(nn.Module):
    """What an EAGLE-3 drafter learns.

    Attributes:
        config: the sizes of its layer; the width is the target's.
        taps: after how many of the target's layers a stream is read.
        ids: [ids], which of the target's ids each of its own is.
        adds_to_normed: whether the layer adds to features that are normed.
    """

    ids: Tensor

    def __init__(
        self, config: GPTConfig, taps: Sequence[int], ids: Tensor, adds_to_normed: bool = True
    ) -> None:
        """Makes one with random weights; ids: [ids]."""
        super().__init__()
        self.adds_to_normed = adds_to_normed
        self.config = replace(config, layers=1, qkv_bias=False, qk_norm=False, tied=False)
        self.taps = tuple(taps)
        self.fc = nn.Linear(len(taps) * config.width, config.width, bias=False)
        self.layers = nn.ModuleList([JoinedBlock(self.config, adds_to_normed)])
        self.norm = RMSNorm(config.width, config.norm_eps)
        self.lm_head = nn.Linear(config.width, len(ids), bias=False)
        self.register_buffer("ids", ids, persistent=False)

    def forward(self, embedded: Tensor, features: Tensor, view: View) -> Tensor:
        """Predicts the features after tokens with these embeddings, and features before: [B, n, D] each."""
        return self.layers[0](embedded, features, view)

    def logits(self, features: Tensor) -> Tensor:
        """Maps features to logits of its own ids: [B, n, D] -> [B, n, ids]."""
        return self.lm_head(self.norm(features))


class TappedGPT:
    """A target whose hidden states are the streams at taps, and then the last one; a `LanguageModel`.

    Attributes:
        model: the target.
        taps: after how many of its layers.
        hidden_size: (taps + 1) · D.
    """

    def __init__(self, model: GPT, taps: Sequence[int]) -> None:
        """Taps a target; ValueError if it does not have so many layers."""
        if not all(1 <= tap <= model.config.layers for tap in taps):
            raise ValueError(f"taps {[*taps]} do not fit a target of {model.config.layers} layers")
        self.model = model
        self.taps = tuple(taps)
        self.device = model.device
        self.vocab_size = model.vocab_size
        self.max_length = model.max_length
        self.hidden_size = (len(self.taps) + 1) * model.hidden_size
        self.new_cache = model.new_cache

    def hidden(self, tokens: Tensor, cache: KVCache | None = None, tree: Tree | None = None) -> Tensor:
        """Reads tokens as the target does: [B, n] -> [B, n, (taps + 1) · D]."""
        view = self.model.view(tokens.shape[1], cache, tree)
        x = self.model.embed_tokens(tokens)
        streams = []
        for layer, block in enumerate(self.model.layers):
            x = block(x, view, layer)
            streams.append(x)
        if cache is not None:
            cache.advance()
        return torch.cat([*(streams[tap - 1] for tap in self.taps), self.model.norm(x)], dim=-1)

    def head(self, hidden: Tensor) -> Tensor:
        """Maps hidden states [B, n, (taps + 1) · D] to logits [B, n, V]."""
        return self.model.head(hidden[..., -self.model.hidden_size :])


class Eagle3GPT(FeatureModel):
    """An `Eagle3Layer` beside its target, whose embedding it uses.

    Attributes:
        layer: what was trained.
        target: on which model.
        tapped: the target as it must verify.
        dtype: the type of features.
    """

    skipped = 1

    def __init__(self, layer: Eagle3Layer, target: GPT) -> None:
        """Joins what was trained with its target; ValueError if it was made for another."""
        check_width(target.config.width, layer.config.width)
        if bool(((layer.ids < 0) | (layer.ids >= target.vocab_size)).any()):
            raise ValueError(f"the drafter knows ids outside 0 to {target.vocab_size - 1}")
        self.layer = layer
        self.target = target
        self.tapped = TappedGPT(target, layer.taps)
        self.dtype = target.dtype

    def features(self, hidden: Tensor) -> Tensor:
        """Joins the streams of hidden states [B, n, (taps + 1) · D]: [B, n, D]."""
        check_width(hidden.shape[-1], self.tapped.hidden_size)
        return self.layer.fc(hidden[..., : self.layer.fc.in_features].to(self.dtype))

    def new_cache(self, rows: int) -> KVCache:
        """Returns an empty cache for `rows` rows."""
        return self.target.cache_of(1, rows)

    def after(self, tokens: Tensor, features: Tensor, cache: KVCache) -> Tensor:
        """Reads tokens [B, n], each with the feature before it; returns those after them: [B, n, D]."""
        x = self.layer(self.target.embed_tokens(tokens), features, self.target.view(tokens.shape[1], cache))
        cache.advance()
        return x

    def head(self, features: Tensor) -> Tensor:
        """Maps features [B, n, D] to logits [B, n, V]: minus infinity for ids that it does not know."""
        known = self.layer.logits(features)
        logits = known.new_full((*known.shape[:-1], self.target.vocab_size), -torch.inf)
        logits[..., self.layer.ids] = known
        return logits


class Eagle3Drafter(FeatureDrafter):
    """Drafts token after token with an `Eagle3Layer`.

    Attributes:
        target: what verifies: give `speculate` this one.
        weights: how many numbers the layer has learned.
    """

    def __init__(self, model: Eagle3GPT, warp: Warp | None = None) -> None:
        """Makes a drafter; warp: how to warp its logits, None: like the target's."""
        TargetDrafter.__init__(self, model.tapped, warp)
        self.target = model.tapped
        self.weights = sum(weight.numel() for weight in model.layer.parameters())
        self._begin(model)


class Eagle3Choice(ChoosingDrafter):
    """Has a round drafted by a look-up, or by an `Eagle3Drafter`, as will pay.

    Attributes:
        target: what verifies: give `speculate` this one.
    """

    def __init__(self, drafter: Eagle3Drafter, parts: Parts, k: int) -> None:
        """Joins a drafter with both look-ups; k: the most tokens.

        A step of the drafter takes the share of a forward that its weights have in the target's.
        """
        self.target = drafter.target
        costs = parts.costs or ASSUMED
        step = costs.t_target[1] * drafter.weights / parts.gpt.parameters_count
        other = AdaptiveDrafter(drafter, replace(costs, t_draft=step, catch_up=step), max(k, 1))
        super().__init__(look_ups_for(parts), costs, other, max(k, 1))


def eagle3(parts: Parts, k: int) -> Eagle3Drafter:
    """Returns an EAGLE-3 drafter of a target in torch."""
    return Eagle3Drafter(Eagle3GPT(parts.heads("eagle3"), parts.plain_target(SHARES)), parts.warp)


EAGLE3 = DrafterEntry("eagle3", eagle3)
EAGLE3_CHOICE = DrafterEntry(
    "eagle3-auto", lambda parts, k: Eagle3Choice(eagle3(parts, k), parts, k), chooses=True
)
