"""Rules of other people: wrong ones are caught with the smallest instance, right ones pass.

`other_rules` has the table of wrong ones, for chains and for trees.
"""

from functools import partial

import pytest
import torch
from other_rules import WRONG, accepts_everything, of_its_own, rule_of

from minispec import Draft, SeededRng, Verdict, verify_coupled, verify_greedy, verify_rejection
from minispec.classroom.rules import BUGGY_RULES
from minispec.core.verify import accept_rejection, as_verifier
from minispec.evidence.checker import trials
from minispec.evidence.checker.check import check_verifier
from minispec.evidence.checker.instances import (
    Instance,
    fractions,
    greedy_instances,
    large_instances,
    one_token,
    standard_instances,
    tree_instances,
)

FAMILY = standard_instances()
# Enough for the rules below, most of which are wrong at once, and cheap.
SMALL = [
    instance
    for instance in FAMILY
    if instance.k <= 3 and instance.vocab_size == 2 or instance.k <= 1 and instance.vocab_size == 3
]
FEW = SMALL[:10] + SMALL[11::2]
HALF = fractions(1, 1)
SURE = fractions(1, 0)
on_few = partial(check_verifier, instances=FEW)


def smallest(report):
    """K and V of the smallest instance that fails."""
    return report.counterexample.k, report.counterexample.vocab_size


def forgets_lengths(draft, target_probs, rng):
    """Takes padding for proposals."""
    return accept_rejection(Draft(draft.tokens, draft.probs), target_probs, rng)


resamples_from_p = BUGGY_RULES["correction-from-p"]


def test_the_smallest_instance_is_as_small_as_can_be():
    """Drawing again from p: p = (1/2, 1/2) and q certain, where 3/4 comes out for 1/2. Nothing is simpler."""
    report = on_few(resamples_from_p)
    assert report.counterexample == one_token(HALF, SURE)
    assert report.damage.low == report.damage.high == pytest.approx(0.25, abs=1e-12)
    assert report.damage.largest >= 0.25
    text = str(report)
    assert all(part in text for part in ("K = 1, V = 2", "p of token 1: (1/2, 1/2)", "q of token 1: (1, 0)"))
    rows = [line.split() for line in text.splitlines() if line.split()[0] in "01"]
    assert rows == [["0", "1", "1/2", "3/4"], ["1", "0", "1/2", "1/4"]]
    assert "total variation 0.25 here" in text


def test_a_rule_that_forgets_lengths_is_caught_where_rows_differ():
    """It takes padding for a proposal, and says so itself: more accepted than was drafted."""
    report = on_few(forgets_lengths)
    instance = report.counterexample
    assert (instance.k, instance.vocab_size, instance.lengths) == (1, 2, (0, 1))
    assert "accepted 1 of 0 drafted tokens" in report.reason and report.damage is None


# Right rules.


def target_alone(draft, target_probs, rng):
    """Accepts nothing, ever: slow and lossless."""
    return Verdict(torch.zeros_like(draft.lengths), rng.categorical(target_probs[:, 0]))


RIGHT = {
    "the shipped one": verify_rejection,
    "the shipped one for shared noise": verify_coupled,
    "the same, written differently": rule_of(),
    "the target alone": target_alone,
}


@pytest.mark.parametrize(
    "what", [*list(RIGHT)[2:3], *(pytest.param(what, marks=pytest.mark.evidence) for what in RIGHT)]
)
def test_a_right_rule_passes(what):
    """On all instances, with every branch enumerated."""
    report = check_verifier(RIGHT[what])
    assert report.passed and report.method == "exact", report
    assert report.counterexample is None and report.damage is None and report.reason is None
    assert report.largest_error < 1e-14
    assert report.instances == len(FAMILY) and report.samples == 0
    takes_trees = any("was tried on chains only" in note for note in report.notes)
    assert takes_trees == (what == "the same, written differently")
    assert str(report).startswith("passed")


