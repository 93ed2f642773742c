"""Roll calls: what each name is, it stays, and every word is a story's own."""

import random
import re

import pytest

from minispec.lm.grammar import ANIMALS, NAMES, PLACES, SEATS, THINGS
from minispec.lm.recipes import Lesson
from minispec.lm.roll_calls import FACTS, FORMS, KINDS, SENTENCES, draw_roll_call, draw_roll_calls
from minispec.lm.stories import draw_stories


@pytest.mark.parametrize("kind", KINDS)
def test_a_fact_once_said_is_said_again(kind):
    """Whoever is called twice has the same fact both times; nobody is called twice in a row."""
    again = 0
    for text in draw_roll_calls(kind, 50, seed=3):
        calls = [re.findall(r"\w+", sentence) for sentence in text.split(".") if sentence]
        assert len(calls) == SENTENCES
        owner = 1 if kind == "animal's seat" else 0  # the first word there is "The"
        fact = {"animal": 2, "pronoun": None}.get(kind, -1)
        seen = {}
        for call in calls:
            said = call[fact] if fact is not None else next(w for w in call if w in ("he", "she"))
            again += call[owner] in seen
            assert seen.setdefault(call[owner], said) == said
        owners = [call[owner] for call in calls]
        assert all(a != b for a, b in zip(owners, owners[1:], strict=False))
        if kind != "pronoun":
            assert len(set(seen.values())) == len(seen)  # nobody shares a fact
    assert again > 50 * SENTENCES / 4


def test_orders_are_free():
    """Who comes next cannot be told from who came before: after the same name come different ones."""
    texts = list(draw_roll_calls("animal", 200, seed=1))
    followers = {}
    for text in texts:
        names = re.findall(r"([A-Z]\w+) the", text)
        for a, b in zip(names, names[1:], strict=False):
            followers.setdefault(a, set()).add(b)
    assert all(len(others) == len(NAMES.words) - 1 for others in followers.values())


def test_words_are_those_of_stories():
    """A roll call has no word that stories do not have, so the tokenizer knows them all."""
    words = set(re.findall(r"\w+", " ".join(story.text for story in draw_stories(2000, 0, 2))))
    for kind in KINDS:
        assert set(re.findall(r"\w+", " ".join(draw_roll_calls(kind, 100, 0)))) <= words


def test_same_seed_same_roll_calls():
    """Roll calls depend on kind and seed, on nothing else."""
    assert list(draw_roll_calls("thing", 5, 1)) == list(draw_roll_calls("thing", 5, 1))
    assert list(draw_roll_calls("thing", 5, 1)) != list(draw_roll_calls("thing", 5, 2))
    assert draw_roll_call("animal", random.Random(0)) == draw_roll_call("animal", random.Random(0))


def test_every_kind_has_its_facts():
    """The kinds that share nothing take their facts from the story's own lists."""
    assert set(FORMS) - set(FACTS) == {"animal", "pronoun"}
    assert {law.words for law in FACTS.values()} == {THINGS.words, PLACES.words, SEATS.words}
    assert len(ANIMALS.words) >= len(NAMES.words)


@pytest.mark.parametrize("mix", [(), (("roll", 1.0),), (("story", 0.0),), (("animal", -1.0),)])
def test_a_lesson_refuses_an_unknown_mix(mix):
    """A mix names known kinds, with parts above 0."""
    with pytest.raises(ValueError, match="mix"):
        Lesson(1, 1, 8, mix=mix)
