"""Every number in the solutions of the problem set and in the exam's key is computed.

An answer stands in bold. All answers of a solution, in order, are what the package's functions give.
"""

import re
from bisect import bisect_left
from collections.abc import Callable
from fractions import Fraction
from math import ceil, log
from pathlib import Path

import pytest
import tiny
import torch

from minispec import (
    ModelDrafter,
    Request,
    SeededRng,
    Verdict,
    Warp,
    observe,
    record,
    speculate,
    verify_rejection,
)
from minispec.core.model import GPTConfig
from minispec.core.verify import Verifier, residual
from minispec.drafters.tree import grow
from minispec.evidence.checker.instance import Instance
from minispec.evidence.checker.instances import fractions
from minispec.evidence.checker.trials import enumerate_rule
from minispec.evidence.proof.first_token import first_token
from minispec.evidence.theory.acceptance import acceptance_rate, coupled_acceptance, target_only_texts
from minispec.evidence.theory.formulas import (
    Hardware,
    acceptance,
    best_k,
    expected_tokens,
    expected_tokens_by_position,
    forward_cost,
    kv_cache_bytes,
    refined_speed_up,
    speed_up,
    total_variation,
)
from minispec.evidence.theory.predict import rounds
from minispec.evidence.theory.statistics import deviation, margin
from minispec.evidence.zoo.mutants import mutant_named
from minispec.evidence.zoo.mutation import planted
from minispec.verifiers.block import verify_block
from minispec.verifiers.coupled import verify_compare
from minispec.verifiers.lossy import verify_mixture, with_parameters
from minispec.verifiers.tree import verify_tree

TEACHING = Path(__file__).resolve().parents[2] / "docs" / "teaching"
P = (0.5, 0.3, 0.2)  # of problems 1, 8 and 11
Q = (0.2, 0.5, 0.3)


# What a page says: its solutions, and the answers in them.


