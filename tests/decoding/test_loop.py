"""The loop: what comes out is the target's, token for token at temperature 0 and in law above it.

Every run goes through `checked`, which recomputes after each round, from the emitted tokens alone, what the
round and both caches should hold.
"""

from functools import cache
from itertools import product

import pytest
import tiny
import torch
from hypothesis import given
from hypothesis import strategies as st

from minispec import (
    Draft,
    ModelDrafter,
    SeededRng,
    Warp,
    generate,
    record,
    speculate,
    verify_greedy,
    verify_rejection,
)
from minispec.decoding.prefill import prefill
from minispec.decoding.rollback import rollback

RULES = [verify_greedy, verify_rejection]
PROMPTS = [[3], [1, 4, 1, 0], [2, 0, 3, 1, 4, 4, 0, 2, 1]]
PAIRS = {"table": tiny.table_pair, "gpt": tiny.gpt_pair}


class Spied:
    """A model that passes everything on, keeps the caches that it makes, and counts its forwards."""

    def __init__(self, model):
        self.model, self.caches, self.calls = model, [], 0
        self.vocab_size, self.max_length, self.head = model.vocab_size, model.max_length, model.head

    def new_cache(self, rows):
        self.caches.append(self.model.new_cache(rows))
        return self.caches[-1]

    def hidden(self, tokens, cache=None):
        self.calls += 1
        return self.model.hidden(tokens, cache)

    def __call__(self, tokens, cache=None):
        return self.head(self.hidden(tokens, cache))


def same(a, b):
    torch.testing.assert_close(a, b, rtol=0, atol=1e-10)


@torch.inference_mode()
def holds_all_but_the_pending_token(model, kept, committed):
    """A cache holds what a fresh one holds that has read each row's tokens but the last."""
    assert kept.row_lengths == tuple(len(row) - 1 for row in committed)
    for row, (*read, _pending) in enumerate(committed):
        if read:
            fresh = model.new_cache(1)
            model.hidden(torch.tensor([read]), fresh)
            same(kept._keys[:, row, :, : len(read)], fresh._keys[:, 0, :, : len(read)])
            same(kept._values[:, row, :, : len(read)], fresh._values[:, 0, :, : len(read)])


@torch.inference_mode()
def saw_the_true_laws(r, target, draft_model, committed, warp, draft_warp):
    """The round's laws are those of forwards without a cache over all that came before."""
    for row, text in enumerate(committed):
        if r.live[row]:
            n = r.drafted(row)
            whole = torch.tensor([[*text, *r.draft.tokens[row, :n].tolist()]])
            same(r.target_logits[row, : n + 1], target(whole)[0, len(text) - 1 :])
            same(r.target_probs[row, : n + 1], warp(target(whole))[0, len(text) - 1 :])
            if draft_model is not None and n:
                same(r.draft.probs[row, :n], draft_warp(draft_model(whole))[0, len(text) - 1 : -1])


def checked(target, drafter, prompts, *, k, max_new_tokens, warp, eos=(), **settings):
    """Yields what `speculate` yields, after checking each round from outside."""
    spied = Spied(target)
    draft_model = drafter.model if isinstance(drafter, ModelDrafter) and k else None
    context = min(target.max_length, draft_model.max_length if draft_model else target.max_length)
    committed = [list(prompt) for prompt in prompts]
    finish = [None] * len(prompts)
    for index, r in enumerate(
        speculate(
            spied, drafter, prompts, k=k, max_new_tokens=max_new_tokens, warp=warp, eos=list(eos), **settings
        )
    ):
        room = [
            min(len(p) + max_new_tokens, context) - len(c) for p, c in zip(prompts, committed, strict=True)
        ]
        finish = [f or (None if n > 0 else "ended") for f, n in zip(finish, room, strict=True)]
        most = max(n for n, f in zip(room, finish, strict=True) if f is None)
        before = [len(row) - 1 for row in committed]
        assert r.index == index
        assert r.live == tuple(f is None for f in finish)
        assert r.pending.tolist() == [row[-1] for row in committed]
        assert (
            r.target_probs.shape == r.target_logits.shape == (len(prompts), r.draft.k + 1, target.vocab_size)
        )
        assert r.target_cache.before == tuple(before)
        assert r.target_cache.verified == tuple(min(n + 1 + r.draft.k, target.max_length) for n in before)
        assert r.draft.k <= min(k, most - 1)
        saw_the_true_laws(
            r, target, draft_model, committed, warp, drafter and getattr(drafter, "warp", 0) or warp
        )
        for row, emitted in enumerate(r.emitted):
            proposed = [*r.draft.tokens[row, : r.accepted(row)].tolist(), int(r.verdict.token[row])]
            assert list(emitted) == (proposed[: len(emitted)] if r.live[row] else [])
            assert r.accepted(row) <= r.drafted(row) <= max(room[row] - 1, 0) or not r.live[row]
            assert len(emitted) == len(proposed) or not r.live[row] or emitted[-1] in eos
            assert not any(token in eos for token in emitted[:-1])
            committed[row] += emitted
            if r.live[row] and emitted[-1] in eos:
                finish[row] = "eos"
            elif r.live[row] and len(emitted) == room[row]:
                finish[row] = "context" if len(committed[row]) == context else "cap"
            assert finish[row] in (r.finish[row], "ended")
        assert r.target_cache.after == tuple(len(row) - 1 for row in committed)
        holds_all_but_the_pending_token(target, spied.caches[0], committed)
        if draft_model is None:
            assert r.draft_cache is None
        else:
            assert r.draft.k == min(k, most - 1)
            assert r.draft_cache.before == tuple(before)
            assert r.draft_cache.after == r.target_cache.after
            holds_all_but_the_pending_token(draft_model, drafter.cache, committed)
        yield r
    assert len(spied.caches) <= 1


