"""Drafting: the reported distribution is the sampled one, and the drafter's cache never has a hole."""

import pytest
import tiny
import torch
from tiny import PAIRS, PROMPTS, outcome, watched

from minispec import Draft, ModelDrafter, SeededRng, Warp, verify_greedy, verify_rejection


@pytest.mark.parametrize("warp", [Warp(0), Warp(1.3)])
@pytest.mark.parametrize("name", PAIRS)
@pytest.mark.parametrize("k", [1, 2, 3, 5, 8, 16])
def test_a_draft_model_that_is_the_target_is_always_accepted(k, name, warp):
    """With q = p all of every draft is kept, round after round, ragged rows included."""
    target = PAIRS[name][0]
    rounds = list(watched(target, ModelDrafter(target), PROMPTS, k, warp=warp))
    assert all(r.accepted(row) == r.drafted(row) for r in rounds for row in range(3))
    assert len(rounds) == -(-24 // (k + 1))
    assert {r.kind(row) for r in rounds for row in range(3)} == {"bonus"}


@pytest.mark.parametrize("name", PAIRS)
def test_after_full_acceptance_the_drafter_reads_the_token_that_it_lacks(name):
    """Where one row accepts all and another does not, both caches are whole, and the next round is true.

    `watched` compares distributions and caches; here it is seen that such rounds occur, that drafting alone
    fell one token short, and that rows that are not full are cut back.
    """
    target, draft = PAIRS[name]
    rounds = list(watched(target, ModelDrafter(draft), PROMPTS, rng=SeededRng(2)))
    mixed = 0
    for r, following in zip(rounds, rounds[1:], strict=False):
        grown = [after - had for after, had in zip(r.draft_cache.after, r.draft_cache.verified, strict=True)]
        full = [r.live[row] and r.accepted(row) == r.drafted(row) == 3 for row in range(3)]
        assert all(more == 1 if kept else more <= 0 for more, kept in zip(grown, full, strict=True))
        mixed += 0 < sum(full) < 3 and all(following.live)
    assert mixed >= 2


@pytest.mark.parametrize("own", [Warp(0), Warp(0.5, 2), Warp(3.0)])
def test_a_drafter_may_warp_as_it_likes(own):
    """A warp of its own shapes what the drafter samples from and reports; rounds stay sound."""
    target, draft = PAIRS["table"]
    rounds = list(watched(target, ModelDrafter(draft, own), PROMPTS, warp=Warp(0.8)))
    dists = torch.cat([r.draft.probs[row, : r.drafted(row)] for r in rounds for row in range(3)])
    assert int((dists > 0).sum(-1).max()) == {0: 1, 0.5: 2, 3.0: 5}[own.temperature]


@pytest.mark.parametrize("name", PAIRS)
def test_tokens_are_drawn_from_the_reported_distributions(name):
    """Given the distributions and the same seed, the drafted tokens follow: each is drawn from its own."""
    drafter = ModelDrafter(PAIRS[name][1])
    tiny.begin(drafter, PROMPTS)
    with torch.inference_mode():
        draft = drafter.propose(
            torch.tensor([row[-1] for row in PROMPTS]), 4, Warp(1.1), tiny.drafting(SeededRng(0), 3)
        )
    rng = SeededRng(0)
    assert torch.equal(draft.tokens, torch.stack([rng.categorical(q) for q in draft.probs.unbind(1)], 1))
    assert draft.lengths.tolist() == [4, 4, 4]


class Hesitant(tiny.Parrot):
    """A parrot that proposes fewer tokens than it may: some rows less than others, or a narrower block."""

    def propose(self, pending, k, warp, rng):
        whole = super().propose(pending, k, warp, rng)
        held = sum(self._lengths)
        k = min(k, held % 4)
        lengths = torch.tensor([(held + row) % (k + 1) for row in range(len(pending))])
        return Draft(whole.tokens[:, :k], whole.probs[:, :k], lengths)


@pytest.mark.parametrize("rule", [verify_greedy, verify_rejection])
def test_rows_may_propose_fewer_tokens_than_they_may(rule):
    """Drafts of any length per row, none included, give the target's tokens."""
    drafter = Hesitant([list(range(20)), [7, 8, 1, 10, 11, 1, 13, 14, 15, 0, 1]], 16)
    settings = {"k": 4, "verifier": rule, "max_new_tokens": 8, "warp": Warp(0)}
    rounds = list(watched(tiny.counter(), drafter, [[0], [7]], **settings))
    assert outcome(rounds, 2)[0] == [list(range(1, 9)), list(range(8, 16))]
    assert len({r.draft.k for r in rounds}) > 1
    assert any(r.drafted(0) != r.drafted(1) for r in rounds if all(r.live))
