"""How many instances Hypothesis draws, and which seed a sampled test takes: both follow the profile.

In profile `ci` they are the same on every run; `wide` has ten times as many instances, and all are new.
"""

from random import SystemRandom

from hypothesis import settings

from minispec.core.rng import SEEDS

PROFILE = settings()
SEED = 0 if PROFILE.derandomize else SystemRandom().randrange(SEEDS)


def examples(count):
    """Returns settings with so many examples in profile `ci`, and in proportion in the others."""
    return settings(max_examples=how_many(count))


def how_many(count):
    """Returns how many examples the profile has, where `ci` has `count`."""
    return max(count * PROFILE.max_examples // 100, 1)