def outcome(rounds, rows):
    """Returns each row's tokens, and why each ended."""
    rounds = list(rounds)
    tokens = [[token for r in rounds for token in r.emitted[row]] for row in range(rows)]
    return tokens, list(rounds[-1].finish) if rounds else [None] * rows


@cache
def pair(name):
    return PAIRS[name]()


@cache
def expected(name, new):
    """Returns what the target says greedily to `PROMPTS`, with no cache and no package code."""
    return [tiny.greedy(pair(name)[0], prompt, new)[0] for prompt in PROMPTS]


# Temperature 0: token for token.


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("name", PAIRS)
@pytest.mark.parametrize("k", range(17))
def test_greedy_output_is_the_targets_for_every_k(k, name, rule):
    """Ragged rows, K from 0 to 16, both rules: the tokens are those of the target alone."""
    target, draft = pair(name)
    rounds = checked(
        target,
        ModelDrafter(draft),
        PROMPTS,
        k=k,
        verifier=rule,
        max_new_tokens=24,
        warp=Warp(0),
        rng=SeededRng(0),
    )
    tokens, finish = outcome(rounds, 3)
    assert tokens == expected(name, 24)
    assert finish == ["cap"] * 3


def test_the_pairs_agree_sometimes_and_not_always():
    """The tests above see full, partial and no acceptance."""
    for name in PAIRS:
        target, draft = pair(name)
        trace = record(
            target,
            ModelDrafter(draft),
            PROMPTS,
            k=3,
            verifier=verify_greedy,
            max_new_tokens=24,
            warp=Warp(0),
            rng=SeededRng(0),
        )
        assert {r.accepted(b) for r in trace.rounds for b in range(3) if r.drafted(b) == 3} >= {0, 3}
        assert 0.3 < trace.statistics().acceptance < 0.9


@st.composite
def cases(draw):
    """A pair, prompts of one to three rows, and settings of all kinds; contexts are short enough to be reached."""
    room = draw(st.integers(6, 20))
    target, draft = tiny.table_pair(5, draw(st.integers(0, 30)), draw(st.sampled_from([0.0, 0.4, 1.0])), room)
    draft.max_length = room + draw(st.sampled_from([0, 0, 3, -2]))
    shared = min(room, draft.max_length)
    prompt = st.lists(st.integers(0, 4), min_size=1, max_size=shared)
    settings = {
        "prompts": draw(st.lists(prompt, min_size=1, max_size=3)),
        "k": draw(st.integers(0, 8)),
        "max_new_tokens": draw(st.integers(0, 20)),
        "eos": draw(st.sampled_from([(), (0,), (3,), (1, 4)])),
    }
    return target, draft, settings


