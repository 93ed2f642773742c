"""Stories, drawn from the grammar with their probability, and roll calls made of the same words.

The log-probability of a story is that of its text, because the grammar derives each text in one way only (a
test tries all). So the mean of those is the true entropy: the loss that no model can beat.
"""

import math
import random
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate

from minispec.train.grammar import FORMS, WORDS, Distribution, tell

SENTENCES = 14  # of a roll call


@dataclass(frozen=True)
class Forced:
    """A word that an earlier sentence forces."""

    start: int  #: offset of its first character (the leading space) in the story
    end: int  #: offset after its last character
    fact: str  #: what kind of fact it recalls: animal, place, pronoun, thing or seat


@dataclass(frozen=True)
class Story:
    """One story."""

    text: str  #: the story
    log_prob: float  #: natural logarithm of its probability under the grammar, in nats
    opening_log_prob: float  #: of the choices before any text: they decide the first token
    forced: tuple[Forced, ...]  #: the words that earlier sentences force, left to right


class Author:
    """A pen that draws every choice from its distribution."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._text = ""
        self._forced: list[Forced] = []
        self.log_prob = 0.0
        self._opening_log_prob = 0.0

    def choose(self, options: Distribution) -> str:
        """Draws a word and adds its log-probability."""
        index = self._rng.choices(range(len(options.words)), cum_weights=list(accumulate(options.weights)))[0]
        self.log_prob += math.log(options.weights[index])
        return options.words[index]

    def write(self, text: str) -> None:
        """Appends text."""
        if not self._text:
            self._opening_log_prob = self.log_prob
        self._text += text

    def recall(self, text: str, fact: str) -> None:
        """Appends a forced word and remembers where it stands."""
        start = len(self._text)
        self.write(text)
        self._forced.append(Forced(start, len(self._text), fact))

    def story(self) -> Story:
        """Returns what has been written."""
        return Story(self._text, self.log_prob, self._opening_log_prob, tuple(self._forced))


def draw_stories(count: int, seed: int, friends: int = 3) -> Iterator[Story]:
    """Draws so many independent stories, of 1 to 3 friends each, the same for the same seed."""
    rng = random.Random(f"minispec stories {seed}")
    for _ in range(count):
        author = Author(rng)
        tell(author, friends)
        yield author.story()


def draw_roll_calls(kind: str, count: int, seed: int) -> Iterator[str]:
    """Draws roll calls of one of the `KINDS`, the same for the same seed: exercises in whose fact is whose.

        Kit the cat. Sam the dog. Max the hen. Sam the dog. Kit the cat. …

    A roll call goes through a few names again and again, in any order, and says one fact of each. The first
    time the fact is free; from then on it is forced. A story asks the same, but only a few times, among many
    words that are easier. So a target that starts with roll calls learns binding within minutes, and then
    tells stories with it. A draft never sees one. Nobody is called twice in a row, and nobody shares a fact.
    """
    rng = random.Random(f"minispec roll calls {kind} {seed}")
    every_fact = WORDS[kind.split()[-1]].words  # of an animal's seat: the seats
    for _ in range(count):
        friends = rng.randint(2, min(len(WORDS["name"].words), len(every_fact)))
        names = rng.sample(WORDS["name"].words, friends)
        animals = rng.sample(WORDS["animal"].words, friends)
        facts = animals if kind == "animal" else rng.sample(every_fact, friends)
        text = ""
        friend = -1
        for _ in range(SENTENCES):
            friend = rng.choice([i for i in range(friends) if i != friend])
            text += rng.choice(FORMS[kind]).format(
                name=names[friend], animal=animals[friend], fact=facts[friend]
            )
        yield text.lstrip()
