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
    """Random decisions for B rows, each with a script of its own: K answers to yes-or-no, and one id.

    Attributes:
        weight: [B], the probability of each way; 0 where it is impossible, or names the same way twice.
        asked: for each call of `bernoulli`, which rows were live.
        dists: for each call of `categorical`, the distributions.
    """

    def __init__(self, answers, ids):
        self._answers, self._ids = answers, ids
        self._read = torch.zeros(len(ids), dtype=torch.long)
        self._weight = torch.ones(len(ids), dtype=torch.float64)
        self.asked, self.dists = [], []

    def bernoulli(self, probs, *, rows=None, positions=None, live=None):
        live = torch.ones(probs.shape, dtype=torch.bool) if live is None else live
        answer = self._answers.gather(1, self._read[:, None])[:, 0] & live
        self._weight *= torch.where(live, torch.where(answer, probs, 1 - probs), 1)
        self._read += live
        self.asked.append(live.tolist())
        return answer

    def categorical(self, probs, *, rows=None, positions=None, live=None):
        assert live is None and not self.dists
        self._weight *= probs.gather(1, self._ids[:, None])[:, 0] / probs.sum(-1)
        self.dists.append(probs)
        return self._ids

    @property
    def weight(self):
        unread = torch.arange(self._answers.shape[1]) >= self._read[:, None]
        twice = (self._answers & unread).any(-1) | ((self._ids > 0) & (not self.dists))
        return torch.where(twice, 0, self._weight)


def walk(rule, p, q, k=None):
    """Yields the rule's outcomes on every draft x ~ q, on every branch.

    Args:
        rule: a verifier.
        p: K+1 tables; p[i] is [V^i, V], the target's distribution of token i after each prefix.
        q: n ≤ K tables of the draft's distributions.
        k: the width K of the block; after its n proposals a row is padded.

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
    prob = torch.ones(len(ids), dtype=torch.float64)
    for i in range(n):
        prob *= q[i].double()[prefix[i], drafts[:, i]] / q[i].double().sum(-1)[prefix[i]]
    use = prob > 0  # what is never drafted is not shown to the rule
    drafts, prefix, prob = drafts[use], [one[use] for one in prefix], prob[use]

    rows = len(prob)
    tokens = torch.cat([drafts, torch.zeros(rows, k - n, dtype=torch.long)], 1).long()
    q_rows = [q[i][prefix[i]] for i in range(n)] + [torch.full((rows, size), 1 / size).to(p[0])] * (k - n)
    p_rows = [p[i][prefix[i]] for i in range(n + 1)] + [torch.full((rows, size), 1 / size).to(p[0])] * (k - n)
    rng = Ways(answers[use], ids[use])
    draft = Draft(tokens, torch.stack(q_rows, 1), torch.full((rows,), n))
    verdict = rule(draft, torch.stack(p_rows, 1), rng)
    weight = prob * rng.weight
    assert bool(((verdict.accepted >= 0) & (verdict.accepted <= n)).all())
    emitted = torch.stack(prefix, 1).gather(1, verdict.accepted[:, None])[:, 0] * size + verdict.token
    return verdict.accepted, emitted, weight


def joint_dist(rule, p, q, k=None):
    """Returns the distribution of n + 1 tokens: the emitted ones, and target draws after them: [V^(n+1)]."""
    accepted, emitted, weight = walk(rule, p, q, k)
    size, total = p[0].shape[1], 0
    for a in range(len(q) + 1):
        dist = torch.zeros(size ** (a + 1), dtype=torch.float64)
        dist.index_add_(0, emitted[accepted == a], weight[accepted == a])
        for table in p[a + 1 : len(q) + 1]:
            dist = (dist[:, None] * table.double()).flatten()
        total = total + dist
    return total


def product_dist(p, n):
    """Returns what the target alone does: the distribution of its first n + 1 tokens, [V^(n+1)]."""
    dist = torch.ones(1, dtype=torch.float64)
    for table in p[: n + 1]:
        dist = (dist[:, None] * table.double()).flatten()
    return dist


def first_dist(rule, p, q):
    """Returns the distribution of the first emitted token: [V]."""
    accepted, emitted, weight = walk(rule, p, q)
    first = emitted // p[0].shape[1] ** accepted
    return torch.zeros(p[0].shape[1], dtype=torch.float64).index_add_(0, first, weight)


def close(a, b, tolerance=EXACT):
    return float((a - b).abs().max()) <= tolerance


# Few different weights: zeros and ties are common; one of 10^12, so that some are nearly certain.
WEIGHTS = st.sampled_from([0, 0, 1, 1, 2, 5, 1000, 10**12])


@st.composite
def dists(draw, size):
    """A distribution over `size` ids: anything, or one-hot."""
    weights = draw(st.lists(WEIGHTS, min_size=size, max_size=size).filter(any))
    if draw(st.integers(0, 4)) == 0:
        best = draw(st.integers(0, size - 1))
        weights = [int(i == best) for i in range(size)]
    dist = torch.tensor(weights, dtype=torch.float64)
    return dist / dist.sum()


@st.composite
def drafted_dists(draw, p):
    """A draft's distribution for a target's: equal, with another support, or anything."""
    relation = draw(st.sampled_from(["free", "free", "same", "disjoint"]))
    free = draw(dists(len(p)))
    if relation == "same":
        return p
    elsewhere = free * (p == 0)
    return elsewhere / elsewhere.sum() if relation == "disjoint" and elsewhere.sum() > 0 else free


@st.composite
def instances(draw, k=None, size=3):
    """K+1 target distributions and K draft distributions, the same after every prefix."""
    k = draw(st.integers(1, 3)) if k is None else k
    target = [draw(dists(size)) for _ in range(k + 1)]
    drafted = [draw(drafted_dists(dist)) for dist in target[:k]]
    p = [dist.expand(size**i, size) for i, dist in enumerate(target)]
    return p, [dist.expand(size**i, size) for i, dist in enumerate(drafted)]


def in_context(k, size, seed):
    """Random target and draft distributions that differ after every prefix."""
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
def test_rejection_emits_exactly_the_targets_distribution(k, data):
    """The joint distribution of K+1 tokens, and that of the first, are the target's, whatever p and q are."""
    p, q = data.draw(instances(k))
    assert close(joint_dist(verify_rejection, p, q), product_dist(p, k))
    assert close(first_dist(verify_rejection, p, q), p[0][0])