@given(cases(), st.sampled_from(RULES))
def test_greedy_output_is_the_targets_whatever_the_settings(case, rule):
    """Caps, end-of-sequence ids, contexts and prompts of all lengths: tokens and finish are the target's."""
    target, draft, settings = case
    rounds = checked(target, ModelDrafter(draft), verifier=rule, warp=Warp(0), rng=SeededRng(0), **settings)
    tokens, finish = outcome(rounds, len(settings["prompts"]))
    if settings["k"]:
        target.max_length = min(target.max_length, draft.max_length)  # the text has to fit both
    for row, prompt in enumerate(settings["prompts"]):
        wanted, why = tiny.greedy(target, prompt, settings["max_new_tokens"], settings["eos"])
        assert tokens[row] == wanted
        assert finish[row] == why or finish == [None] * len(finish)


@given(cases(), st.integers(0, 99), st.sampled_from([Warp(), Warp(0.7, 3), Warp(1.5, top_p=0.8)]))
def test_sampled_rounds_are_sound_whatever_the_settings(case, seed, warp):
    """Above temperature 0 all of `checked` holds, and the same seed gives the same run."""
    target, draft, settings = case
    rows = len(settings["prompts"])

    def run():
        drafter = ModelDrafter(draft)
        return checked(target, drafter, verifier=verify_rejection, warp=warp, rng=SeededRng(seed), **settings)

    assert outcome(run(), rows) == outcome(run(), rows)


@given(cases())
def test_the_oracle_is_a_plain_greedy_loop(case):
    """`generate` says at temperature 0 what a loop without a cache says, and None for rows that are done."""
    target, _, settings = case
    prompts, eos, cap = settings["prompts"], settings["eos"], settings["max_new_tokens"]
    spied = Spied(target)
    steps = list(generate(spied, prompts, max_new_tokens=cap, warp=Warp(0), rng=SeededRng(0), eos=list(eos)))
    wanted = [tiny.greedy(target, prompt, cap, eos)[0] for prompt in prompts]
    assert len(steps) == max(map(len, wanted))
    for row, tokens in enumerate(wanted):
        assert [step[row] for step in steps] == tokens + [None] * (len(steps) - len(tokens))
    if steps:
        texts = [prompt + tokens for prompt, tokens in zip(prompts, wanted, strict=True)]
        lengths = spied.caches[0].row_lengths
        assert all(n in (len(text) - 1, len(text)) for n, text in zip(lengths, texts, strict=True))


@given(cases(), st.integers(0, 99))
def test_k_zero_is_the_oracle_draw_for_draw(case, seed):
    """With K = 0 and the same seed, sampled tokens are those of `generate`."""
    target, _, settings = case
    settings["k"] = 0
    warp = Warp(1.2)
    rounds = checked(target, None, verifier=verify_rejection, warp=warp, rng=SeededRng(seed), **settings)
    del settings["k"]
    steps = generate(target, warp=warp, rng=SeededRng(seed), **settings)
    assert [tuple(e[0] if e else None for e in r.emitted) for r in rounds] == list(steps)


@pytest.mark.parametrize("name", PAIRS)
def test_rows_of_a_ragged_batch_are_as_if_alone(name):
    """Each row drafts, accepts and emits, round by round, what it does alone."""
    target, draft = pair(name)

    def run(prompts):
        settings = {"verifier": verify_rejection, "max_new_tokens": 25, "warp": Warp(0), "rng": SeededRng(0)}
        return list(checked(target, ModelDrafter(draft), prompts, k=4, **settings))

    together = run(PROMPTS)
    for row, prompt in enumerate(PROMPTS):
        alone = [(r.drafted(0), r.accepted(0), r.emitted[0], r.kind(0)) for r in run([prompt])]
        batch = [
            (r.drafted(row), r.accepted(row), r.emitted[row], r.kind(row)) for r in together if r.live[row]
        ]
        assert batch == alone


# Where a row ends.


