"""Advice: why a setting loses against the target alone, and what would help, in numbers.

Four things can be at fault: acceptance, the draft's cost, the cost to verify K + 1 tokens, and bookkeeping.
For each the speed-up is computed as if it alone were better. The one that has to improve least comes first.
"""

from bisect import bisect_left
from dataclasses import dataclass, replace

from minispec.drafters.adaptive import rates
from minispec.drafters.costs import Costs

ADVICE_BELOW = 1.1  # a speed-up below this is worth a hint
LEAST_DIFFERENCE = 1.05  # what makes less of a difference than this is not at fault
STEPS = 10**6  # from nothing to all: so finely a number is looked for

FAULTS = {
    "acceptance": "acceptance is {:.2f}",
    "draft": "a draft step takes {:.2f} target steps",
    "verification": "verifying {tokens} tokens takes {:.2f} target steps on the {backend} backend",
    "bookkeeping": "bookkeeping takes {:.2f} target steps a round on the {backend} backend",
}


@dataclass(frozen=True)
class Situation:
    """How one row is decoded."""

    costs: Costs  #: of its rounds
    alpha: float  #: the probability of a drafted token to be accepted if all before it were

    def speed_up(self, k: int) -> float:
        """Returns that of K over a step of the target alone, prefill left out; 0 is the target alone."""
        return rates(self.costs, [self.alpha] * k)[k] * self.costs.of_step() if k else 1.0

    def best_k(self, least: int = 0) -> int:
        """Returns the K of the largest speed-up."""
        return max(range(least, self.costs.most + 1), key=self.speed_up)

    def with_less(self, fault: str, share: float) -> "Situation":
        """Returns what it would be if so much were left of a fault: 1 is all, 0 is nothing."""
        costs = self.costs
        if fault == "acceptance":
            return replace(self, alpha=1 - share * (1 - self.alpha))
        if fault == "draft":
            costs = replace(costs, t_draft=share * costs.t_draft, catch_up=share * costs.catch_up)
        elif fault == "verification":
            one_token = costs.t_target[1]
            costs = replace(
                costs,
                t_target={
                    n: one_token + share * (seconds - one_token) for n, seconds in costs.t_target.items()
                },
            )
        else:
            overhead = share * max(costs.round - costs.step, 0.0)
            costs = replace(costs, round=min(costs.step, costs.round) + overhead, place=share * costs.place)
        return replace(self, costs=costs)

    def size(self, fault: str, k: int) -> float:
        """Returns the number that stands for a fault: α, or seconds in steps of the target."""
        costs = self.costs
        seconds = {
            "draft": costs.t_draft,
            "verification": costs.call(k + 1),
            "bookkeeping": costs.round + k * costs.place,
        }
        return self.alpha if fault == "acceptance" else seconds[fault] / costs.t_target[1]


def advise(
    costs: Costs, alpha: float, k: int, backend: str = "torch", measured: float | None = None
) -> tuple[str, ...]:
    """Says why a setting gains little or loses, and what would help most.

    The costs are of its backend and machine, for one row; alpha is accepted over tested tokens. For k = 0,
    where nothing was drafted, the best K above 0 is spoken of. Without a measured speed-up the predicted one
    counts. Returns sentences without a full stop: reasons, the one that has to improve least first, and then
    the remedy. For a speed-up of 1.1 and more there is one sentence: that it is none to mend.

    Raises:
        ValueError: if alpha does not lie between 0 and 1, or K is negative.
    """
    if not 0 <= alpha <= 1 or k < 0:
        raise ValueError(f"alpha lies between 0 and 1 and K is 0 or more, not {alpha} and {k}")
    situation = Situation(costs, alpha)
    no_drafts = () if k else ("nothing was drafted: at K = 0 a round only adds its bookkeeping",)
    k = min(k, costs.most) or situation.best_k(least=1)
    speed_up = situation.speed_up(k) if measured is None else measured
    if speed_up >= ADVICE_BELOW:
        return (f"K = {k} gives {speed_up:.2f}x; there is advice for speed-ups below {ADVICE_BELOW:g}x only",)
    goal = 1.0 if speed_up < 1 else ADVICE_BELOW
    if (predicted := situation.speed_up(k)) >= goal:
        reason = f"K = {k} should give {predicted:.2f}x in the long run; a short or disturbed run gives less"
        return reason, "what would help: more tokens, or minispec bench, which measures with care"
    return (
        *no_drafts,
        *reasons(situation, k, backend, goal),
        f"what would help: {remedy(situation, k, backend)}",
    )


def reasons(situation: Situation, k: int, backend: str, goal: float) -> tuple[str, ...]:
    """Returns what keeps K from a speed-up of `goal`; where no fault alone does, all that matter."""
    predicted = situation.speed_up(k)
    purpose = "break even" if goal == 1 else f"give {goal:g}x"
    sufficient = []
    partial = []
    for fault, template in FAULTS.items():
        best = situation.with_less(fault, 0.0).speed_up(k)
        problem = template.format(situation.size(fault, k), tokens=k + 1, backend=backend)
        if best >= goal:
            share = largest_share(situation, fault, k, goal)
            needed = situation.with_less(fault, share).size(fault, k)
            sufficient.append((-share, f"{problem}, and at K = {k} {needed:.2f} would {purpose}"))
        elif best >= LEAST_DIFFERENCE * predicted:
            partial.append((-best, f"{problem}, and at its best K = {k} would still give {best:.2f}x"))
    return tuple(sentence for _, sentence in sorted(sufficient or partial))


def largest_share(situation: Situation, fault: str, k: int, goal: float) -> float:
    """Returns how much of a fault may be left, from 0 to 1, for a speed-up of `goal`: by bisection."""

    def is_too_much(step: int) -> bool:
        return situation.with_less(fault, step / STEPS).speed_up(k) < goal

    return (bisect_left(range(STEPS), True, key=is_too_much) - 1) / STEPS


def remedy(situation: Situation, k: int, backend: str) -> str:
    """Returns what would help: another K, then the native backend, then the draft that would gain more."""
    best = situation.best_k()
    if best and situation.speed_up(best) >= max(ADVICE_BELOW, LEAST_DIFFERENCE * situation.speed_up(k)):
        return f"K = {best}, for {situation.speed_up(best):.2f}x"
    if backend == "torch":
        return "the native backend; a draft step and bookkeeping take less there"
    improvements = {
        "a draft of half the cost": situation.with_less("draft", 0.5),
        "a draft distilled for longer, with half the rejections": situation.with_less("acceptance", 0.5),
    }
    improvement, improved = max(improvements.items(), key=lambda item: item[1].speed_up(item[1].best_k()))
    k = improved.best_k()
    if k == 0:
        return "K = 0, the target alone; half the rejections or half the draft's cost would not be enough"
    return f"{improvement}, for {improved.speed_up(k):.2f}x at K = {k}"
