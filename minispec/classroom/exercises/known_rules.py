"""Right rules and buggy ones, and what a test says of each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torch import Tensor

from minispec.classroom.buggy import rule_with
from minispec.classroom.running import one_line, raised
from minispec.core.records import Draft, Verdict
from minispec.core.rng import Rng, SeededRng
from minispec.core.verify import Verifier, verify_rejection
from minispec.rules.coupled import verify_coupled

# From the plainest to the subtlest.
BUGS = (
    "ratio-inverted",
    "correction-from-p",
    "residual-absolute",
    "accept-if-a-fresh-draw-agrees",
    "bonus-from-the-draft",
    "residual-of-the-last-place",
    "going-on-after-a-rejection",
    "one-number-for-all-places",
)
ONE_PLACE = BUGS[:5]  # can be seen with K = 1


def with_other_numbers(draft: Draft, target_probs: Tensor, rng: Rng) -> Verdict:
    """The same rule for target_probs [B, K+1, V]: its chance comes from another seed, so its draws differ."""
    fresh = SeededRng(1_000 + draft.tokens.shape[0])
    return verify_rejection(draft, target_probs, fresh)


# All three keep the target's law. They differ in what they accept and in how they use their random numbers.
SOUND: dict[str, Verifier] = {
    "the shipped rejection rule": verify_rejection,
    "the same rule with other random numbers": with_other_numbers,
    "the coupled rule, which accepts less but has the same law": verify_coupled,
}
RULES = {bug: rule_with(bug) for bug in BUGS}


@dataclass(frozen=True)
class Score:
    """What a test said.

    Attributes:
        alarms: right rules that it called wrong, with the reason if it raised something.
        found: bugs that it found.
        odd: something that is no answer, in plain words, or an empty string.
        blank: whether there is nothing in it.
    """

    alarms: tuple[str, ...] = ()
    found: tuple[str, ...] = ()
    odd: str = ""
    blank: bool = False

    @property
    def missed(self) -> tuple[str, ...]:
        """The bugs that it did not find."""
        return tuple(bug for bug in BUGS if bug not in self.found)


def score_of(test: Any) -> Score:
    """Asks a test about all rules."""
    alarms: list[str] = []
    found: list[str] = []
    said_nothing: list[str] = []
    for name, rule in {**SOUND, **RULES}.items():
        try:
            said = test(rule)
        except NotImplementedError:
            return Score(blank=True)
        except AssertionError:
            said = False
        except (Exception, SystemExit) as error:
            if name in SOUND:
                return Score(odd=f"with {name}, {raised(error, test)}")
            said = False  # a bug may break anything, also a test
        if said is ...:
            return Score(blank=True)
        if said is None:
            said_nothing.append(name)
            continue
        try:
            passes = bool(said)
        except (Exception, SystemExit) as error:
            return Score(odd=f"True or False is wanted; what it returned is neither ({one_line(error)})")
        if not passes:
            (alarms if name in SOUND else found).append(name)
    if said_nothing and not found and not alarms:  # with asserts, None is fine
        return Score(odd="it returned None: is the `return` missing?")
    return Score(tuple(alarms), tuple(found))