@given(p=dists(6), data=st.data())
def test_rejection_is_exact_for_larger_vocabularies(p, data):
    """The same for one drafted token out of six."""
    q = data.draw(drafted_dists(p))
    assert close(first_dist(verify_rejection, [p[None], p.expand(6, 6)], [q[None]]), p)


@pytest.mark.parametrize(("k", "size"), [(3, 3), (2, 4), (1, 7)])
@pytest.mark.parametrize("seed", range(5))
def test_rejection_is_exact_when_distributions_depend_on_what_came_before(k, size, seed):
    """With distributions that differ after every prefix, the joint distribution is the target's."""
    p, q = in_context(k, size, seed)
    assert close(joint_dist(verify_rejection, p, q), product_dist(p, k))


@given(instances())
def test_rejection_is_exact_for_rows_that_proposed_less(instance):
    """Rows that propose n < K tokens, padding after, get the target's distribution of n + 1 tokens."""
    p, q = instance
    for k in range(len(q) + 1, len(q) + 3):
        assert close(joint_dist(verify_rejection, p, q, k), product_dist(p, len(q)))


@given(instances())
def test_float32_distributions_are_compared_in_float64(instance):
    """Distributions in float32 cost their own rounding and no more."""
    p, q = ([dist.float() for dist in dists] for dists in instance)
    assert close(joint_dist(verify_rejection, p, q), product_dist(p, len(q)), 1e-6)


@given(dists(3), st.integers(0, 3))
def test_a_draft_of_nothing_is_the_target_alone(p, k):
    """With no proposals, the one token emitted is drawn from the target's distribution."""
    ways = Ways(torch.zeros(3, k, dtype=torch.bool), torch.arange(3))
    draft = Draft(torch.zeros(3, k, dtype=torch.long), torch.full((3, k, 3), 1 / 3), torch.zeros(3).long())
    target = torch.cat([p.expand(3, 1, 3), torch.full((3, k, 3), 1 / 3)], 1)
    verdict = verify_rejection(draft, target, ways)
    assert verdict.accepted.tolist() == [0, 0, 0]
    assert verdict.token.tolist() == [0, 1, 2]
    assert close(ways.weight, p)
    assert ways.asked == []


@given(instances())
def test_greedy_emits_exactly_the_targets_distribution_at_temperature_zero(instance):
    """With one-hot target distributions, whatever was drafted, the emitted tokens are the target's."""
    p, q = instance
    p = [Warp(0)(dist) for dist in p]
    assert close(joint_dist(verify_greedy, p, q), product_dist(p, len(q)))
    assert close(joint_dist(verify_greedy, p, q, len(q) + 1), product_dist(p, len(q)))


# How much is accepted.


