"""Rollback: forget what was read but not kept.

Verification reads the whole draft into the target's cache. What was rejected must go, and with it the one
token that is newly committed but not read yet: the pending one. Afterwards a cache holds exactly all
committed tokens but the pending one. This is the invariant that the tests check after every round.
"""

from collections.abc import Sequence

from minispec.core.cache import KVCache


def rollback(cache: KVCache, committed: Sequence[Sequence[int]]) -> None:
    """Cuts a cache back to each row's committed tokens, prompt included, but the pending one, in O(1)."""
    cache.truncate([len(row) - 1 for row in committed])
