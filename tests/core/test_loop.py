"""The loop: what comes out is the target's, token for token at temperature 0 and in distribution above it.

Runs go through `watched`: after each round it is recomputed, from the emitted tokens alone, what the round
and both caches should hold.
"""

import pytest
import tiny
import torch
from hypothesis import given
from hypothesis import strategies as st
from refusals import refused
from tiny import PAIRS, PROMPTS, Spied, outcome, watched

from minispec import ModelDrafter, SeededRng, Verdict, Warp, generate, verify_greedy, verify_rejection
from minispec.core.prefill import prefill
from minispec.core.rollback import rollback

RULES = [verify_greedy, verify_rejection]


# Temperature 0: token for token.


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("name", PAIRS)
@pytest.mark.parametrize("k", range(17))
def test_greedy_output_is_the_targets_for_every_k(k, name, rule):
    """Ragged rows, K from 0 to 16, both rules: the tokens are those of the target alone."""
    target, draft = PAIRS[name]
    rounds = watched(target, ModelDrafter(draft), PROMPTS, k, verifier=rule, warp=Warp(0))
    wanted = [tiny.greedy(target, prompt, 24)[0] for prompt in PROMPTS]
    assert outcome(rounds, 3) == (wanted, ["cap"] * 3)


@st.composite
def cases(draw):
    """A pair, prompts of one to three rows, and settings of all kinds; contexts are short, to be reached."""
    context = draw(st.integers(6, 20))
    distance = draw(st.sampled_from([0.0, 0.4, 1.0]))
    target, draft = tiny.table_pair(5, draw(st.integers(0, 30)), distance, context)
    draft.max_length = context + draw(st.sampled_from([0, 0, 3, -2]))
    prompt = st.lists(st.integers(0, 4), min_size=1, max_size=min(context, draft.max_length))
    settings = {
        "prompts": draw(st.lists(prompt, min_size=1, max_size=3)),
        "max_new_tokens": draw(st.integers(0, 20)),
        "eos": draw(st.sampled_from([(), (0,), (3,), (1, 4)])),
    }
    return target, draft, settings


def greedily(target, prompts, max_new_tokens, eos):
    """Returns each row's tokens and its end, with no cache and no package code."""
    return [tiny.greedy(target, prompt, max_new_tokens, eos) for prompt in prompts]


@given(cases(), st.integers(0, 8), st.sampled_from(RULES))
def test_greedy_output_is_the_targets_whatever_the_settings(case, k, rule):
    """Caps, ends, contexts and prompts of all lengths: tokens and finish are the target's alone."""
    target, draft, settings = case
    rounds = watched(target, ModelDrafter(draft), k=k, verifier=rule, warp=Warp(0), **settings)
    got = outcome(rounds, len(settings["prompts"]))
    if k:
        target.max_length = min(target.max_length, draft.max_length)  # the text has to fit both
    tokens, finish = map(list, zip(*greedily(target, **settings), strict=True))
    assert got == (tokens, finish if any(tokens) else [None] * len(finish))


@given(cases(), st.integers(0, 8), st.sampled_from([Warp(), Warp(0.7, 3), Warp(1.5, top_p=0.8)]))
def test_sampled_rounds_are_sound_whatever_the_settings(case, k, warp):
    """Above temperature 0 all that `watched` asserts holds, and the same seed gives the same run."""
    target, draft, settings = case
    first, again = (
        outcome(
            watched(target, ModelDrafter(draft), k=k, warp=warp, rng=SeededRng(k), **settings),
            len(settings["prompts"]),
        )
        for _ in range(2)
    )
    assert first == again


@given(cases())
def test_the_oracle_is_a_plain_greedy_loop(case):
    """`generate` says at temperature 0 what a loop without a cache says, and None for rows that are done."""
    target, _, settings = case
    steps = list(generate(target, warp=Warp(0), rng=SeededRng(0), **settings))
    wanted = [tokens for tokens, _ in greedily(target, **settings)]
    assert len(steps) == max(map(len, wanted))
    for row, tokens in enumerate(wanted):
        assert [step[row] for step in steps] == tokens + [None] * (len(steps) - len(tokens))