def solutions_of(name):
    """Returns what is folded under each numbered heading of a page, in order."""
    parts = re.split(r"(?m)^## (\d+)\. ", (TEACHING / name).read_text(encoding="utf-8"))
    assert [int(number) for number in parts[1::2]] == [*range(1, len(parts) // 2 + 1)]
    return [re.search(r"<details>.*?</summary>(.*)</details>", part, re.DOTALL)[1] for part in parts[2::2]]


def answers_in(solution):
    """Returns what stands in bold."""
    return re.findall(r"\*\*(.+?)\*\*", " ".join(solution.split()))


def said(*values, digits=3):
    """Returns answers as pages have them."""
    return [written(value, digits) for value in values]


def written(value, digits):
    """Returns one: a text as it is, a vector in parentheses, a number without zeros at its end."""
    if isinstance(value, str):
        return value
    if isinstance(value, (list, tuple)):
        return f"({', '.join(written(x, digits) for x in value)})"
    return f"{value:,.{digits}f}".rstrip("0").rstrip(".") if isinstance(value, float) else f"{value:,}"


def fraction(value):
    """Returns a number as a fraction."""
    found = Fraction(value).limit_denominator(1000)
    assert abs(float(found) - value) < 1e-12
    return str(found)


# What the package gives.


def accepted(rule, p, q, k=2, **shape):
    """Returns how many drafted tokens are accepted on average, p and q being the same at each position."""
    instance = Instance(((p,),) * (k + 1), ((q,),) * k, **shape)
    drafts = instance.drafts()
    leaves = enumerate_rule(rule, drafts).values()
    return sum(instance.depths[leaf.last] * leaf.weight for leaf in leaves)


def scripted_rounds(lengths, k, script):
    """Runs the loop with a verifier that accepts so many tokens in each round, row by row."""
    target, draft = tiny.table_pair(5, max_length=60)
    verdicts = iter(script)

    def decide(draft, target_probs, rng):
        return Verdict(torch.tensor(next(verdicts)), torch.zeros(len(lengths), dtype=torch.long))

    prompts = [[1] * length for length in lengths]
    settings = dict(k=k, max_new_tokens=20, warp=Warp(), rng=SeededRng(0))
    run = observe(target, ModelDrafter(draft), prompts, verifier=decide, **settings)
    return [r for _, r in zip(script, run, strict=False)]


def lengths_of(cache):
    """Returns how long the first row's cache is at the three moments of a round."""
    return " → ".join(str(row[0]) for row in (cache.before, cache.verified, cache.after))


def both_caches(found):
    """Returns the lengths of both caches, round by round."""
    return [lengths_of(cache) for r in found for cache in (r.target_cache, r.draft_cache)]


def accept_or_reject():
    """Problem 1."""
    found = first_token(verify_rejection, P, Q)
    tests = [a / q for a, q in zip(found.accepted, Q, strict=True)]
    return said(tests, found.acceptance, total_variation(P, Q))


def the_residual():
    """Problem 2."""
    p = (0.4, 0.3, 0.2, 0.1)
    q = p[::-1]
    rest = residual(torch.tensor(p).double(), torch.tensor(q).double()).tolist()
    return said(rest, 1 - acceptance(p, q), first_token(verify_rejection, p, q).distribution[0])


def two_acceptances():
    """Problem 3."""
    emitted = expected_tokens(0.6, 3)
    tested = expected_tokens(0.6, 2)
    kept = emitted - 1
    return said(emitted, tested, kept, kept / 3, kept / tested, expected_tokens(0.6, 200))


def caches_of_three_rounds():
    """Problem 4."""
    return both_caches(scripted_rounds([12], 3, [[3], [0], [2]]))


def the_best_k():
    """Problem 5."""
    return said(*(speed_up(0.7, k, 0.15) for k in range(1, 6)), best_k(0.7, 0.15))


def more_arithmetic():
    """Problem 6: Leviathan et al. 2023, theorem 3.11."""
    return said(*((4 * 0.1 + 5) / expected_tokens(alpha, 4) for alpha in (0.8, 1.0)))


def verifying_is_not_free():
    """Problem 7."""
    rates = (0.9, 0.8, 0.8, 0.7)
    emitted = said(expected_tokens_by_position(rates), 4 * 3 + 26, digits=4)
    measured = refined_speed_up(rates, 20, 3, lambda n: 26)
    free = refined_speed_up(rates, 20, 3, lambda n: 20)
    return emitted + said(measured, speed_up(sum(rates) / 4, 4, 3 / 20), free, digits=2)


def draw_again_from_p():
    """Problem 8."""
    with planted(mutant_named("correction-from-p")):
        found = first_token(verify_rejection, P, Q)
    return said(found.distribution, total_variation(found.distribution, P), found.acceptance)


def a_q_that_nobody_drew_from():
    """Problem 9."""
    drawn = (2 / 3, 1 / 3, 0.0)
    wrong = first_token(verify_rejection, P, (0.5, 0.25, 0.25), drawn_from=drawn)
    right = first_token(verify_rejection, P, drawn)
    off = total_variation(wrong.distribution, P)
    return said(wrong.acceptance, wrong.distribution, off, right.acceptance, right.distribution)


def shared_noise():
    """Problem 10."""
    p = (1 / 2, 1 / 4, 1 / 4)
    q = (1 / 4, 1 / 2, 1 / 4)
    agree = float(coupled_acceptance(torch.tensor(p), torch.tensor(q)))
    far = total_variation(p, q)
    fresh = first_token(verify_compare, p, q).acceptance
    return said(agree, acceptance(p, q), fresh, (1 - far) / (1 + far), digits=4)


def lossy_on_purpose():
    """Problem 11."""
    found = first_token(with_parameters(verify_mixture, weight=0.8), P, Q)
    off = total_variation(found.distribution, P)
    return said(found.distribution, off, found.acceptance, 0.8 - acceptance(P, Q))


def a_ragged_round():
    """Problem 12."""
    (r,) = scripted_rounds([10, 20, 15], 4, [[4, 1, 0]])
    cache = r.target_cache
    cut = sum(cache.verified) - sum(cache.after)
    assert r.draft_cache.after == cache.after
    assert [a > v for a, v in zip(cache.after, r.draft_cache.verified, strict=True)] == [True, False, False]
    return said(sum(map(len, r.emitted)), sum(cache.verified) - sum(cache.before), cache.after, cut)


def queue_rounds(caps):
    """Returns how many rounds four rows need for requests that take so many, the target alone."""
    target = tiny.table(5)
    requests = [Request([1], cap) for cap in caps]
    settings = dict(k=0, verifier=verify_rejection, warp=Warp(), rng=SeededRng(0), batch_size=4)
    return len([*speculate(target, None, requests, **settings)])


def a_queue():
    """Problem 13."""
    caps = [3, 9, 4, 8, 5, 2, 6, 3]
    waiting = queue_rounds(caps[:4]) + queue_rounds(caps[4:])
    refilled = queue_rounds(caps)
    busy = (sum(caps) / (4 * n) for n in (waiting, refilled))
    return said(waiting, refilled, *busy, sum(caps) // 4)


def two_candidates():
    """Problem 14."""
    p, q = fractions(6, 3, 1), fractions(1, 1, 3)
    ways = ("with replacement", "without replacement", "most probable", "greedy drafting")
    two = [accepted(verify_tree, p, q, 1, parents=(0, 0), choice=way) for way in ways]
    return said(accepted(verify_rejection, p, q, 1), *two)


def path_probabilities(nodes):
    """Returns how often each token of the best tree is kept, and how deep the tree is."""
    rates = (0.6, 0.25, 0.1)
    parents, ranks = grow([rates] * nodes, nodes)
    kept = [1.0]
    depths = [0]
    for parent, rank in zip(parents, ranks, strict=True):
        kept.append(kept[parent] * rates[rank])
        depths.append(depths[parent] + 1)
    return sum(kept), max(depths)


def a_chain_or_a_tree():
    """Problem 15."""

    def steps(tokens, levels):
        return levels * 0.1 + 1 + 0.02 * tokens

    chain = expected_tokens(0.6, 4)
    tree, levels = path_probabilities(4)
    larger, same_levels = path_probabilities(5)
    assert levels == same_levels == 3
    emitted = said(chain, tree, digits=4)
    gains = chain / steps(4, 4), tree / steps(4, levels), larger / steps(5, levels)
    return emitted + said(*gains, digits=2)


def the_rounds_of_one_text():
    """Problem 16: rounds of width 2 begin at positions 0 and 1, the others at 2 and 3."""
    found = rounds([0.5] * 4, k=2)
    last, one, two = found.by_width
    means = (found.target_calls, found.tokens_per_target_call, expected_tokens(0.5, 2))
    return said(two - 1, one, last, *means, one + last)


def block_answers(p, q):
    """Returns token's acceptance, w of the four drafts, both first coins, and block's acceptance."""
    first = [min(1.0, float(a / b)) for a, b in zip(p, q, strict=True)]
    both = [min(1.0, w * float(a / b)) for w in first for a, b in zip(p, q, strict=True)]
    above = [sum(max(0.0, w * float(a) - float(b)) for a, b in zip(p, q, strict=True)) for w in first]
    coins = [s / (s + 1 - w) for s, w in zip(above, first, strict=True)]
    ratios = f"({', '.join(map(fraction, both))})"
    one_by_one, whole = (fraction(accepted(rule, p, q)) for rule in (verify_rejection, verify_block))
    return [one_by_one, ratios, *map(fraction, coins), whole]


def a_draft_as_a_whole():
    """Problem 17."""
    p, q = fractions(1, 3), fractions(3, 1)
    singles = [min(a, b) for a, b in zip(p, q, strict=True)]
    pairs = [min(a * b, c * d) for a, c in zip(p, q, strict=True) for b, d in zip(p, q, strict=True)]
    return [*block_answers(p, q), fraction(float(sum(singles) + sum(pairs)))]


def large_batches():
    """Problem 18."""
    chip = Hardware("the chip", bandwidth=3e12, arithmetic=900e12)
    one = forward_cost(8e9, 2, chip)
    free = round(one.moving / one.computing)
    config = GPTConfig(32_000, layers=32, width=4096, heads=32, kv_heads=8, ffn=14_336, max_length=8192)
    each = kv_cache_bytes(config, tokens=1, dtype_bytes=2)
    look_back = 4 * config.width * config.layers  # operations, for a token of context
    reading = each * 8192 / chip.bandwidth
    computing = 5 * (one.operations + look_back * 8192) / chip.arithmetic
    even = 5 * one.operations / chip.arithmetic / (each / chip.bandwidth - 5 * look_back / chip.arithmetic)
    return said(free, free // 5, each, 1e3 * reading, 1e3 * computing, round(even))


def every_branch():
    """Problem 19."""
    p, q = fractions(1, 3), fractions(3, 1)
    leaves = enumerate_rule(verify_rejection, Instance(((p,),) * 3, ((q,),) * 2).drafts())
    return said(len(leaves), 1 - 0.9999**10_000, ceil(log(0.01) / log(0.9999)))


def samples_for(off):
    """Returns how many samples see what is so far off."""
    return bisect_left(range(10**6), True, lo=1, key=lambda n: sure_to_see(n) <= off)


def sure_to_see(samples):
    """Returns how far off a distribution over three outcomes must be, with both errors one in a million."""
    return margin(3, samples, 1e-6) + deviation(1e-6, samples)


def known_power():
    """Problem 20."""
    return said(margin(3, 1, 1e-6), samples_for(0.15), samples_for(0.015), sure_to_see(500))


def a_run_that_counts_everything():
    """Problem 21, by the loop's own rule: a round tests until a rejection, and a bonus skips a position."""
    rates = (1.0, 0.2)

    def round_from(first, k):
        """Returns what a round accepts and tests, and with which probability the next one begins hard."""
        reached, tested, kept, hard = 1.0, 0.0, 0.0, 0.0
        for i in range(k):
            rate = rates[(first + i) % 2]
            tested += reached
            kept += reached * rate
            hard += reached * (1 - rate) * ((first + i + 1) % 2)
            reached *= rate
        return kept, tested, hard + reached * ((first + k + 1) % 2)

    (kept, tested, hard), (kept_hard, tested_hard, again) = (round_from(first, 2) for first in (0, 1))
    share = hard / (1 + hard - again)
    counted = ((1 - share) * kept + share * kept_hard) / ((1 - share) * tested + share * tested_hard)
    target, draft = tiny.alternating_pair()
    run = tiny.decode(target, ModelDrafter(draft), [[2], [3]], record, k=1, max_new_tokens=200).statistics()
    texts = target_only_texts(target, [[2]], 200, Warp(), SeededRng(0))
    alpha = acceptance_rate(target, draft, [[2]], texts, Warp())
    emitted = said(alpha, run.acceptance, run.tokens_per_target_call, expected_tokens(alpha, 1))
    return emitted + said(kept, tested, hard, tested_hard, kept_hard) + [fraction(counted)]


# The exam's questions.


def nothing():
    """Question 1 has no number."""
    return []


def accept_reject_correct():
    """Question 2."""
    p = (0.45, 0.25, 0.2, 0.1)
    q = (0.25, 0.25, 0.1, 0.4)
    found = first_token(verify_rejection, p, q)
    tests = [a / b for a, b in zip(found.accepted, q, strict=True)]
    rest = residual(torch.tensor(p).double(), torch.tensor(q).double()).tolist()
    return said(tests, found.acceptance, rest, found.distribution[0])


def two_caches():
    """Question 3."""
    found = scripted_rounds([30], 5, [[2], [5]])
    computed = sum(r.target_cache.verified[0] - r.target_cache.before[0] for r in found)
    return both_caches(found) + said(computed, sum(len(r.emitted[0]) for r in found))


def cost_and_k():
    """Question 4."""
    emitted = said(*(expected_tokens(0.75, k) for k in (3, 6)))
    short = [0.75] * 3
    long = [0.75] * 6
    gains = (refined_speed_up(short, 16, 2, lambda n: 18), refined_speed_up(long, 16, 2, lambda n: 22))
    free = (refined_speed_up(short, 16, 0, lambda n: 18), refined_speed_up(long, 16, 0, lambda n: 22))
    faster = refined_speed_up(short, 8, 2, lambda n: 9)
    return emitted + said(*gains) + said(*free, digits=2) + said(faster)


def accept_if_not_below(draft, target_probs, rng):
    """The rule of question 5, for one drafted token."""
    p, q = (probs[:, 0].gather(1, draft.tokens)[:, 0] for probs in (target_probs, draft.probs))
    kept = (p >= q).long()
    return Verdict(kept, rng.categorical(target_probs[torch.arange(len(kept)), kept], kept))


def a_rule_that_somebody_invented():
    """Question 5."""
    p = (0.6, 0.4)
    q = (0.4, 0.6)
    found = first_token(Verifier("invented", accept_if_not_below), p, q)
    missing = [a - b for a, b in zip(p, found.accepted, strict=True)]
    mended = [x / sum(missing) for x in missing]
    off = total_variation(found.distribution, p)
    return said(found.distribution, off, mended, found.acceptance, acceptance(p, q))


def a_block():
    """Question 6."""
    return block_answers(fractions(1, 1), fractions(3, 1))


def batches_and_contexts():
    """Question 7."""
    chip = Hardware("the chip", bandwidth=2e12, arithmetic=300e12)
    one, single, block = (forward_cost(7e9, 2, chip, tokens) for tokens in (1, 256, 1280))
    caches = (one.bytes + 256e9) / chip.bandwidth
    ratio = block.seconds / single.seconds
    alone = said(1e3 * one.seconds, round(one.moving / one.computing))
    short = said(1e3 * single.seconds, 1e3 * block.seconds, digits=2) + said(ratio, 3.36 / ratio)
    return alone + short + said(1e3 * caches, max(caches, block.computing) / max(caches, single.computing))


def a_test():
    """Question 8."""
    threshold = margin(4, 10_000, 1e-3)
    return said(threshold, threshold + deviation(1e-3, 10_000), digits=4)


PROBLEMS: list[Callable[[], list[str]]] = [
    accept_or_reject,
    the_residual,
    two_acceptances,
    caches_of_three_rounds,
    the_best_k,
    more_arithmetic,
    verifying_is_not_free,
    draw_again_from_p,
    a_q_that_nobody_drew_from,
    shared_noise,
    lossy_on_purpose,
    a_ragged_round,
    a_queue,
    two_candidates,
    a_chain_or_a_tree,
    the_rounds_of_one_text,
    a_draft_as_a_whole,
    large_batches,
    every_branch,
    known_power,
    a_run_that_counts_everything,
]
EXAM: list[Callable[[], list[str]]] = [
    nothing,
    accept_reject_correct,
    two_caches,
    cost_and_k,
    a_rule_that_somebody_invented,
    a_block,
    batches_and_contexts,
    a_test,
]
PAGES = {"problems.md": PROBLEMS, "exam.md": EXAM}
CASES = [
    pytest.param(name, i, answer, id=f"{name}:{i + 1}")
    for name, answers in PAGES.items()
    for i, answer in enumerate(answers)
]


@pytest.mark.parametrize(("name", "index", "answer"), CASES)
def test_answers_are_what_the_package_gives(name, index, answer):
    """All that stands in bold in a solution, in its order."""
    found = solutions_of(name)
    assert len(found) == len(PAGES[name])
    assert answers_in(found[index]) == answer()
