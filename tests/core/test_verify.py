"""The verifiers, exactly: sums over every draft and every branch of the shipped rules, with no sampling."""

from itertools import product

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tiny import CountingRng

from minispec import Draft, SeededRng, Warp, verify_greedy, verify_rejection
from minispec.core.verify import residual

EXACT = 1e-10


class Ways:
    """Chance for B rows, each with a script of its own: K answers to yes-or-no, and one id.

    Attributes:
        weight: [B], the probability of each way; 0 where it is impossible, or names the same way twice.
        asked: for each call of `bernoulli`, which rows were live.
        laws: for each call of `categorical`, the laws.
    """

    def __init__(self, answers, ids):
        self._answers, self._ids = answers, ids
        self._read = torch.zeros(len(ids), dtype=torch.long)
        self._weight = torch.ones(len(ids), dtype=torch.float64)
        self.asked, self.laws = [], []

    def bernoulli(self, probs, *, rows=None, positions=None, live=None):
        live = torch.ones(probs.shape, dtype=torch.bool) if live is None else live
        answer = self._answers.gather(1, self._read[:, None])[:, 0] & live
        self._weight *= torch.where(live, torch.where(answer, probs, 1 - probs), 1)
        self._read += live
        self.asked.append(live.tolist())
        return answer

    def categorical(self, probs, *, rows=None, positions=None, live=None):
        assert live is None and not self.laws
        self._weight *= probs.gather(1, self._ids[:, None])[:, 0] / probs.sum(-1)
        self.laws.append(probs)
        return self._ids

    @property
    def weight(self):
        unread = torch.arange(self._answers.shape[1]) >= self._read[:, None]
        twice = (self._answers & unread).any(-1) | ((self._ids > 0) & (not self.laws))
        return torch.where(twice, 0, self._weight)


def walk(rule, p, q, k=None):
    """Yields the rule's outcomes on every draft x ~ q, on every branch.

    Args:
        rule: a verifier.
        p: K+1 tables; p[i] is [V^i, V], the target's law of token i after each prefix.
        q: n ≤ K tables of the draft's laws.
        k: the width K of the block; behind its n proposals a row is padded.

    Returns:
        accepted [W], the emitted prefix as one number in base V [W], and the probability of each way [W].
    """
    n, size = len(q), p[0].shape[1]
    k = n if k is None else k
    ways = product(product(range(size), repeat=n), product([False, True], repeat=k), range(size))
    drafts, answers, ids = (torch.tensor(list(column)) for column in zip(*ways, strict=True))
    prefix = [torch.zeros_like(ids)]  # prefix[i]: the first i drafted tokens as one number in base V
    for i in range(n):
        prefix.append(prefix[-1] * size + drafts[:, i])
    chance = torch.ones(len(ids), dtype=torch.float64)
    for i in range(n):
        chance *= q[i].double()[prefix[i], drafts[:, i]] / q[i].double().sum(-1)[prefix[i]]
    use = chance > 0  # what has no chance to be drafted is not shown to the rule
    drafts, prefix, chance = drafts[use], [one[use] for one in prefix], chance[use]

    rows = len(chance)
    tokens = torch.cat([drafts, torch.zeros(rows, k - n, dtype=torch.long)], 1).long()
    q_rows = [q[i][prefix[i]] for i in range(n)] + [torch.full((rows, size), 1 / size).to(p[0])] * (k - n)
    p_rows = [p[i][prefix[i]] for i in range(n + 1)] + [torch.full((rows, size), 1 / size).to(p[0])] * (k - n)
    rng = Ways(answers[use], ids[use])
    draft = Draft(tokens, torch.stack(q_rows, 1), torch.full((rows,), n))
    verdict = rule(draft, torch.stack(p_rows, 1), rng)
    weight = chance * rng.weight
    assert bool(((verdict.accepted >= 0) & (verdict.accepted <= n)).all())
    emitted = torch.stack(prefix, 1).gather(1, verdict.accepted[:, None])[:, 0] * size + verdict.token
    return verdict.accepted, emitted, weight


def joint_law(rule, p, q, k=None):
    """Returns the law of n + 1 tokens: the emitted ones, and target draws behind them: [V^(n+1)]."""
    accepted, emitted, weight = walk(rule, p, q, k)
    size, total = p[0].shape[1], 0
    for a in range(len(q) + 1):
        law = torch.zeros(size ** (a + 1), dtype=torch.float64)
        law.index_add_(0, emitted[accepted == a], weight[accepted == a])
        for table in p[a + 1 : len(q) + 1]:
            law = (law[:, None] * table.double()).flatten()
        total = total + law
    return total