@given(instances())
def test_the_probability_to_accept_is_the_overlap(instance):
    """A prefix of i tokens is kept with probability Π Σ min(p, q) (Leviathan et al. 2023, theorem 3.5)."""
    p, q = instance
    accepted, _, weight = walk(verify_rejection, p, q)
    assert float(weight.sum()) == pytest.approx(1, abs=EXACT)
    prob = 1.0
    for i in range(len(q)):
        prob *= float(torch.minimum(p[i][0], q[i][0]).sum())
        assert float(weight[accepted > i].sum()) == pytest.approx(prob, abs=EXACT)


@given(instances())
def test_a_draft_with_the_targets_own_distributions_is_always_accepted(instance):
    """With q = p everything is accepted, and no yes-or-no is left to draw."""
    p, _ = instance
    k = len(p) - 1
    accepted, _, weight = walk(verify_rejection, p, p[:k])
    assert float(weight[accepted == k].sum()) == pytest.approx(1, abs=EXACT)
    assert float(weight[accepted < k].abs().max() if (accepted < k).any() else 0) == 0


def onehot(*ids, size=4):
    return torch.eye(size, dtype=torch.float64)[torch.tensor(ids)]


def test_positions_after_a_rejection_are_not_tested():
    """A row asks for a random number once per token up to its first rejection, then never again."""
    tokens = torch.tensor([[1, 1, 1], [1, 2, 1], [1, 1, 1], [1, 1, 1]])
    dist = torch.full((4, 3, 4), 0.25, dtype=torch.float64)
    answers = torch.tensor([[False, True, True], [True, False, True], [True, True, True], [True, True, True]])
    rng = Ways(answers, torch.tensor([3, 0, 3, 1]))
    target = torch.tensor([0.1, 0.2, 0.2, 0.5], dtype=torch.float64).expand(4, 4, 4)
    verdict = verify_rejection(Draft(tokens, dist, torch.tensor([3, 3, 2, 3])), target, rng)
    assert verdict.accepted.tolist() == [0, 1, 2, 3]
    assert rng.asked == [[True] * 4, [False, True, True, True], [False, False, False, True]]


def test_nothing_is_asked_once_all_rows_have_rejected():
    """When no row is left to test, no random number is asked for the rest."""
    rng = Ways(torch.zeros(2, 3, dtype=torch.bool), torch.tensor([1, 1]))
    draft = Draft(torch.zeros(2, 3, dtype=torch.long), onehot(0, 0, 0).expand(2, 3, 4))
    assert verify_rejection(draft, onehot(1, 1, 1, 1).expand(2, 4, 4), rng).accepted.tolist() == [0, 0]
    assert rng.asked == [[True, True]]


# The residual.


@given(dists(5), dists(5))
def test_the_residual_is_what_the_draft_was_short_of(p, q):
    """norm(max(0, p − q)): a distribution, 0 where q is enough, in proportion to the shortfall elsewhere."""
    short = [max(0.0, a - b) for a, b in zip(p.tolist(), q.tolist(), strict=True)]
    got = residual(p, q)
    expected = [value / sum(short) for value in short] if sum(short) > 0 else p.tolist()
    assert got.tolist() == pytest.approx(expected, abs=1e-9)
    assert float(got.sum()) == pytest.approx(1)
    assert float(got.min()) >= 0


def test_a_zero_residual_falls_back_to_the_target():
    """Where rounding rejects although p = q, the distribution of the correction is p: no NaN, no junk."""
    p = torch.tensor([0.25, 0.75, 0, 0], dtype=torch.float64)
    assert torch.equal(residual(p, p), p)
    rng = Ways(torch.zeros(1, 1, dtype=torch.bool), torch.tensor([1]))
    verdict = verify_rejection(Draft(torch.tensor([[1]]), p[None, None]), p.expand(1, 2, 4), rng)
    assert (verdict.accepted.tolist(), verdict.token.tolist()) == ([0], [1])
    assert torch.equal(rng.dists[0][0], p)


# Temperature 0.


def greedy_by_hand(tokens, length, target):
    """Returns accepted and token of one row, with lists."""
    best = [dist.index(max(dist)) for dist in target]
    accepted = 0
    while accepted < length and tokens[accepted] == best[accepted]:
        accepted += 1
    return accepted, best[accepted]


@st.composite
def batches(draw, rows=3, k=3, size=3):
    """Of a batch: tokens, draft distributions that can draw them, lengths, and target distributions."""
    q = torch.stack([torch.stack([draw(dists(size)) for _ in range(k)]) for _ in range(rows)])
    p = torch.stack([torch.stack([draw(dists(size)) for _ in range(k + 1)]) for _ in range(rows)])
    tokens = [[draw(st.sampled_from(dist.nonzero()[:, 0].tolist())) for dist in row] for row in q]
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
    """With one-hot target distributions both rules say the same of any draft, and nothing is left to draw."""
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
        assert torch.equal(alone.dists[0][0], together.dists[0][row])


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
