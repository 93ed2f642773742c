"""The atlas: every rule on the same instances, beside the most that any lossless rule could accept."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor

from minispec.core.verify import verify_rejection
from minispec.evidence.atlas.family import candidates, chains, positions, recorded
from minispec.evidence.atlas.measure import expected_accepted, outcome, passes
from minispec.evidence.atlas.optimum import by_subsets, set_probabilities
from minispec.evidence.atlas.rules import RULES, Rule
from minispec.evidence.checker.check import check_verifier
from minispec.evidence.checker.instances import standard_instances
from minispec.evidence.theory.acceptance import coupled_acceptance
from minispec.verifiers.block import verify_block
from minispec.verifiers.coupled import verify_coupled

MOST_CANDIDATES = 3  # candidates at all positions of the family
FEWER_POSITIONS = 40  # positions where there are more
ROUNDING = 1e-12  # what rounding may do to a total variation
TEXTS = 8  # small chains on which whole texts are compared


@dataclass(frozen=True)
class Measured:
    """What a rule comes to at one position: means over all positions, but for `largest`."""

    accepted: float  #: the probability that a candidate is accepted
    optimum: float  #: the most that a lossless rule can accept, for candidates that are drawn so
    total_variation: float  #: of what is emitted, from p
    closed_form: float | None  #: the same by a formula, where there is one
    largest: float  #: total variation where it is largest
    draws: float  #: how many random numbers that takes


@dataclass(frozen=True)
class Entry:
    """A rule with a number of candidates."""

    name: str  #: of the rule
    lossless: bool  #: whether it is meant to be
    candidates: int  #: how many at one position
    family: Measured  #: what it comes to on the fixed family
    #: on positions of the shipped pair; None where these would be too many branches
    recorded: Measured | None
    texts: float | None  #: the largest total variation of texts of small chains; None for several candidates
    passes: float  #: over the vocabulary (see `measure.passes`)

    @property
    def passed(self) -> bool:
        """Whether a rule that is meant to be lossless is."""
        distance = max(self.family.largest, self.recorded.largest if self.recorded else 0, self.texts or 0)
        return distance <= ROUNDING or not self.lossless

    def to_json(self) -> dict[str, Any]:
        """Returns plain data, in which what holds on the family has no level of its own."""
        values = asdict(self)
        family = values.pop("family")
        return values | family


@dataclass(frozen=True)
class ChainMeans:
    """Tokens that are accepted of a draft: means over some chains, or over recorded drafts."""

    name: str  #: of the chains: `thirds`, `family` or `recorded`
    k: int  #: how many tokens they have
    token: float  #: with `verify_rejection`
    block: float  #: with `verify_block`


def measure(rule: Rule, k: int, p: Tensor, q: Tensor) -> Measured:
    """Measures a rule with k candidates on positions: p and q are [N, V]."""
    drafts = candidates(p, q, rule.choice, k)
    result = outcome(rule.verify, drafts)
    # With shared noise candidate and target are one draw, and no script can have them apart: by formula.
    accepted = coupled_acceptance(p, q) if rule.verify is verify_coupled else result.accepted
    distances = (result.emitted - p).abs().sum(-1) / 2
    mean_distance = float((q - p).abs().sum(-1).mean()) / 2
    return Measured(
        accepted=float(accepted.mean()),
        optimum=float(by_subsets(p, set_probabilities(drafts)).mean()),
        total_variation=float(distances.mean()),
        closed_form=None if rule.weight is None else (1 - rule.weight) * mean_distance,
        largest=float(distances.max()),
        draws=float(result.draws.mean()),
    )


def entries(rules: Sequence[Rule] = RULES, seed: int = 0) -> Iterator[Entry]:
    """Yields the atlas line by line, by default on the fixed family."""
    recorded_drafts = recorded()
    recorded_pair = (recorded_drafts.target_probs[:, 0], recorded_drafts.draft.probs[:, 0])
    binary = [chain for chain in standard_instances() if chain.k in (2, 3) and chain.vocab_size == 2]
    for rule in rules:
        for k in rule.candidates:
            count = None if k <= MOST_CANDIDATES else FEWER_POSITIONS
            p, q = (distributions[:count] for distributions in positions(seed))
            chain_results = check_verifier(rule.verify, instances=binary[-TEXTS:]).results if k == 1 else ()
            yield Entry(
                name=rule.name,
                lossless=rule.verify.lossless,
                candidates=k,
                family=measure(rule, k, p, q),
                recorded=measure(rule, k, *recorded_pair) if k <= MOST_CANDIDATES else None,
                texts=max((result.distance or 0.0 for result in chain_results), default=None),
                passes=passes(rule.verify, candidates(p, q, rule.choice, k)),
            )


def chain_means(seed: int = 0) -> list[ChainMeans]:
    """Returns what token and block verification accept in the family's chains, and in recorded drafts."""
    means_by_chain: dict[tuple[str, int], list[Tensor]] = {}
    for name, drafts in (*chains(seed), ("recorded", recorded())):
        accepted = torch.stack([expected_accepted(rule, drafts) for rule in (verify_rejection, verify_block)])
        means = accepted @ drafts.weights / drafts.weights.sum()  # [2]
        means_by_chain.setdefault((name, drafts.draft.k), []).append(means)
    return [ChainMeans(*key, *torch.stack(means).mean(0).tolist()) for key, means in means_by_chain.items()]
