"""Examples for Hypothesis: how many it draws, the seed of a sampled test, and tables of logits.

In profile `ci` they are the same on every run; `wide` has ten times as many examples, and all are new.
"""

from itertools import product
from random import SystemRandom

from hypothesis import settings
from hypothesis import strategies as st

from minispec.core.rng import SEEDS

PROFILE = settings()
SEED = 0 if PROFILE.derandomize else SystemRandom().randrange(SEEDS)


def examples(count):
    """Returns settings with so many examples in profile `ci`, and in proportion in the others."""
    return settings(max_examples=how_many(count))


def how_many(count):
    """Returns how many examples the profile has, where `ci` has `count`."""
    return max(count * PROFILE.max_examples // 100, 1)


def tables(drawn):
    """Returns logits of a target and a draft [12, 3], made of 36 bytes each.

    With bytes of 0 they are 2, 1 and 0, which go round from context to context; the draft's are turned by
    one more. Other bytes add 1, -1, 2, -2. One string of bytes is one choice: Hypothesis tries a copy of one
    choice in the place of another of its kind, and thus with few settings, if there are many of a kind.
    """
    added = [(0, 1, -1, 2, -2)[byte % 5] for byte in drawn]
    simplest = [
        2 - (token + context + context // 3 + draft) % 3
        for draft, context, token in product(range(2), range(12), range(3))
    ]
    logits = [a + b for a, b in zip(added, simplest, strict=True)]
    rows = [tuple(logits[i : i + 3]) for i in range(0, len(logits), 3)]
    return tuple(rows[:12]), tuple(rows[12:])


TABLES = st.binary(min_size=72, max_size=72).map(tables)
PROMPTS = st.sampled_from([((0,),), ((1, 0), (2,)), ((0, 1, 0),), ((2, 2), (0, 1, 2))])
