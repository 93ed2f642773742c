"""Watched models: what a loop's caches hold is seen, and what is wrong with them has a name."""

import pytest
import torch

from minispec.classroom import check
from minispec.classroom.exercises.sampled_loop import SAMPLED_LOOP, my_sampled_loop, probabilities
from minispec.classroom.running import Malformed
from minispec.classroom.trials import enumerate_loop
from minispec.classroom.watched import WatchedModel
from minispec.core.basic import accept_rejection
from minispec.evidence.proof.models import table_pair


def pair():
    log = []
    target, draft = table_pair(2, 1)
    return WatchedModel("target", target, log, 9), WatchedModel("draft model", draft, log, 9), log


def faults_of(name, k=1):
    """Returns the faults of a typical wrong answer."""
    return faults(SAMPLED_LOOP.wrong[name][1], k)


def faults(answer, k=1):
    """Returns what is found in the caches of a loop, 4 tokens after a prompt of two."""
    return enumerate_loop(answer, "two tokens", [0, 1], k, 4)[2]


def test_the_log_follows_a_cut():
    """What a cache holds is known token by token, also after some of it has been forgotten."""
    target, _, log = pair()
    cache = target.new_cache(1)
    probabilities(target, [0, 1, 1], cache)
    cache.truncate([1])
    probabilities(target, [1, 0], cache)
    assert [(forward.cached, forward.tokens) for forward in log] == [((), (0, 1, 1)), ((0,), (1, 0))]


def test_a_model_wants_a_cache_of_its_own():
    """Without one, or with the other's, the call says so."""
    target, draft, _ = pair()
    with pytest.raises(Malformed, match="target was called without a cache"):
        target(torch.tensor([[0]]))
    with pytest.raises(Malformed, match="draft model was called with a cache that is not its own"):
        draft(torch.tensor([[0]]), target.new_cache(1))
    with pytest.raises(Malformed, match=r"\[2\]: \[1, n\] is wanted"):
        target(torch.tensor([0, 1]), target.new_cache(1))


def test_each_way_to_be_wrong_is_told_apart():
    """Right caches have no fault; those of the typical wrong answers have each another one."""
    assert faults(my_sampled_loop) == ()
    surplus = faults_of("draft-not-rolled-back", k=2)
    assert surplus == ("the draft's cache holds a token that is not in the text",)
    assert faults_of("never-catches-up") == ("the draft's cache lacks a token of the text",)
    assert faults_of("pending-never-updated") == ("what the target has read is not the text",)


def test_a_loop_that_reads_the_text_again_is_not_right():
    """New caches for every round give the right distribution, and are no use of caches."""

    def round_by_round(target, draft, prompt, k, n, rng):
        text = list(prompt)
        for _ in range(n):
            text += my_sampled_loop(target, draft, text, k, 1, rng)
        return text[len(prompt) :]

    def afresh(target, draft, prompt, k, n, rng):
        text = list(prompt)
        while len(text) < len(prompt) + n:
            dists = []
            if len(text) + 1 < len(prompt) + n:
                dists.append(probabilities(draft, text, draft.new_cache(1))[-1])
            guesses = [rng.draw(q) for q in dists]
            p = probabilities(target, text + guesses, target.new_cache(1))[-len(guesses) - 1 :]
            text += accept_rejection(guesses, dists, p, rng)
        return text[len(prompt) :]

    both = (
        "the draft model reads parts of the text again",
        "the target reads more than the pending token and the draft",
    )
    assert faults(afresh) == both
    card = check("write-the-sampled-loop", afresh)
    assert not card.passed and both[1] in card.detail
    assert not check("write-the-sampled-loop", round_by_round).passed