def parroted(text, rule=verify_rejection, k=4, eos=(), max_new_tokens=12, vocab_size=16, prompts=([0],)):
    """Returns the rounds of the counting target with a drafter that expects `text` behind each prompt."""
    drafter = tiny.Parrot([[*prompt, *text] for prompt in prompts], vocab_size)
    settings = {
        "k": k,
        "verifier": rule,
        "max_new_tokens": max_new_tokens,
        "warp": Warp(0),
        "rng": SeededRng(0),
    }
    return list(checked(tiny.counter(vocab_size), drafter, [list(p) for p in prompts], eos=eos, **settings))


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize(
    ("text", "eos", "accepted", "emitted", "kind"),
    [
        ([1, 2, 3, 4], (2,), 4, (1, 2), "draft"),  # inside the accepted draft
        ([1, 2, 3, 4], (4,), 4, (1, 2, 3, 4), "draft"),  # its last token: the bonus goes too
        ([1, 2, 3, 4], (5,), 4, (1, 2, 3, 4, 5), "bonus"),
        ([1, 2, 9, 4], (3,), 2, (1, 2, 3), "correction"),
        ([9, 2, 3, 4], (1,), 0, (1,), "correction"),
        ([1, 2, 3, 4], (3, 2, 11), 4, (1, 2), "draft"),  # the first of several
        ([1, 2, 9, 4], (4, 3), 2, (1, 2, 3), "correction"),
    ],
)
def test_end_of_sequence_ends_the_row_where_it_stands(text, eos, accepted, emitted, kind, rule):
    """Inside the draft, as a correction, as a bonus: the row ends there and nothing behind it is emitted."""
    (r,) = parroted(text, rule, eos=eos)
    assert (r.accepted(0), r.emitted[0], r.kind(0), r.finish[0]) == (accepted, emitted, kind, "eos")


@pytest.mark.parametrize("rule", RULES)
def test_an_end_of_sequence_that_is_rejected_ends_nothing(rule):
    """A drafted end that the target does not say is corrected like any other token."""
    first, *rest = parroted([1, 9, 3], rule, eos=(9,), max_new_tokens=8)
    assert (first.accepted(0), first.emitted[0], first.kind(0), first.finish[0]) == (
        1,
        (1, 2),
        "correction",
        None,
    )
    assert outcome([first, *rest], 1) == ([[1, 2, 3, 4, 5, 6, 7, 8]], ["cap"])


def test_id_zero_can_be_the_end_of_sequence():
    """An end-of-sequence id of 0, given as an integer, is an end."""
    settings = {"max_new_tokens": 9, "warp": Warp(0), "rng": SeededRng(0), "eos": 0}
    assert list(generate(tiny.counter(4), [[1]], **settings)) == [(2,), (3,), (0,)]
    rounds = speculate(tiny.counter(4), None, [[1]], k=0, verifier=verify_greedy, **settings)
    assert outcome(rounds, 1) == ([[2, 3, 0]], ["eos"])


@pytest.mark.parametrize(("cap", "finish"), [(5, "eos"), (4, "cap")])
def test_an_end_of_sequence_that_just_fits_is_an_end(cap, finish):
    """The last token that the cap allows may be the end of the sequence; one earlier the cap hides it."""
    rounds = parroted([1, 2, 3, 4, 5], eos=(5,), max_new_tokens=cap)
    assert outcome(rounds, 1) == ([[1, 2, 3, 4, 5][:cap]], [finish])


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("cap", range(13))
@pytest.mark.parametrize("k", [1, 4, 16])
def test_never_a_token_too_many(k, cap, rule):
    """A perfect drafter fills the cap exactly, and drafts no token that could not be used."""
    rounds = parroted(list(range(1, 16)), rule, k, max_new_tokens=cap)
    assert outcome(rounds, 1)[0] == [list(range(1, cap + 1))]
    assert [r.drafted(0) for r in rounds] == [min(k, cap - done - 1) for done in range(0, cap, k + 1)]


def test_the_cap_falls_in_the_middle_of_a_block():
    """In one batch a row one token short of its cap drafts nothing while another still drafts four."""
    settings = {"k": 4, "verifier": verify_greedy, "max_new_tokens": 6, "warp": Warp(0), "rng": SeededRng(0)}
    texts = [[0, 1, 2, 3, 4, 5, 6], [7, 9, 9, 9, 9, 9, 9]]
    first, second, *rest = checked(tiny.counter(), tiny.Parrot(texts, 16), [[0], [7]], **settings)
    assert first.emitted == ((1, 2, 3, 4, 5), (8,))
    assert second.draft.lengths.tolist() == [0, 4]
    assert second.emitted == ((6,), (9, 10))  # the parrot's 9 is right by chance
    assert second.finish == ("cap", None)
    assert all(r.emitted[0] == () and not r.live[0] for r in rest)
    assert outcome([first, second, *rest], 2) == (
        [[1, 2, 3, 4, 5, 6], [8, 9, 10, 11, 12, 13]],
        ["cap", "cap"],
    )


