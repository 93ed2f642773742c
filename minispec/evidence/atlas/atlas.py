"""The atlas: every rule on the same instances, beside the most that any lossless rule could accept."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from statistics import fmean
from typing import Any

from torch import Tensor

from minispec.core.verify import verify_rejection
from minispec.evidence.atlas.family import candidates, chains, positions, recorded
from minispec.evidence.atlas.measure import expected_accepted, outcome, passes
from minispec.evidence.atlas.optimum import by_programme, by_subsets, set_probabilities
from minispec.evidence.atlas.rules import RULES, Rule
from minispec.evidence.checker.check import check_verifier
from minispec.evidence.checker.instances import standard_instances
from minispec.evidence.theory.acceptance import coupled_acceptance
from minispec.rules.block import verify_block
from minispec.rules.coupled import verify_coupled

MOST = 3  # candidates at all positions of the family; with more, there are only so many positions:
FEWER = 40
PROGRAMMES = 10  # positions whose optimum is found by linear programming too
EXACT, AGREE = 1e-12, 1e-9  # what rounding may do to a total variation, and to the optimum
TEXTS = 8  # small chains on which whole texts are compared


@dataclass(frozen=True)
class Measured:
    """What a rule comes to at one position: means over all positions, but for `largest`."""

    accepted: float  #: the probability that a candidate is accepted
    optimum: float  #: the most that a lossless rule can accept, for candidates that are drawn so
    total_variation: float  #: of what comes out, from p
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
    recorded: (
        Measured | None
    )  #: on positions of the shipped pair; None where these would be too many branches
    texts: float | None  #: the largest total variation of texts of small chains; None for several candidates
    passes: float  #: over the vocabulary (see `measure.passes`)
    optimum_error: float  #: how far apart the optimum by subsets and by linear programmes is, at most

    @property
    def passed(self) -> bool:
        """Whether a rule that is meant to be lossless is, and both ways to the optimum agree."""
        away = max(self.family.largest, self.recorded.largest if self.recorded else 0, self.texts or 0)
        return self.optimum_error <= AGREE and not (self.lossless and away > EXACT)

    def to_json(self) -> dict[str, Any]:
        """Returns plain data, in which what holds on the family has no level of its own."""
        values = asdict(self)
        return (
            {key: values[key] for key in ("name", "lossless", "candidates")} | values.pop("family") | values
        )


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
    found = outcome(rule.verify, drafts)
    # With shared noise candidate and target are one draw, and no script can have them apart: by formula.
    accepted = coupled_acceptance(p, q) if rule.verify is verify_coupled else found.accepted
    away, apart = ((one - p).abs().sum(-1) / 2 for one in (found.emitted, q))
    return Measured(
        float(accepted.mean()),
        float(by_subsets(p, set_probabilities(drafts)).mean()),
        float(away.mean()),
        None if rule.weight is None else (1 - rule.weight) * float(apart.mean()),
        float(away.max()),
        float(found.draws.mean()),
    )


def optimum_error(rule: Rule, k: int, p: Tensor, q: Tensor) -> float:
    """Returns the largest difference of both ways to the optimum, at some of the positions [N, V]."""
    some = slice(None, None, len(p) // PROGRAMMES)
    sets = set_probabilities(candidates(p[some], q[some], rule.choice, k))
    programmes = [by_programme(*one) for one in zip(p[some], sets, strict=True)]
    return float((by_subsets(p[some], sets) - sets.new_tensor(programmes)).abs().max())


def entries(rules: Sequence[Rule] = RULES, seed: int = 0) -> Iterator[Entry]:
    """Yields the atlas line by line, by default on the fixed family; it needs scipy (see `by_programme`)."""
    real = recorded()
    small = [one for one in standard_instances() if one.k in (2, 3) and one.vocab_size == 2][-TEXTS:]
    for rule in rules:
        for k in rule.candidates:
            p, q = (one[: None if k <= MOST else FEWER] for one in positions(seed))
            checked = check_verifier(rule.verify, instances=small).results if k == 1 else ()
            yield Entry(
                rule.name,
                rule.lossless,
                k,
                measure(rule, k, p, q),
                measure(rule, k, real.target_probs[:, 0], real.draft.probs[:, 0]) if k <= MOST else None,
                max((one.distance or 0.0 for one in checked), default=None),
                passes(rule.verify, candidates(p, q, rule.choice, k)),
                optimum_error(rule, k, p, q),
            )


def chain_means(seed: int = 0) -> list[ChainMeans]:
    """Returns what token and block verification accept in the family's chains, and in recorded drafts."""
    found: dict[tuple[str, int], list[list[float]]] = {}
    for name, drafts in (*chains(seed), ("recorded", recorded())):
        weights = drafts.weights / drafts.weights.sum()
        means = [
            float(weights @ expected_accepted(rule, drafts)) for rule in (verify_rejection, verify_block)
        ]
        found.setdefault((name, drafts.draft.k), []).append(means)
    return [ChainMeans(*key, *map(fmean, zip(*rows, strict=True))) for key, rows in found.items()]
