"""What a recording must be like to be shown: values of the right kind and shape, rounds that fit each other.

A file may be cut, edited or damaged. What is wrong is found here, and not by who looks at the recording.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from minispec.core.records import Finish, Round
from minispec.io.files import shown
from minispec.io.trace import ObservedRound

Allows = Callable[[Any], bool]


def check_values(name: str, values: Any, shape: Sequence[int], allows: Allows) -> None:
    """Refuses, by ValueError, lists in lists that do not have this shape, or hold what is not allowed."""
    if not shape:
        if not allows(values):
            raise ValueError(f"{shown(values)} in {name} is of the wrong kind, or out of range")
    elif not isinstance(values, list) or len(values) != shape[0]:
        raise ValueError(f"{name} should be a list of {' × '.join(map(str, shape))}")
    else:
        for each in values:
            check_values(name, each, shape[1:], allows)


def length(name: str, values: Any) -> int:
    """Returns how long a list is; refuses, by ValueError, what is none."""
    if not isinstance(values, list):
        raise ValueError(f"{shown(values)} in {name} should be a list")
    return len(values)


def integers(low: int, high: int) -> Allows:
    """Returns what allows integers from low to high; yes and no are none."""
    return lambda value: type(value) is int and low <= value <= high


def is_number(value: Any) -> bool:
    """Whether this is a finite number, and not yes or no."""
    return type(value) in (int, float) and math.isfinite(value)


def check_run(prompts: Sequence[Sequence[int]], rounds: Iterable[ObservedRound]) -> None:
    """Refuses rounds that do not go on from the prompts and from each other.

    Raises:
        ValueError: with the first round and row where something does not fit.
    """
    replay = _Replay(prompts)
    for r in rounds:
        replay.follow(r)


def caches_fit(r: ObservedRound, row: int) -> bool:
    """Whether caches held a row's text after the round, and no less once they had read than before."""
    caches = [cache for cache in (r.target_cache, r.draft_cache) if cache is not None]
    return all(
        cache.before[row] <= cache.verified[row] and cache.after[row] == r.lengths[row] for cache in caches
    )


class _Replay:
    """The texts as far as rounds have been followed, which prompts have had a row, and why they ended."""

    def __init__(self, prompts: Sequence[Sequence[int]]) -> None:
        self._texts = [list(prompt) for prompt in prompts]
        self._finish: dict[int, Finish | None] = {}
        self._held: tuple[int, ...] | None = None  # which prompt each row held in the last round

    def follow(self, r: ObservedRound) -> None:
        """Goes on by a round."""
        if self._held is not None and len(r.names) != len(self._held):
            raise ValueError(f"round {r.index} has {len(r.names)} rows, the one before it {len(self._held)}")
        if len(set(r.names)) != len(r.names):
            raise ValueError(f"round {r.index} has a prompt in two rows")
        for row, prompt in enumerate(r.names):
            before = self._texts[prompt][-1]
            whole = [*r.draft.tokens[row, r.verdict.kept()[row]].tolist(), int(r.verdict.token[row])]
            emitted = list(r.emitted[row])
            self._texts[prompt] += emitted
            faults = {
                "it takes a row from a text that goes on": self._row_is_not_free(row, prompt),
                "its pending token is not the last of the text": int(r.pending[row]) != before,
                "it does not fit how the text had ended": self._ended_otherwise(r, row),
                "what it emits is not what was accepted": emitted != whole[: len(emitted)],
                "it emits nothing, or goes on after the end": bool(emitted) != r.live[row],
                "its length is not that of the text": r.lengths[row] != len(self._texts[prompt]) - 1,
                "its caches do not hold what its length says": not caches_fit(r, row),
            }
            for words, wrong in faults.items():
                if wrong:
                    raise ValueError(f"round {r.index}, row {row}: {words}")
        self._finish |= dict(zip(r.names, r.finish, strict=True))
        self._held = r.names

    def _row_is_not_free(self, row: int, prompt: int) -> bool:
        """Whether a row has changed to a prompt that had a row before, or from one that had not ended."""
        if self._held is None or self._held[row] == prompt:
            return False
        return prompt in self._finish or self._finish[self._held[row]] is None

    def _ended_otherwise(self, r: Round, row: int) -> bool:
        """Whether a row is live after its text's end, or the reverse, or the end is another than it was."""
        ended = self._finish.get(r.names[row], None if r.live[row] else r.finish[row])
        if ended is None:
            return not r.live[row]
        return r.live[row] or r.finish[row] != ended
