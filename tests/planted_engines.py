"""Engines with one fault each, written without the package: a loop over tables, and what is wrong with it.

`FAULTS` is the table: what is planted, and how many texts it takes to find it. Wrong acceptance and rollback
are bugs of the zoo.
"""

import random
from bisect import bisect
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import accumulate

from engines import PLAIN, target_of

V = 3
DEFAULT = 16_384  # texts, `check_engine`'s own
LARGEST = 1_048_576
DRAFTED = 2


def table_of(model):
    """The distributions after each context, as lists."""
    return model.table.softmax(-1).tolist()


P = table_of(PLAIN.target)
Q = table_of(PLAIN.draft)


def context(text):
    """Which distribution follows a text."""
    return (text[-2] if len(text) > 1 else V) * V + text[-1]


def picked(weights, number):
    """The id in whose interval a number from 0 to 1 lies; weights need not sum to 1."""
    sums = list(accumulate(weights))
    return min(bisect(sums, number * sums[-1]), len(weights) - 1)


def residual(p, q):
    """What p has more than q; p where that is nothing."""
    more = [max(0.0, a - b) for a, b in zip(p, q, strict=True)]
    return more if sum(more) else p


class Loop:
    """Drafts two tokens a round and verifies them by rejection; faults replace one method each."""

    def __init__(self):
        self.texts = 0

    def __call__(self, prompt, n, seed):
        self.texts += 1
        self.random = random.Random(self.seed_of(seed)).random
        self.seed = seed
        self.prompt = list(prompt)
        self.n = n
        self.round = 0
        self.rejected = None
        text = list(prompt)
        while len(text) < len(prompt) + n:
            text += self.round_after(text)
            self.round += 1
        return self.cut(text[len(prompt) :])[:n]

    def round_after(self, text):
        drafts = []
        for _ in range(DRAFTED):
            drafts.append(picked(self.q(text + drafts), self.random()))
        self.coins = []
        for i, token in enumerate(drafts):
            before = text + drafts[:i]
            p = self.p(before)
            q = self.q_told(before)
            self.coins.append(self.coin())
            if not self.accepts(p[token], q[token], self.coins[-1]):
                self.rejected = token
                return [*drafts[:i], self.corrected(text, drafts, i)]
        self.rejected = None
        return [*drafts, self.bonus(text + drafts)]

    # What faults replace.

    def seed_of(self, seed):
        return seed

    def p(self, text):
        return P[context(text)]

    def q(self, text):
        return Q[context(text)]

    def q_told(self, text):
        return self.q(text)

    def coin(self):
        return self.random()

    def accepts(self, p, q, coin):
        return coin * q < p

    def corrected(self, text, drafts, i):
        before = text + drafts[:i]
        return picked(self.correction(self.p(before), self.q_told(before)), self.random())

    def correction(self, p, q):
        return residual(p, q)

    def bonus(self, text):
        return picked(self.p(text), self.random())

    def cut(self, text):
        return text


class Alone(Loop):
    """The target without a draft, from n numbers."""

    def __call__(self, prompt, n, seed):
        self.seed = seed
        text = list(prompt)
        for number in self.numbers(n, seed):
            text.append(self.token(text, number, n - (len(text) - len(prompt))))
        return text[len(prompt) :]

    def numbers(self, n, seed):
        uniform = random.Random(self.seed_of(seed)).random
        return [uniform() for _ in range(n)]

    def token(self, text, number, left):
        p = P[context(text)]
        likeliest = sorted(range(V), key=lambda token: -p[token])
        return likeliest[picked([p[token] for token in likeliest], number)]


def altered(engine, **methods):
    """Returns an engine with other methods."""
    return type("Altered", (engine,), methods)


def seeded(engine, other):
    """Returns an engine that decodes the text of a seed with another one."""
    return altered(engine, seed_of=lambda self, seed: other(seed))


# Numbers that are used again.


class FromTwoBack(Alone):
    def numbers(self, n, seed):
        uniform = super().numbers(n, seed)
        uniform[6] = uniform[4]
        return uniform


class FromFourBack(Alone):
    def numbers(self, n, seed):
        uniform = super().numbers(n, seed)
        for i in range(4, n):
            uniform[i] = uniform[i - 4]
        return uniform


