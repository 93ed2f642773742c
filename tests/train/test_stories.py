"""Stories: the probability of each is known, and what an earlier sentence forces is marked as such."""

import contextlib
import math
import random
import re
from itertools import product

import pytest

from minispec.train import grammar
from minispec.train.grammar import Distribution, Friend, play, tell
from minispec.train.stories import Author, Forced, draw_stories

KIT = Friend("Kit", "cat", "river", "she", "kite", "mat")
INTRODUCTION = re.compile(
    r" (?P<name>\w+) the (?P<animal>\w+) had a (?P<thing>\w+)\. (?P<pronoun>She|He) \w+ by the"
    r" (?P<place>\w+) and slept on the (?P<seat>\w+)\."
)
# Where a sentence of a scene needs a fact: its kind, and what stands before it.
CONTEXTS = {
    "animal": rf"^ (?:{'|'.join(grammar.WORDS['name'].words)}) the",
    "place": r"(?: took the \w+| went| ran| walked) to the",
    "seat": r" (?:sat|lay down) on the",
    "thing": r"(?: took| lost) the",
    "pronoun": r", and",
}


class Even(random.Random):
    """Draws each option as often as any other, so that improbable stories come up, too."""

    def choices(self, options, **weights):
        return [self.choice(options)]


class Mismatch(Exception):
    """The branch that is being tried does not spell the text."""


class Walker:
    """A pen that takes the branches of a script, and the first one after its end, while they spell a text."""

    def __init__(self, script, wanted):
        self.script = script
        self.wanted = wanted
        self.sizes = []
        self.probability = 1.0
        self.text = ""

    def choose(self, dist):
        index = self.script[len(self.sizes)] if len(self.sizes) < len(self.script) else 0
        self.sizes.append(len(dist.words))
        self.probability *= dist.weights[index]
        return dist.words[index]

    def write(self, text):
        if self.wanted is not None and not self.wanted.startswith(text, len(self.text)):
            raise Mismatch
        self.text += text

    def recall(self, text, fact):
        self.write(text)


def every_outcome(part, wanted=None):
    """Yields text and probability of every way in which a part of the grammar can go, or can give a text."""
    todo = [()]
    while todo:
        script = todo.pop()
        pen = Walker(script, wanted)
        with contextlib.suppress(Mismatch):
            part(pen)
            if wanted in (None, pen.text):
                yield pen.text, pen.probability
        taken = [*script, *[0] * (len(pen.sizes) - len(script))]
        for turn in range(len(script), len(taken)):
            todo += [(*taken[:turn], index) for index in range(1, pen.sizes[turn])]


def derivations(text, friends=3):
    """Returns the log-probability (nats) of each way in which the grammar derives a text."""
    return [math.log(p) for _, p in every_outcome(lambda pen: tell(pen, friends), text)]


def cast_of(text):
    """Reads the friends back from the introduction of a story."""
    return [
        Friend(m["name"], m["animal"], m["place"], m["pronoun"].lower(), m["thing"], m["seat"])
        for m in INTRODUCTION.finditer(text)
    ]


def forced_in(text):
    """Yields every word of a story's scenes that the introduction of the sentence's friend forces."""
    cast = cast_of(text)
    names = {f" {f.name}": f for f in cast} | {f" The {f.animal}": f for f in cast}
    scenes = max(match.end() for match in INTRODUCTION.finditer(text))
    for sentence in re.compile(r" [^.]+\.").finditer(text, scenes):
        friends = [friend for name, friend in names.items() if re.match(rf"{name}\b", sentence[0])]
        for friend, (fact, before) in product(friends, CONTEXTS.items()):
            for match in re.finditer(before, sentence[0]):
                start = sentence.start() + match.end()
                word = f" {getattr(friend, fact)}"
                assert text.startswith(word, start)
                yield Forced(start, start + len(word), fact)


@pytest.fixture(scope="module")
def stories():
    return list(draw_stories(1500, seed=3))


