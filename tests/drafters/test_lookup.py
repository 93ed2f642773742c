"""Drafters that look the draft up in the row's own text: what they find, and that nothing is lost by it."""

from functools import partial

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from refusals import refused
from tiny import PAIRS, PROMPTS, begin, decode, live_rows, table_pair

from minispec import (
    NgramDrafter,
    SeededRng,
    SuffixDrafter,
    Warp,
)
from minispec.drafters.lookup import what_followed
from minispec.drafters.ngram import NgramIndex
from minispec.drafters.suffix import SuffixAutomaton

TEXTS = st.integers(1, 4).flatmap(lambda size: st.lists(st.integers(0, size - 1), max_size=40))
DRAFTERS = {"ngram": NgramDrafter, "suffix": partial(SuffixDrafter, per_match=1.0)}


def earlier(text, longest):
    """Returns how long the longest end is that occurred earlier, and where it last ended: by trying all."""
    for n in range(min(longest, len(text) - 1), 0, -1):
        for end in range(len(text) - 1, n - 1, -1):
            if text[end - n : end] == text[len(text) - n :]:
                return n, end
    return 0, 0


def copied(text, end, k):
    """Returns k tokens after a place, one at a time: what was copied can be copied again."""
    grown = list(text)
    for i in range(k):
        grown.append(grown[end + i])
    return grown[len(text) :]


def by_hand(name, text, k):
    """Returns what a drafter should propose after a text."""
    n, end = earlier(text, 3 if name == "ngram" else len(text))
    return copied(text, end, k if name == "ngram" else min(k, n)) if n else []


@given(TEXTS)
def test_the_automaton_finds_the_longest_end_and_its_most_recent_place(text):
    """After each token: as trying every piece of text does. It has at most two states a token."""
    automaton = SuffixAutomaton()
    for n, token in enumerate(text, 1):
        automaton.append(token)
        match, end = earlier(text[:n], n)
        assert automaton.match == match
        assert automaton.end == end or not match
    assert len(automaton._lengths) <= max(2 * len(text), 2)


@given(TEXTS, st.integers(1, 7), st.integers(0, 6))
def test_the_index_finds_the_longest_ngram_and_its_most_recent_place(text, longest, k):
    """After each token, whatever the size; what is proposed stood after that place."""
    index = NgramIndex(longest)
    for n, token in enumerate(text, 1):
        index.append(token)
        match, end = earlier(text[:n], longest)
        assert index.propose(k) == (copied(text[:n], end, k) if match else [])


@given(TEXTS, st.sampled_from([0.3, 1.0, 2.5]), st.integers(0, 6))
def test_a_long_match_gives_a_long_draft(text, per_match, k):
    """For each token of the match `per_match` tokens, rounded up, and k at most."""
    index = SuffixAutomaton(per_match)
    for token in text:
        index.append(token)
    match, end = earlier(text, len(text))
    many = next(n for n in range(200) if n >= per_match * match)
    assert index.propose(k) == copied(text, end, min(k, many))


def test_beyond_the_end_a_copy_repeats_itself():
    """After `a b c a b` the end `a b` was followed by `c a b`, and that by itself."""
    assert what_followed([1, 2, 3, 1, 2], 2, 8) == [3, 1, 2, 3, 1, 2, 3, 1]


@pytest.mark.parametrize("name", DRAFTERS)
def test_a_draft_is_certain_and_padded(name):
    """Rows that find something beside one that does not: lengths, distributions, types. A new run forgets."""
    drafter = DRAFTERS[name](6, dtype=torch.float32)
    for prompts in ([[4], [1, 2, 3, 1, 2], [5, 5]], [[1], [2, 1]]):
        begin(drafter, prompts)
        draft = drafter.propose(torch.tensor([prompt[-1] for prompt in prompts]), 4, Warp(), SeededRng(0))
        wanted = [by_hand(name, prompt, 4) for prompt in prompts]
        assert draft.lengths.tolist() == list(map(len, wanted))
        assert draft.probs.shape == (len(prompts), max(map(len, wanted)), 6)
        assert [row[: len(ids)].tolist() for row, ids in zip(draft.tokens, wanted, strict=True)] == wanted
        assert torch.equal(draft.probs, torch.eye(6)[draft.tokens])  # and float32
    assert drafter.cache_lengths is None


@pytest.mark.parametrize("pair", PAIRS)
@pytest.mark.parametrize("name", DRAFTERS)
def test_each_round_drafts_from_the_rows_own_committed_text(name, pair):
    """Row by row as by hand, up to the budget; rows that are done draft nothing. Rows differ in length."""
    target, _ = PAIRS[pair]
    lengths = set()
    rounds = decode(target, DRAFTERS[name](target.vocab_size), k=4, max_new_tokens=24)
    for _, row, text, drafted in live_rows(rounds):
        budget = len(PROMPTS[row]) + 24 - len(text) - 1
        assert drafted == by_hand(name, text, 4)[:budget]
        lengths.add(len(drafted))
    assert {0, 1} <= lengths and max(lengths) > 2


@pytest.mark.parametrize("name", DRAFTERS)
def test_a_row_that_is_done_does_not_prolong_the_others_draft(name):
    """It would find four tokens; the other row has nothing that repeats, and nothing is drafted."""
    target, _ = table_pair()
    prompts = [[3], ([0, 1, 2, 3, 4] * 8)[:39]]  # the context holds 40 tokens: one more, and the row is done
    first, second = list(decode(target, DRAFTERS[name](target.vocab_size), prompts, k=4))[:2]
    assert first.finish == (None, "context") and len({3, *first.emitted[0]}) == 1 + len(first.emitted[0])
    assert second.draft.k == 0


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: NgramDrafter(5, 0), "at least 1 token"),
        (lambda: SuffixDrafter(5, 0), "more than 0"),
        (lambda: SuffixDrafter(5, float("inf")), "more than 0"),
        (lambda: SuffixDrafter(5, float("nan")), "more than 0"),
    ],
)
def test_settings_that_cannot_be(make, words):
    """Each is refused in one line."""
    with refused(words):
        make()
