"""The rules that the atlas has, read from rules.toml; its first lines say how they are written."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from minispec.core.verify import Verifier
from minispec.io.files import read_table
from minispec.verifiers.lossy import with_parameters
from minispec.verifiers.registry import verifier_for


@dataclass(frozen=True)
class Rule:
    """A rule of the atlas; see rules.toml."""

    name: str  #: in the atlas
    verify: Verifier  #: the rule itself
    candidates: Sequence[int] = (1,)  #: at one position; it is measured with each of these numbers
    choice: str = "with replacement"  #: how candidates are chosen, one of `CHOICES`
    weight: float | None = None  #: of p in what is emitted, if that is a mixture of p and q by a formula


def read_rule(
    verifier: str, trees: bool = False, parameters: dict[str, float] | None = None, **fields: Any
) -> Rule:
    """Returns the rule that a table stands for."""
    verify = verifier_for(verifier, trees)
    return Rule(verify=with_parameters(verify, **parameters) if parameters else verify, **fields)


TABLES = read_table(__file__, "rules.toml")
RULES = tuple(read_rule(**fields) for fields in TABLES["rules"])