@pytest.mark.parametrize("name", grammar.WORDS)
def test_every_distribution_sums_to_one(name):
    """The options of every choice are different, possible, and have probability 1 together."""
    dist = grammar.WORDS[name]
    assert len(set(dist.words)) == len(dist.words)
    assert min(dist.weights) > 0
    assert math.fsum(dist.weights) == pytest.approx(1, abs=1e-12)


def test_a_distribution_without_some_words_is_conditional():
    """`without` keeps the ratios of what is left and sums to 1 again."""
    dist = Distribution(("a", "b", "c"), (0.5, 0.3, 0.2)).without({"b"})
    assert dist.words == ("a", "c")
    assert dist.weights == pytest.approx((5 / 7, 2 / 7))


def test_a_scene_has_probability_one_and_no_two_derivations():
    """All outcomes of a scene sum to 1, and no text comes about in two ways."""
    outcomes = list(every_outcome(lambda pen: play(pen, KIT)))
    texts = [text for text, _ in outcomes]
    assert math.fsum(p for _, p in outcomes) == pytest.approx(1, abs=1e-9)
    assert len(texts) == len(set(texts)) > 10


@pytest.mark.parametrize("friends", [1, 3])
def test_a_story_has_one_derivation_with_its_own_probability(friends):
    """The grammar derives each story, probable or not, in one way, with the log_prob that its author gave."""
    stories = list(draw_stories(60, seed=friends, friends=friends))
    for seed in range(40):
        author = Author(Even(seed))
        tell(author, friends)
        stories.append(author.story())
    for story in stories:
        assert derivations(story.text, friends) == [pytest.approx(story.log_prob, abs=1e-9)]
    text = stories[0].text
    for other in ("", "The cat sat on the mat.", text[:-1], text + " ", text.replace("friend", "cat")):
        assert derivations(other, friends) == []


def test_the_opening_is_what_decides_the_first_word(stories):
    """opening_log_prob belongs to the first word alone: it is the share of stories that begin so."""
    openings = {story.text.split()[0]: story.opening_log_prob for story in stories}
    assert len(openings) > 1 and math.fsum(map(math.exp, openings.values())) == pytest.approx(1)
    assert all(story.opening_log_prob == openings[story.text.split()[0]] for story in stories)
    for word, log_prob in openings.items():
        share = sum(story.text.startswith(word) for story in stories) / len(stories)
        assert share == pytest.approx(math.exp(log_prob), abs=0.07)


def test_a_seed_fixes_the_stories():
    """The same seed draws the same stories, another seed others; a longer draw begins like a short one."""
    assert list(draw_stories(20, seed=4)) == list(draw_stories(30, seed=4))[:20]
    texts = {seed: {story.text for story in draw_stories(200, seed)} for seed in (4, 5)}
    assert not texts[4] & texts[5]


def test_no_two_friends_share_a_fact(stories):
    """Every fact but the pronoun has one owner, so that recalling it takes knowing whose it is."""
    for story in stories:
        cast = cast_of(story.text)
        assert len(cast) == 3
        for fact in ("name", "animal", "place", "thing", "seat"):
            assert len({getattr(friend, fact) for friend in cast}) == 3


def test_every_word_that_needs_recall_is_marked_and_is_its_owners_fact(stories):
    """Wherever a scene needs a fact, it is that of the friend whom the sentence is about, as introduced."""
    for story in stories[:400]:
        assert story.forced == tuple(sorted(forced_in(story.text), key=lambda forced: forced.start))
    assert sum(len(story.forced) for story in stories[:400]) > 400


def test_the_author_draws_from_the_distribution():
    """Words come up as often as their weights say: 6 standard errors, so a false alarm once in 10^8 seeds."""
    dist = grammar.WORDS["name"]
    count = 20_000
    author = Author(random.Random(11))
    drawn = [author.choose(dist) for _ in range(count)]
    for word, weight in zip(dist.words, dist.weights, strict=True):
        assert drawn.count(word) / count == pytest.approx(weight, abs=6 * math.sqrt(weight / count))
