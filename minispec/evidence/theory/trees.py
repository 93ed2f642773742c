"""Trees: how many tokens a target call yields at most, if a round drafts a tree of so many tokens."""

from collections.abc import Sequence
from math import inf

SUM_ERROR = 1e-9  # rates that were counted may miss a sum of 1 by this


def most_tokens(rates: Sequence[float], nodes: int) -> list[float]:
    """Returns the most expected tokens a target call, for trees of 0, 1, …, `nodes` drafted tokens.

    If a token is kept, its candidate r is kept with probability rates[r], whatever else is; at most one is.
    Let F(n) be the most tokens that come of a kept token with n tokens below it, itself included, and G(n, r)
    what its candidates from r on add to that if they and all below them are n tokens. Then

        F(n) = 1 + G(n, 0),   G(0, r) = 0,
        G(n, r) = max of rates[r] · F(m − 1) + G(n − m, r + 1) over m = 1, …, n,

    for candidate r and what is below it are some m of the n tokens: the dynamic programme of Sequoia (Chen et
    al. 2024, section 3.1). The rates need not fall. A chain is the tree with one candidate at each position.

    Raises:
        ValueError: if a rate is negative, or there is none, or their sum is above 1.
    """
    if not rates or min(rates) < 0 or sum(rates) > 1 + SUM_ERROR:
        raise ValueError(f"rates are 0 or more, and their sum is at most 1, not {list(rates)}")
    best = [1.0]  # F
    added = [[0.0] for _ in (*rates, None)]  # G, by rank and then by n; there is no candidate after the last
    for n in range(1, nodes + 1):
        for rate, here, rest in zip(rates, added, added[1:], strict=False):
            here.append(max(rate * best[m - 1] + rest[n - m] for m in range(1, n + 1)))
        added[-1].append(-inf)
        best.append(1 + added[0][n])
    return best