def test_the_greedy_rule_passes_at_temperature_0_only():
    """Elsewhere it says the likeliest token where the target draws; wrong ones fail at temperature 0 too."""
    report = check_verifier(verify_greedy)
    assert report.passed and report.instances == len(greedy_instances())
    assert "temperature 0 only" in report.notes[0]
    report = on_few(verify_greedy)
    assert smallest(report) == (0, 2)
    assert report.counterexample.p == ((HALF,),)
    for what in ("bonus-from-the-draft", "accepts everything"):
        report = check_verifier(WRONG[what][0], instances=greedy_instances()[:40])
        assert not report.passed and smallest(report) == (1, 2)


# What no rule may do.


def spoiled(spoil):
    """Returns the shipped rule, with its verdict spoiled where something was drafted."""

    def rule(draft, target_probs, rng):
        verdict = accept_rejection(draft, target_probs, rng)
        return spoil(verdict, draft, target_probs) if draft.k else verdict

    return rule


QUICK = (
    "one-number-for-all-places",
    "correction-from-p",
    "the likeliest correction",
    "wrong from three tokens on",
    "forgets siblings",
    "goes on after the slot before",
)


@pytest.mark.parametrize(
    "what", [*QUICK, *(pytest.param(what, marks=pytest.mark.evidence) for what in WRONG if what not in QUICK)]
)
def test_a_wrong_rule_is_caught_with_the_smallest_instance(what):
    """It fails at the K and V that its idea needs; everything smaller passes; the damage is exact."""
    rule, choice, k, size = WRONG[what]
    report = on_few(rule) if choice is None else check_verifier(rule, instances=tree_instances(choice))
    assert not report.passed and report.method == "exact"
    assert smallest(report) == (k, size), report
    assert report.damage.low == report.damage.high > 0
    assert report.damage.largest >= report.damage.high
    sizes = [instance.instance.size for instance in report.results]
    assert sizes == sorted(sizes)


def changes_its_input(verdict, draft, target_probs):
    target_probs[:, 0] = 0
    return verdict


BROKEN = {
    "returned a tuple, not a Verdict": spoiled(lambda v, d, p: (v.accepted, v.token)),
    "accepted of shape": spoiled(lambda v, d, p: Verdict(v.accepted[:0], v.token[:0])),
    "token as float64": spoiled(lambda v, d, p: Verdict(v.accepted, v.token.double())),
    "accepted 2 of 1": spoiled(lambda v, d, p: Verdict(v.accepted + 1, v.token)),
    "accepted -1 of": spoiled(lambda v, d, p: Verdict(v.accepted - 1, v.token)),
    "picked token 2": spoiled(lambda v, d, p: Verdict(v.accepted, v.token + 2)),
    "picked token -1": spoiled(lambda v, d, p: Verdict(v.accepted, v.token - 1)),
    "changed its input: target_probs": spoiled(changes_its_input),
    "ZeroDivisionError": spoiled(lambda v, d, p: 1 / 0),
    "0 everywhere": rule_of(correction=lambda p, q: (p - q).clamp(min=0)),
    "not a number": rule_of(accept=lambda remaining, p, q: p * float("nan")),
    "which the target never emits": accepts_everything,
}


@pytest.mark.parametrize("what", BROKEN)
def test_what_no_rule_may_do_is_named(what):
    """Wrong types, shapes, ranges and distributions, changed input: caught at K = 1, V = 2."""
    report = on_few(BROKEN[what])
    assert not report.passed and what in report.reason, report
    assert smallest(report) == (1, 2) and report.reason in str(report)


def test_rounding_in_float32_is_called_by_its_name():
    """A distribution that is off by 1e-8 fails, with another reason; with a tolerance for it, it passes."""

    def rule(draft, target_probs, rng):
        single = Draft(draft.tokens, draft.probs.float(), draft.lengths)
        return accept_rejection(single, target_probs.float(), rng)

    report = on_few(rule)
    assert "rounding in float32" in report.reason and report.damage.largest < 1e-6
    assert on_few(rule, tolerance=1e-6).passed


# Batches.


