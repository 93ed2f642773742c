"""Assignment 6, solved from its statement."""

from functools import cache
from itertools import permutations

import numpy as np

PARAMETERS: dict = {}

PATTERNS = ("", ".", "0", "1", "2", "..", "0.", "1.", "2.", ".0", ".1", ".2")
FALSE_ALARM = PARAMETERS["false_alarm"]
MISS = PARAMETERS["miss"]


def probabilities(target, texts, after=None, giver="", taker="", share=0.0):
    """What the target, or an engine with one fault, emits: [texts]."""
    probs = np.ones(len(texts))
    for number, text in enumerate(texts):
        for i, token in enumerate(text):
            begun = text[:i]
            prob = target[begun][int(token)] / sum(target[begun])
            here = after is not None and len(after) == i
            if here and all(a in (b, ".") for a, b in zip(after, begun, strict=True)):
                prob += share * ((token == taker) - (token == giver))
            probs[number] *= prob
    return probs


def find(target, counts):
    """The fault under which these counts are the most likely."""
    texts = [*counts]
    seen = np.array([*counts.values()])
    best = (-np.inf, None)
    for after in PATTERNS:
        for giver, taker in permutations("012", 2):
            for share in np.arange(0.02, 0.25, 0.01):
                probs = probabilities(target, texts, after, giver, taker, share)
                if probs.min() > 0:
                    damage = np.abs(probs - probabilities(target, texts)).sum() / 2
                    finding = {"after": after, "giver": giver, "taker": taker, "damage": float(damage)}
                    best = max(best, (float(seen @ np.log(probs)), finding), key=lambda pair: pair[0])
    return best[1]


def chi_square(counts, probs, n):
    """How far counts [..., texts] are from what is expected."""
    return ((counts - n * probs) ** 2 / (n * probs)).sum(-1)


@cache
def threshold(probs, n):
    """What right samplers exceed with four fifths of the false alarm that is stated: by simulation."""
    probs = np.array(probs)
    runs = np.random.default_rng(1).multinomial(n, probs / probs.sum(), 40_000)
    return np.quantile(chi_square(runs, probs, n), 1 - 0.8 * FALSE_ALARM)


def audit(sample, target, most):
    """Alarm where the chi-square of whole texts is larger than right samplers' is."""
    seen = sample(most)
    probs = probabilities(target, [*seen])
    return bool(chi_square(np.array([*seen.values()]), probs, most) > threshold(tuple(probs), most))


FINDING = find(PARAMETERS["target"], PARAMETERS["counts"])