def product_law(p, n):
    """Returns what the target alone does: the law of its first n + 1 tokens, [V^(n+1)]."""
    law = torch.ones(1, dtype=torch.float64)
    for table in p[: n + 1]:
        law = (law[:, None] * table.double()).flatten()
    return law


def first_law(rule, p, q):
    """Returns the law of the first emitted token: [V]."""
    accepted, emitted, weight = walk(rule, p, q)
    first = emitted // p[0].shape[1] ** accepted
    return torch.zeros(p[0].shape[1], dtype=torch.float64).index_add_(0, first, weight)


def close(a, b, tolerance=EXACT):
    return float((a - b).abs().max()) <= tolerance


# Few different weights: zeros and ties are common; one of 10^12, so that some laws are nearly certain.
WEIGHTS = st.sampled_from([0, 0, 1, 1, 2, 5, 1000, 10**12])


@st.composite
def laws(draw, size):
    """A law over `size` ids: anything, or one-hot."""
    weights = draw(st.lists(WEIGHTS, min_size=size, max_size=size).filter(any))
    if draw(st.integers(0, 4)) == 0:
        best = draw(st.integers(0, size - 1))
        weights = [int(i == best) for i in range(size)]
    law = torch.tensor(weights, dtype=torch.float64)
    return law / law.sum()


@st.composite
def drafted_laws(draw, p):
    """A draft law beside a target law: equal, with another support, or anything."""
    relation = draw(st.sampled_from(["free", "free", "same", "disjoint"]))
    free = draw(laws(len(p)))
    if relation == "same":
        return p
    elsewhere = free * (p == 0)
    return elsewhere / elsewhere.sum() if relation == "disjoint" and elsewhere.sum() > 0 else free


@st.composite
def instances(draw, k=None, size=3):
    """K+1 target laws and K draft laws, the same after every prefix."""
    k = draw(st.integers(1, 3)) if k is None else k
    target = [draw(laws(size)) for _ in range(k + 1)]
    drafted = [draw(drafted_laws(law)) for law in target[:k]]
    p = [law.expand(size**i, size) for i, law in enumerate(target)]
    return p, [law.expand(size**i, size) for i, law in enumerate(drafted)]


def in_context(k, size, seed):
    """Random target and draft laws that differ after every prefix."""
    generator = torch.Generator().manual_seed(seed)

    def tables(count):
        return [
            torch.randn(size**i, size, generator=generator, dtype=torch.float64).mul(2).softmax(-1)
            for i in range(count)
        ]

    return tables(k + 1), tables(k)


# Losslessness.


@pytest.mark.parametrize("k", [1, 2, 3])
@given(data=st.data())
def test_rejection_emits_exactly_the_targets_law(k, data):
    """The joint law of K+1 tokens, and the law of the first, are the target's, whatever p and q are."""
    p, q = data.draw(instances(k))
    assert close(joint_law(verify_rejection, p, q), product_law(p, k))
    assert close(first_law(verify_rejection, p, q), p[0][0])


@given(p=laws(6), data=st.data())
def test_rejection_is_exact_for_larger_vocabularies(p, data):
    """The same for one drafted token out of six."""
    q = data.draw(drafted_laws(p))
    assert close(first_law(verify_rejection, [p[None], p.expand(6, 6)], [q[None]]), p)


@pytest.mark.parametrize(("k", "size"), [(3, 3), (2, 4), (1, 7)])
@pytest.mark.parametrize("seed", range(5))
def test_rejection_is_exact_when_laws_depend_on_what_came_before(k, size, seed):
    """With laws that differ after every prefix, the joint law is the target's."""
    p, q = in_context(k, size, seed)
    assert close(joint_law(verify_rejection, p, q), product_law(p, k))


@given(instances())
def test_rejection_is_exact_for_rows_that_proposed_less(instance):
    """Rows that propose n < K tokens, padding behind, get the target's law of n + 1 tokens."""
    p, q = instance
    for k in range(len(q) + 1, len(q) + 3):
        assert close(joint_law(verify_rejection, p, q, k), product_law(p, len(q)))


@given(instances())
def test_float32_laws_are_compared_in_float64(instance):
    """Laws in float32 cost their own rounding and no more."""
    p, q = ([law.float() for law in laws] for laws in instance)
    assert close(joint_law(verify_rejection, p, q), product_law(p, len(q)), 1e-6)


