"""Stories: drawn from the grammar, with their probability, and parsed back into it.

Three pens hold the one grammar of `grammar.tell`. `Author` draws a story and adds up its log-probability.
`Reader` follows a given text and finds every derivation of it. The tests use the second to show that
each story has exactly one, so that a story's log-probability is the log-probability of its text, and the
mean of those is the true entropy: the loss that no model can beat.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate

from minispec.train.grammar import Distribution, tell


@dataclass(frozen=True)
class Forced:
    """A word that an earlier sentence forces.

    Attributes:
        start: offset of its first character (the leading space) in the story.
        end: offset after its last character.
        fact: what kind of fact it recalls: animal, place, pronoun, colour, thing or seat.
    """

    start: int
    end: int
    fact: str


@dataclass(frozen=True)
class Story:
    """One story.

    Attributes:
        text: the story.
        log_prob: natural logarithm of its probability under the grammar, in nats.
        opening_log_prob: the part of it that belongs to choices made before any text was written; they
            decide the first token.
        forced: the words that earlier sentences force, left to right.
    """

    text: str
    log_prob: float
    opening_log_prob: float
    forced: tuple[Forced, ...]


class Author:
    """A pen that draws every choice from its distribution."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._pieces: list[str] = []
        self._length = 0
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
        if not self._pieces:
            self._opening_log_prob = self.log_prob
        self._pieces.append(text)
        self._length += len(text)

    def recall(self, text: str, fact: str) -> None:
        """Appends a forced word and remembers where it stands."""
        self._forced.append(Forced(self._length, self._length + len(text), fact))
        self.write(text)

    def story(self) -> Story:
        """Returns what has been written."""
        return Story("".join(self._pieces), self.log_prob, self._opening_log_prob, tuple(self._forced))


class _Mismatch(Exception):
    """The derivation that is being tried does not spell the text."""


class _Reader:
    """A pen that replays given choices and fails where the result leaves the text."""

    def __init__(self, text: str, script: list[int]) -> None:
        self._text = text
        self._script = script
        self._at = 0
        self.sizes: list[int] = []
        self.log_prob = 0.0

    def choose(self, options: Distribution) -> str:
        turn = len(self.sizes)
        index = self._script[turn] if turn < len(self._script) else 0
        self.sizes.append(len(options.words))
        self.log_prob += math.log(options.weights[index])
        return options.words[index]

    def write(self, text: str) -> None:
        if not self._text.startswith(text, self._at):
            raise _Mismatch
        self._at += len(text)

    def recall(self, text: str, fact: str) -> None:
        self.write(text)

    @property
    def finished(self) -> bool:
        return self._at == len(self._text)


def draw_story(rng: random.Random, friends: int = 3) -> Story:
    """Draws one story.

    Args:
        rng: where the choices come from.
        friends: how many the story has, 1 to 3.

    Returns:
        The story with its exact log-probability.
    """
    author = Author(rng)
    tell(author, friends)
    return author.story()


def draw_stories(count: int, seed: int, friends: int = 3) -> Iterator[Story]:
    """Draws independent stories, the same for the same seed.

    Args:
        count: how many.
        seed: of the draw.
        friends: how many each story has.

    Yields:
        Stories.
    """
    rng = random.Random(f"minispec stories {seed}")
    for _ in range(count):
        yield draw_story(rng, friends)


def derivations(text: str, friends: int = 3) -> list[float]:
    """Finds every way in which the grammar derives a text.

    Enumerates the tree of choices of the same `tell` that writes stories, depth first, and leaves a branch
    where it stops spelling the text.

    Args:
        text: any text.
        friends: how many friends the stories have that are tried.

    Returns:
        The log-probability (nats) of each derivation; empty where the grammar does not derive the text.
    """
    found: list[float] = []
    script: list[int] = []
    while True:
        reader = _Reader(text, script)
        try:
            tell(reader, friends)
            if reader.finished:
                found.append(reader.log_prob)
        except _Mismatch:
            pass
        # The next script in depth-first order: the last choice that has another option takes it.
        taken = script + [0] * (len(reader.sizes) - len(script))
        while taken and taken[-1] + 1 >= reader.sizes[len(taken) - 1]:
            taken.pop()
        if not taken:
            return found
        taken[-1] += 1
        script = taken
