"""All checks of the zoo, by name: ours, and three tests of other projects, reimplemented."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from minispec.evidence.proof.cases import Case
from minispec.evidence.zoo import check_distributions as distributions
from minispec.evidence.zoo import check_peers as peers
from minispec.evidence.zoo import check_state as state


@dataclass(frozen=True)
class Check:
    """A question that may be asked about any case.

    Attributes:
        name: short.
        ask: returns what is wrong, or None; its docstring says what it looks at.
        ours: whether it is ours, and not somebody else's test reimplemented.
    """

    name: str
    ask: Callable[[Case], str | None]
    ours: bool = True

    @property
    def promise(self) -> str:
        """What it looks at, in a line."""
        return (self.ask.__doc__ or "").split("\n", 1)[0]


CHECKS = (
    Check("law", distributions.check_distribution),
    Check("law-gpt", distributions.check_distribution_gpt),
    Check("greedy", distributions.check_greedy),
    Check("coupled", distributions.check_coupled),
    Check("warp", distributions.check_warp),
    Check("draft-law", distributions.check_draft_distribution),
    Check("acceptance", distributions.check_acceptance),
    Check("rounding", distributions.check_rounding),
    Check("invariant", state.check_invariant),
    Check("ends", state.check_ends),
    Check("chance", state.check_randomness),
    Check("transformers-like", peers.check_like_transformers, ours=False),
    Check("vllm-like-rejection", peers.check_like_vllm_rejection, ours=False),
    Check("vllm-like-greedy", peers.check_like_vllm_greedy, ours=False),
)
