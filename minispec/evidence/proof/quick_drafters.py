"""Drafters that change their minds within a few rounds: for texts short enough to be walked through.

They are the shipped classes. Only what they start from is chosen so that one accepted or rejected token
makes a difference: measured costs are replaced by made-up ones, and a first guess weighs little.
"""

from __future__ import annotations

from minispec.core.draft import ModelDrafter
from minispec.core.model import LanguageModel
from minispec.core.warp import Warp
from minispec.drafters.adaptive import AdaptiveDrafter, RunningAcceptance
from minispec.drafters.costs import Costs
from minispec.drafters.stopping import FixedStop, LearnedStop, StoppingDrafter

COSTS = Costs(t_draft=0.22, t_target={1: 1.0, 2: 1.03, 3: 1.06, 4: 1.09})


def automatic(model: LanguageModel, warp: Warp | None) -> AdaptiveDrafter:
    """Returns a drafter that picks its K, from 0 to 3, by what the last rounds accepted."""
    learns = RunningAcceptance(3, prior=0.6, weight=0.5, memory=0.6)
    return AdaptiveDrafter(ModelDrafter(model, warp), COSTS, most=3, acceptance=learns, retry=1, pace=1)


def stopping(model: LanguageModel, warp: Warp | None) -> StoppingDrafter:
    """Returns a drafter that stops where all so far would be accepted with a chance below 60%."""
    return StoppingDrafter(model, FixedStop(0.6), warp)


def learning_to_stop(model: LanguageModel, warp: Warp | None) -> StoppingDrafter:
    """Returns a drafter that stops by what past rounds taught it."""
    return StoppingDrafter(model, LearnedStop(COSTS, weight=0.5, memory=0.6, retry=1), warp)
