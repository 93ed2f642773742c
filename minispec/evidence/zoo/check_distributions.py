"""Checks of distributions: of what comes out, of what is reported, and of acceptance. All are exact.

Each looks at one case, and says what is wrong, or None.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from math import fsum

import torch

from minispec.core.rng import SeededRng
from minispec.core.verify import Verifier, verify_greedy, verify_rejection
from minispec.core.warp import Warp
from minispec.evidence.proof.by_hand import (
    Draw,
    distributions_after,
    drafts_by_hand,
    greedy_by_hand,
    logits_after,
    overlap,
    reachable,
    rounded,
    warp_by_hand,
)
from minispec.evidence.proof.cases import Case
from minispec.evidence.proof.distributions import (
    Distribution,
    branches,
    exact_distributions,
    outcomes,
    speculative_distributions,
    total_variation,
)
from minispec.evidence.proof.first_token import first_token
from minispec.evidence.proof.models import TableModel, tiny_gpt_pair
from minispec.evidence.theory.acceptance import target_only_texts
from minispec.verifiers.coupled import KeyedRng, verify_coupled
from minispec.verifiers.tree import verify_tree, verify_tree_greedy

EXACT = 1e-10  # float64 sums of some thousand products stay far below
COPIES = 16  # how many rows of one prompt get keyed noise of their own


def check_distribution(case: Case) -> str | None:
    """The joint distribution of whole outputs, branch by branch, is the chain rule's."""
    return find_distribution_fault(case, speculative_distributions(case).distributions)


def find_distribution_fault(case: Case, distributions: Sequence[Distribution]) -> str | None:
    """Says where distributions, one per prompt, are not those of the case's target."""
    for prompt, actual, expected in zip(case.prompts, distributions, exact_distributions(case), strict=True):
        after = f"after {list(prompt)}"
        if not abs(fsum(actual.values()) - 1) <= EXACT:
            return f"{after} the branches' probabilities do not sum to 1: rows depend on each other"
        distance = total_variation(actual, expected)
        if not distance <= EXACT:
            return f"{after} the distribution of the output is off by {distance:.2g} in total variation"
    return None


def check_distribution_gpt(case: Case) -> str | None:
    """The same with a tiny GPT and its real cache in place of the case's tables."""
    if not isinstance(case.target, TableModel):
        return check_distribution(case)
    target, draft = tiny_gpt_pair(0, case.target.vocab_size, max_length=case.target.max_length)
    return check_distribution(replace(case, target=target, draft=draft))


def check_greedy(case: Case) -> str | None:
    """At temperature 0 both verifiers emit what a plain loop without a cache emits."""
    takes_tree = case.verifier.takes_tree
    for verifier in (verify_tree_greedy, verify_tree) if takes_tree else (verify_greedy, verify_rejection):
        greedy_case = replace(case, warp=Warp(temperature=0), draft_warp=None, verifier=verifier)
        actual = outcomes(list(greedy_case.rounds(case.prompts, SeededRng(0))), len(case.prompts))
        for prompt, (tokens, finish) in zip(case.prompts, actual, strict=True):
            expected = greedy_by_hand(case, prompt)
            if tokens != expected:
                return (
                    f"after {list(prompt)} {verifier.name} emits {list(tokens)}, the target {list(expected)}"
                )
            if finish != case.finish(prompt, expected):
                return f"after {list(prompt)} {verifier.name} ends for the wrong reason: {finish}"
    return None


def check_coupled(case: Case, verifier: Verifier = verify_coupled) -> str | None:
    """With noise by seed and position, the text is target-only's, token for token; not for trees."""
    if case.verifier.takes_tree:
        return None
    prompts = case.prompts * COPIES
    rounds = replace(case, verifier=verifier).rounds(prompts, KeyedRng(0))
    actual = outcomes(list(rounds), len(prompts))
    target_only = target_only_texts(
        case.target, prompts, case.max_new_tokens, case.warp, KeyedRng(0), case.eos
    )
    for prompt, (tokens, _), text in zip(prompts, actual, target_only, strict=True):
        if list(tokens) != text:
            return f"after {list(prompt)} it emits {list(tokens)}, the target alone {text}"
    return None


