"""Costs: how long the parts of a round take on one machine.

They have two readers: the prediction of a speed-up (`minispec.evidence.theory.predict`), and the drafter that
chooses its own K while it decodes (`minispec.drafters.adaptive`). Both add the parts up in the same way.
"""

from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass
from math import isfinite


@dataclass(frozen=True)
class Costs:
    """Seconds, for a batch of one size.

    Attributes:
        t_draft: a whole draft step: forward, warp, draw.
        t_target: t(n), a target forward over n tokens a row, for some n; 1 is one of them.
        catch_up: the draft's forward that reads the last drafted token after full acceptance.
        round: what a round takes besides all this, whatever K: the rule, commit, rollback, records.
        place: what each drafted token adds to it: one more distribution to warp, one more test.
        step: what a step of the target alone takes besides its forward pass.
        prefill: the target reads the prompt.
        draft_prefill: the draft reads it.
        restart: the draft reads a whole text, after rounds that drafted nothing.

    Raises:
        ValueError: if there is no t(1), a forward takes no time, or something is negative or no number.
    """

    t_draft: float
    t_target: Mapping[int, float]
    catch_up: float = 0.0
    round: float = 0.0
    place: float = 0.0
    step: float = 0.0
    prefill: float = 0.0
    draft_prefill: float = 0.0
    restart: float = 0.0

    def __post_init__(self) -> None:
        if 1 not in self.t_target or min(self.t_target) < 1:
            raise ValueError(f"t(n) is needed for n = 1 and numbers above, not for {sorted(self.t_target)}")
        if not all(isfinite(t) and t > 0 for t in self.t_target.values()):
            raise ValueError(f"a forward pass takes more than 0 seconds and is finite: {self.t_target}")
        rest = (self.round, self.place, self.step, self.prefill, self.draft_prefill, self.restart)
        if not all(isfinite(seconds) and seconds >= 0 for seconds in (self.t_draft, self.catch_up, *rest)):
            raise ValueError(f"all seconds must be numbers of 0 or more: {self}")

    @property
    def c(self) -> float:
        """The cost ratio: a draft step in target steps."""
        return self.t_draft / self.t_target[1]

    @property
    def most(self) -> int:
        """The largest K that t(n) is known for."""
        return max(self.t_target) - 1

    def call(self, tokens: int) -> float:
        """Returns t(n), on a straight line between the numbers that were measured.

        Raises:
            ValueError: if n is below 1, or beyond what was measured.
        """
        if tokens in self.t_target:
            return self.t_target[tokens]
        known = sorted(self.t_target)
        if not known[0] <= tokens <= known[-1]:
            raise ValueError(f"t(n) was measured for n = 1 to {known[-1]}, not for {tokens}")
        above = bisect_left(known, tokens)
        low, high = known[above - 1], known[above]
        share = (tokens - low) / (high - low)
        return (1 - share) * self.t_target[low] + share * self.t_target[high]

    def of_round(self, width: int, full: float = 0.0) -> float:
        """Returns the seconds of a round that drafts so many tokens.

        full: the probability that all of them are accepted; the draft then has one token to catch up on.
        """
        bookkeeping = self.round + self.place * width
        return width * self.t_draft + self.call(width + 1) + full * self.catch_up + bookkeeping

    def of_step(self) -> float:
        """Returns the seconds of a token that the target writes alone."""
        return self.t_target[1] + self.step
