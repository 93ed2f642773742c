"""Drafters by name: what `--drafter` chooses from, each made for a pair on a backend."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch

from minispec.core.draft import Drafter
from minispec.core.model import GPT, LanguageModel
from minispec.core.verify import Verifier
from minispec.drafters.eagle import FeatureDrafter
from minispec.drafters.exit import EarlyExitGPT, ExitDrafter
from minispec.drafters.lookup import LookupDrafter
from minispec.drafters.medusa import MedusaDrafter, MedusaTreeDrafter, doubtful_tree
from minispec.drafters.ngram import NgramDrafter
from minispec.drafters.parallel import ParallelDrafter
from minispec.drafters.suffix import SuffixDrafter
from minispec.drafters.tree import TreeDrafter, common_tree
from minispec.io.checkpoint import Pair
from minispec.io.heads import load_heads
from minispec.native.backend import AUTO, NATIVE, TORCH, Backend, Models
from minispec.native.exit import NativeExitGPT
from minispec.native.model import NativeGPT
from minispec.verifiers.registry import verifier_for

MODEL = "model"
K = 4  # tokens of a draft, by default
NODES = 16  # tokens of a tree
Maker = Callable[[Pair, Models, int], Drafter]
"""From a pair, its models on a backend, and a K: what drafts."""


@dataclass(frozen=True)
class NamedDrafter:
    """A way to draft, by the name of the command line."""

    maker: Maker  #: makes it
    has_model: bool = False  #: whether the pair's draft model drafts: what is known of it counts
    adapts: bool = True  #: whether an automatic K can be chosen for it: its costs are known, and it can rest
    draws_tree: bool = False  #: whether it proposes trees

    def make(self, pair: Pair, models: Models, k: int = K) -> tuple[LanguageModel, Drafter]:
        """Makes it for a pair, its models on a backend, and a K; ValueError if what it needs is not there.

        Returns the target to decode with, for a drafter may share the target's layers, and what drafts.
        """
        if self.draws_tree and models.target is not pair.target:
            raise ValueError("the tree drafter needs a target that reads trees: neither native nor --exact")
        drafter = self.maker(pair, models, k)
        return drafter.target if isinstance(drafter, ExitDrafter) else models.target, drafter

    def backend(self, backend: str) -> str:
        """Returns on which backend it drafts where one, or `auto`, is wanted; ValueError if it cannot."""
        if self.draws_tree and backend == NATIVE.name:
            raise ValueError(f"this drafter needs the {TORCH.name} backend, not {backend}")
        return TORCH.name if self.draws_tree else backend

    def verifier(self, name: str, backend: Backend) -> Verifier:
        """Returns the verifier of a name for its drafts, the backend's own if it has one; else ValueError."""
        known = verifier_for(name, self.draws_tree)
        return known if self.draws_tree else backend.verifiers.get(name, known)


def named(name: str, k: str) -> NamedDrafter:
    """Returns the drafter of a name, for a `--k`; ValueError if there is none, or none with that K."""
    if name not in DRAFTERS:
        raise ValueError(f"--drafter {name!r} is unknown; choose {' or '.join(DRAFTERS)}")
    if k == AUTO and not DRAFTERS[name].adapts:
        raise ValueError(f"--drafter {name} needs a K: give a number, such as --k 4")
    return DRAFTERS[name]


def looking_up(make: Callable[..., LookupDrafter], target: GPT) -> LookupDrafter:
    """Returns a look-up drafter whose distributions have the type of the target's."""
    return make(target.vocab_size, dtype=torch.promote_types(target.dtype, torch.float32))


def leaving_early(pair: Pair, models: Models) -> ExitDrafter:
    """Returns what drafts with the first layers of the target; ValueError if it cannot be left there."""
    exit = heads(pair, "exit")
    if isinstance(models.target, NativeGPT):
        return ExitDrafter(NativeExitGPT(models.target, exit))
    if models.target is not pair.target:
        raise ValueError("the exit drafter shares the target's own layers; leave out --exact")
    return ExitDrafter(EarlyExitGPT(pair.target, exit))


def heads(pair: Pair, kind: str) -> Any:
    """Returns what was trained on a pair's target for a kind of drafter (see `load_heads`)."""
    return load_heads(pair, kind)[0]


def trained(kind: str, make: Callable[[Any, GPT], Drafter]) -> NamedDrafter:
    """Returns a way to draft by what was trained on a pair's target."""
    return NamedDrafter(lambda pair, on, k: make(heads(pair, kind), pair.target), adapts=False)


TREES: dict[str, Any] = {"adapts": False, "draws_tree": True}
# What was trained uses embedding and head of the torch target, whatever decodes.
DRAFTERS: Mapping[str, NamedDrafter] = {
    MODEL: NamedDrafter(lambda pair, on, k: on.backend.drafter(on.draft), has_model=True),
    "ngram": NamedDrafter(lambda pair, on, k: looking_up(NgramDrafter, pair.target)),
    "suffix": NamedDrafter(lambda pair, on, k: looking_up(SuffixDrafter, pair.target)),
    "exit": NamedDrafter(lambda pair, on, k: leaving_early(pair, on), adapts=False),
    "medusa": trained("medusa", MedusaDrafter),
    "eagle": trained("eagle", FeatureDrafter),
    "parallel": trained("parallel", ParallelDrafter),
    "tree": NamedDrafter(
        lambda pair, on, k: TreeDrafter(pair.draft, common_tree(NODES, k)), has_model=True, **TREES
    ),
    "medusa-tree": NamedDrafter(
        lambda pair, on, k: MedusaTreeDrafter(heads(pair, "medusa"), pair.target, doubtful_tree(NODES, k)),
        **TREES,
    ),
}