def test_a_round_drafts_no_more_than_the_largest_live_row_has_room_for():
    """Rooms of 2 and 8 in one context: seven tokens are drafted, of which the short row uses one."""
    target, draft = tiny.table_pair(max_length=12)
    prompts = [[0] * 10, [1] * 4]
    settings = {"verifier": verify_rejection, "max_new_tokens": 30, "warp": Warp(), "rng": SeededRng(0)}
    rounds = list(checked(target, ModelDrafter(draft), prompts, k=16, **settings))
    assert rounds[0].draft.k == 7
    assert rounds[0].draft.lengths.tolist() == [1, 7]
    tokens, finish = outcome(rounds, 2)
    assert [len(row) for row in tokens] == [2, 8]
    assert finish == ["context", "context"]


@pytest.mark.parametrize("k", [0, 1, 5, 16])
def test_contexts_are_filled_to_the_last_slot(k):
    """A GPT's rows end when prompt and continuation fill the context, with the tokens of the target alone."""
    target, draft = tiny.gpt_pair(max_length=14)
    settings = {"verifier": verify_greedy, "max_new_tokens": 99, "warp": Warp(0), "rng": SeededRng(0)}
    tokens, finish = outcome(checked(target, ModelDrafter(draft), PROMPTS, k=k, **settings), 3)
    assert tokens == [tiny.greedy(target, prompt, 99)[0] for prompt in PROMPTS]
    assert finish == ["context"] * 3
    assert [len(p) + len(t) for p, t in zip(PROMPTS, tokens, strict=True)] == [14] * 3


def test_the_shorter_context_of_the_two_counts():
    """Where the draft model's context is shorter, the text ends there; without drafting it does not."""
    target, draft = tiny.table_pair(max_length=12)
    draft.max_length = 8
    settings = {"verifier": verify_rejection, "max_new_tokens": 99, "warp": Warp(), "rng": SeededRng(0)}
    for k, length in ((3, 8), (0, 12)):
        tokens, finish = outcome(checked(target, ModelDrafter(draft), [[1, 2]], k=k, **settings), 1)
        assert (len(tokens[0]), finish) == (length - 2, ["context"])


NOTHING_TO_DO = [([[1] * 8], 5, "context"), ([[1, 2]], 0, "cap")]


@pytest.mark.parametrize(("prompts", "cap", "why"), NOTHING_TO_DO)
def test_a_row_without_room_makes_no_round(prompts, cap, why):
    """A prompt that fills the context, or a cap of 0: no round, no forward, and the trace says why."""
    spied = Spied(tiny.table(max_length=8))
    settings = {"max_new_tokens": cap, "warp": Warp(), "rng": SeededRng(0)}
    assert list(generate(spied, prompts, **settings)) == []
    trace = record(spied, ModelDrafter(spied), prompts, k=3, verifier=verify_rejection, **settings)
    assert trace.rounds == ()
    assert trace.tokens() == []
    assert spied.calls == 0
    assert trace.statistics().acceptance is None


@pytest.mark.parametrize(("prompts", "cap", "why"), NOTHING_TO_DO)
def test_a_trace_without_rounds_says_why_it_ended(prompts, cap, why):
    """A trace knows the finish of a row that had no room from the start."""
    target = tiny.table(max_length=8)
    settings = {"max_new_tokens": cap, "warp": Warp(), "rng": SeededRng(0)}
    trace = record(target, ModelDrafter(target), prompts, k=3, verifier=verify_rejection, **settings)
    assert trace.finish() == why


def test_a_full_row_waits_beside_one_that_goes_on():
    """In a batch, a prompt that fills the context is done from the start and stays as it is."""
    target, draft = tiny.table_pair(max_length=8)
    settings = {
        "verifier": verify_rejection,
        "max_new_tokens": 4,
        "warp": Warp(),
        "rng": tiny.CountingRng(0, 2),
    }
    rounds = list(checked(target, ModelDrafter(draft), [[1] * 8, [2]], k=2, **settings))
    assert outcome(rounds, 2)[1] == ["context", "cap"]
    assert settings["rng"].draws[0] == 0
    steps = list(generate(target, [[1] * 8, [2]], max_new_tokens=4, warp=Warp(), rng=SeededRng(0)))
    assert [step[0] for step in steps] == [None] * 4


# Rows that are done.


