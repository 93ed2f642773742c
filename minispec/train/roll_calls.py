"""Roll calls: exercises in whose fact is whose.

    Kit the cat. Sam the dog. Max the hen. Sam the dog. Kit the cat. …

A roll call goes through a few names again and again, in any order, and says one fact of each. The first
time the fact is free; from then on it is forced. A story asks the same, but only a few times, among many
words that are easier. So a target that starts with roll calls learns binding within minutes, and then tells
stories with it. A draft never sees one.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping

from minispec.train.grammar import ANIMALS, NAMES, PLACES, SEATS, THINGS

SENTENCES = 14
Sentence = Callable[[str, str, str], str]

# Sentences by kind, of a name, an animal and the fact. They are made of a story's own words and phrases.
FORMS: Mapping[str, tuple[Sentence, ...]] = {
    "animal": (lambda name, animal, fact: f" {name} the {animal}.",),
    "thing": (
        lambda name, animal, fact: f" {name} had a {fact}.",
        lambda name, animal, fact: f" {name} took the {fact}.",
        lambda name, animal, fact: f" {name} lost the {fact}.",
    ),
    "place": (
        lambda name, animal, fact: f" {name} lived by the {fact}.",
        lambda name, animal, fact: f" {name} went to the {fact}.",
    ),
    "seat": (
        lambda name, animal, fact: f" {name} slept on the {fact}.",
        lambda name, animal, fact: f" {name} lay down on the {fact}.",
        lambda name, animal, fact: f" {name} sat on the {fact}.",
    ),
    "animal's seat": (
        lambda name, animal, fact: f" The {animal} sat on the {fact}.",
        lambda name, animal, fact: f" The {animal} lay down on the {fact}.",
        lambda name, animal, fact: f" {name} the {animal} slept on the {fact}.",
        lambda name, animal, fact: f" {name} the {animal} was very tired and slept on the {fact}.",
    ),
}
FACTS = {"animal": ANIMALS, "thing": THINGS, "place": PLACES, "seat": SEATS, "animal's seat": SEATS}
KINDS = tuple(FORMS)


def draw_roll_calls(kind: str, count: int, seed: int) -> Iterator[str]:
    """Draws roll calls, the same for the same seed.

    Args:
        kind: which fact they are about, one of `KINDS`.
        count: how many.
        seed: of the draw.

    Yields:
        Texts.
    """
    rng = random.Random(f"minispec roll calls {kind} {seed}")
    for _ in range(count):
        yield draw_roll_call(kind, rng)


def draw_roll_call(kind: str, rng: random.Random) -> str:
    """Draws one roll call: nobody is called twice in a row, and nobody shares a fact."""
    present = rng.randint(2, min(len(NAMES.words), len(FACTS[kind].words)))
    names = rng.sample(NAMES.words, present)
    animals = rng.sample(ANIMALS.words, present)
    facts = animals if kind == "animal" else rng.sample(FACTS[kind].words, present)
    text, last = "", -1
    for _ in range(SENTENCES):
        last = rng.choice([i for i in range(present) if i != last])
        text += rng.choice(FORMS[kind])(names[last], animals[last], facts[last])
    return text.lstrip()