def all_or_none(draft, target_probs, rng):
    """Right for one row; in a batch the first row's rejection is everybody's."""
    verdict = accept_rejection(draft, target_probs, rng)
    return Verdict(verdict.accepted, verdict.token[:1].expand(len(verdict.token)))


def test_rows_that_see_each_other_are_found_out():
    """It fails in batches, and the report says that each row alone is right."""
    report = on_few(all_or_none)
    assert not report.passed and report.reason.endswith("each row alone is right")
    assert smallest(report) == (1, 2)


def with_coins(count):
    """Returns the shipped rule, which throws some coins more that decide nothing: so many for a draft."""

    def rule(draft, target_probs, rng):
        verdict = accept_rejection(draft, target_probs, rng)
        rng.bernoulli(torch.full((count(draft, verdict),), 0.5))
        return verdict

    return rule


@pytest.mark.evidence
@pytest.mark.parametrize(
    "rule",
    [
        with_coins(lambda draft, verdict: int((draft.lengths > 0).sum())),  # and does not say for which rows
        with_coins(lambda draft, verdict: len(draft.lengths) * int(verdict.accepted.max())),
    ],
    ids=["of some rows", "of all while one accepts"],
)
def test_rules_whose_batches_follow_no_script_are_enumerated_row_by_row(rule):
    """Exact row by row, sampled in batches; false alarms at most once in 10^6; it sees a damage of 0.1."""
    report = on_few(rule, samples=5_000)
    assert report.passed and report.method == "exact", report
    assert report.branches > 0 and report.samples > 0
    assert 0 < report.false_alarm <= 1e-6 and report.detects < 0.12


def refuses_batches(draft, target_probs, rng):
    if len(target_probs) > 1:
        raise ValueError("one row, please")
    return accept_rejection(draft, target_probs, rng)


def answers_for_one(draft, target_probs, rng):
    first = Draft(draft.tokens[:1], draft.probs[:1], draft.lengths[:1])
    return accept_rejection(first, target_probs[:1], rng)


@pytest.mark.parametrize("rule", [refuses_batches, answers_for_one])
def test_rules_for_one_row_get_one_row(rule):
    """A rule that refuses several rows, or answers for one, is enumerated row by row."""
    report = on_few(rule)
    assert report.passed and report.method == "exact" and report.samples == 0
    assert "one row at a time" in report.notes[0]


# Rules with a random number generator of their own.


@pytest.mark.evidence
def test_a_right_rule_with_its_own_rng_is_sampled_and_passes():
    """A right rule fails once in 10^6 seeds; one that is 0.07 off on an instance passes once in 10^6."""
    report = check_verifier(of_its_own(verify_rejection), samples=20_000)
    assert report.passed and report.method == "sampled", report
    assert report.false_alarm == 1e-6 and report.detects < 0.07
    assert report.samples == 20_000 * report.instances
    assert "follows no script" in report.notes[0]
    assert "with probability 1e-06 at most" in str(report)


def test_a_wrong_rule_with_its_own_rng_is_caught_and_its_damage_bounded():
    """The damage of the smallest instance found lies within the bounds: they miss it twice in 10^6."""
    wrong = resamples_from_p
    report = on_few(of_its_own(wrong), samples=20_000)
    exact = check_verifier(wrong, instances=[report.counterexample])
    assert not report.passed and report.method == "sampled"
    assert smallest(report) == (1, 2)
    assert report.damage.low <= exact.damage.low <= report.damage.high
    assert 0 < report.damage.low and report.damage.high - report.damage.low < 0.1


def test_a_black_box_that_says_the_impossible_is_caught_at_once():
    """One sample is enough where the distance shows nothing: here 0.01, and 0.06 would be needed."""
    instance = one_token(SURE, fractions(99, 1), HALF)
    rule = of_its_own(accepts_everything)
    report = check_verifier(rule, instances=[instance], samples=2_000)
    assert report.method == "sampled" and report.damage.low == 0
    assert "which the target never emits" in report.reason