@pytest.mark.parametrize(("name", "seed"), [("table", 2), ("table", 5), ("gpt", 6), ("gpt", 7)])
def test_rows_that_are_done_stay_frozen_and_draw_nothing(name, seed):
    """After its end a row emits nothing, its caches keep their lengths, and chance is not asked about it."""
    target, draft = pair(name)
    rng = tiny.CountingRng(seed, 3)
    settings = {"verifier": verify_rejection, "max_new_tokens": 24, "warp": Warp(), "eos": (0, 1)}
    waited, done, draws, lengths = 0, [False] * 3, [0] * 3, [0] * 3
    for r in checked(target, ModelDrafter(draft), PROMPTS, k=3, rng=rng, **settings):
        for row in range(3):
            if done[row]:
                waited += 1
                assert r.emitted[row] == () and not r.live[row]
                assert rng.draws[row] == draws[row]
                assert r.target_cache.after[row] == r.draft_cache.after[row] == lengths[row]
        done, draws, lengths = [f is not None for f in r.finish], list(rng.draws), r.target_cache.after
    assert waited >= 4  # it did happen
    assert min(draws) > 0


def test_the_oracle_draws_nothing_for_rows_that_are_done():
    """`generate` asks chance once per token that it yields."""
    rng = tiny.CountingRng(5, 3)
    target, _ = pair("table")
    steps = list(generate(target, PROMPTS, max_new_tokens=24, warp=Warp(), rng=rng, eos=[0, 1]))
    lengths = [sum(step[row] is not None for step in steps) for row in range(3)]
    assert rng.draws == lengths
    assert len(set(lengths)) > 1


# Drafting.


