"""The committed walkthroughs: clear on every machine, and what the shipped pair says today."""

import pytest
import torch
from book.record_walkthroughs import COMMAND

import minispec
from minispec.io.checkpoint import weights_hash
from minispec.io.walkthrough import K, load_walkthrough, record_pair

VERIFIERS = ("greedy", "rejection")


@pytest.fixture(scope="module")
def pair():
    return minispec.load_pair("stories")


@pytest.fixture(scope="module", params=VERIFIERS)
def walkthrough(request):
    return load_walkthrough(request.param)


def test_is_of_this_pair(pair, walkthrough):
    """The recording was made with the weights that are shipped; if not, the command makes it again."""
    marks = {"target": weights_hash(pair.target), "draft": weights_hash(pair.draft)}
    assert walkthrough.info["sha256"] == marks, f"write the walkthroughs again: {COMMAND}"


def test_has_the_walkthrough_prompt(pair, walkthrough):
    """The prompt is the pair's own, and K is 5."""
    assert walkthrough.info["prompt"] == pair.walkthrough
    assert walkthrough.trace.prompts[0] == tuple(pair.tokenizer.encode(pair.walkthrough))
    assert walkthrough.trace.config["k"] == K == 5


def test_replaying_gives_the_same_tokens(pair, walkthrough):
    """The pair, run again, emits what is recorded, round by round, for the same numbers drawn."""
    info = walkthrough.info
    most = walkthrough.trace.config["max_new_tokens"]
    again = record_pair(pair, info["prompt"], info["verifier"], seed=info["seed"], max_new_tokens=most)
    then = walkthrough.trace.rounds
    assert [r.emitted for r in again.trace.rounds] == [r.emitted for r in then]
    assert [r.kind(0) for r in again.trace.rounds] == [r.kind(0) for r in then]
    numbers = [[d.number for d in draws] for draws in again.draws]
    assert numbers == [[d.number for d in draws] for draws in walkthrough.draws]
    for a, b in zip(again.trace.rounds, then, strict=True):
        assert torch.allclose(a.target_probs.double(), b.target_probs, atol=1e-4)
