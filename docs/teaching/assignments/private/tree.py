"""Private tests of assignment 3, size a tree. `hand_out.py` puts a student's own seed into them.

Small trees are compared with all others. Large ones are changed in each way that changes one token.
"""

from functools import cache
from random import Random

from otter.test_files import test_case

from minispec.classroom.running import Malformed, read_ids, read_number, value_of

OK_FORMAT = False
SEED = "practice"
name = "tree"

FEW = 6
MANY = 28
DRAWS = 12
OFF = 0.05  # a measured time may be off by this


def draw_acceptance(rng, ranks):
    """Returns probabilities of the children by rank; they need not fall."""
    weights = [rng.randrange(1, 8) for _ in range(ranks)]
    together = rng.randrange(60, 96) / 100
    return [round(together * weight / sum(weights), 4) for weight in weights]


def draw_seconds(rng, most):
    """Returns t(0), t(1), …: flat, then rising, in places by a jump."""
    free = rng.randrange(2, most)
    slope = rng.choice((0.02, 0.05, 0.1, 0.3))
    return [round(1 + slope * max(0, n - free) + 0.2 * (n > 2 * free), 4) for n in range(most + 2)]


def setting_of(rng, ranks, most):
    """Returns what `grow` is given."""
    step = rng.choice((0.05, 0.1, 0.2, 0.4))
    return draw_acceptance(rng, ranks), draw_seconds(rng, most), step, most


def parameters(seed):
    """Returns a setting."""
    names = ("acceptance", "seconds", "step", "most")
    return dict(zip(names, setting_of(Random(f"{seed} setting"), 4, 24), strict=True))


RNG = Random(f"{SEED} tests")


@cache
def all_trees(most, ranks):
    """Returns the parents of every tree of so many tokens or fewer, level by level."""
    trees = [()]
    for parents in trees:
        if len(parents) < most:
            lowest = parents[-1] if parents else 0
            at = range(lowest, len(parents) + 1)
            trees += [(*parents, parent) for parent in at if parents.count(parent) < ranks]
    return trees


def true_rate(parents, acceptance, seconds, step):
    """Returns tokens a second: what each token is kept with, over the time of a round."""
    kept = [1.0]
    depths = [0]
    for i, parent in enumerate(parents):
        kept.append(kept[parent] * acceptance[parents[:i].count(parent)])
        depths.append(depths[parent] + 1)
    return sum(kept) / (seconds[len(parents) + 1] + max(depths) * step)


def grown(grow, setting):
    """Returns the tree that a student grows."""
    acceptance, _, _, most = setting
    parents = read_ids(value_of(grow, *setting), "a list of parents")
    if len(parents) > most:
        raise Malformed(f"it has {len(parents)} tokens, and may have {most}")
    if list(parents) != sorted(parents) or any(not 0 <= parent <= i for i, parent in enumerate(parents)):
        raise Malformed(f"{parents}: parents come level by level, so they ascend, and before their children")
    if any(parents.count(parent) > len(acceptance) for parent in parents):
        raise Malformed(f"a token has more than {len(acceptance)} children, of which nothing is known")
    return parents


def is_best(parents, acceptance, seconds, step, most):
    """Whether no other tree of so many tokens or fewer has a higher rate, and the highest rate."""
    best = max(true_rate(tree, acceptance, seconds, step) for tree in all_trees(most, len(acceptance)))
    return true_rate(parents, acceptance, seconds, step) > best - 1e-9, best


def why(parents, acceptance, seconds, step, most):
    """Says for what another setting a tree would be the best."""
    if is_best(parents, acceptance, seconds, 0.0, most)[0]:
        return "it is the best tree if a level costs nothing to draft"
    if is_best(parents, acceptance, [1.0] * len(seconds), step, most)[0]:
        return "it is the best tree if t(n) is the same for all n"
    if is_best(parents, sorted(acceptance, reverse=True), seconds, step, most)[0]:
        return "it is the best tree if first children were kept most often, then second ones, and so on"
    return "look at all trees of few tokens"


