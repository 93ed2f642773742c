"""Rollback: forget what was read but not kept.

Verification reads the whole draft into the target's cache. What was rejected must go, and with it the one
token that is newly committed but not read yet: the pending one. Afterwards a cache holds exactly all
committed tokens but the pending one. This is the invariant that the tests check after every round.

In a tree of candidates the accepted ones need not lie side by side: they are moved together first.
"""

from collections.abc import Sequence

from minispec.core.cache import KVCache
from minispec.core.records import Verdict


def rollback(cache: KVCache, committed: Sequence[Sequence[int]]) -> None:
    """Cuts a cache back to each row's committed tokens, prompt included, but the pending one, in O(1)."""
    cache.truncate([len(row) - 1 for row in committed])


def keep_paths(cache: KVCache, before: Sequence[int], verdict: Verdict) -> None:
    """Moves each row's accepted path to the pending token; before: [B], what was committed until then."""
    if verdict.path is not None:
        kept = verdict.kept()
        cache.gather([[*range(n), *(n + i for i in path)] for n, path in zip(before, kept, strict=True)])
