"""Where rows end: end-of-sequence, the cap, the context. Never a token too many, and then never one more."""

import pytest
import tiny
from tiny import PAIRS, PROMPTS, Spied, outcome, watched

from minispec import ModelDrafter, Warp, record, verify_greedy, verify_rejection

RULES = pytest.mark.parametrize("rule", [verify_greedy, verify_rejection])


def parroted(text, rule=verify_rejection, k=4, **settings):
    """Returns the rounds of a target that counts from 0, with a drafter that expects `text`."""
    drafter = tiny.Parrot([[0, *text]], 16)
    return list(watched(tiny.counter(), drafter, [[0]], k, verifier=rule, warp=Warp(0), **settings))


# End of sequence.


@RULES
@pytest.mark.parametrize(
    ("text", "eos", "accepted", "emitted", "kind"),
    [
        ([1, 2, 3, 4], (2,), 4, (1, 2), "draft"),  # inside the accepted draft
        ([1, 2, 3, 4], (4,), 4, (1, 2, 3, 4), "draft"),  # its last token: the bonus goes too
        ([1, 2, 3, 4], (5,), 4, (1, 2, 3, 4, 5), "bonus"),
        ([1, 2, 9, 4], (3,), 2, (1, 2, 3), "correction"),
        ([1, 2, 3, 4], (3, 2, 11), 4, (1, 2), "draft"),  # the first of several
    ],
)
def test_end_of_sequence_ends_the_row_where_it_stands(text, eos, accepted, emitted, kind, rule):
    """Inside the draft, as a correction, as a bonus: the row ends there and nothing after it is emitted."""
    (r,) = parroted(text, rule, eos=eos)
    assert (r.accepted(0), r.emitted[0], r.kind(0), r.finish[0]) == (accepted, emitted, kind, "eos")


@RULES
def test_an_end_of_sequence_that_is_rejected_ends_nothing(rule):
    """A drafted end that the target does not say is corrected like any other token."""
    first, *rest = parroted([1, 9, 3], rule, eos=(9,), max_new_tokens=8)
    assert (first.accepted(0), first.emitted[0], first.kind(0)) == (1, (1, 2), "correction")
    assert first.finish[0] is None
    assert outcome([first, *rest]) == ([[1, 2, 3, 4, 5, 6, 7, 8]], ["cap"])


def test_an_end_of_sequence_in_the_prompt_ends_nothing():
    """Only what is emitted can end a row."""
    settings = {"warp": Warp(0), "max_new_tokens": 2, "eos": (3, 4)}
    assert outcome(watched(tiny.counter(), None, [[3, 4]], k=0, **settings)) == ([[5, 6]], ["cap"])


def test_id_zero_can_be_the_end_of_sequence():
    """An end-of-sequence id of 0, given as an integer, is an end."""
    rounds = tiny.targets_own_text(tiny.counter(4), None, [[1]], k=0, eos=0)
    assert outcome(rounds) == ([[2, 3, 0]], ["eos"])


@pytest.mark.parametrize(("cap", "finish"), [(5, "eos"), (4, "cap")])
def test_an_end_of_sequence_that_just_fits_is_an_end(cap, finish):
    """The last token that the cap allows may be the end of the sequence; one earlier the cap hides it."""
    rounds = parroted([1, 2, 3, 4, 5], eos=(5,), max_new_tokens=cap)
    assert outcome(rounds) == ([[1, 2, 3, 4, 5][:cap]], [finish])


# The cap.


@RULES
@pytest.mark.parametrize("cap", [0, 1, 2, 4, 5, 6, 17, 20])
@pytest.mark.parametrize("k", [1, 4, 16])
def test_never_a_token_too_many(k, cap, rule):
    """A perfect drafter fills the cap exactly, and drafts no token that could not be used."""
    text = [i % 16 for i in range(1, 40)]
    rounds = parroted(text, rule, k, max_new_tokens=cap)
    assert outcome(rounds)[0] == [text[:cap]]
    assert [r.drafted(0) for r in rounds] == [min(k, cap - done - 1) for done in range(0, cap, k + 1)]


