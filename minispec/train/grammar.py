"""The story grammar: every sentence, every choice, every probability.

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

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True)
class Distribution:
    """A finite distribution over words."""

    words: tuple[str, ...]  #: the options, all different
    weights: tuple[float, ...]  #: one positive number per word; they sum to 1

    def without(self, taken: set[str]) -> "Distribution":
        """Returns the distribution given that none of `taken` comes up."""
        kept = [(w, p) for w, p in zip(self.words, self.weights, strict=True) if w not in taken]
        total = sum(p for _, p in kept)
        return Distribution(tuple(w for w, _ in kept), tuple(p / total for _, p in kept))


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


def percents(**weights: float) -> Distribution:
    """Returns a distribution from keyword weights in hundredths."""
    return Distribution(tuple(weights), tuple(w / 100 for w in weights.values()))


NAMES = percents(Kit=24, Sam=19, Max=15, Pip=12, Lou=10, Ash=8, Jay=7, Rue=5)
ANIMALS = percents(cat=28, dog=20, hen=14, pig=11, fox=9, cow=7, bear=6, frog=5)
PLACES = percents(river=26, hill=20, farm=14, lake=12, mill=10, barn=7, wood=6, shop=5)
PRONOUNS = percents(she=50, he=50)
THINGS = percents(kite=26, ball=20, drum=14, boat=12, book=10, bell=8, cup=6, hat=4)
SEATS = percents(mat=40, floor=20, bed=14, rug=11, chair=9, step=6)
HOMES = percents(lived=75, stayed=25)
FIRST = percents(Once=70, Here=30)
WHO = {3: percents(first=50, second=30, third=20), 2: percents(first=60, second=40), 1: percents(first=100)}
SCENES = percents(goes=16, takes=36, sits=26, rests=12, loses=10)
MOVES = percents(went=60, ran=25, walked=15)
SEEN = percents(yes=25, no=75)
SIGHTS = percents(star=28, duck=20, bee=15, ship=12, tree=10, snail=8, rose=7)
AFTER = percents(nothing=75, feels=25)
DEGREES = percents(very=55, so=30, quite=15)
MOODS = percents(happy=42, sad=22, tired=18, glad=11, hungry=7)
BETWEEN = percents(silence=82, sun=8, rain=5, tea=5)
MORE = percents(more=96, end=4)
LAST = percents(day=60, home=40)

COUNTS = {1: ("was", "one friend"), 2: ("were", "two friends"), 3: ("were", "three friends")}
IDIOMS = {
    "sun": " The sun was warm and the sky was blue.",
    "rain": " The rain came down and the wind blew.",
    "tea": " It was time for a cup of tea.",
    "day": " And that was the end of the day.",
    "home": " Then they all went home for tea.",
}
MOST_SCENES = 7

# The sentences of roll calls (see `stories`), by the kind of fact: a story's own words and phrases.
FORMS = {
    "animal": (" {name} the {animal}.",),
    "thing": (" {name} had a {fact}.", " {name} took the {fact}.", " {name} lost the {fact}."),
    "place": (" {name} lived by the {fact}.", " {name} went to the {fact}."),
    "seat": (" {name} slept on the {fact}.", " {name} lay down on the {fact}.", " {name} sat on the {fact}."),
    "animal's seat": (
        " The {animal} sat on the {fact}.",
        " The {animal} lay down on the {fact}.",
        " {name} the {animal} slept on the {fact}.",
        " {name} the {animal} was very tired and slept on the {fact}.",
    ),
}
FACTS = {"animal": ANIMALS, "thing": THINGS, "place": PLACES, "seat": SEATS, "animal's seat": SEATS}
KINDS = tuple(FORMS)


def tell(pen: Pen, friends: int = 3) -> None:
    """Tells one story of 1 to 3 friends; the pen makes the choices and takes the text."""
    cast = introduce(pen, friends)
    waiting = cast
    for scene in range(MOST_SCENES):
        order = WHO[len(waiting)]
        friend = waiting[order.words.index(pen.choose(order))]  # nobody plays two scenes in a row
        waiting = [other for other in cast if other is not friend] or cast
        play(pen, friend)
        idiom = pen.choose(BETWEEN)
        if idiom != "silence":
            pen.write(IDIOMS[idiom])
        if scene == MOST_SCENES - 1 or pen.choose(MORE) == "end":
            break
    pen.write(IDIOMS[pen.choose(LAST)])


def introduce(pen: Pen, friends: int) -> list[Friend]:
    """Tells who the friends are; no two share a fact, so every fact has one owner."""
    verb, count = COUNTS[friends]
    opening = pen.choose(FIRST)
    pen.write(f"Once there {verb} {count}." if opening == "Once" else f"Here is a tale of {count}.")
    cast: list[Friend] = []
    for _ in range(friends):
        cast.append(present(pen, cast))
    return cast


def present(pen: Pen, others: list[Friend]) -> Friend:
    """Introduces one friend in one sentence, each word free but for what others have."""

    def pick(kind: str, options: Distribution, lead: str, tail: str = "") -> str:
        word = pen.choose(options.without({getattr(friend, kind) for friend in others}))
        pen.write(lead + word + tail)
        return word

    name = pick("name", NAMES, " ")
    animal = pick("animal", ANIMALS, " the ")
    thing = pick("thing", THINGS, " had a ", ".")
    pronoun = pen.choose(PRONOUNS)
    pen.write(f" {pronoun.capitalize()} {pen.choose(HOMES)} by the")
    place = pick("place", PLACES, " ")
    seat = pick("seat", SEATS, " and slept on the ", ".")
    return Friend(name, animal, place, pronoun, thing, seat)


def play(pen: Pen, friend: Friend) -> None:
    """Plays one scene: one sentence that needs the friend's facts, and perhaps a mood."""
    kind = pen.choose(SCENES)
    if kind in ("sits", "loses"):
        pen.write(f" The {friend.animal}")
    else:
        pen.write(f" {friend.name} the")
        pen.recall(f" {friend.animal}", "animal")
    if kind == "goes":
        pen.write(f" {pen.choose(MOVES)} to the")
        pen.recall(f" {friend.place}", "place")
        if pen.choose(SEEN) == "yes":
            pen.write(f" and saw a {pen.choose(SIGHTS)}")
    elif kind in ("takes", "loses"):
        pen.write(" took the" if kind == "takes" else " lost the")
        pen.recall(f" {friend.thing}", "thing")
        if kind == "takes":
            pen.write(" to the")
            pen.recall(f" {friend.place}", "place")
    else:
        pen.write(" sat on the" if kind == "sits" else " lay down on the")
        pen.recall(f" {friend.seat}", "seat")
    if pen.choose(AFTER) == "feels":
        pen.write(", and")
        pen.recall(f" {friend.pronoun}", "pronoun")
        degree = pen.choose(DEGREES)
        pen.write(f" was {degree} {pen.choose(MOODS)}")
    pen.write(".")
