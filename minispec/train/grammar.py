"""The story grammar: every sentence, every choice; grammar.toml has the words and their probabilities.

A story first introduces two or three friends (the shipped pair reads of two). Each has a name, an animal,
a thing, a pronoun, a place and a seat. Nobody shares any of these but the pronoun. Then come short scenes
that need those facts again: "Kit the ..." must go on with Kit's own animal, not with somebody else's.

That is binding. To recall which facts occur in a story, one attention layer is enough. To recall
whose they are takes two: one to mark each fact with its owner, one to look the owner up. The one-layer
draft therefore guesses among the friends, while the target knows. Between the facts stand idioms that
any model learns at once.

The grammar is one procedure, `tell`. It asks a `Pen` for every choice and hands it every piece of
text, so the same procedure writes stories and scores them (see `stories`), and parses them in a test.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from minispec.io.files import read_table


@dataclass(frozen=True)
class Distribution:
    """A finite distribution over words."""

    words: tuple[str, ...]  #: the options, all different
    weights: tuple[float, ...]  #: one positive number per word; they sum to 1

    def without(self, excluded: set[str]) -> "Distribution":
        """Returns the distribution given that none of `excluded` comes up."""
        remaining = [(w, p) for w, p in zip(self.words, self.weights, strict=True) if w not in excluded]
        total = sum(p for _, p in remaining)
        return Distribution(tuple(w for w, _ in remaining), tuple(p / total for _, p in remaining))


class Pen(Protocol):
    """What `tell` writes with."""

    def choose(self, options: Distribution) -> str:
        """Returns one of the words."""

    def write(self, text: str) -> None:
        """Appends text that the last choice, or nothing but the template, decided."""

    def recall(self, text: str, fact: str) -> None:
        """Appends a word that an earlier sentence forces; `fact` names its kind."""


@dataclass(frozen=True)
class Friend:
    """What one character is, as the introduction says it."""

    name: str
    animal: str
    place: str
    pronoun: str
    thing: str
    seat: str


def percents(weights: Mapping[str, int]) -> Distribution:
    """Returns a distribution from the weights of words in hundredths."""
    return Distribution(tuple(weights), tuple(w / 100 for w in weights.values()))


GRAMMAR = read_table(__file__, "grammar.toml")
WORDS: Mapping[str, Distribution] = {choice: percents(words) for choice, words in GRAMMAR["words"].items()}
OPENINGS: Mapping[str, Sequence[str]] = GRAMMAR["openings"]
IDIOMS: Mapping[str, str] = GRAMMAR["idioms"]
FORMS: Mapping[str, Sequence[str]] = GRAMMAR["forms"]  # the sentences of roll calls, by the kind of fact
KINDS = tuple(FORMS)
MAX_SCENES = 7


def tell(pen: Pen, friends: int = 3) -> None:
    """Tells one story of 1 to 3 friends; the pen makes the choices and takes the text."""
    cast = introduce(pen, friends)
    candidates = cast
    for scene in range(MAX_SCENES):
        positions = WORDS[f"who-{len(candidates)}"]
        friend = candidates[positions.words.index(pen.choose(positions))]  # nobody plays two scenes in a row
        candidates = [other for other in cast if other is not friend] or cast
        play(pen, friend)
        idiom = pen.choose(WORDS["between"])
        if idiom != "silence":
            pen.write(IDIOMS[idiom])
        if scene == MAX_SCENES - 1 or pen.choose(WORDS["more"]) == "end":
            break
    pen.write(IDIOMS[pen.choose(WORDS["last"])])


def introduce(pen: Pen, friends: int) -> list[Friend]:
    """Tells who the friends are; no two share a fact, so every fact has one owner."""
    pen.write(OPENINGS[pen.choose(WORDS["opening"])][friends - 1])
    cast: list[Friend] = []
    for _ in range(friends):
        cast.append(present(pen, cast))
    return cast


def present(pen: Pen, others: list[Friend]) -> Friend:
    """Introduces one friend in one sentence, each word free but for what others have."""

    def write_fact(kind: str, lead: str, tail: str = "") -> str:
        word = pen.choose(WORDS[kind].without({getattr(friend, kind) for friend in others}))
        pen.write(lead + word + tail)
        return word

    name = write_fact("name", " ")
    animal = write_fact("animal", " the ")
    thing = write_fact("thing", " had a ", ".")
    pronoun = pen.choose(WORDS["pronoun"])
    pen.write(f" {pronoun.capitalize()} {pen.choose(WORDS['home'])} by the")
    place = write_fact("place", " ")
    seat = write_fact("seat", " and slept on the ", ".")
    return Friend(name, animal, place, pronoun, thing, seat)


def play(pen: Pen, friend: Friend) -> None:
    """Plays one scene: one sentence that needs the friend's facts, and perhaps a mood."""
    kind = pen.choose(WORDS["scene"])
    if kind in ("sits", "loses"):
        pen.write(f" The {friend.animal}")
    else:
        pen.write(f" {friend.name} the")
        pen.recall(f" {friend.animal}", "animal")
    if kind == "goes":
        pen.write(f" {pen.choose(WORDS['move'])} to the")
        pen.recall(f" {friend.place}", "place")
        if pen.choose(WORDS["seen"]) == "yes":
            pen.write(f" and saw a {pen.choose(WORDS['sight'])}")
    elif kind in ("takes", "loses"):
        pen.write(" took the" if kind == "takes" else " lost the")
        pen.recall(f" {friend.thing}", "thing")
        if kind == "takes":
            pen.write(" to the")
            pen.recall(f" {friend.place}", "place")
    else:
        pen.write(" sat on the" if kind == "sits" else " lay down on the")
        pen.recall(f" {friend.seat}", "seat")
    if pen.choose(WORDS["after"]) == "feels":
        pen.write(", and")
        pen.recall(f" {friend.pronoun}", "pronoun")
        degree = pen.choose(WORDS["degree"])
        pen.write(f" was {degree} {pen.choose(WORDS['mood'])}")
    pen.write(".")
