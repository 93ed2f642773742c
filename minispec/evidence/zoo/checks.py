"""All checks of the zoo, by name: ours, and three tests of well-known projects, reimplemented.

Of ours, those of the C++ stand here: a case as the native backend decodes it, against the core's models; and
its threads.

The others' are here for comparison: what do they miss? Each keeps what is essential: what is looked at, how
much of it, and how far off it may be. None looks at the case that it is given. All draw with a fixed seed, so
a verdict is the same each time; over seeds, right code would fail as rarely as the docstrings say.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache

import torch

from minispec.core.loop import speculate
from minispec.core.model import GPT, GPTConfig
from minispec.core.records import Draft
from minispec.core.rng import SeededRng
from minispec.core.verify import verify_greedy, verify_rejection
from minispec.core.warp import Warp
from minispec.evidence.proof.cases import Case
from minispec.evidence.proof.distributions import outcomes, speculative_distributions
from minispec.evidence.proof.models import table_pair, tiny_gpt
from minispec.evidence.theory.acceptance import target_only_texts
from minispec.evidence.zoo import check_distributions as distributions
from minispec.evidence.zoo import check_state as state
from minispec.native.backend import NATIVE
from minispec.native.decisions import native_coupled
from minispec.native.model import NativeGPT

FORWARDS = 200
ROUND_SEEDS = 4
ROUND_TOKENS = 12
MAX_LENGTH = 16  # tokens
CANDIDATE_DRAWS = 10_000
POOLED_ROWS = 100_000


@cache
def on_native(case: Case) -> Case:
    """Returns the case on the native backend; its models are made once, and meet every bug."""
    return case.on(NATIVE)


def check_native_threads(case: Case) -> str | None:
    """Where GPTs are, 200 forwards shared by two threads have the very bits of one that is not shared.

    Where the draft model drafts, that is: the models are made anew, and read 1 to 16 tokens in turn. A race
    shows only where two threads are there at the same time: on one core it may be missed.
    """
    if not (isinstance(case.target, GPT) and case.drafts_with == "model"):
        return None
    model = tiny_gpt(GPTConfig(64, layers=4, width=64, heads=4, kv_heads=2, ffn=256, max_length=MAX_LENGTH))
    one_thread, two_threads = (NativeGPT(model, threads=threads) for threads in (1, 2))
    blocks = [torch.arange(n)[None] for n in range(1, MAX_LENGTH + 1)]
    torch_threads = torch.get_num_threads()
    torch.set_num_threads(2)  # a model is shared by as many as torch may use
    try:
        expected = [one_thread(block) for block in blocks]
        for index in range(FORWARDS):
            if not torch.equal(two_threads(blocks[index % MAX_LENGTH]), expected[index % MAX_LENGTH]):
                return f"forward {index} of two threads has other logits than that of one"
    finally:
        torch.set_num_threads(torch_threads)
    return None


def check_native_rounds(case: Case) -> str | None:
    """Rounds that the library plays are those of the core's loop over the same native parts."""
    ours = replace(on_native(case), max_new_tokens=ROUND_TOKENS)  # a cap that leaves rounds after most drafts
    for seed in range(ROUND_SEEDS):
        played, looped = (
            [
                (r.emitted, r.lengths, r.draft.probs[r.draft.mask].tolist())
                for r in ours.rounds(case.prompts * 2, NATIVE.rng(seed), how)
            ]
            for how in (NATIVE.observe, speculate)
        )
        if played != looped:
            return f"with seed {seed}, the rounds that the library plays are not those of the core's loop"
    return None


def check_native(case: Case) -> str | None:
    """Drafted and decided in C++, whole outputs have the chain rule's distribution, branch by branch.

    With keyed noise, the text is that of the target alone.
    """
    ours = on_native(case)
    fault = distributions.find_distribution_fault(case, speculative_distributions(ours).distributions)
    return fault or distributions.check_coupled(ours, native_coupled)


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
    Check("native", check_native, native=True),
    Check("native-rounds", check_native_rounds, native=True),
    Check("native-threads", check_native_threads, native=True),
    Check("transformers-like", check_like_transformers, ours=False),
    Check("vllm-like-rejection", check_like_vllm_rejection, ours=False),
    Check("vllm-like-greedy", check_like_vllm_greedy, ours=False),
)
