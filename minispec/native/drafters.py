"""Drafters by name: what `--drafter` chooses from, each made for a pair on a backend."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

import torch

from minispec.core.draft import Drafter
from minispec.core.model import LanguageModel
from minispec.core.verify import Verifier
from minispec.drafters.eagle import FeatureDrafter, FeatureLayer
from minispec.drafters.exit import EarlyExitGPT, Exit, ExitDrafter
from minispec.drafters.lookup import LookupDrafter
from minispec.drafters.medusa import Medusa, MedusaDrafter
from minispec.drafters.medusa_tree import MedusaTreeDrafter, doubtful_tree
from minispec.drafters.ngram import NgramDrafter
from minispec.drafters.parallel import ParallelDrafter, ParallelLayers
from minispec.drafters.suffix import SuffixDrafter
from minispec.drafters.tree import TreeDrafter, common_tree
from minispec.io.checkpoint import Pair
from minispec.io.heads import load_heads
from minispec.native.backend import AUTO, BACKENDS, TORCH, Models
from minispec.native.exit import NativeExitGPT
from minispec.native.model import NativeGPT
from minispec.rules.tree import verify_tree, verify_tree_greedy

MODEL = "model"
K = 4  # tokens of a draft, unless it is said
NODES = 16  # tokens of a tree


@dataclass(frozen=True)
class NamedDrafter:
    """A way to draft, by the name of the command line."""

    #: makes it for a pair, its models on a backend, and a K. Returns the target to decode with, for a drafter
    #: may share the target's layers, and what drafts.
    make: Callable[..., tuple[LanguageModel, Drafter]]
    has_model: bool = False  #: whether the pair's draft model drafts: what is known of it counts
    adapts: bool = True  #: whether an automatic K can be chosen for it: its costs are known, and it can rest
    rules: Mapping[str, Verifier] | None = None  #: by the names of verifiers; None: any for chains
    backends: Sequence[str] = tuple(BACKENDS)  #: by name, on which it can draft

    def backend(self, asked: str) -> str:
        """Returns on which backend it drafts where one is asked for by name, or `auto`.

        Raises:
            ValueError: if it cannot draft on that one.
        """
        if asked == AUTO and len(self.backends) == 1:
            return self.backends[0]
        if asked in BACKENDS and asked not in self.backends:
            known = " or ".join(self.backends)
            raise ValueError(f"this drafter needs the {known} backend, not {asked}")
        return asked

    def rule(self, verifier: str, otherwise: Verifier) -> Verifier:
        """Returns the rule of a name for its drafts; otherwise: the one for chains.

        Raises:
            ValueError: if its drafts cannot be verified so.
        """
        if self.rules is not None and verifier not in self.rules:
            raise ValueError(
                f"the {verifier} rule verifies chains; for a tree choose --verifier {' or '.join(self.rules)}"
            )
        return otherwise if self.rules is None else self.rules[verifier]


def named(name: str, k: str) -> NamedDrafter:
    """Returns the drafter of a name, for a `--k`.

    Raises:
        ValueError: if there is none, or it cannot have an automatic K.
    """
    if name not in DRAFTERS:
        raise ValueError(f"--drafter {name!r} is unknown; choose {' or '.join(DRAFTERS)}")
    if k == AUTO and not DRAFTERS[name].adapts:
        raise ValueError(f"--drafter {name} needs a K: give a number, such as --k 4")
    return DRAFTERS[name]


def with_model(pair: Pair, models: Models, k: int = K) -> tuple[LanguageModel, Drafter]:
    """Returns the target, and the draft model in the backend's drafter."""
    return models.target, models.backend.drafter(models.draft)


def looking_up(make: Callable[..., LookupDrafter]) -> Callable[..., tuple[LanguageModel, Drafter]]:
    """Returns a maker of look-up drafters, whose distributions have the type of the target's."""

    def maker(pair: Pair, models: Models, k: int = K) -> tuple[LanguageModel, Drafter]:
        wide = torch.promote_types(pair.target.dtype, torch.float32)
        return models.target, make(models.target.vocab_size, dtype=wide)

    return maker


def by_exit(pair: Pair, models: Models, k: int = K) -> tuple[LanguageModel, Drafter]:
    """Returns the target with its exit, and what drafts with its first layers.

    Raises:
        ValueError: if the pair has no exit, or the target that decodes cannot be left early.
    """
    own, exit = models.target, cast(Exit, load_heads(pair, "exit")[0])
    if own is not pair.target and not isinstance(own, NativeGPT):
        raise ValueError("the exit drafter shares the target's own layers; leave out --exact")
    target = NativeExitGPT(own, exit) if isinstance(own, NativeGPT) else EarlyExitGPT(pair.target, exit)
    return target, ExitDrafter(target)


def by_medusa(pair: Pair, models: Models, k: int = K) -> tuple[LanguageModel, Drafter]:
    """Returns the target, and heads on its hidden states."""
    heads, _ = load_heads(pair, "medusa")
    return models.target, MedusaDrafter(cast(Medusa, heads), models.target)


def by_features(pair: Pair, models: Models, k: int = K) -> tuple[LanguageModel, Drafter]:
    """Returns the target, and a layer on its hidden states that reads the torch target's embedding."""
    layer, _ = load_heads(pair, "eagle")
    return models.target, FeatureDrafter(cast(FeatureLayer, layer), pair.target)


def by_masks(pair: Pair, models: Models, k: int = K) -> tuple[LanguageModel, Drafter]:
    """Returns the target, and layers that guess all at once with the torch target's embedding and head."""
    parts, _ = load_heads(pair, "parallel")
    return models.target, ParallelDrafter(cast(ParallelLayers, parts), pair.target)


def by_tree(pair: Pair, models: Models, k: int = K) -> tuple[LanguageModel, Drafter]:
    """Returns the target, and the draft model with a tree of candidates, k deep.

    Raises:
        ValueError: if the target that decodes is not the torch one, which alone reads trees; or the context
            has no space for the tree.
    """
    if models.target is not pair.target:
        raise ValueError("the tree drafter needs a target that reads trees: neither native nor --exact")
    return models.target, TreeDrafter(pair.draft, common_tree(NODES, k))


def by_medusa_tree(pair: Pair, models: Models, k: int = K) -> tuple[LanguageModel, Drafter]:
    """Returns the target, and heads on its hidden states that propose a tree of candidates, k deep.

    Raises:
        ValueError: as `by_tree`.
    """
    if models.target is not pair.target:
        raise ValueError("the tree drafter needs a target that reads trees: neither native nor --exact")
    heads, _ = load_heads(pair, "medusa")
    return models.target, MedusaTreeDrafter(cast(Medusa, heads), models.target, doubtful_tree(NODES, k))


TREE_RULES = {"greedy": verify_tree_greedy, "rejection": verify_tree}

DRAFTERS: Mapping[str, NamedDrafter] = {
    MODEL: NamedDrafter(with_model, has_model=True),
    "ngram": NamedDrafter(looking_up(NgramDrafter)),
    "suffix": NamedDrafter(looking_up(SuffixDrafter)),
    "exit": NamedDrafter(by_exit, adapts=False),
    "medusa": NamedDrafter(by_medusa, adapts=False),
    "eagle": NamedDrafter(by_features, adapts=False),
    "parallel": NamedDrafter(by_masks, adapts=False),
    "tree": NamedDrafter(by_tree, has_model=True, adapts=False, rules=TREE_RULES, backends=(TORCH.name,)),
    "medusa-tree": NamedDrafter(by_medusa_tree, adapts=False, rules=TREE_RULES, backends=(TORCH.name,)),
}
