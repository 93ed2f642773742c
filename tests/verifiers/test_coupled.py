"""The coupled verifier: with shared noise the text is target-only's, token for token, whatever the draft."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from refusals import refused
from tiny import PAIRS, PROMPTS, alone, decode, outcome, place, targets_own_text, watched

import minispec
from minispec import (
    Draft,
    KeyedRng,
    ModelDrafter,
    SeededRng,
    Warp,
    verify_coupled,
    verify_rejection,
)
from minispec.evidence.proof.models import table_model, table_pair
from minispec.verifiers.coupled import scramble

WARPS = [Warp(), Warp(0.6), Warp(1.4, top_k=3), Warp(top_p=0.7), Warp(0)]


@pytest.mark.parametrize("name", PAIRS)
@pytest.mark.parametrize("warp", WARPS, ids=str)
@pytest.mark.parametrize("k", [1, 8])
def test_shared_noise_gives_the_targets_own_text(name, warp, k):
    """A ragged batch, with an ending token: the same tokens as target-only, row by row."""
    target, draft = PAIRS[name]
    for seed in range(2):
        settings = {"warp": warp, "eos": (4,), "rng": KeyedRng(seed), "max_new_tokens": 24}
        rounds = watched(target, ModelDrafter(draft), PROMPTS, k=k, verifier=verify_coupled, **settings)
        assert outcome(rounds, 3)[0] == alone(target, **settings)


@given(seed=st.integers(0, 10**6), distance=st.floats(0, 5), k=st.integers(1, 6), cap=st.integers(1, 12))
def test_whatever_the_draft(seed, distance, k, cap):
    """Drafts from perfect to useless change the number of calls and nothing else."""
    target, draft = table_pair(4, seed, distance)
    settings = {"max_new_tokens": cap, "warp": Warp(), "rng": KeyedRng(seed)}
    targets_own_text(target, ModelDrafter(draft), [[0], [1, 2, 3]], k=k, verifier=verify_coupled, **settings)


def test_a_perfect_draft_is_always_accepted():
    """Draft and target alike, noise shared: nothing is ever rejected. With independent noise much is."""
    target = table_model(4, 0)
    settings = {"k": 4, "max_new_tokens": 30, "verifier": verify_coupled}
    shared = list(watched(target, ModelDrafter(target), [[0]], rng=KeyedRng(0), **settings))
    assert all(r.kind(0) == "bonus" for r in shared)
    apart = list(watched(target, ModelDrafter(target), [[0]], rng=SeededRng(0), **settings))
    assert any(r.kind(0) == "correction" for r in apart)


def test_acceptance_is_at_least_what_the_theorem_says():
    """Daliri, Musco, Suresh 2024: the same draw with probability at least (1 − TV)/(1 + TV), at most 1 − TV.

    200,000 positions. By Hoeffding an error above 0.006 has a probability of 1e-6: 2·exp(−2·N·0.006²).
    """
    p = torch.tensor([0.5, 0.3, 0.2], dtype=torch.float64)
    q = torch.tensor([0.2, 0.3, 0.5], dtype=torch.float64)
    rows = 200_000
    each = torch.arange(rows)
    rng = KeyedRng(0)
    target, draft = (rng.categorical(dist.expand(rows, 3), place(each, each)) for dist in (p, q))
    same = target == draft
    tv = float((p - q).abs().sum() / 2)
    assert (1 - tv) / (1 + tv) - 0.006 <= same.double().mean() <= 1 - tv + 0.006


@pytest.mark.parametrize(
    ("seed", "numbers"),
    [
        (0, [0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4, 0x06C45D188009454F]),
        (1234567, [6457827717110365317, 3203168211198807973, 9817491932198370423]),
    ],
)
def test_noise_is_mixed_as_by_splitmix64(seed, numbers):
    """The published generator's first numbers: it mixes the seed and multiples of the golden ratio."""
    steps = [(seed + n * 0x9E3779B97F4A7C15 + 2**63) % 2**64 - 2**63 for n in range(len(numbers))]
    assert [number % 2**64 for number in scramble(torch.tensor(steps)).tolist()] == numbers


def test_the_rejection_rule_refuses_shared_noise():
    """Rejection with the noise that the draft was drawn with would be biased: one clear line instead."""
    target, draft = table_pair(4, 0)
    with refused("use verify_coupled"):
        list(watched(target, ModelDrafter(draft), [[0]], rng=KeyedRng(0), verifier=verify_rejection))


def test_lengths_of_the_draft_count():
    """A row that proposes less gets its bonus where its own proposals end."""
    p = torch.zeros(2, 3, 4, dtype=torch.float64)
    p[:, 0, 1] = p[:, 1, 2] = p[:, 2, 3] = 1
    draft = Draft(torch.tensor([[1, 2], [1, 2]]), p[:, :2], torch.tensor([2, 1]))
    verdict = verify_coupled(draft, p, SeededRng(0))
    assert verdict.accepted.tolist() == [2, 1]
    assert verdict.token.tolist() == [3, 2]


@pytest.mark.evidence
def test_fifty_texts_three_drafts_three_widths():
    """The shipped target in float64, three drafts, K = 1, 4, 8, 50 rows: every text is target-only's.

    The same with tiny models, and a random draft of each distance, is above.
    """
    pair = minispec.load_pair("stories", dtype=torch.float64)
    torch.manual_seed(0)
    drafts = {
        "distilled": pair.draft,
        "plain": minispec.load_model(pair.folder / "draft-plain").to(torch.float64),
        "random": minispec.GPT(pair.draft.config).to(torch.float64),
    }
    prompts = [pair.tokenizer.encode("Once there were two friends.")] * 50  # each row has noise of its own
    settings = {"max_new_tokens": 16, "rng": KeyedRng(0)}
    texts = alone(pair.target, prompts, **settings)
    assert len(set(map(tuple, texts))) > 40
    for name, draft in drafts.items():
        for k in (1, 4, 8):
            drafter = ModelDrafter(draft)
            rounds = list(decode(pair.target, drafter, prompts, k=k, verifier=verify_coupled, **settings))
            assert outcome(rounds, 50)[0] == texts, (name, k)
