"""All checks of the zoo, by name: ours, and three tests of well-known projects, reimplemented.

Those are here for comparison: what do they miss? Each keeps what is essential: what is looked at, how much of
it, and how far off it may be. None looks at the case that it is given. All draw with a fixed seed, so a
verdict is the same each time; over seeds, right code would fail as rarely as the docstrings say.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch

from minispec.core.records import Draft
from minispec.core.rng import SeededRng
from minispec.core.verify import verify_greedy, verify_rejection
from minispec.core.warp import Warp
from minispec.evidence.proof.cases import Case
from minispec.evidence.proof.distributions import outcomes
from minispec.evidence.proof.models import table_pair
from minispec.evidence.theory.acceptance import target_only_texts
from minispec.evidence.zoo import check_distributions as distributions
from minispec.evidence.zoo import check_native as native
from minispec.evidence.zoo import check_state as state

CANDIDATE_DRAWS = 10_000
POOLED_ROWS = 100_000


def check_like_transformers(case: Case) -> str | None:
    """One candidate that the target never accepts; what is emitted in its place follows p.

    Passes up to a distance of 0.03 in total variation. With 10,000 right draws the mean distance is below
    0.009 (half the sum of the standard deviations), and McDiarmid's inequality bounds the probability of
    0.021 more by exp(−2·10,000·0.021²) < 2e-4. A bias of 0.06 is seen but for the same probability, in this
    one case.
    """
    p = torch.tensor([0.4, 0.0, 0.1, 0.2, 0.3], dtype=torch.float64)
    q = torch.tensor([0.0, 1.0, 0.0, 0.0, 0.0], dtype=torch.float64)
    rows = CANDIDATE_DRAWS
    draft = Draft(torch.ones(rows, 1, dtype=torch.long), q.expand(rows, 1, -1))
    verdict = verify_rejection(draft, p.expand(rows, 2, -1), SeededRng(0))
    if bool(verdict.accepted.any()):
        return "the candidate that the target never emits is accepted"
    distance = float((verdict.token.bincount(minlength=5) / rows - p).abs().sum() / 2)
    return f"what is emitted is off by {distance:.3f}" if not distance <= 0.03 else None


def check_like_vllm_rejection(case: Case) -> str | None:
    """One near-uniform p and q of 10 ids, K = 2; positions are pooled, and the bonus is not looked at.

    Passes up to a Euclidean distance of 0.005. With right code, near-uniform p and some 190,000 tokens, that
    is exceeded with a probability of about 1e-6: the limit for many draws, chi-square with nine degrees of
    freedom, and no bound. A smaller bias than that is not seen.
    """
    scores = torch.rand(2, 10, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    p, q = torch.softmax(scores, dim=-1)
    rows = POOLED_ROWS
    rng = SeededRng(1)
    tokens = torch.stack([rng.categorical(q.expand(rows, -1)) for _ in range(2)], dim=1)
    verdict = verify_rejection(Draft(tokens, q.expand(rows, 2, -1)), p.expand(rows, 3, -1), rng)
    accepted = torch.arange(2) < verdict.accepted[:, None]
    pooled = torch.cat([tokens[accepted], verdict.token[verdict.accepted < 2]])
    distance = float((pooled.bincount(minlength=10) / len(pooled) - p).norm())
    return f"pooled frequencies are off by {distance:.4f}" if not distance <= 0.005 else None


def check_like_vllm_greedy(case: Case) -> str | None:
    """At temperature 0, two thirds of the texts are those of the target alone."""
    target, draft = table_pair(5, 0)
    prompts = [[first, *range(n)] for n in range(3) for first in range(4)]
    setting = Case("like vLLM", target, draft, (), 3, 8, Warp(temperature=0), verifier=verify_greedy)
    speculative = outcomes(list(setting.rounds(prompts, SeededRng(0))), len(prompts))
    target_only = [target_only_texts(target, [prompt], 8, setting.warp, SeededRng(0)) for prompt in prompts]
    equal_count = sum(
        list(tokens) == text for (tokens, _), (text,) in zip(speculative, target_only, strict=True)
    )
    return f"{equal_count} of {len(prompts)} texts are alike" if 3 * equal_count < 2 * len(prompts) else None


@dataclass(frozen=True)
class Check:
    """A question that may be asked about any case."""

    name: str  #: short
    ask: Callable[[Case], str | None]  #: returns what is wrong, or None; its docstring says what it looks at
    ours: bool = True  #: whether it is ours, and not somebody else's test reimplemented
    native: bool = False  #: whether it needs the native backend

    @property
    def promise(self) -> str:
        """What it looks at, in a line."""
        return (self.ask.__doc__ or "").split("\n", 1)[0]


CHECKS = (
    Check("distribution", distributions.check_distribution),
    Check("distribution-gpt", distributions.check_distribution_gpt),
    Check("greedy", distributions.check_greedy),
    Check("coupled", distributions.check_coupled),
    Check("warp", distributions.check_warp),
    Check("draft-distribution", distributions.check_draft_distribution),
    Check("acceptance", distributions.check_acceptance),
    Check("rounding", distributions.check_rounding),
    Check("invariant", state.check_invariant),
    Check("ends", state.check_ends),
    Check("randomness", state.check_randomness),
    Check("native", native.check_native, native=True),
    Check("native-rounds", native.check_native_rounds, native=True),
    Check("native-threads", native.check_native_threads, native=True),
    Check("transformers-like", check_like_transformers, ours=False),
    Check("vllm-like-rejection", check_like_vllm_rejection, ours=False),
    Check("vllm-like-greedy", check_like_vllm_greedy, ours=False),
)
