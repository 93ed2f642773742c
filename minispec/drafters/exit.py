"""Early exit: the target's first layers draft, and verification goes on where they stopped.

The first E of the target's layers, a norm of their own and the target's head make a draft model that has no
layer of its own. It shares more than weights. The keys and values that it computes are those that the target
needs, and so is the stream after layer E: verification takes it up there. What those layers have read once,
they do not read again (Elhoushi et al. 2024, LayerSkip, section 4.3). Without training, the target's own last
norm does (Zhang et al. 2024, Draft & Verify); a trained `Exit` says better what the first layers know.
"""

from collections.abc import Sequence
from copy import deepcopy
from functools import partial
from weakref import ReferenceType, WeakKeyDictionary, ref

import torch
from torch import Tensor, nn

from minispec.core.cache import KVCache
from minispec.core.model import GPT, RMSNorm
from minispec.core.prefill import Prompts
from minispec.core.records import Draft, Round
from minispec.core.rng import Rng
from minispec.core.warp import Warp
from minispec.drafters.chain import check_width, draw_chain

FIRST = "the target reads the prompts first, and start(prompts) follows, once for each run"


class Exit(nn.Module):
    """What maps the stream after the first `layers` to what the head reads: a matrix, added, and a norm."""

    def __init__(self, width: int, layers: int, eps: float = 1e-5) -> None:
        """Makes an exit that changes nothing: the matrix is 0, the norm's gains are 1."""
        super().__init__()
        self.layers = layers
        self.proj = nn.Linear(width, width, bias=False)
        nn.init.zeros_(self.proj.weight)
        self.norm = RMSNorm(width, eps)

    def forward(self, x: Tensor) -> Tensor:
        """Maps the stream after layer E to what the head reads: [B, n, D] -> [B, n, D]."""
        return self.norm(x + self.proj(x))


def untrained_exit(model: GPT, layers: int) -> Exit:
    """Returns an exit that has learned nothing: the model's own last norm, earlier."""
    made = Exit(model.config.width, layers, model.config.norm_eps).to(model.device, model.dtype)
    made.norm = deepcopy(model.norm)
    return made.requires_grad_(False)


class EarlyExitGPT:
    """A target that can also be asked after its first layers; a `LanguageModel`.

    What was read ahead through the first layers is kept until the target reads it, and goes on from there. It
    is kept for each cache by itself, so several runs may share the target; begin them in one thread.

    Attributes:
        model: the GPT.
        exit: where it is left, and how.
    """

    def __init__(self, model: GPT, exit: Exit) -> None:
        """Joins a GPT and an exit.

        Raises:
            ValueError: if the exit was made for another width, or leaves no layer to the target.
        """
        check_width(model.config.width, exit.proj.weight.shape[0])
        if not 1 <= exit.layers < model.config.layers:
            raise ValueError(
                f"an exit after layer {exit.layers} does not fit a target of {model.config.layers} layers: "
                f"it must be from 1 to {model.config.layers - 1}"
            )
        self.model = model
        self.exit = exit
        self.device = model.device
        self.vocab_size = model.vocab_size
        self.max_length = model.max_length
        self.head = model.head
        self._made: ReferenceType[KVCache] | None = None
        # Of each shared cache the streams [B, n, D] after the first layers that are not verified yet.
        self._ahead: WeakKeyDictionary[KVCache, list[Tensor]] = WeakKeyDictionary()

    def new_cache(self, rows: int) -> KVCache:
        """Returns an empty cache, which the draft can share."""
        cache = self.model.new_cache(rows)
        self._made = ref(cache)
        return cache

    def share(self) -> KVCache:
        """Returns the cache that was made last, for a draft to share: a run has begun in it.

        Raises:
            ValueError: if there is none, or another draft shares it.
        """
        cache = None if self._made is None else self._made()
        if cache is None:
            raise ValueError(FIRST)
        self._made = None
        self._ahead[cache] = []
        return cache

    def read_ahead(self, cache: KVCache, token: Tensor) -> Tensor:
        """Takes one token a row, [B], through the first layers; returns the draft's logits [B, V]."""
        if cache not in self._ahead:
            raise ValueError(FIRST)
        x = self._first(torch.unsqueeze(token, -1), cache)
        self._ahead[cache].append(x)
        return self.head(self.exit(x))[:, -1]

    def propose(self, cache: KVCache, pending: Tensor, k: int, warp: Warp, rng: Rng) -> Draft:
        """Guesses k tokens a row after the pending ones [B], reading them ahead into a shared cache.

        Raises:
            ValueError: if the target has not read the last draft of this cache.
        """
        if self._ahead.get(cache):
            raise ValueError("the last draft was never verified: a drafter serves one run at a time")
        return draw_chain(partial(self.read_ahead, cache), pending, k, warp, rng)

    def hidden(self, tokens: Tensor, cache: KVCache | None = None) -> Tensor:
        """Reads tokens as the GPT does, but not twice through a layer: [B, n] -> [B, n, D]."""
        if cache is None or cache not in self._ahead:
            return self.model.hidden(tokens, cache)
        x = self._streams(tokens, cache)
        view = self.model.view(x.shape[1], cache, None, slice(self.exit.layers, None))
        x = self.model.layers(x, view, self.exit.layers)
        cache.advance()
        return self.model.norm(x)

    def __call__(self, tokens: Tensor, cache: KVCache | None = None) -> Tensor:
        """Returns head(hidden(tokens, cache)): logits [B, n, V]."""
        return self.head(self.hidden(tokens, cache))

    def _streams(self, tokens: Tensor, cache: KVCache) -> Tensor:
        """Returns what the first layers make of tokens [B, n], read ahead or only now: [B, n, D]."""
        ahead, self._ahead[cache] = self._ahead[cache], []
        read = sum(x.shape[1] for x in ahead)
        if read < tokens.shape[1]:
            ahead = [*ahead, self._first(tokens[:, read:], cache)]
        return torch.cat(ahead, dim=1)[:, : tokens.shape[1]]

    def _first(self, tokens: Tensor, cache: KVCache) -> Tensor:
        """Takes tokens [B, n] through the first layers: [B, n, D]."""
        view = self.model.view(tokens.shape[1], cache, None, slice(0, self.exit.layers))
        x = self.model.layers(self.model.embed_tokens(tokens), view, 0, self.exit.layers)
        cache.advance()
        return x


class ExitDrafter:
    """Drafts with the first layers of the target that verifies: give `speculate` the same `EarlyExitGPT`."""

    cache_lengths: tuple[int, ...] | None = None  # it has no cache of its own

    def __init__(self, target: EarlyExitGPT, warp: Warp | None = None) -> None:
        """Makes a drafter; warp: how to warp its logits, None: like the target's."""
        self.target = target
        self.warp = warp
        self.vocab_size = target.vocab_size
        self.max_length = target.max_length
        self._cache: KVCache | None = None  # of the run, which the target reads into as well

    def start(self, prompts: Prompts, rows: Sequence[int] | None = None) -> None:
        """Reads nothing: the target has read the prompts, and the cache of its run is the draft's."""
        if rows is None:
            self._cache = self.target.share()

    def propose(self, pending: Tensor, k: int, warp: Warp, rng: Rng) -> Draft:
        """Guesses k tokens a row after the pending ones [B]; `Draft` has their distributions."""
        if self._cache is None:
            raise ValueError(FIRST)
        return self.target.propose(self._cache, pending, k, self.warp or warp, rng)

    def commit(self, round: Round) -> None:
        """Does nothing: the target's rollback was the draft's as well."""
