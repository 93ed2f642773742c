"""Kits: the warp, the source of chance and the rules that go together: plain, lean or native."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from minispec.decoding.draft import Drafter, ModelDrafter
from minispec.decoding.drawing_drafter import DrawingDrafter
from minispec.decoding.lean import LeanWarp, lean_greedy, lean_rejection
from minispec.decoding.native import NativeWarp, native_greedy, native_rejection
from minispec.decoding.rng import Rng, SeededRng
from minispec.decoding.rng_lean import LeanRng
from minispec.decoding.rng_native import NativeRng
from minispec.decoding.verify import Verifier, verify_greedy, verify_rejection
from minispec.decoding.warp import Warp
from minispec.lm.model import LanguageModel


@dataclass(frozen=True)
class Kit:
    """What `speculate` needs beside models.

    Attributes:
        warp: makes a warp, from the arguments of `Warp`.
        rng: makes a source of chance from a seed.
        rules: verifiers by name.
        drafter: makes a drafter from a draft model.
    """

    warp: Callable[..., Warp]
    rng: Callable[[int], Rng]
    rules: Mapping[str, Verifier]
    drafter: Callable[[LanguageModel], Drafter] = ModelDrafter


PLAIN = Kit(Warp, SeededRng, {"greedy": verify_greedy, "rejection": verify_rejection})
LEAN = Kit(LeanWarp, LeanRng, {"greedy": lean_greedy, "rejection": lean_rejection})
DRAWING = replace(LEAN, drafter=DrawingDrafter)
NATIVE = Kit(
    NativeWarp, NativeRng, {"greedy": native_greedy, "rejection": native_rejection}, drafter=DrawingDrafter
)
# Which goes with which path of `minispec.lm.paths`; all decide alike.
KITS = {"readable": PLAIN, "lean": LEAN, "compiled": DRAWING, "native": NATIVE}
