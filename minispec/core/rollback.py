"""Rollback: forget what was read but not kept.

Verification reads the whole draft into the target's cache. What was rejected must go, and with it the one
token that is newly committed but not read yet: the pending one. Afterwards a cache holds exactly all
committed tokens but the pending one. This is the invariant that the tests check after every round.

In a tree of candidates the accepted ones need not lie side by side: they are moved together first.
"""

from collections.abc import Sequence

from minispec.core.cache import KVCache
from minispec.core.records import Verdict


def rollback(cache: KVCache, verdict: Verdict, before: Sequence[int], after: Sequence[int]) -> None:
    """Cuts a cache from what verification has read to what was committed: O(1) for a chain.

    Args:
        cache: to be cut.
        verdict: which drafted tokens were accepted. In a tree they are first moved to the pending token.
        before: [B], the cache's lengths before verification.
        after: [B], those after the rollback: all committed tokens but the pending one.
    """
    if verdict.path is not None:
        slots = zip(before, verdict.kept(), strict=True)
        cache.gather([[*range(n + 1), *(n + 1 + i for i in path)] for n, path in slots])
    cache.truncate(after)
