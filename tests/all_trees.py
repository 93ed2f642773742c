"""Every tree of a few drafted tokens, and how many tokens a target call yields with one."""

from itertools import product


def most_yielded(nodes, rates):
    """Returns the most that any tree of so many tokens yields; rates[depth][rank] are those of candidates."""
    return max(yielded(tree, rates) for tree in product(*map(range, range(1, nodes + 1))))


def yielded(parents, rates):
    """Returns the expected tokens; 0 for a tree that is deeper, or wider, than there are rates."""
    kept = [1.0]
    depths = [0]
    for i, parent in enumerate(parents):
        rank = parents[:i].count(parent)
        depth = depths[parent]
        if depth == len(rates) or rank == len(rates[depth]):
            return 0.0
        kept.append(kept[parent] * rates[depth][rank])
        depths.append(depth + 1)
    return sum(kept)
