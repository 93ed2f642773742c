"""Backends: `torch`, the code to read, and `native`, the fast one. Both compute the same."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial

import torch

from minispec.core.draft import Drafter, ModelDrafter
from minispec.core.loop import generate
from minispec.core.model import GPT, LanguageModel
from minispec.core.rng import Rng, SeededRng
from minispec.core.verify import Verifier
from minispec.core.warp import Warp
from minispec.drafters.choice import choosing
from minispec.drafters.eagle3 import Eagle3Choice
from minispec.drafters.entry import NODES, Parts
from minispec.drafters.exit import SHARES
from minispec.drafters.medusa import doubtful_tree
from minispec.drafters.tree import common_tree
from minispec.io.checkpoint import Pair
from minispec.io.observe import observe
from minispec.io.trace import ObservedRound
from minispec.native import loop
from minispec.native.decisions import NATIVE_CHAINS, NATIVE_TREES, NativeRng, NativeWarp
from minispec.native.drafter import NativeDrafter, NativeTreeDrafter
from minispec.native.eagle3 import NativeEagle3Drafter, NativeEagle3GPT
from minispec.native.exit import NativeExitDrafter, NativeExitGPT
from minispec.native.heads import (
    NativeFeatureDrafter,
    NativeMedusa,
    NativeMedusaDrafter,
    NativeMedusaTreeDrafter,
    NativeParallelDrafter,
)
from minispec.native.model import NativeGPT
from minispec.verifiers.registry import CHAINS, TREES, verifier_for

AUTO = "auto"


@dataclass(frozen=True)
class Backend:
    """What `speculate` needs besides prompts and numbers."""

    name: str  #: `torch` or `native`
    model: Callable[[GPT], LanguageModel]  #: makes of a GPT a model that computes on this backend
    warp: Callable[..., Warp]  #: makes a warp, from the arguments of `Warp`
    rng: Callable[[int], Rng]  #: makes a random number generator from a seed
    verifiers: Mapping[str, Verifier] = field(hash=False)  #: of chains, those that it has itself, by name
    trees: Mapping[str, Verifier] = field(hash=False)  #: the same of trees
    drafter: type[ModelDrafter]  #: makes a drafter from a draft model
    generate: Callable[..., Iterator[tuple[int | None, ...]]]  #: decodes with the target alone
    observe: Callable[..., Iterator[ObservedRound]]  #: decodes with a drafter, and observes it
    makers: Mapping[str, Callable[[Parts, int], Drafter]] = field(hash=False)  #: of drafters it makes its way

    def verifier(self, name: str, trees: bool = False) -> Verifier:
        """Returns the verifier of a name, of trees or of chains, this backend's own if it has one.

        Raises:
            ValueError: if there is none.
        """
        registered = verifier_for(name, trees)
        return (self.trees if trees else self.verifiers).get(name, registered)


def native(model: LanguageModel) -> NativeGPT:
    """Returns a native model; ValueError if it is another."""
    if not isinstance(model, NativeGPT):
        raise ValueError(SHARES)
    return model


def native_heads(parts: Parts) -> NativeMedusa:
    """Returns Medusa's heads on the native target; ValueError if the target is another."""
    return NativeMedusa(parts.heads("medusa"), native(parts.target))


def native_eagle3(parts: Parts) -> NativeEagle3Drafter:
    """Returns an EAGLE-3 drafter of the native target; ValueError if the target is another."""
    model = NativeEagle3GPT(parts.heads("eagle3"), parts.gpt, native(parts.target))
    return NativeEagle3Drafter(model, parts.warp)


TORCH = Backend(
    name="torch",
    model=lambda model: model,
    warp=Warp,
    rng=SeededRng,
    verifiers=CHAINS,
    trees=TREES,
    drafter=ModelDrafter,
    generate=generate,
    observe=observe,
    makers={},
)
NATIVE = Backend(
    name="native",
    model=NativeGPT,
    warp=NativeWarp,
    rng=NativeRng,
    verifiers=NATIVE_CHAINS,
    trees=NATIVE_TREES,
    drafter=NativeDrafter,
    generate=loop.generate,
    observe=loop.observe,
    makers={
        "model": lambda parts, k: NativeDrafter(parts.draft, parts.warp),
        "exit": lambda parts, k: NativeExitDrafter(
            NativeExitGPT(native(parts.target), parts.heads("exit")), parts.warp
        ),
        "medusa": lambda parts, k: NativeMedusaDrafter(native_heads(parts), parts.target, parts.warp),
        "medusa-tree": lambda parts, k: NativeMedusaTreeDrafter(
            native_heads(parts), parts.target, doubtful_tree(NODES, k), warp=parts.warp
        ),
        "eagle": lambda parts, k: NativeFeatureDrafter(
            parts.heads("eagle"), parts.gpt, native(parts.target), parts.warp
        ),
        "parallel": lambda parts, k: NativeParallelDrafter(
            parts.heads("parallel"), parts.gpt, native(parts.target), parts.warp
        ),
        "tree": lambda parts, k: NativeTreeDrafter(native(parts.draft), common_tree(NODES, k), parts.warp),
        "eagle3": lambda parts, k: native_eagle3(parts),
        "eagle3-auto": lambda parts, k: Eagle3Choice(native_eagle3(parts), parts, k),
        "auto": lambda parts, k: choosing(parts, NativeDrafter, k),
    },
)
BACKENDS = {backend.name: backend for backend in (TORCH, NATIVE)}


@dataclass(frozen=True)
class Models:
    """A pair, ready to compute on a backend."""

    target: LanguageModel  #: the target
    draft: LanguageModel  #: the draft
    backend: Backend  #: on which one
    note: str | None = None  #: why it is `torch` where `auto` was asked for; else None


def on_backend(pair: Pair, name: str) -> Models:
    """Returns a pair's models as a backend computes them; the first time, the native library is built.

    The backend is `torch`, `native`, or `auto`: native where it can be had, else torch. If the pair says in
    which type weights are kept, native models are made in it, and for torch the pair's own become of it.

    Raises:
        ValueError: if the name is unknown, the native backend cannot be had here (see `NativeGPT`), or the
            pair's weights are to be kept in 8 bits and the backend is not native.
    """
    if name == AUTO:
        try:
            return on_backend(pair, NATIVE.name)
        except ValueError as error:
            if pair.kept is torch.int8:
                raise
            note = f"computing with the torch backend: {error}"
            return replace(on_backend(pair, TORCH.name), note=note)
    if name not in BACKENDS:
        raise ValueError(f"there is no backend {name!r}; choose {', '.join(BACKENDS)} or {AUTO}")
    backend = BACKENDS[name]
    make = backend.model
    if backend is NATIVE:
        make = partial(NativeGPT, kept=pair.kept)
    elif pair.kept is torch.int8:
        raise ValueError(f"only the native backend keeps weights in 8 bits: use --backend {NATIVE.name}")
    elif pair.kept is not None:
        for model in (pair.target, pair.draft):
            model.to(pair.kept)
    target = make(pair.target)
    return Models(target, make(pair.draft) if pair.has_draft else target, backend)