@pytest.mark.parametrize("seed", [0, *(pytest.param(n, marks=pytest.mark.evidence) for n in range(1, 5))])
def test_luck_does_not_pass_for_a_script(seed):
    """On one single instance a black box repeats itself by luck; it is not called wrong for that.

    It would have to say the same 40 times: once in 10^12 seeds.
    """
    rule = of_its_own(verify_rejection)
    report = check_verifier(rule, instances=[Instance(((HALF,),), ())], samples=1_000, seed=seed)
    assert report.passed and report.method == "sampled", report


def test_a_generator_seeded_anew_at_every_call_is_found_out():
    """Over the rows of a batch it looks right. One row says the same each time, and is enumerated exactly."""

    def rule(draft, target_probs, rng):
        return verify_rejection(draft, target_probs, SeededRng(0))

    report = on_few(rule)
    assert not report.passed
    assert smallest(report) == (0, 2)


# What was left out, and what no rule may do to the process.


def for_large_vocabularies(rule):
    """Returns the rule, for one drafted token of 200 ids or more."""

    def large_only(draft, target_probs, rng):
        if draft.k != 1 or target_probs.shape[-1] < 200:
            raise ValueError("K must be 1, and V at least 200")
        return as_verifier(rule).decide(draft, target_probs, rng)

    return large_only


@pytest.mark.evidence
def test_a_rule_for_large_vocabularies_gets_large_ones():
    """Of 336 instances it takes 16, and the report says so; a wrong one fails there."""
    report = check_verifier(for_large_vocabularies(verify_rejection))
    assert report.passed and report.instances == 16 and report.method == "exact"
    assert {instance.instance.vocab_size for instance in report.results} == {256, 1024}
    assert sum(report.left_out.values()) == len(FAMILY) + len(large_instances()) - 16
    assert "left out: 320 instances" in str(report) and "V at least 200" in str(report)
    report = check_verifier(for_large_vocabularies(resamples_from_p))
    assert not report.passed and report.counterexample.vocab_size == 256
    assert len(str(report)) < 2000


def test_too_many_branches_are_sampled(monkeypatch):
    """With 60 ids there are 3,600 texts: places are compared, at 50,000 samples; 0.04 is not missed."""
    monkeypatch.setattr(trials, "MAX_BRANCHES", 300)
    p = fractions(*range(1, 61))
    q = fractions(*range(60, 0, -1))
    report = check_verifier(verify_rejection, instances=[one_token(p, q)])
    assert report.passed and report.instances == 1 and report.samples == 50_000 and report.detects < 0.04
    report = check_verifier(resamples_from_p, instances=[one_token(p, q)])
    assert not report.passed and report.damage.low > 0.05


def test_a_rule_may_refuse_what_it_was_not_made_for():
    """What it refuses is counted, with its reason; if that is everything, it does not pass."""

    def of_two(draft, target_probs, rng):
        if draft.k != 2:
            raise NotImplementedError("two tokens, please")
        return accept_rejection(draft, target_probs, rng)

    of_k = sum(instance.k == 2 for instance in FEW)
    report = on_few(of_two)
    assert report.passed and report.instances == of_k
    (why,) = report.left_out
    assert "two tokens, please" in why and report.left_out[why] == len(FEW) - of_k
    report = check_verifier(of_two, instances=[instance for instance in FEW if instance.k != 2])
    assert not report.passed and report.instances == 0 and report.counterexample is None
    assert str(report).startswith("checked nothing")


def test_samples_that_can_show_nothing_are_no_pass():
    report = check_verifier(of_its_own(verify_rejection), instances=FEW[20:40], samples=10)
    assert not report.passed and report.instances == 0
    assert "10 samples of them can show nothing" in str(report)


def test_the_diagnosis_is_that_of_the_largest_damage():
    """The smallest instance that fails is off by 1e-6, as by rounding; that is not what is wrong."""
    rare = fractions(1, 10**7)
    small = one_token(rare, HALF, rare)
    large = Instance(((HALF,),) * 3, ((SURE,),) * 2)
    report = check_verifier(resamples_from_p, instances=[small])
    assert "rounding" in report.reason
    report = check_verifier(resamples_from_p, instances=[small, large])
    assert "rounding" not in report.reason and report.reason.endswith("(K = 2, V = 2)")
    assert report.counterexample == small and report.damage.high < 1e-6 < 0.1 < report.damage.largest


