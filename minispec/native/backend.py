"""Backends: `torch`, the code to read, and `native`, the fast one. Both compute the same."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from minispec.core.draft import ModelDrafter
from minispec.core.model import GPT, LanguageModel
from minispec.core.rng import Rng, SeededRng
from minispec.core.verify import Verifier, verify_greedy, verify_rejection
from minispec.core.warp import Warp
from minispec.io.checkpoint import Pair
from minispec.native.decisions import NativeRng, NativeWarp, native_greedy, native_rejection
from minispec.native.drafter import NativeDrafter
from minispec.native.model import NativeGPT

AUTO = "auto"


@dataclass(frozen=True)
class Backend:
    """What `speculate` needs besides prompts and numbers.

    Attributes:
        name: `torch` or `native`.
        model: makes of a GPT a model that computes on this backend.
        warp: makes a warp, from the arguments of `Warp`.
        rng: makes a random number generator from a seed.
        rules: verifiers by name.
        drafter: makes a drafter from a draft model.
    """

    name: str
    model: Callable[[GPT], LanguageModel]
    warp: Callable[..., Warp]
    rng: Callable[[int], Rng]
    rules: Mapping[str, Verifier] = field(hash=False)
    drafter: type[ModelDrafter]


TORCH = Backend(
    name="torch",
    model=lambda model: model,
    warp=Warp,
    rng=SeededRng,
    rules={"greedy": verify_greedy, "rejection": verify_rejection},
    drafter=ModelDrafter,
)
NATIVE = Backend(
    name="native",
    model=NativeGPT,
    warp=NativeWarp,
    rng=NativeRng,
    rules={"greedy": native_greedy, "rejection": native_rejection},
    drafter=NativeDrafter,
)
BACKENDS = {backend.name: backend for backend in (TORCH, NATIVE)}


@dataclass(frozen=True)
class Models:
    """A pair, ready to compute on a backend.

    Attributes:
        target: the target.
        draft: the draft.
        backend: on which one.
        note: why it is `torch` where `auto` was asked for and `native` cannot be had; else None.
    """

    target: LanguageModel
    draft: LanguageModel
    backend: Backend
    note: str | None = None


def on_backend(pair: Pair, name: str) -> Models:
    """Returns a pair's models as a backend computes them; the first time, the native library is built.

    Args:
        pair: the models.
        name: `torch`, `native`, or `auto`: native where it can be had, else torch.

    Raises:
        ValueError: if the name is unknown, or the native backend cannot be had here (see `NativeGPT`).
    """
    if name == AUTO:
        try:
            return on_backend(pair, NATIVE.name)
        except ValueError as error:
            return Models(pair.target, pair.draft, TORCH, f"computing with the torch backend: {error}")
    if name not in BACKENDS:
        raise ValueError(f"there is no backend {name!r}; choose {', '.join(BACKENDS)} or {AUTO}")
    backend = BACKENDS[name]
    return Models(backend.model(pair.target), backend.model(pair.draft), backend)
