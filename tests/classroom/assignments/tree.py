"""Assignment 3, solved from its statement."""

from functools import cache
from statistics import median

PARAMETERS: dict = {}


def rate(parents, acceptance, seconds, step):
    """Expected tokens over the time of a round."""
    kept, depth, children = [1.0], [0], {}
    for parent in parents:
        rank = children[parent] = children.get(parent, -1) + 1
        kept.append(kept[parent] * acceptance[rank])
        depth.append(depth[parent] + 1)
    return sum(kept) / (seconds[len(parents) + 1] + max(depth) * step)


def grow(acceptance, seconds, step, most):
    """The best of all sizes and depths: how many tokens each child gets, by dynamic programming."""

    @cache
    def forest(n, depth, rank):
        """The most that n tokens add as children from this rank on, and the sizes of their trees."""
        if n == 0:
            return 0.0, ()
        if depth == 0 or rank == len(acceptance):
            return float("-inf"), ()
        options = []
        for size in range(1, n + 1):
            here = acceptance[rank] * (1 + forest(size - 1, depth - 1, 0)[0])
            rest, sizes = forest(n - size, depth, rank + 1)
            options.append((here + rest, (size, *sizes)))
        return max(options)

    best = (1 / seconds[1], 0, 0)
    for depth in range(1, most + 1):
        for n in range(1, most + 1):
            kept = 1 + forest(n, depth, 0)[0]
            best = max(best, (kept / (seconds[n + 1] + depth * step), n, depth))
    _, n, depth = best
    parents = []
    level = [(0, n)]
    while level:
        following = []
        for node, tokens in level:
            for size in forest(tokens, depth, 0)[1]:
                parents.append(node)
                following.append((len(parents), size - 1))
        level = following
        depth -= 1
    return parents


def measure(forward, sizes, clock):
    """Medians of interleaved runs, after some that do not count."""
    times = {n: [] for n in sizes}
    for run in range(105):
        for n in sizes:
            start = clock()
            forward(n)
            if run >= 4:
                times[n].append(clock() - start)
    return {n: median(values) for n, values in times.items()}