@given(laws(3), st.integers(0, 3))
def test_a_draft_of_nothing_is_the_target_alone(p, k):
    """With no proposals, the one token emitted is drawn from the target's law."""
    ways = Ways(torch.zeros(3, k, dtype=torch.bool), torch.arange(3))
    draft = Draft(torch.zeros(3, k, dtype=torch.long), torch.full((3, k, 3), 1 / 3), torch.zeros(3).long())
    target = torch.cat([p.expand(3, 1, 3), torch.full((3, k, 3), 1 / 3)], 1)
    verdict = verify_rejection(draft, target, ways)
    assert verdict.accepted.tolist() == [0, 0, 0]
    assert verdict.token.tolist() == [0, 1, 2]
    assert close(ways.weight, p)
    assert ways.asked == []


@given(instances())
def test_greedy_emits_exactly_the_targets_law_at_temperature_zero(instance):
    """With one-hot target laws, whatever was drafted, the emitted tokens are the target's."""
    p, q = instance
    p = [Warp(0)(law) for law in p]
    assert close(joint_law(verify_greedy, p, q), product_law(p, len(q)))
    assert close(joint_law(verify_greedy, p, q, len(q) + 1), product_law(p, len(q)))


# How much is accepted.


@given(instances())
def test_the_chance_to_accept_is_the_overlap(instance):
    """A prefix of i tokens is accepted with chance Π Σ min(p, q), as theorem 3.5 of Leviathan et al. says."""
    p, q = instance
    accepted, _, weight = walk(verify_rejection, p, q)
    assert float(weight.sum()) == pytest.approx(1, abs=EXACT)
    chance = 1.0
    for i in range(len(q)):
        chance *= float(torch.minimum(p[i][0], q[i][0]).sum())
        assert float(weight[accepted > i].sum()) == pytest.approx(chance, abs=EXACT)


@given(instances())
def test_a_draft_with_the_targets_own_laws_is_always_accepted(instance):
    """With q = p everything is accepted, and no yes-or-no is left to chance."""
    p, _ = instance
    k = len(p) - 1
    accepted, _, weight = walk(verify_rejection, p, p[:k])
    assert float(weight[accepted == k].sum()) == pytest.approx(1, abs=EXACT)
    assert float(weight[accepted < k].abs().max() if (accepted < k).any() else 0) == 0


def onehot(*ids, size=4):
    return torch.eye(size, dtype=torch.float64)[torch.tensor(ids)]


def test_positions_behind_a_rejection_are_not_tested():
    """A row asks chance once per token up to its first rejection, then never again."""
    tokens = torch.tensor([[1, 1, 1], [1, 2, 1], [1, 1, 1], [1, 1, 1]])
    law = torch.full((4, 3, 4), 0.25, dtype=torch.float64)
    answers = torch.tensor([[False, True, True], [True, False, True], [True, True, True], [True, True, True]])
    rng = Ways(answers, torch.tensor([3, 0, 3, 1]))
    target = torch.tensor([0.1, 0.2, 0.2, 0.5], dtype=torch.float64).expand(4, 4, 4)
    verdict = verify_rejection(Draft(tokens, law, torch.tensor([3, 3, 2, 3])), target, rng)
    assert verdict.accepted.tolist() == [0, 1, 2, 3]
    assert rng.asked == [[True] * 4, [False, True, True, True], [False, False, False, True]]


def test_nothing_is_asked_once_all_rows_have_rejected():
    """When no row is left to test, chance is not asked about the rest."""
    rng = Ways(torch.zeros(2, 3, dtype=torch.bool), torch.tensor([1, 1]))
    draft = Draft(torch.zeros(2, 3, dtype=torch.long), onehot(0, 0, 0).expand(2, 3, 4))
    assert verify_rejection(draft, onehot(1, 1, 1, 1).expand(2, 4, 4), rng).accepted.tolist() == [0, 0]
    assert rng.asked == [[True, True]]


# The residual.


@given(laws(5), laws(5))
def test_the_residual_is_what_the_draft_was_short_of(p, q):
    """norm(max(0, p − q)): a law, 0 where q is enough, in proportion to the shortfall elsewhere."""
    short = [max(0.0, a - b) for a, b in zip(p.tolist(), q.tolist(), strict=True)]
    got = residual(p, q)
    expected = [value / sum(short) for value in short] if sum(short) > 0 else p.tolist()
    assert got.tolist() == pytest.approx(expected, abs=1e-9)
    assert float(got.sum()) == pytest.approx(1)
    assert float(got.min()) >= 0