@given(cases(), st.integers(0, 99))
def test_k_zero_is_the_oracle_draw_for_draw(case, seed):
    """With K = 0 and the same seed, sampled tokens are those of `generate`."""
    target, _, settings = case
    rounds = watched(target, None, k=0, warp=Warp(1.2), rng=SeededRng(seed), **settings)
    steps = generate(target, warp=Warp(1.2), rng=SeededRng(seed), **settings)
    assert [tuple(row[0] if row else None for row in r.emitted) for r in rounds] == list(steps)


@pytest.mark.parametrize("drafter", [None, object()])
def test_k_zero_leaves_the_drafter_alone(drafter):
    """With K = 0 no draft cache is built, nothing is drafted, and there may be no drafter at all."""
    rounds = list(tiny.targets_own_text(tiny.counter(), drafter, [[3], [0, 1]], k=0))
    assert all(r.draft.k == 0 for r in rounds)


# Prefill and rollback.


@torch.inference_mode()
@pytest.mark.parametrize("name", PAIRS)
def test_prefill_reads_all_but_the_last_token_of_each_prompt(name):
    """Ragged prompts are read at once, and padding is forgotten; rollback cuts to another text's length."""
    target = PAIRS[name][0]
    kept, hidden = prefill(target, PROMPTS)
    assert hidden.shape == (3, max(map(len, PROMPTS)) - 1, target.hidden_size)
    tiny.holds_all_but_the_pending_token(target, kept, PROMPTS)
    nothing = Verdict(torch.zeros(3).long(), torch.zeros(3).long())
    rollback(kept, nothing, kept.row_lengths, [min(len(prompt), 3) - 1 for prompt in PROMPTS])
    tiny.holds_all_but_the_pending_token(target, kept, [prompt[:3] for prompt in PROMPTS])


def test_prompts_of_one_token_need_no_prefill():
    """There is nothing to read before the first round, so no forward is made."""
    spied = Spied(tiny.table())
    cache, hidden = prefill(spied, [[1], [2]])
    assert cache.row_lengths == (0, 0) and hidden.shape == (2, 0, spied.hidden_size)
    assert spied.calls == 0


# Bad input.


def small(vocab_size=5, max_length=8):
    return ModelDrafter(tiny.table(vocab_size, max_length=max_length))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"k": -1}, "k must be at least 0, not -1"),
        ({"max_new_tokens": -1}, "max_new_tokens must be at least 0, not -1"),
        ({"drafter": None}, "k = 2 needs a drafter"),
        ({"drafter": small(6)}, "the draft has 6 tokens, the target 5"),
        ({"drafter": small(5, 3), "prompts": [[1, 2, 3, 4]]}, "prompt 0 has 4 tokens; .* holds 3"),
        ({"verifier": verify_greedy}, "greedy verifier needs temperature 0, not 1.0"),
        ({"prompts": []}, "there is no prompt"),
        ({"prompts": [[1], []]}, "prompt 1 is empty"),
        ({"prompts": [[1] * 9]}, "prompt 0 has 9 tokens; the context holds 8"),
        ({"prompts": [[1, 5]]}, "prompt 0 has a token id outside 0 to 4"),
        ({"prompts": [[0], [-1]]}, "prompt 1 has a token id outside 0 to 4"),
    ],
)
def test_bad_input_is_one_clear_error(changes, message):
    """Each mistake is a ValueError of one line that names it, before anything is read; also in `generate`."""
    spied = Spied(tiny.table(5, max_length=8))
    with refused(message):
        list(tiny.decode(spied, **{"drafter": small(), "prompts": [[1, 2]], "k": 2} | changes))
    if changes.keys() <= {"prompts", "max_new_tokens"}:
        with refused(message):
            tiny.alone(spied, **{"prompts": [[1]]} | changes)
    assert spied.calls == 0


@pytest.mark.parametrize("broken", [0, 1])
def test_a_damaged_model_is_a_clear_error(broken):
    """NaN among the logits of the target or of the draft model ends in one line."""
    models = tiny.table_pair()
    models[broken].table = torch.full_like(models[broken].table, float("nan"))
    with refused("logits are not finite"):
        list(tiny.decode(models[0], ModelDrafter(models[1])))
