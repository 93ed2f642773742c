"""A feature drafter: a layer or two that go on from the target's hidden states, in the manner of EAGLE.

The target's last hidden state, its feature, holds more about what comes than any token does. The drafter
reads, for each token, its embedding and the feature that the target had before it, joins them, and takes them
through its layers with a cache; the target's own head makes a distribution of their output. After the
pending token there is no feature of the target yet: there the drafter reads its own output in its place (Li
et al. 2024, EAGLE, section 3; DeepSeek-V3's module for multi-token prediction has the same inputs). It is
trained on such outputs too (Li et al. 2025, EAGLE-3, section 3.2). After verification the true features are
there, and take the place of the predicted ones.
"""

from collections.abc import Sequence
from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

from minispec.core.batch import Prompts
from minispec.core.cache import KVCache
from minispec.core.draft import draw_chain
from minispec.core.model import GPT, Block, GPTConfig, Layers, RMSNorm, View
from minispec.core.prefill import pad
from minispec.core.records import Draft, Round
from minispec.core.rng import RoundRng
from minispec.core.warp import Warp
from minispec.drafters.chain import TargetDrafter, check_width
from minispec.drafters.entry import DrafterEntry


class FeatureLayer(nn.Module):
    """What a feature drafter learns: a matrix that joins embedding and feature, layers, and a norm."""

    def __init__(self, config: GPTConfig, layers: int = 1) -> None:
        """Makes one with so many layers for a target of these sizes."""
        super().__init__()
        self.width = config.width
        self.fuse = nn.Linear(2 * config.width, config.width, bias=False)
        self.layers = Layers(Block(config) for _ in range(layers))
        self.norm = RMSNorm(config.width, config.norm_eps)

    def forward(self, tokens: Tensor, features: Tensor, target: GPT, cache: KVCache | None = None) -> Tensor:
        """Reads tokens [B, n] of a target, each with the feature before it [B, n, D], and extends the cache.

        A feature is the target's hidden state, or a predicted one. Returns predicted features [B, n, D], one
        after each token, for the target's head.
        """
        out = self.through(tokens, features, target, target.view(tokens.shape[1], cache))
        if cache is not None:
            cache.advance()
        return out

    def through(self, tokens: Tensor, features: Tensor, target: GPT, view: View) -> Tensor:
        """The same for a view of positions and of what may be seen: [B, n] and [B, n, D] -> [B, n, D]."""
        x = self.fuse(torch.cat([target.embed_tokens(tokens), features.to(target.dtype)], dim=-1))
        return self.norm(self.layers(x, view))


class FeatureModel(Protocol):
    """What predicts the next feature from a feature and the token after it.

    Attributes:
        dtype: the type of features.
        skipped: how many first tokens of a text it does not read.
    """

    dtype: torch.dtype
    skipped: int

    def features(self, hidden: Tensor) -> Tensor:
        """Returns what it reads of the target's hidden states: [B, n, T] -> [B, n, D]."""

    def new_cache(self, rows: int) -> KVCache:
        """Returns an empty cache for `rows` rows."""

    def after(self, tokens: Tensor, features: Tensor, cache: KVCache) -> Tensor:
        """Reads tokens [B, n], each with the feature before it; returns those after them: [B, n, D]."""

    def head(self, features: Tensor) -> Tensor:
        """Maps features [B, n, D] to logits [B, n, V]."""


class FeatureGPT:
    """A `FeatureLayer` between the target's embedding and its head.

    Attributes:
        layer: what was trained.
        target: on which model.
        dtype: the type of features.
    """

    skipped = 0

    def __init__(self, layer: FeatureLayer, target: GPT) -> None:
        """Joins what was trained with its target; ValueError if it was made for another width."""
        check_width(target.config.width, layer.width)
        self.layer = layer
        self.target = target
        self.dtype = target.dtype
        self.head = target.head

    def features(self, hidden: Tensor) -> Tensor:
        """Returns the target's hidden states [B, n, D] as they are read."""
        check_width(hidden.shape[-1], self.target.hidden_size)
        return hidden.to(self.dtype)

    def new_cache(self, rows: int) -> KVCache:
        """Returns an empty cache for `rows` rows."""
        return self.target.cache_of(len(self.layer.layers), rows)

    def after(self, tokens: Tensor, features: Tensor, cache: KVCache) -> Tensor:
        """Reads tokens [B, n], each with the feature before it; returns those after them: [B, n, D]."""
        return self.layer(tokens, features, self.target, cache)


