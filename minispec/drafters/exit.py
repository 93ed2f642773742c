"""Early exit: the target's first layers draft, and verification goes on where they stopped.

The first E of the target's layers, a norm of their own and the target's head make a draft model that has no
layer of its own. It shares more than weights. The keys and values that it computes are those that the target
needs, and so is the stream after layer E: verification takes it up there. What those layers have read once,
they do not read again (Elhoushi et al. 2024, LayerSkip, section 4.3). Without training, the target's own last
norm does; a trained `Exit` is accepted more often.
"""

from collections.abc import Sequence
from copy import deepcopy
from functools import partial
from weakref import ReferenceType, ref

import torch
from torch import Tensor, nn

from minispec.core.batch import Prompts
from minispec.core.cache import KVCache
from minispec.core.draft import draw_chain
from minispec.core.model import GPT, RMSNorm, Tree
from minispec.core.records import Draft, Round
from minispec.core.rng import RoundRng
from minispec.core.warp import Warp
from minispec.drafters.chain import TargetDrafter, check_width
from minispec.drafters.entry import DrafterEntry

FIRST = "the target reads the prompts first, and start(prompts) follows, once for each run"
SHARES = "the exit drafter shares the target's own layers; leave out --exact"


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
    exit = Exit(model.config.width, layers, model.config.norm_eps).to(model.device, model.dtype)
    exit.norm = deepcopy(model.norm)
    return exit.requires_grad_(False)


class ExitCache(KVCache):
    """A cache in two parts, for the layers before an exit and for those after it; the first part reads ahead.

    Attributes:
        first: of the layers before the exit.
        later: of those after it; its lengths are those of the whole.
        streams: [B, n, D] each, what the first layers have made of tokens that the others have not read.
        shared: whether a draft reads ahead in it.
    """

    def __init__(self, model: GPT, layers: int, rows: int) -> None:
        """Makes an empty cache for a model that is left after so many layers."""
        self.first = model.cache_of(layers, rows)
        self.later = model.cache_of(model.config.layers - layers, rows)
        self.rows = rows
        self.capacity = model.max_length
        self.streams: list[Tensor] = []
        self.shared = False

    @property
    def row_lengths(self) -> tuple[int, ...]:
        """How many tokens each row holds in all layers."""
        return self.later.row_lengths

    @property
    def bytes(self) -> int:
        """Memory taken, in bytes."""
        return self.first.bytes + self.later.bytes

    def truncate(self, lengths: Sequence[int] | Tensor) -> None:
        """Forgets everything after the first lengths[b] tokens of row b, in both parts."""
        self.later.truncate(lengths)
        self.first.truncate(lengths)

    def place(self, row: int, other: KVCache, source: int) -> None:
        """Takes over, into one row, what another cache of the same model holds in its row `source`."""
        assert isinstance(other, ExitCache)
        self.first.place(row, other.first, source)
        self.later.place(row, other.later, source)