@pytest.mark.parametrize("warp", [Warp(0), Warp(1.3)])
@pytest.mark.parametrize("name", PAIRS)
@pytest.mark.parametrize("k", [1, 2, 3, 5, 8, 16])
def test_a_draft_model_that_is_the_target_is_always_accepted(k, name, warp):
    """With q = p all of every draft is kept, round after round, so the drafter's cache never has a hole."""
    target = pair(name)[0]
    settings = {"verifier": verify_rejection, "max_new_tokens": 30, "warp": warp, "rng": SeededRng(1)}
    rounds = list(checked(target, ModelDrafter(target), PROMPTS, k=k, **settings))
    assert all(r.accepted(row) == r.drafted(row) for r in rounds for row in range(3))
    assert len(rounds) == -(-30 // (k + 1))
    assert {r.kind(row) for r in rounds for row in range(3)} == {"bonus"}


@pytest.mark.parametrize("name", PAIRS)
def test_after_full_acceptance_the_drafter_reads_the_token_that_it_lacks(name):
    """Where one row accepts all and another does not, the next laws of both are those of no cache.

    `checked` compares the laws; here it is seen that such rounds occur, and that drafting alone fell short.
    """
    target, draft = pair(name)
    settings = {"verifier": verify_rejection, "max_new_tokens": 24, "warp": Warp(), "rng": SeededRng(2)}
    rounds = list(checked(target, ModelDrafter(draft), PROMPTS, k=3, **settings))
    mixed = 0
    for r, following in zip(rounds, rounds[1:], strict=False):
        full = [row for row in range(3) if r.live[row] and r.accepted(row) == r.drafted(row) == 3]
        for row in full:
            assert r.draft_cache.after[row] == r.draft_cache.verified[row] + 1
        mixed += 0 < len(full) < 3 and any(following.live[row] for row in full)
    assert mixed >= 2


@pytest.mark.parametrize("own", [Warp(0), Warp(0.5, 2), Warp(3.0)])
def test_a_drafter_may_warp_as_it_likes(own):
    """A warp of its own shapes what the drafter samples from and reports, and rounds stay sound."""
    target, draft = pair("table")
    drafter = ModelDrafter(draft, own)
    settings = {"verifier": verify_rejection, "max_new_tokens": 24, "warp": Warp(0.8), "rng": SeededRng(2)}
    rounds = list(checked(target, drafter, PROMPTS, k=3, **settings))
    assert all(
        own(torch.zeros(1, 5)).count_nonzero() >= law.count_nonzero()
        for r in rounds
        for law in r.draft.probs[0]
    )


def test_a_drafter_can_be_used_again():
    """A run that was broken off leaves nothing behind for the next."""
    target, draft = pair("table")
    used = ModelDrafter(draft)
    settings = {"k": 3, "verifier": verify_rejection, "max_new_tokens": 12, "warp": Warp()}
    next(speculate(target, used, PROMPTS[::-1], rng=SeededRng(9), **settings))
    fresh = outcome(checked(target, ModelDrafter(draft), PROMPTS, rng=SeededRng(3), **settings), 3)
    assert outcome(checked(target, used, PROMPTS, rng=SeededRng(3), **settings), 3) == fresh


class Hesitant(tiny.Parrot):
    """A parrot that proposes fewer tokens than it may: some rows less than others, sometimes a narrower block."""

    def propose(self, pending, k, warp, rng):
        whole = super().propose(pending, k, warp, rng)
        n = sum(self._lengths)
        k = min(k, n % 4)
        lengths = torch.tensor([(n + row) % (k + 1) for row in range(len(pending))])
        return Draft(whole.tokens[:, :k], whole.probs[:, :k], lengths)


@pytest.mark.parametrize("rule", RULES)
def test_rows_may_propose_fewer_tokens_than_they_may(rule):
    """Drafts of any length per row, none included, give the target's tokens."""
    drafter = Hesitant([list(range(16)), [7, 8, 1, 10, 11, 1, 13, 14, 15]], 16)
    settings = {"k": 4, "verifier": rule, "max_new_tokens": 8, "warp": Warp(0), "rng": SeededRng(0)}
    rounds = list(checked(tiny.counter(), drafter, [[0], [7]], **settings))
    assert outcome(rounds, 2)[0] == [list(range(1, 9)), list(range(8, 16))]
    assert len({r.draft.k for r in rounds}) > 1
    assert any(r.drafted(0) != r.drafted(1) for r in rounds if all(r.live))


class Untouchable:
    """A drafter that must be left alone."""

    def __getattr__(self, name):
        raise AssertionError(f"the drafter's {name} was used")


@pytest.mark.parametrize("make", [lambda: None, Untouchable])
def test_k_zero_leaves_the_drafter_alone(make):
    """With K = 0 no draft cache is built, nothing is drafted, and there may be no drafter at all."""
    settings = {"k": 0, "verifier": verify_greedy, "max_new_tokens": 5, "warp": Warp(0), "rng": SeededRng(0)}
    rounds = list(speculate(tiny.counter(), make(), [[3], [0, 1]], **settings))
    assert outcome(rounds, 2)[0] == [[4, 5, 6, 7, 8], [2, 3, 4, 5, 6]]
    assert all(r.draft.k == 0 and r.draft_cache is None for r in rounds)


# The law, above temperature 0.


def law_of_three(target, prompt, warp):
    """Returns {three tokens: probability} of the target alone, from forwards without a cache."""
    law = {}
    for text in product(range(target.vocab_size), repeat=3):
        probs = warp(target(torch.tensor([[*prompt, *text]])))[0, len(prompt) - 1 :]
        law[text] = float(probs[0, text[0]] * probs[1, text[1]] * probs[2, text[2]])
    return law


@pytest.mark.parametrize(
    ("warp", "own"),
    [(Warp(), None), (Warp(0.7, top_k=2), None), (Warp(), Warp(0)), (Warp(), Warp(2.0, top_k=2))],
)
def test_the_joint_law_of_three_tokens_is_the_targets(warp, own):
    """Every branch of chance, with K = 2: the law of three tokens is the target's to 1e-10."""
    target, draft = tiny.table_pair(3, seed=4)

    def run(rng):
        settings = {"k": 2, "verifier": verify_rejection, "max_new_tokens": 3, "warp": warp, "rng": rng}
        return tuple(outcome(speculate(target, ModelDrafter(draft, own), [[1]], **settings), 1)[0][0])

    law = dict.fromkeys(product(range(3), repeat=3), 0.0)
    ways = 0
    for text, chance in tiny.branches(run):
        law[text] += chance
        ways += 1
    assert ways > 20
    assert law == pytest.approx(law_of_three(target, [1], warp), abs=1e-10)


def test_the_oracles_law_is_the_targets():
    """Every branch of chance of `generate`: the law of three tokens is the target's to 1e-10."""
    target = tiny.table(3)

    def run(rng):
        return tuple(step[0] for step in generate(target, [[1]], max_new_tokens=3, warp=Warp(), rng=rng))

    assert dict(tiny.branches(run)) == pytest.approx(law_of_three(target, [1], Warp()), abs=1e-10)


# Prefill, rollback, records of a run.


@torch.inference_mode()
@pytest.mark.parametrize("name", PAIRS)
def test_prefill_reads_all_but_the_last_token_of_each_prompt(name):
    """Ragged prompts are read at once, and padding is forgotten."""
    target = pair(name)[0]
    kept = prefill(target, PROMPTS, torch.device("cpu"))
    holds_all_but_the_pending_token(target, kept, PROMPTS)
    rollback(kept, [prompt[:3] for prompt in PROMPTS])
    holds_all_but_the_pending_token(target, kept, [prompt[:3] for prompt in PROMPTS])


def test_prompts_of_one_token_need_no_prefill():
    """There is nothing to read before the first round, so no forward is made."""
    spied = Spied(tiny.table())
    assert prefill(spied, [[1], [2]], torch.device("cpu")).row_lengths == (0, 0)
    assert spied.calls == 0


def test_a_trace_counts_the_targets_forwards():
    """Target calls are the forwards but prefill; seconds are there for each phase; the header is whole."""
    spied = Spied(pair("table")[0])
    settings = {"k": 3, "verifier": verify_rejection, "max_new_tokens": 20, "warp": Warp(0.9, 4, 0.95)}
    trace = record(spied, ModelDrafter(pair("table")[1]), PROMPTS, rng=SeededRng(0), **settings)
    statistics = trace.statistics()
    assert statistics.target_calls == len(trace.rounds) == spied.calls - 1
    assert statistics.emitted == 60
    assert statistics.row_rounds == sum(sum(r.live) for r in trace.rounds)
    assert statistics.tokens_per_target_call == 60 / statistics.row_rounds
    assert trace.prefill_lengths == (0, 3, 8)
    assert trace.prefill_seconds > 0
    assert set(statistics.seconds) == {"prefill", "draft", "verify", "rollback", "other"}
    assert all("prefill" not in r.seconds and min(r.seconds.values()) >= 0 for r in trace.rounds[1:])
    assert trace.prompts == tuple(map(tuple, PROMPTS))
    assert (
        trace.config | {"k": 3, "verifier": "verify_rejection", "temperature": 0.9, "top_k": 4}
        == trace.config
    )
    assert [len(trace.tokens(row)) for row in range(3)] == [20] * 3
    assert trace.finish(1) == "cap"


# Bad input.


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"k": -1}, "k must be at least 0, not -1"),
        ({"max_new_tokens": -1}, "max_new_tokens must be at least 0, not -1"),
        ({"drafter": None}, "k = 2 needs a drafter"),
        ({"drafter": ModelDrafter(tiny.table(6))}, "the draft has 6 tokens, the target 5"),
        (
            {"drafter": ModelDrafter(tiny.table(5, max_length=3)), "prompts": [[1, 2, 3, 4]]},
            "4 tokens.*holds 3",
        ),
        ({"verifier": verify_greedy}, "greedy verifier needs temperature 0, not 1.0"),
        ({"prompts": []}, "there is no prompt"),
        ({"prompts": [[1], []]}, "prompt 1 is empty"),
        ({"prompts": [[1] * 9]}, "prompt 0 has 9 tokens; the context holds 8"),
        ({"prompts": [[1, 5]]}, "prompt 0 has a token id outside 0 to 4"),
        ({"prompts": [[0], [-1]]}, "prompt 1 has a token id outside 0 to 4"),
    ],
)
def test_bad_input_is_one_clear_error(changes, message):
    """Each mistake is a ValueError of one line that names it, before anything is read."""
    spied = Spied(tiny.table(5, max_length=8))
    settings = {"drafter": ModelDrafter(tiny.table(5, max_length=8)), "prompts": [[1, 2]], "k": 2} | {
        "verifier": verify_rejection,
        "max_new_tokens": 4,
        "warp": Warp(),
        "rng": SeededRng(0),
    }
    with pytest.raises(ValueError, match=message) as caught:
        list(speculate(spied, **settings | changes))
    assert "\n" not in str(caught.value)
    assert spied.calls == 0
    shared = {"prompts", "max_new_tokens", "warp", "rng"}
    if set(changes) <= shared:
        with pytest.raises(ValueError, match=message):
            list(generate(spied, **{name: (settings | changes)[name] for name in shared}))


@pytest.mark.parametrize("broken", ["target", "draft"])
def test_a_damaged_model_is_a_clear_error(broken):
    """NaN among the logits of either model ends in one line."""
    models = {"target": tiny.table(), "draft": tiny.table()}
    models[broken].table = models[broken].table.clone().fill_(float("nan"))
    settings = {
        "k": 2,
        "verifier": verify_rejection,
        "max_new_tokens": 4,
        "warp": Warp(),
        "rng": SeededRng(0),
    }
    with pytest.raises(ValueError, match="logits are not finite"):
        list(speculate(models["target"], ModelDrafter(models["draft"]), [[1]], **settings))
