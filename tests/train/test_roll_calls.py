"""Roll calls: what each name is, it stays, and every word is a story's own."""

import re

import pytest

from minispec.train.grammar import KINDS, WORDS
from minispec.train.stories import SENTENCES, draw_roll_calls, draw_stories


@pytest.mark.parametrize(
    "kind", [KINDS[0], *(pytest.param(kind, marks=pytest.mark.evidence) for kind in KINDS[1:])]
)
def test_a_fact_once_said_is_said_again(kind):
    """Whoever is called twice has the same fact both times; nobody shares one or is called twice in a row."""
    again = 0
    words = WORDS[kind.split()[-1]].words
    for text in draw_roll_calls(kind, 50, seed=3):
        calls = [re.findall(r"\w+", sentence) for sentence in text.split(".") if sentence]
        assert len(calls) == SENTENCES
        facts = [next(word for word in reversed(call) if word in words) for call in calls]
        assert all(a != b for a, b in zip(facts, facts[1:], strict=False))
        seen = {}
        for call, fact in zip(calls, facts, strict=True):
            for owner in set(call) & set(WORDS["name"].words):
                again += owner in seen
                assert seen.setdefault(owner, fact) == fact
        assert len(set(seen.values())) == len(seen)
    assert again > 50 * SENTENCES / 10


@pytest.mark.evidence
def test_orders_are_free():
    """Who comes next cannot be told from who came before: after the same name come all the others."""
    followers = {}
    for text in draw_roll_calls("animal", 200, seed=1):
        names = re.findall(r"([A-Z]\w+) the", text)
        for a, b in zip(names, names[1:], strict=False):
            followers.setdefault(a, set()).add(b)
    assert all(len(others) == len(WORDS["name"].words) - 1 for others in followers.values())


@pytest.mark.evidence
def test_words_are_those_of_stories():
    """A roll call has no word that stories do not have, so the tokenizer knows them all."""
    words = set(re.findall(r"\w+", " ".join(story.text for story in draw_stories(2000, 0, 2))))
    for kind in KINDS:
        assert set(re.findall(r"\w+", " ".join(draw_roll_calls(kind, 100, 0)))) <= words


def test_same_seed_same_roll_calls():
    """Roll calls depend on kind and seed, on nothing else."""
    assert list(draw_roll_calls("thing", 5, 1)) == list(draw_roll_calls("thing", 5, 1))
    assert list(draw_roll_calls("thing", 5, 1)) != list(draw_roll_calls("thing", 5, 2))
