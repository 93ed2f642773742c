"""The rules that the atlas has, each with the candidates that it is for."""

from dataclasses import dataclass

from minispec.core.verify import Verifier, verify_rejection
from minispec.verifiers.block import verify_block
from minispec.verifiers.coupled import verify_compare, verify_coupled
from minispec.verifiers.lossy import (
    verify_lenient,
    verify_mixture,
    verify_relaxed,
    verify_typical,
    with_parameters,
)
from minispec.verifiers.tree import verify_k_sequential, verify_tree

SEVERAL = (2, 3, 4)


@dataclass(frozen=True)
class Rule:
    """A rule of the atlas."""

    name: str  #: in the atlas
    verify: Verifier  #: the rule itself
    candidates: tuple[int, ...] = (1,)  #: at one position; it is measured with each of these numbers
    choice: str = "with replacement"  #: how candidates are chosen, one of `CHOICES`
    weight: float | None = 1.0  #: of p in what comes out, if that is a mixture of p and q by a formula


RULES = (
    Rule("token", verify_rejection),
    Rule("block", verify_block),
    Rule("compare", verify_compare),
    Rule("coupled", verify_coupled),
    Rule("recursive-with-replacement", verify_tree, SEVERAL),
    Rule("k-sequential", verify_k_sequential, SEVERAL),
    Rule("recursive-without-replacement", verify_tree, SEVERAL, "without replacement"),
    Rule("greedy-drafting", verify_tree, SEVERAL, "greedy drafting"),
    Rule("fixed-candidates", verify_tree, SEVERAL, "most probable"),
    *(
        Rule(name, with_parameters(verify_mixture, weight=weight), weight=weight)
        for name, weight in (("mixture-0.75", 0.75), ("mixture", 0.5), ("mixture-0.25", 0.25))
    ),
    *(
        Rule(name, with_parameters(verify_lenient, lenience=lenience), weight=None)
        for name, lenience in (("lenient-0.75", 0.75), ("lenient", 0.5), ("lenient-0.25", 0.25))
    ),
    Rule("typical", verify_typical, weight=None),
    Rule("relaxed", verify_relaxed, weight=None),
)
