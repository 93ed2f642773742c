"""An automatic K: the best for what past rounds accepted, decided before anything is drawn, and lossless."""

import random
from dataclasses import replace
from itertools import product

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from records import a_round
from refusals import refused
from tiny import GREEDY, PAIRS, PROMPTS, Spied, alone, begin, decode, outcome, table, targets_own_text

from minispec import Draft, KeyedRng, ModelDrafter, Warp, verify_coupled
from minispec.drafters.adaptive import AdaptiveDrafter, RunningAcceptance, best_width
from minispec.drafters.costs import Costs
from minispec.evidence.proof.cases import COSTS, ENUMERATED, Case
from minispec.evidence.proof.distributions import exact_distributions, outcomes
from minispec.evidence.proof.enumeration import enumerate_branches
from minispec.evidence.proof.models import early_exit, tiny_gpt_pair
from minispec.evidence.proof.models import table_pair as small_pair
from minispec.evidence.theory.formulas import expected_tokens_by_position
from minispec.evidence.zoo.check_state import check_invariant

CHEAP = Costs(t_draft=0.05, t_target={1: 1.0, 17: 1.5}, catch_up=0.05, round=0.1, place=0.01)
LEARNERS = ["automatic", "auto"]  # drafters that learn from past rounds, by their names in `ENUMERATED`
ALPHAS = st.lists(st.floats(0, 1), min_size=1, max_size=16)


def run(target, drafter, prompts=((1,),), **changes):
    """Decodes with at most 16 tokens a draft, but for the changes."""
    return decode(target, drafter, prompts, **{"k": 16} | changes)


@given(ALPHAS, st.floats(0, 1))
def test_best_width_is_the_best(alphas, t_draft):
    """No K yields more tokens per second, by equation 1 with α by position, and measured seconds."""
    costs = replace(CHEAP, t_draft=t_draft)

    def rate(k):
        kept = torch.tensor(alphas[:k], dtype=torch.float64).prod()
        return expected_tokens_by_position(alphas[:k]) / costs.of_round(k, float(kept) if k else 0.0)

    best = best_width(costs, alphas)
    assert rate(best) >= max(rate(k) for k in range(len(alphas) + 1)) * (1 - 1e-12)


@pytest.mark.parametrize("pace", [1, 4])
def test_widths_follow_from_past_rounds_alone(pace):
    """Each new width is the best for the rounds before it: recomputed from the trace, round by round."""
    target, draft = PAIRS["table"]
    drafter = AdaptiveDrafter(ModelDrafter(draft), CHEAP, pace=pace)
    rounds = list(run(target, drafter, [[3], [1, 4, 1, 0]], max_new_tokens=30))
    known = RunningAcceptance(16)
    budgets = [30, 30]
    widths = set()
    for r in rounds:
        if r.index % pace == 0 or r.index in (1, 2, 4, 8, 16):
            wanted = best_width(CHEAP, known.probabilities(), 2)
        assert r.draft.k == min(wanted, max(budgets) - 1)
        widths.add(wanted)
        known.update([(r.accepted(row), r.tested(row)) for row in range(2) if r.drafted(row)])
        budgets = [n - len(more) for n, more in zip(budgets, r.emitted, strict=True)]
        if r.finish != (None, None):
            break  # from here on fewer rows count
    assert len(widths) > (2 if pace == 1 else 1) and len(rounds) > 5


def widths_of(rounds):
    return [r.draft.k for r in rounds]


def test_a_draft_that_is_always_right_is_asked_for_all():
    """With the target as its own draft the width rises to the most; the next run begins wider."""
    model = table(max_length=400)
    drafter = AdaptiveDrafter(ModelDrafter(model), CHEAP)
    new = drafter.width
    rounds = list(run(model, drafter, max_new_tokens=300))
    assert {r.kind(0) for r in rounds[:-1]} == {"bonus"} and max(widths_of(rounds)) == 16
    assert next(run(model, drafter)).draft.k > new


class Counted:
    """Proposes tokens without a model; counts reading a whole text, or a token that it did not draft."""

    vocab_size = 1
    max_length = 10**6
    cache_lengths = (0,)
    starts = 0
    reads = 0

    def start(self, prompts, hidden):
        self.starts += 1

    def propose(self, pending, k, warp, rng):
        return Draft(torch.zeros(1, k, dtype=torch.long), torch.ones(1, k, 1))

    def commit(self, round):
        self.reads += round.draft.k == 0