def test_a_zero_residual_falls_back_to_the_target():
    """Where rounding rejects although p = q, the law of the correction is p: no NaN, no junk."""
    p = torch.tensor([0.25, 0.75, 0, 0], dtype=torch.float64)
    assert torch.equal(residual(p, p), p)
    rng = Ways(torch.zeros(1, 1, dtype=torch.bool), torch.tensor([1]))
    verdict = verify_rejection(Draft(torch.tensor([[1]]), p[None, None]), p.expand(1, 2, 4), rng)
    assert (verdict.accepted.tolist(), verdict.token.tolist()) == ([0], [1])
    assert torch.equal(rng.laws[0][0], p)


# Temperature 0.


def greedy_by_hand(tokens, length, target):
    """Returns accepted and token of one row, with lists."""
    best = [law.index(max(law)) for law in target]
    accepted = 0
    while accepted < length and tokens[accepted] == best[accepted]:
        accepted += 1
    return accepted, best[accepted]


@st.composite
def batches(draw, rows=3, k=3, size=3):
    """Tokens, draft laws in whose support they are, lengths, and target laws, all of a batch."""
    q = torch.stack([torch.stack([draw(laws(size)) for _ in range(k)]) for _ in range(rows)])
    p = torch.stack([torch.stack([draw(laws(size)) for _ in range(k + 1)]) for _ in range(rows)])
    tokens = [[draw(st.sampled_from(law.nonzero()[:, 0].tolist())) for law in row] for row in q]
    lengths = torch.tensor([draw(st.integers(0, k)) for _ in range(rows)])
    return Draft(torch.tensor(tokens), q, lengths), p


@given(batches())
def test_greedy_keeps_the_prefix_that_agrees(batch):
    """Accepted is the leading run of agreement, at most the row's length; ties go to the lowest id."""
    draft, p = batch
    verdict = verify_greedy(draft, p, None)
    for row in range(3):
        expected = greedy_by_hand(draft.tokens[row].tolist(), int(draft.lengths[row]), p[row].tolist())
        assert (int(verdict.accepted[row]), int(verdict.token[row])) == expected


def test_greedy_prefers_the_lowest_of_equal_ids():
    """A draft that took the higher of two equal maxima is corrected to the lower."""
    p = torch.tensor([[0.1, 0.45, 0.45], [0.4, 0.2, 0.4]]).expand(2, 2, 3)
    verdict = verify_greedy(Draft(torch.tensor([[2], [1]]), p[:, :1]), p, None)
    assert verdict.accepted.tolist() == [0, 1]
    assert verdict.token.tolist() == [1, 0]


@given(batches())
def test_rejection_at_temperature_zero_is_greedy(batch):
    """With one-hot target laws both rules say the same of any draft, and nothing is left to chance."""
    draft, p = batch
    p = Warp(0)(p)
    rng = CountingRng(0, 3)
    left, right = verify_greedy(draft, p, None), verify_rejection(draft, p, rng)
    assert left.accepted.tolist() == right.accepted.tolist()
    assert left.token.tolist() == right.token.tolist()
    assert rng.draws == [0, 0, 0]


# Batches.


@given(batches(), st.lists(st.tuples(*[st.booleans()] * 3, st.integers(0, 2)), min_size=3, max_size=3))
def test_rows_do_not_see_each_other(batch, scripts):
    """Each row gets the verdict, at the same probability, that it gets alone."""
    draft, p = batch
    answers, ids = torch.tensor([way[:3] for way in scripts]), torch.tensor([way[3] for way in scripts])
    together = Ways(answers, ids)
    verdict = verify_rejection(draft, p, together)
    for row in range(3):
        one = slice(row, row + 1)
        alone = Ways(answers[one], ids[one])
        single = Draft(draft.tokens[one], draft.probs[one], draft.lengths[one])
        got = verify_rejection(single, p[one], alone)
        assert (int(got.accepted), int(got.token)) == (int(verdict.accepted[row]), int(verdict.token[row]))
        assert float(alone.weight) == pytest.approx(float(together.weight[row]), abs=1e-15)
        assert torch.equal(alone.laws[0][0], together.laws[0][row])


@given(batches(), st.integers(0, 1000))
def test_an_emitted_token_is_one_that_the_target_can_say(batch, seed):
    """Whatever the seed, no accepted or picked token has probability 0 under the target."""
    draft, p = batch
    verdict = verify_rejection(draft, p, SeededRng(seed))
    for row in range(3):
        accepted = int(verdict.accepted[row])
        assert accepted <= int(draft.lengths[row])
        for i, token in enumerate([*draft.tokens[row].tolist()[:accepted], int(verdict.token[row])]):
            assert float(p[row, i, token]) > 0
