"""A queue of prompts: rows that are done make room, and no text depends on what shared its batch."""

import pytest
import tiny

from minispec import KeyedRng, Warp, verify_coupled, verify_greedy
from minispec.core.draft import ModelDrafter
from minispec.evidence.proof.cases import ENUMERATED, TREE_SHAPES
from minispec.evidence.proof.models import early_exit
from minispec.verifiers.tree import verify_tree_greedy

TARGET, DRAFT = tiny.gpt_pair()
QUEUE = [[1, 2, 3], [5], [4, 4, 4, 4, 4, 4], [7, 8], [9], [2, 1, 2, 1], [6, 6, 3]]
ON_TARGET = (
    "exit",
    "medusa",
    "medusa-tree",
    "eagle",
    "eagle3",
    "eagle3-auto",
    "parallel",
)  # what drafts from the target itself
WAYS = ["nothing", "model", *(name for name in ENUMERATED if name == "tree" or name not in TREE_SHAPES)]


def target_and_drafter(way):
    """Returns a target, and what drafts for it."""
    if way == "nothing":
        return TARGET, None
    target = early_exit(TARGET, 0) if way == "exit" else TARGET
    drafter = ENUMERATED.get(way, ModelDrafter)(target if way in ON_TARGET else DRAFT, None)
    return drafter.target if way.startswith("eagle3") else target, drafter


def texts_of(way, batch_size, prompts=QUEUE, **settings):
    """Returns the text of each prompt, and the rounds; caches are looked at after each round."""
    target, drafter = target_and_drafter(way)
    greedy = verify_tree_greedy if way.endswith("tree") else verify_greedy
    settings = {"max_new_tokens": 12, "warp": Warp(0), "eos": 4, "verifier": greedy} | settings
    texts = [[] for _ in prompts]
    rounds = []
    k = 0 if drafter is None else 3
    for r in tiny.decode(target, drafter, prompts, k=k, batch_size=batch_size, **settings):
        rounds.append(r)
        for row, emitted in enumerate(r.emitted):
            texts[r.prompt_ids[row]] += emitted
        if drafter is not None and drafter.cache_lengths is not None:
            assert drafter.cache_lengths == r.lengths
    return texts, rounds


@pytest.mark.parametrize("batch_size", [1, 2, 3])
@pytest.mark.parametrize("way", WAYS)
def test_each_text_is_that_of_the_prompt_alone(way, batch_size):
    """Greedy, in float64, with every drafter, on few rows: all but the first prompts come into used ones."""
    texts, rounds = texts_of(way, batch_size)
    alone = [texts_of(way, None, [prompt])[0][0] for prompt in QUEUE]
    assert texts == alone
    assert {len(text) for text in texts} != {12}, "some rows must end early"
    assert all(len(r.live) == batch_size for r in rounds)
    assert sorted({prompt_id for r in rounds for prompt_id in r.prompt_ids}) == list(range(len(QUEUE)))


@pytest.mark.parametrize("way", ["model", "ngram", "medusa", "eagle", "exit"])
@pytest.mark.parametrize("batch_size", [1, 3])
def test_noise_belongs_to_the_prompt(way, batch_size):
    """With keyed noise a text is the same, however many rows there are, and whoever was there before."""
    settings = {"verifier": verify_coupled, "warp": Warp(), "rng": KeyedRng(5)}
    together, _ = texts_of(way, None, **settings)
    assert texts_of(way, batch_size, **settings)[0] == together
    assert len({tuple(text) for text in together}) == len(QUEUE)


def test_rows_are_live_while_prompts_wait():
    """In each round but the last ones all rows decode; the prompts come in their order."""
    _, rounds = texts_of("model", 2)
    waiting = [max(r.prompt_ids) < len(QUEUE) - 1 for r in rounds]
    assert all(all(r.live) for r, more in zip(rounds, waiting, strict=True) if more)
    started = [prompt_id for r in rounds for prompt_id in r.prompt_ids]
    assert list(dict.fromkeys(started)) == sorted(set(started))
    for batch_size in (len(QUEUE), 50, None):  # with as many rows as prompts none waits
        assert all(r.prompt_ids == tuple(range(len(QUEUE))) for r in texts_of("model", batch_size)[1])


def test_a_prompt_without_space_takes_no_row():
    """One that fills the context waits in the queue, and one stands first: the others are decoded."""
    full = [1] * TARGET.max_length
    texts, rounds = texts_of("model", 2, [full, *QUEUE[:3], full, full, QUEUE[3], full])
    alone, _ = texts_of("model", None, QUEUE[:4])
    assert texts == [[], *alone[:3], [], [], alone[3], []]
    assert texts_of("model", 2, [full, full, full]) == ([[], [], []], [])
    assert texts_of("model", 1, QUEUE, max_new_tokens=0) == ([[]] * len(QUEUE), [])


def test_no_rows_at_all_are_refused():
    """One line, as for every number that makes no sense."""
    with pytest.raises(ValueError, match="the batch must have at least 1 row, not 0"):
        texts_of("model", 0)


def test_the_target_reads_each_prompt_once():
    """Refilling reads the new prompts alone: no row that goes on is read again."""
    read = []
    hook = TARGET.embed_tokens.register_forward_hook(
        lambda _, tokens, __: read.append(tuple(tokens[0].shape))
    )
    try:
        _, rounds = texts_of("ngram", 2)
    finally:
        hook.remove()
    for r in rounds:
        read.remove((2, r.draft.k + 1))
    assert sum(rows * n for rows, n in read) <= 2 * sum(len(prompt) - 1 for prompt in QUEUE)
    assert 0 < len(read) <= len(QUEUE)
