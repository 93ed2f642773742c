"""The drafters of the registry, made for a pair on a backend."""

from minispec.core.draft import Drafter
from minispec.core.model import LanguageModel
from minispec.drafters.costs import Costs
from minispec.drafters.eagle3 import Eagle3Choice, Eagle3Drafter
from minispec.drafters.entry import DrafterEntry, Parts
from minispec.drafters.exit import ExitDrafter
from minispec.io.checkpoint import Pair
from minispec.io.heads import load_heads
from minispec.native.backend import Models

K = 4  # tokens of a draft, by default


def make_drafter(
    entry: DrafterEntry,
    pair: Pair,
    models: Models,
    k: int = K,
    kind: str | None = None,
    costs: Costs | None = None,
) -> tuple[LanguageModel, Drafter]:
    """Makes a drafter for a pair, its models on a backend, and K; ValueError if what it needs is not there.

    kind: of its heads (see `MAKERS`); None: that of its name. costs: what a drafter chooses by.

    Returns the target to decode with, for a drafter may share the target's layers, and the drafter.
    """
    entry.check_draft(pair.has_draft)
    parts = Parts(
        models.target,
        models.draft,
        pair.target,
        lambda name: load_heads(pair, kind or name)[0],
        costs=costs,
    )
    drafter = models.backend.makers.get(entry.name, entry.make)(parts, k)
    return target_for(drafter, models.target), drafter


def target_for(drafter: Drafter, target: LanguageModel) -> LanguageModel:
    """Returns what a drafter's drafts are verified by: a drafter may share the target's layers."""
    return drafter.target if isinstance(drafter, ExitDrafter | Eagle3Drafter | Eagle3Choice) else target