def counted_run(drafter, inner, costs, alpha, tokens, seed=0):
    """Counts instead of decoding: a drafted token is accepted with probability alpha.

    Returns the seconds of each round by `costs`, and its width, from the first to the last.
    """
    draw = random.Random(seed)
    gained = 0
    found = []
    begin(drafter, [[0]])
    while gained < tokens:
        starts = inner.starts
        reads = inner.reads
        draft = drafter.propose(torch.tensor([0]), 16, Warp(), None)
        kept = next((i for i in range(draft.k) if draw.random() >= alpha), draft.k)
        seconds = costs.of_round(draft.k, float(0 < draft.k == kept))
        gained += kept + 1
        drafter.commit(a_round(((0,) * (kept + 1),), draft=draft, accepted=kept))
        seconds += costs.restart * (inner.starts - starts) + costs.catch_up * (inner.reads - reads)
        found.append((seconds, draft.k))
    return found


EASY = Costs(0.035, {1: 1.0, 17: 2.4}, catch_up=0.03, round=0.2, place=0.01, restart=0.3)
HALF = Costs(0.45, {1: 1.0, 17: 2.0}, catch_up=0.4, round=0.2, place=0.01, restart=1.0)
EQUAL = Costs(1.0, {1: 1.0, 17: 1.5}, catch_up=1.0, round=0.1, place=0.01, restart=2.0)


def test_a_useless_draft_is_given_up_and_tried_again():
    """Never right: the width falls to 0, and one token is drafted every 17th round; right: it rises to 16."""
    inner = Counted()
    learns = RunningAcceptance(16, memory=0.98)  # what was long ago is forgotten in time
    drafter = AdaptiveDrafter(inner, CHEAP, acceptance=learns, retry=16, pace=4)
    widths = [width for _, width in counted_run(drafter, inner, CHEAP, 0.0, 150)]
    assert widths[0] > 2 and widths[-20:].count(0) >= 18 and set(widths[-60:]) == {0, 1}
    tries = [i for i, width in enumerate(widths) if i > 90 and width]
    assert {b - a for a, b in zip(tries, tries[1:], strict=False)} == {17}
    assert max(width for _, width in counted_run(drafter, inner, CHEAP, 1.0, 450)) == 16


@pytest.mark.parametrize(("costs", "alpha"), [(EASY, 0.02), (HALF, 0.02), (HALF, 0.4), (EQUAL, 0.9)])
def test_where_drafting_cannot_pay_it_costs_next_to_nothing(costs, alpha):
    """Tries and all that is read for them: within 5% of rounds that draft nothing, after 100 tokens."""
    inner = Counted()
    drafter = AdaptiveDrafter(inner, costs)
    counted_run(drafter, inner, costs, alpha, 100)
    later = counted_run(drafter, inner, costs, alpha, 2_000)
    assert sum(seconds for seconds, _ in later) <= 1.05 * costs.of_round(0) * 2_000
    tries = [width for _, width in later if width]
    assert bool(tries) == (costs is not EQUAL)  # where even a perfect draft would not pay there is no try


@pytest.mark.parametrize(("costs", "rounds"), [(EASY, 90), (HALF, 760)])
def test_it_drafts_again_when_acceptance_improves(costs, rounds):
    """1,000 tokens with next to no acceptance, then 0.9: it drafts soon, or later where tries are dear.

    For 20 seeds the first width above 1 came after 29 to 85 rounds, and after 87 to 755. The seed is fixed.
    """
    inner = Counted()
    drafter = AdaptiveDrafter(inner, costs)
    before = counted_run(drafter, inner, costs, 0.02, 1_000)
    assert {width for _, width in before[-100:]} <= {0, 1}
    after = [width for _, width in counted_run(drafter, inner, costs, 0.9, 3_000)]
    assert max(after[:rounds]) > 1
    assert after[-1] >= best_width(costs, [0.9] * 16) - 2 > 1


def test_a_drafter_that_cannot_pay_never_reads():
    """As for K = 0: no draft cache is made, and the text is the target's own."""
    target, draft = PAIRS["gpt"]
    spied = Spied(draft)
    drafter = AdaptiveDrafter(ModelDrafter(spied), EQUAL)
    rounds = list(run(target, drafter, PROMPTS))
    assert widths_of(rounds) == [0] * 20
    assert outcome(rounds, 3)[0] == alone(target)
    assert drafter.cache_lengths is None and spied.caches == []