@test_case(name="the rate of a tree", points=2)
def rates(rate):
    """Of trees that were drawn."""
    for _ in range(DRAWS):
        acceptance, seconds, step, most = setting_of(RNG, 3, FEW)
        tree = RNG.choice(all_trees(most, 3))
        found = read_number(value_of(rate, list(tree), acceptance, seconds, step))
        expected = true_rate(tree, acceptance, seconds, step)
        words = f"The rate of {list(tree)} is {expected:.4f}, not {found:.4f}; the round's own token counts."
        assert abs(found - expected) < 1e-6, words


@test_case(name="the best of few tokens", points=6)
def best_of_few(grow):
    """Compared with every other tree."""
    for _ in range(DRAWS):
        setting = setting_of(RNG, 3, FEW)
        parents = grown(grow, setting)
        right, best = is_best(parents, *setting)
        mine = true_rate(parents, *setting[:3])
        words = f"{list(parents)} has a rate of {mine:.4f}, and {best:.4f} is possible"
        assert right, f"{words}: {why(parents, *setting)}."


@test_case(name="a tree of many tokens", points=4)
def best_of_many(grow):
    """No token more, fewer or elsewhere makes it better; nor is any chain."""
    for _ in range(2):
        setting = setting_of(RNG, 4, MANY)
        parents = grown(grow, setting)
        mine = true_rate(parents, *setting[:3])
        chain = max(true_rate(tuple(range(n)), *setting[:3]) for n in range(MANY + 1))
        assert mine > chain - 1e-9, f"A chain has a rate of {chain:.4f}, and this tree {mine:.4f}."
        for other in neighbours(parents, len(setting[0]), MANY):
            found = true_rate(other, *setting[:3])
            words = f"With one token more, fewer or elsewhere, {list(other)}"
            assert mine > found - 1e-9, f"{words}, the rate is {found:.4f}, not {mine:.4f}."


def neighbours(parents, ranks, most):
    """Yields trees that differ in one leaf; a leaf that has younger siblings gives its place to them."""
    leaves = [i for i in range(len(parents)) if i + 1 not in parents]
    smaller = [tuple(p - (p > i + 1) for j, p in enumerate(parents) if j != i) for i in leaves]
    yield from smaller
    for tree in (parents, *smaller):
        for parent in range(len(tree) + 1):
            if len(tree) < most and tree.count(parent) < ranks:
                yield with_child(tree, parent)


def with_child(parents, parent):
    """Returns a tree with one more child, after the parent's others, level by level."""
    place = sum(other <= parent for other in parents)
    return (*parents[:place], parent, *(p + (p > place) for p in parents[place:]))


class Machine:
    """A machine with a clock of its own: it drifts, it is disturbed, and it begins slowly."""

    def __init__(self, seconds, drift=0.0, disturbed=0.0):
        self.seconds = seconds
        self.drift = drift
        self.disturbed = disturbed
        self.now = 0.0
        self.calls = 0

    def clock(self):
        return self.now

    def forward(self, n):
        self.calls += 1
        if self.calls > 20_000:
            raise Malformed("it made more than 20,000 forwards")
        slow = 1 + self.drift * self.now + (30 if self.calls <= 3 else 0)
        waits = 5 * (RNG.random() < self.disturbed)
        self.now += self.seconds[n] * slow * RNG.uniform(0.99, 1.01) + waits


@test_case(name="measured times", points=4)
def measured(measure):
    """On a machine that is disturbed, and on one that gets slower."""
    sizes = [1, 2, 4, 8, 16]
    seconds = dict(zip(sizes, [1, *(1 + RNG.randrange(5, 80) / 100 for _ in sizes[1:])], strict=True))
    for machine, words in (
        (Machine(seconds, disturbed=0.12), "on a machine where one forward in eight is disturbed"),
        (Machine(seconds, drift=0.002), "on a machine that gets slower as it gets warm"),
    ):
        found = value_of(measure, machine.forward, sizes, machine.clock)
        if not isinstance(found, dict) or set(found) != set(sizes):
            raise Malformed("a dict is wanted, with the seconds of each size")
        for n in sizes:
            ratio = read_number(found[n]) / read_number(found[1])
            off = abs(ratio / seconds[n] - 1)
            assert off < OFF, f"t({n})/t(1) is off by {off:.0%} {words}."