class FeatureDrafter(TargetDrafter):
    """Drafts token after token with a `FeatureLayer`, with a cache of its own."""

    model: FeatureModel

    def __init__(self, layer: FeatureLayer, target: GPT, warp: Warp | None = None) -> None:
        """Makes a drafter of a layer that was trained on a target, whose embedding and head it uses.

        warp: how to warp its logits; None: like the target's.

        Raises:
            ValueError: if the layer was made for another width.
        """
        super().__init__(target, warp)
        self._begin(FeatureGPT(layer, target))

    def _begin(self, model: FeatureModel) -> None:
        """Takes what predicts features."""
        self.model = model
        self._cache = model.new_cache(1)
        self._feature = torch.zeros(0)  # [B, D], of the target, before the first token that was not read
        self._skipped = [0]  # first tokens of each row's text that were left out
        # Of each row the tokens that were not read yet, the pending one last, and parts [n, T] of the
        # target's states after all others; before a run there are none.
        self._unread: list[list[int]] = [[0]]
        self._states: list[list[Tensor]] = [[]]

    @property
    def cache_lengths(self) -> tuple[int, ...] | None:
        """How many tokens of each row's text are known: read, to be read, or left out as the first are."""
        rows = zip(self._cache.row_lengths, self._unread, self._skipped, strict=True)
        return tuple([n + len(unread) - 1 + skipped for n, unread, skipped in rows])

    def start(self, prompts: Prompts, hidden: Tensor) -> None:
        """Reads all prompts but their last tokens; hidden: their states [B, n, T]."""
        self._skipped = self._skips(prompts)
        self._cache, self._feature = self._prefill(prompts, hidden)
        self._unread = [[prompt[-1]] for prompt in prompts]
        self._states = [[states[:0]] for states in hidden]

    def admit(self, rows: Sequence[int], prompts: Prompts, hidden: Tensor) -> None:
        """Reads prompts into some rows; hidden: their states [len(rows), n, T]."""
        cache, self._feature[list(rows)] = self._prefill(prompts, hidden)
        for source, (row, skipped) in enumerate(zip(rows, self._skips(prompts), strict=True)):
            self._cache.place(row, cache, source)
            self._skipped[row] = skipped
            self._unread[row] = [prompts[source][-1]]
            self._states[row] = [hidden[source, :0]]

    def _skips(self, prompts: Prompts) -> list[int]:
        """Returns how many first tokens of each prompt are not read; the pending one will be."""
        return [min(self.model.skipped, len(prompt) - 1) for prompt in prompts]

    def _prefill(self, prompts: Prompts, hidden: Tensor) -> tuple[KVCache, Tensor]:
        """Returns a cache with the prompts, and the feature before each pending token [B, D]."""
        cache = self.model.new_cache(len(prompts))
        features = F.pad(self.model.features(hidden), (0, 0, 1, 0))  # none before the first token
        first = self.model.skipped
        lengths = [max(len(prompt) - 1 - first, 0) for prompt in prompts]
        if max(lengths) > 0:
            tokens = pad(prompts, first + max(lengths), hidden.device)
            self.model.after(tokens[:, first:], features[:, first:-1], cache)
            cache.truncate(lengths)
        return cache, features[torch.arange(len(prompts)), [len(prompt) - 1 for prompt in prompts]]

    def propose(self, pending: Tensor, k: int, warp: Warp, rng: RoundRng) -> Draft:
        """Guesses k tokens a row after the pending ones [B]; `Draft` has their distributions."""
        self.catch_up()
        feature = self._feature[:, None]  # [B, 1, D]

        def read(token: Tensor) -> Tensor:
            nonlocal feature
            feature = self.model.after(token[:, None], feature, self._cache)
            return self.model.head(feature)[:, -1]

        return draw_chain(read, pending, k, self.warp or warp, rng)

    def commit(self, round: Round) -> None:
        """Forgets its guesses, and notes the tokens and the states that it reads before it guesses again.

        So rounds that others draft, or nobody, cost it nothing.
        """
        known = zip(round.lengths, self._skipped, round.emitted, self._unread, strict=True)
        self._cache.truncate([n - first - len(new) - len(unread) + 1 for n, first, new, unread in known])
        rows = zip(round.emitted, round.target_hidden, self._unread, self._states, strict=True)
        for emitted, hidden, unread, states in rows:
            unread += emitted
            states.append(hidden[: len(emitted)])

    @torch.no_grad()
    def to_read(self) -> tuple[Tensor, Tensor, list[int]]:
        """Returns what was not read: tokens [B, n], features before them [B, n, D], and how many count."""
        if not all(self._states):
            raise ValueError("a drafter needs start(prompts, hidden) first")
        counts = [len(unread) for unread in self._unread]
        states = pad_sequence([torch.cat(parts) for parts in self._states], batch_first=True)
        features = torch.cat([self._feature[:, None], self.model.features(states)], dim=1)
        return pad(self._unread, max(counts), features.device), features, counts

    def have_read(self, features: Tensor, counts: Sequence[int]) -> None:
        """Keeps the pending tokens and the features before them, and forgets the others.

        features, counts: as from `to_read`, [B, n, D] and [B].
        """
        self._feature = features[torch.arange(len(counts)), [count - 1 for count in counts]]
        self._unread = [unread[-1:] for unread in self._unread]
        self._states = [[parts[0][:0]] for parts in self._states]

    def catch_up(self) -> None:
        """Reads the tokens that came since it guessed, but for the pending ones."""
        if max(map(len, self._unread)) == 1:
            return
        tokens, features, counts = self.to_read()
        held = self._cache.row_lengths
        self.model.after(tokens[:, :-1], features[:, :-1], self._cache)
        self._cache.truncate([n + count - 1 for n, count in zip(held, counts, strict=True)])
        self.have_read(features, counts)


EAGLE = DrafterEntry("eagle", lambda parts, k: FeatureDrafter(parts.heads("eagle"), parts.gpt, parts.warp))
