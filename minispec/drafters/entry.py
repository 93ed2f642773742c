"""An entry in the registry of drafters: a name, and how the drafter is made for a pair of models."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from minispec.core.draft import Drafter
from minispec.core.model import GPT, LanguageModel
from minispec.core.warp import Warp
from minispec.drafters.costs import Costs

NODES = 16  # tokens of a tree, by default


@dataclass(frozen=True)
class Parts:
    """What a drafter is made of."""

    target: LanguageModel  #: what verifies
    draft: LanguageModel  #: the draft model
    gpt: GPT  #: the target in torch, whose embedding and head trained drafters share
    heads: Callable[[str], Any]  #: loads what was trained on the target for a kind of drafter
    warp: Warp | None = None  #: how to warp the draft's logits; None: like the target's
    costs: Costs | None = None  #: of a round here, for a drafter that chooses; None: not measured

    def plain_target(self, needs: str) -> GPT:
        """Returns the target as it is in torch; ValueError, with what the drafter needs, if it is another."""
        if self.target is not self.gpt:
            raise ValueError(needs)
        return self.gpt


@dataclass(frozen=True)
class DrafterEntry:
    """A way to draft, by its name on the command line."""

    name: str
    make: Callable[[Parts, int], Drafter]  #: from the parts and K, to a drafter
    uses_draft_model: bool = False  #: whether the pair's draft model drafts: what is known of it counts
    allows_automatic_k: bool = False  #: whether K can be chosen for it: its costs are known, and it can rest
    chooses: bool = False  #: whether it chooses by costs itself, the drafter of a round and K
    proposes_trees: bool = False  #: whether its drafts are trees

    def check_draft(self, has_draft: bool) -> None:
        """Raises ValueError if the drafter needs a draft model, and there is none."""
        if self.uses_draft_model and not self.chooses and not has_draft:
            raise ValueError(f"the drafter {self.name} needs a draft model: give one with --draft")