def exits(draft, target_probs, rng):
    raise SystemExit(0)


def hangs(draft, target_probs, rng):
    while True:
        pass


@pytest.mark.parametrize(
    ("rule", "words", "limit"),
    [
        (exits, "it called sys.exit(0)", None),
        (hangs, "not come back after 0.05 seconds", 0.05),
    ],
)
def test_a_rule_that_does_not_simply_come_back_fails(rule, words, limit):
    """It would end the process with the status of a success, double it, or hold it up."""
    report = check_verifier(rule, instances=FEW[:1], limit=limit)
    assert not report.passed and words in report.reason


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"tolerance": 1}, "tolerance"),
        ({"samples": 0}, "samples"),
        ({"seed": 2**32}, "seed must be 0 to 4,294,967,295"),
        ({"limit": -1}, "seconds above 0"),
        ({"instances": []}, "give at least one"),
    ],
)
def test_arguments_that_would_check_nothing_are_refused(change, words):
    with pytest.raises(ValueError, match=words):
        on_few(verify_rejection, **change)


# The instances.


def test_the_instances_are_many_and_small_first():
    """Sorted by size, without doubles, K = 0 … 4, V = 2 … 5, rows of several lengths, and contexts."""
    sizes = [instance.size for instance in FAMILY]
    assert sizes == sorted(sizes) and len(set(FAMILY)) == len(FAMILY) >= 280
    assert {instance.k for instance in FAMILY} == {0, 1, 2, 3, 4}
    assert {instance.vocab_size for instance in FAMILY} == {2, 3, 4, 5}
    assert any(len(set(table)) > 1 for instance in FAMILY for table in instance.p)
    assert any(len(instance.lengths) > 2 for instance in FAMILY)


@pytest.mark.parametrize(
    ("p", "lengths"),
    [
        (((HALF,),), ()),
        (((HALF,), (HALF, HALF, HALF)), ()),
        (((HALF,), ((0.5, 0.4),)), ()),
        (((HALF,), ((1.5, -0.5),)), ()),
        (((HALF,), (HALF,)), (2,)),
        (((HALF,), (HALF,)), (1, 1)),
    ],
)
def test_tables_that_do_not_fit_are_refused(p, lengths):
    """Too few tables, too many rows, numbers that are no distribution, lengths beyond K or twice."""
    with pytest.raises(ValueError):
        Instance(p, ((HALF,),), lengths)


def test_the_distribution_of_an_instance_is_the_product_of_its_tables():
    """By hand, for two tokens with a distribution that depends on the first; rows of length 0 count half."""
    p = ((fractions(1, 3),), (HALF, fractions(1, 2)))
    instance = Instance(p, ((SURE,),))
    assert list(instance.texts()) == [(0, 0), (0, 1), (1, 0), (1, 1)]
    assert instance.distribution().tolist() == pytest.approx([1 / 8, 1 / 8, 1 / 4, 1 / 2])
    both = Instance(p, ((SURE,),), (0, 1))
    assert list(both.texts()) == [(0,), (1,), (0, 0), (0, 1), (1, 0), (1, 1)]
    assert both.distribution().tolist() == pytest.approx([1 / 8, 3 / 8, 1 / 16, 1 / 16, 1 / 8, 1 / 4])
    drafts = both.drafts()
    assert drafts.draft.lengths.tolist() == [0, 1] and drafts.weights.tolist() == [0.5, 0.5]
    assert drafts.draft.tokens.tolist() == [[0], [0]]


def test_torchs_own_generator_is_left_as_it_was():
    """Also with the last seed, after which seeds begin again at 0: each instance takes two."""
    state = torch.get_rng_state()
    check_verifier(of_its_own(verify_rejection), instances=FEW[:20], samples=100, seed=2**32 - 1)
    assert torch.equal(torch.get_rng_state(), state)