class EarlyExitGPT:
    """A target that can also be asked after its first layers; a `LanguageModel`.

    What was read ahead through the first layers is kept in the cache until the target reads it, and goes on
    from there. Several runs may share the target; begin them in one thread.

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
        self.hidden_size = model.hidden_size
        self.max_length = model.max_length
        self.head = model.head
        self._newest: ReferenceType[ExitCache] | None = None

    def new_cache(self, rows: int) -> ExitCache:
        """Returns an empty cache, which the draft can share."""
        cache = ExitCache(self.model, self.exit.layers, rows)
        self._newest = ref(cache)
        return cache

    def share(self) -> ExitCache:
        """Returns the cache that was made last, for a draft to share: its run is starting.

        Raises:
            ValueError: if there is none, or another draft shares it.
        """
        cache = None if self._newest is None else self._newest()
        if cache is None:
            raise ValueError(FIRST)
        self._newest = None
        cache.shared = True
        return cache

    def read_ahead(self, cache: ExitCache, token: Tensor) -> Tensor:
        """Takes one token a row, [B], through the first layers; returns the draft's logits [B, V].

        Raises:
            ValueError: if no draft shares the cache.
        """
        if not cache.shared:
            raise ValueError(FIRST)
        stream = self.first_layers(token[:, None], cache)
        cache.streams.append(stream)
        return self.head(self.exit(stream))[:, -1]

    def propose(self, cache: ExitCache, pending: Tensor, k: int, warp: Warp, rng: RoundRng) -> Draft:
        """Guesses k tokens a row after the pending ones [B], reading them ahead into a shared cache.

        Raises:
            ValueError: if the target has not read the last draft of this cache, or no draft shares it.
        """
        if cache.streams:
            raise ValueError("the last draft was never verified: a drafter serves one run at a time")
        return draw_chain(partial(self.read_ahead, cache), pending, k, warp, rng)

    def hidden(self, tokens: Tensor, cache: KVCache | None = None, tree: Tree | None = None) -> Tensor:
        """Reads tokens as the GPT does, but not twice through a layer: [B, n] -> [B, n, D].

        Raises:
            ValueError: if a tree is given, or a cache that `new_cache` has not made.
        """
        if tree is not None:
            raise ValueError("EarlyExitGPT reads no trees; a GPT on the torch backend does")
        if cache is None:
            return self.model.hidden(tokens)
        if not isinstance(cache, ExitCache):
            raise ValueError("an early exit needs a cache of its own: take it from new_cache")
        return self.later_layers(self.streams_of(tokens, cache), cache)

    def streams_of(self, tokens: Tensor, cache: ExitCache) -> Tensor:
        """Returns what the first layers make of tokens [B, n], read ahead or only now: [B, n, D]."""
        streams = cache.streams
        cache.streams = []
        read = sum(stream.shape[1] for stream in streams)
        if read < tokens.shape[1]:
            streams = [*streams, self.first_layers(tokens[:, read:], cache)]
        return torch.cat(streams, dim=1)[:, : tokens.shape[1]]

    def first_layers(self, tokens: Tensor, cache: ExitCache) -> Tensor:
        """Takes tokens [B, n] through the first layers: the stream [B, n, D]."""
        view = self.model.view(tokens.shape[1], cache.first)
        stream = self.model.layers[: self.exit.layers](self.model.embed_tokens(tokens), view)
        cache.first.advance()
        return stream

    def later_layers(self, stream: Tensor, cache: ExitCache) -> Tensor:
        """Takes a stream through the other layers and the last norm: [B, n, D] -> [B, n, D]."""
        view = self.model.view(stream.shape[1], cache.later)
        stream = self.model.layers[self.exit.layers :](stream, view)
        cache.later.advance()
        return self.model.norm(stream)


class ExitDrafter(TargetDrafter):
    """Drafts with the first layers of the target that verifies: give `speculate` the same `EarlyExitGPT`."""

    cache_lengths: tuple[int, ...] | None = None  # it has no cache of its own

    def __init__(self, target: EarlyExitGPT, warp: Warp | None = None) -> None:
        """Makes a drafter; warp: how to warp its logits, None: like the target's."""
        super().__init__(target, warp)
        self.target = target
        self._cache: ExitCache | None = None  # of the run, which the target reads into as well

    def start(self, prompts: Prompts, hidden: Tensor) -> None:
        """Reads nothing, nor hidden [B, n, D]: the cache of the target's run is the draft's."""
        self._cache = self.target.share()

    def admit(self, rows: Sequence[int], prompts: Prompts, hidden: Tensor) -> None:
        """Reads nothing, nor hidden [len(rows), n, D]: the target has read these prompts, too."""

    def propose(self, pending: Tensor, k: int, warp: Warp, rng: RoundRng) -> Draft:
        """Guesses k tokens a row after the pending ones [B]; `Draft` has their distributions."""
        if self._cache is None:
            raise ValueError(FIRST)
        return self.target.propose(self._cache, pending, k, self.warp or warp, rng)

    def commit(self, round: Round) -> None:
        """Does nothing: the target's rollback was the draft's as well."""


EXIT = DrafterEntry(
    "exit",
    lambda parts, k: ExitDrafter(EarlyExitGPT(parts.plain_target(SHARES), parts.heads("exit")), parts.warp),
)