class FirstNumberOfPairs(Alone):
    def numbers(self, n, seed):
        return super().numbers(n, seed // 2)[:1] + super().numbers(n, seed)[1:]


class Antithetic(Alone):
    def numbers(self, n, seed):
        uniform = super().numbers(n, seed // 2)
        return [1 - number for number in uniform] if seed % 2 else uniform


class CoinCorrects(Loop):
    def corrected(self, text, drafts, i):
        before = text + drafts[:i]
        return picked(self.correction(self.p(before), self.q_told(before)), self.coins[-1])


# Contexts.


class LastContext(Alone):
    def token(self, text, number, left):
        return super().token(text[:-1] if left == 1 and len(text) > 1 else text, number, left)


class LateContext(Alone):
    def token(self, text, number, left):
        return super().token(text[:-1] if len(text) >= 22 else text, number, left)


class OnePrompt(Loop):
    def p(self, text):
        return super().p(text[-1:] if self.prompt == [0, 1] and text == self.prompt else text)


# Distributions.


def sharper(probs, power):
    return [prob**power / sum(x**power for x in probs) for prob in probs]


class TemperatureOnce(Loop):
    def p(self, text):
        return sharper(super().p(text), 1.0 if self.round == 0 else 1 / 0.8)


class WarmerByOnePercent(Loop):
    def p(self, text):
        return sharper(super().p(text), 0.99)


# Ends and ties: with targets of their own.


class NeverFirst(Loop):
    """It never ends at the first token."""

    def round_after(self, text):
        tokens = super().round_after(text)
        return super().round_after(text) if len(text) == len(self.prompt) and tokens[0] == 2 else tokens

    def cut(self, text):
        return text[: text.index(2) + 1] if 2 in text else text


TIED = [0.4, 0.2, 0.2, 0.2]  # with top-p 0.6 the ids 0 and 1 are kept: ties go to the lowest id


def nucleus(ids):
    """The target at top-p 0.6."""
    return [2 / 3, 1 / 3, 0.0, 0.0]


@dataclass(frozen=True)
class Fault:
    """One planted fault, and what it takes to find it."""

    engine: Callable
    found: int | None  #: the samples at which it is found, of 16,384 and its doubles; None: not up to LARGEST
    test: str = ""  #: the name of the test that finds it, where that is the point
    settings: dict = field(default_factory=dict)  #: of `check_engine`, where not the default ones
    target: Callable = target_of(PLAIN)


FAULTS = {
    "token 7 reuses the number of token 5": Fault(FromTwoBack, DEFAULT, "tokens 5 and 7"),
    "each token reuses the number of the fourth before": Fault(FromFourBack, DEFAULT),
    "every text comes twice": Fault(seeded(Alone, lambda seed: seed // 2), DEFAULT, "texts 1 apart, from 1"),
    "seeds come again after 1,000 texts": Fault(seeded(Alone, lambda seed: seed % 1000), DEFAULT),
    "seeds come again after 8,192 texts": Fault(seeded(Alone, lambda seed: seed % 8192), 2 * DEFAULT),
    "every tenth text has the same seed": Fault(
        seeded(Loop, lambda seed: 7 if seed % 10 == 0 else seed), DEFAULT
    ),
    "two rows of a batch of 64 are alike": Fault(
        seeded(Loop, lambda seed: seed - 2 if seed % 64 == 5 else seed), 8 * DEFAULT
    ),
    "two texts share their first number": Fault(FirstNumberOfPairs, DEFAULT),
    "every second text uses 1 - u": Fault(Antithetic, DEFAULT),
    "the coin's number draws the correction": Fault(CoinCorrects, DEFAULT),
    "a wrong context at the last token only": Fault(LastContext, DEFAULT, "token 8"),
    "a wrong context after position 20 only": Fault(LateContext, DEFAULT, settings={"tokens": 24}),
    "a wrong context after one of two prompts": Fault(OnePrompt, DEFAULT),
    "the temperature is ignored after the first round": Fault(TemperatureOnce, DEFAULT),
    "a temperature of 1.01 instead of 1": Fault(WarmerByOnePercent, None),
    "accepted with 1.05 p/q": Fault(
        altered(Loop, accepts=lambda self, p, q, coin: coin * q < 1.05 * p), DEFAULT
    ),
    "goes on for a token after the end": Fault(
        altered(Loop, cut=lambda self, text: text[: text.index(2) + 2] if 2 in text else text),
        DEFAULT,
        settings={"eos": 2},
    ),
    "never ends at the first token": Fault(NeverFirst, DEFAULT, settings={"eos": 2}),
    "top-p keeps all equal ids": Fault(
        altered(Alone, token=lambda self, text, number, left: picked(TIED, number)), DEFAULT, target=nucleus
    ),
}