# The context.


@pytest.mark.parametrize("k", [0, 1, 5, 16])
def test_contexts_are_filled_to_the_last_slot(k):
    """A GPT's rows end when prompt and continuation fill the context, with the tokens of the target alone."""
    target, draft = tiny.gpt_pair(max_length=14)
    tokens, finish = outcome(watched(target, ModelDrafter(draft), PROMPTS, k, warp=Warp(0)), 3)
    assert tokens == [tiny.greedy(target, prompt, 99)[0] for prompt in PROMPTS]
    assert finish == ["context"] * 3
    assert [len(p) + len(t) for p, t in zip(PROMPTS, tokens, strict=True)] == [14] * 3


@pytest.mark.parametrize(("k", "length"), [(3, 8), (0, 12)])
def test_the_shorter_context_of_the_two_counts(k, length):
    """Where the draft model's context is shorter, the text ends there; without drafting it does not."""
    target, draft = tiny.table_pair(max_length=12)
    draft.max_length = 8
    tokens, finish = outcome(watched(target, ModelDrafter(draft), [[1, 2]], k))
    assert (len(tokens[0]), finish) == (length - 2, ["context"])


@pytest.mark.parametrize(
    ("prompt", "cap", "why"), [([1] * 8, 5, "context"), ([1, 2], 0, "cap"), ([1] * 8, 0, "context")]
)
def test_a_row_without_budget_makes_no_round(prompt, cap, why):
    """A prompt that fills the context, or a cap of 0: no round, no forward, no token; the trace knows why."""
    spied = Spied(tiny.table(max_length=8))
    trace = tiny.decode(spied, ModelDrafter(spied), [prompt], record, max_new_tokens=cap)
    assert (trace.rounds, trace.tokens(), trace.finish()) == ((), [], why)
    assert tiny.alone(spied, [prompt], max_new_tokens=cap) == [[]]
    assert spied.calls == 0


# Rows that are done.


@pytest.mark.parametrize("length", [8, 11])
def test_a_full_row_waits_beside_one_that_goes_on(length):
    """In a batch, a prompt that fills the context is done from the start, and draws nothing.

    The draft model's context may be longer: it is the shared one that is full.
    """
    target, draft = tiny.table_pair(max_length=8)
    draft.max_length = length
    rng = tiny.CountingRng(0, 2)
    rounds = list(watched(target, ModelDrafter(draft), [[1] * 8, [2]], k=2, max_new_tokens=4, rng=rng))
    assert outcome(rounds, 2)[1] == ["context", "cap"]
    assert rng.draws[0] == 0
    assert list(map(len, tiny.alone(target, [[1] * 8, [2]], max_new_tokens=4))) == [0, 4]


@pytest.mark.parametrize(("name", "seed"), [("table", 2), ("table", 5), ("gpt", 6), ("gpt", 7)])
def test_rows_that_are_done_stay_frozen_and_draw_nothing(name, seed):
    """After its end nothing is drawn for a row; `watched` sees that it emits nothing, and its caches stay."""
    target, draft = PAIRS[name]
    rng = tiny.CountingRng(seed, 3)
    waited = 0
    draws = [0] * 3
    for r in watched(target, ModelDrafter(draft), PROMPTS, eos=(0, 1), rng=rng):
        for row, on in enumerate(r.live):
            waited += not on
            assert on or rng.draws[row] == draws[row]
        draws = rng.draws
    assert waited >= 4  # it did happen
    assert min(draws) > 0


def test_the_oracle_draws_nothing_for_rows_that_are_done():
    """`generate` asks for a random number once per token that it yields."""
    rng = tiny.CountingRng(5, 3)
    lengths = list(map(len, tiny.alone(PAIRS["table"][0], rng=rng, eos=[0, 1])))
    assert rng.draws == lengths
    assert len(set(lengths)) > 1
