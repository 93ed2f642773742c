"""A queue's trace: what belongs to a prompt is found under its number, whichever row it had, and when."""

from functools import partial

import pytest
import tiny
from refusals import refused

from minispec import (
    ModelDrafter,
    NgramDrafter,
    SeededRng,
    Trace,
    Warp,
    record,
    stream,
    train_tokenizer,
    verify_greedy,
)
from minispec.drafters.tree import TreeDrafter
from minispec.io.stream import until
from minispec.verifiers.tree import verify_tree_greedy

TARGET, DRAFT = tiny.gpt_pair()
QUEUE = [[1, 2, 3], [5], [4, 4, 4, 4, 4, 4], [7, 8], [9], [2, 1, 2, 1], [6, 6, 3]]
FULL = [1] * TARGET.max_length
WAYS = {
    "nothing": (lambda: None, verify_greedy, 0),
    "model": (lambda: ModelDrafter(DRAFT), verify_greedy, 3),
    "ngram": (lambda: NgramDrafter(TARGET.vocab_size), verify_greedy, 3),
    "tree": (lambda: TreeDrafter(DRAFT, (0, 0, 1, 1, 2)), verify_tree_greedy, 3),
}


def traced(way, prompts, **settings):
    make, verifier, k = WAYS[way]
    settings = {"max_new_tokens": 12, "warp": Warp(0), "rng": SeededRng(0), "eos": 4} | settings
    return record(TARGET, make(), prompts, k=k, verifier=verifier, **settings)


def counts(statistics):
    return {name: value for name, value in vars(statistics).items() if name != "seconds"}


@pytest.mark.parametrize("batch_size", [1, 2, 3, None])
@pytest.mark.parametrize("way", WAYS)
def test_each_prompt_has_its_numbers_of_alone(way, batch_size):
    """Greedy: tokens, finish, counts and prefill of each prompt are those of a run of it alone."""
    trace = traced(way, QUEUE, batch_size=batch_size)
    alone = [traced(way, [prompt]) for prompt in QUEUE]
    for prompt, single in enumerate(alone):
        assert trace.tokens(prompt) == single.tokens()
        assert trace.finish(prompt) == single.finish() is not None
        assert counts(trace.statistics(prompt)) == counts(single.statistics())
        assert trace.committed(prompt) == [*QUEUE[prompt], *single.tokens()]
    assert trace.prefill_lengths == tuple(len(prompt) - 1 for prompt in QUEUE)
    whole = trace.statistics()
    each = [single.statistics() for single in alone]
    for name in ("emitted", "row_rounds", "accepted", "drafted"):
        assert getattr(whole, name) == sum(getattr(one, name) for one in each)
    assert whole.target_calls == len(trace.rounds)


def test_a_prompt_that_never_had_a_row_has_a_finish():
    """One that fills the context, first or waiting; a cap of 0; one whose turn has not come has none."""
    trace = traced("model", [FULL, *QUEUE[:3], FULL, QUEUE[3]], batch_size=2)
    assert [trace.finish(prompt) for prompt in (0, 4)] == ["context", "context"]
    assert trace.tokens(0) == trace.tokens(4) == [] and trace.prefill_lengths[4] == 0
    assert None not in [trace.finish(prompt) for prompt in (1, 2, 3, 5)]
    capped = traced("model", QUEUE, batch_size=2, max_new_tokens=0)
    assert [capped.finish(prompt) for prompt in range(len(QUEUE))] == ["cap"] * len(QUEUE)
    short = Trace(trace.prompts, trace.config, trace.rounds[:1])
    assert [short.finish(prompt) for prompt in (0, 4, 5)] == ["context", "context", None]
    assert short.tokens(5) == [] and short.statistics(5).tokens_per_target_call is None


@pytest.mark.parametrize("prompt", [-1, len(QUEUE)])
def test_a_prompt_that_is_not_there_is_refused(prompt):
    """One line with the numbers that there are, from whatever is asked."""
    trace = traced("model", QUEUE, batch_size=2)
    for ask in (trace.tokens, trace.finish, trace.statistics, trace.committed):
        with refused(rf"there is no prompt {prompt}; the trace has 0 to 6"):
            ask(prompt)


@pytest.mark.parametrize("batch_size", [1, 2, None])
def test_streamed_text_is_that_of_one_prompt(batch_size):
    """Text and stop texts follow a prompt from row to row; of one that has no row there is no text."""
    tokenizer = train_tokenizer([], "characters")
    trace = traced("model", QUEUE, batch_size=batch_size)
    for prompt in range(len(QUEUE)):
        assert "".join(stream(trace.rounds, tokenizer, prompt)) == tokenizer.decode(trace.tokens(prompt))
        stop = tokenizer.decode(trace.tokens(prompt)[:5])
        ended = list(until(trace.rounds, tokenizer, [stop], prompt))
        held = Trace(trace.prompts, trace.config, tuple(ended)).tokens(prompt)
        before = Trace(trace.prompts, trace.config, tuple(ended[:-1])).tokens(prompt)
        assert stop in tokenizer.decode(held) and stop not in tokenizer.decode(before)
    full = traced("model", [QUEUE[0], FULL], batch_size=1)
    assert list(stream(full.rounds, tokenizer, 1)) == []
    for follow in (stream, partial(until, stops=["x"])):
        with refused("prompts are counted from 0, not -1"):
            list(follow(trace.rounds, tokenizer, prompt=-1))


def test_reading_a_later_prompt_is_prefill():
    """The first round's seconds and those of rounds after a refill have prefill; the others have none."""
    trace = traced("model", QUEUE, batch_size=2)
    begins = {0}
    for past, r in zip(trace.rounds, trace.rounds[1:], strict=False):
        begins |= {r.index} if past.prompt_ids != r.prompt_ids else set()
    assert {r.index for r in trace.rounds if r.seconds.get("prefill")} == begins and len(begins) > 3