def check_warp(case: Case) -> str | None:
    """Each distribution that the case can meet is that of lists sorted in plain Python."""
    for warp, model in ((case.warp, case.target), (case.draft_warp or case.warp, case.draft)):
        for texts in reachable(case):
            logits = logits_after(model, texts)
            for actual, scores in zip(warp(logits).tolist(), logits.tolist(), strict=True):
                if not all_close(actual, expected := warp_by_hand(scores, warp)):
                    return f"logits {rounded(scores)} give {rounded(actual)}, not {rounded(expected)}"
    return None


def check_draft_distribution(case: Case) -> str | None:
    """The distribution that the draft reports is its model's, warped, after the true text."""
    reported = [
        ((step.text, step.drafted[:i]), q)
        for branch in branches(case)
        for step in branch.steps
        for i, q in enumerate(step.q)
    ]
    expected = drafts_by_hand(case, [draw for draw, _ in reported])
    for draw, q in reported:
        if not all_close(q, expected[draw]):
            text, drafted = map(list, draw)
            return (
                f"after {text} and {drafted}, drafted, it reports {rounded(q)}, not {rounded(expected[draw])}"
            )
    return None


def check_acceptance(case: Case) -> str | None:
    """All that fits is drafted, and accepted as often as true distributions overlap; not for all rules."""
    if not case.verifier.stops_at_first_rejection:
        return None
    tested_weights: dict[Draw, float] = defaultdict(float)
    accepted_weights: dict[Draw, float] = defaultdict(float)
    for branch in branches(case):
        for step in branch.steps:
            end = min(len(case.prompts[branch.prompt]) + case.max_new_tokens, case.context)
            max_drafted = min(case.k, end - len(step.text) - 1)
            if len(step.drafted) > max_drafted or (case.drafts_all and len(step.drafted) < max_drafted):
                return f"after {list(step.text)} it drafts {len(step.drafted)}, where {max_drafted} fit"
            tested = min(step.accepted + 1, len(step.drafted))
            if step.tested != tested:
                return f"it reports {step.tested} tested tokens of {len(step.drafted)} drafted, not {tested}"
            for i in range(tested):
                key = (step.text, step.drafted[:i])
                tested_weights[key] += branch.weight
                accepted_weights[key] += branch.weight * (i < step.accepted)
    p = distributions_after(case.target, case.warp, {text + drafted for text, drafted in tested_weights})
    q = drafts_by_hand(case, tested_weights)
    for (text, drafted), weight in tested_weights.items():
        actual = accepted_weights[text, drafted] / weight
        expected = overlap(case, p[text + drafted], q[text, drafted])
        if not abs(actual - expected) <= 1e-9:
            return (
                f"after {list(text + drafted)} it accepts with probability {actual:.4f}, not {expected:.4f}"
            )
    return None


def check_rounding(case: Case) -> str | None:
    """Where p and q differ by rounding alone, what comes out is p, in every branch, however rare."""
    for p in distributions_after(case.target, case.warp, case.prompts).values():
        normalized = [prob / fsum(p) for prob in p]
        for token in (token for token, prob in enumerate(p) if prob > 0):
            q = torch.tensor(p, dtype=torch.float64)
            q[token] = torch.nextafter(q[token], q.new_tensor(2.0))
            if not all_close(actual := first_token(case.verifier, p, q).distribution, normalized):
                return f"p and q alike but for the last bit give {rounded(actual)}, not {rounded(p)}"
    return None


def all_close(p: Sequence[float], q: Sequence[float]) -> bool:
    """Says whether two distributions are equal up to float64's rounding; never where there is a NaN."""
    return len(p) == len(q) and all(abs(a - b) <= EXACT for a, b in zip(p, q, strict=True))