@pytest.mark.parametrize("chooses", LEARNERS)
@pytest.mark.parametrize("name", PAIRS)
@pytest.mark.parametrize(
    "changes",
    [GREEDY, {"verifier": verify_coupled, "warp": Warp(), "rng": KeyedRng(5)}],
    ids=["greedy", "coupled"],
)
def test_texts_that_do_not_depend_on_k(name, changes, chooses):
    """Greedy and coupled texts of a ragged batch are target-only's, token for token, whatever the widths."""
    target, draft = PAIRS[name]
    rounds = targets_own_text(target, ENUMERATED[chooses](draft, None), **changes)
    assert len(set(widths_of(rounds))) > 1


@pytest.mark.parametrize("name", ["exit", "eagle", "medusa", "parallel"])
def test_what_drafts_from_the_targets_states_never_rests(name):
    """It takes part in rounds without a draft, too: those that it drafts later are as if nothing had been."""
    target = early_exit(PAIRS["gpt"][0], 0) if name == "exit" else PAIRS["gpt"][0]
    inner = ENUMERATED[name](target, None)
    drafter = AdaptiveDrafter(inner, replace(COSTS, t_draft=0.8), most=3, retry=1, pace=1)
    rounds = targets_own_text(target, drafter)
    assert {0, 1} <= set(widths_of(rounds))


@pytest.mark.parametrize("chooses", LEARNERS)
def test_rows_that_share_a_width_stay_independent(chooses):
    """Two rows learn from each other, and yet their joint distribution is the product of the target's own."""
    target, draft = small_pair(2, 0)
    case = Case("two rows", target, draft, ((0, 1, 0), (1,)), 2, 3, drafter=ENUMERATED[chooses])
    joint = {}
    widths = set()

    def branch(rng, keys):
        rounds = list(case.rounds(case.prompts, rng))
        widths.add(tuple(tuple(r.draft.lengths.tolist()) for r in rounds))
        return [tuple(outcomes(rounds, 2))]

    for _, both, weight in enumerate_branches(branch, [0], most_rows=1):
        joint[both] = joint.get(both, 0.0) + weight
    one, other = exact_distributions(case)
    assert len(widths) > 4 and sum(joint.values()) == pytest.approx(1)
    for a, b in product(one, other):
        assert joint[a, b] == pytest.approx(one[a] * other[b], abs=1e-12)


@pytest.mark.parametrize("make", [small_pair, tiny_gpt_pair])
def test_both_caches_hold_all_but_the_pending_token(make):
    """After every round of every branch, for widths that change and rounds that draft nothing."""
    target, draft = make(vocab_size=2)
    case = Case("invariant", target, draft, ((0, 1),), 3, 4, drafter=ENUMERATED["automatic"], rows=1)
    assert check_invariant(case) is None


def test_running_acceptance_by_hand():
    """Weight 2, memory 1/2: prior 0.5; then 3 accepted of 3 tests of one row; then none of 1."""
    known = RunningAcceptance(3, prior=0.5, weight=2, memory=0.5)
    assert known.probabilities() == [0.5] * 3
    known.update([(2, 3)])
    shared = (2 + 2 * 0.5) / (3 + 2)
    assert known.probabilities() == pytest.approx([(k + 2 * shared) / 3 for k in (1, 1, 0)])
    known.update([(0, 1)])
    shared = (1 + 1) / (2.5 + 2)
    tests = [(0.5, 1.5), (0.5, 0.5), (0.0, 0.5)]
    assert known.probabilities() == pytest.approx([(k + 2 * shared) / (n + 2) for k, n in tests])
    before = known.probabilities()
    known.update([])  # nothing was drafted
    assert known.probabilities() == before


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda draft: AdaptiveDrafter(ModelDrafter(draft), CHEAP, most=0), "at least 1"),
        (lambda draft: RunningAcceptance(3, prior=1.5), "cannot be"),
        (lambda draft: RunningAcceptance(3, weight=0), "cannot be"),
        (lambda draft: RunningAcceptance(3, memory=float("nan")), "cannot be"),
    ],
)
def test_bad_input_is_one_line(call, words):
    """What cannot be is refused in one line that says why."""
    with refused(words):
        call(PAIRS["table"][1])


def test_k_is_a_limit():
    """The loop's K, and what t(n) was measured for, both bound the width."""
    target, draft = PAIRS["table"]
    short = Costs(0.001, {1: 1.0, 4: 1.0})
    for k, most in ((2, 2), (9, 3)):
        drafter = AdaptiveDrafter(ModelDrafter(draft), short)
        assert max(widths_of(run(target, drafter, k=k))) == most
