"""What a recording must be like to be shown: values of the right kind and shape, rounds that fit each other.

A file may be cut, edited or damaged. What is wrong is found here, and not by who looks at the recording.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from minispec.core.records import Finish
from minispec.io.files import shown
from minispec.io.trace import ObservedRound

Allows = Callable[[Any], bool]


def check_values(name: str, values: Any, shape: Sequence[int | None], allows: Allows) -> None:
    """Refuses, by ValueError, lists in lists that do not have this shape, or hold what is not allowed.

    Where the shape says None, a list may be of any length.
    """
    if not shape:
        if not allows(values):
            raise ValueError(f"{shown(values)} in {name} is of the wrong kind, or out of range")
    elif not isinstance(values, list) or shape[0] not in (None, len(values)):
        sizes = " × ".join("any" if size is None else str(size) for size in shape)
        raise ValueError(f"{name} should be a list of {sizes}")
    else:
        for value in values:
            check_values(name, value, shape[1:], allows)


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
    texts = [list(prompt) for prompt in prompts]
    finish: dict[int, Finish | None] = {}  # of each prompt that has had a row
    before: Sequence[int] = ()  # which prompt each row held in the last round
    for r in rounds:
        if before and len(r.prompt_ids) != len(before):
            raise ValueError(f"round {r.index} has {len(r.prompt_ids)} rows, the one before it {len(before)}")
        if len(set(r.prompt_ids)) != len(r.prompt_ids):
            raise ValueError(f"round {r.index} has a prompt in two rows")
        for row, prompt in enumerate(r.prompt_ids):
            changed = bool(before) and before[row] != prompt
            faults = {
                "it takes a row from a text that goes on": (
                    changed and (prompt in finish or finish[before[row]] is None)
                ),
                **_faults(r, row, texts[prompt], finish),
            }
            for fault, is_present in faults.items():
                if is_present:
                    raise ValueError(f"round {r.index}, row {row}: {fault}")
            texts[prompt] += r.emitted[row]
        finish |= dict(zip(r.prompt_ids, r.finish, strict=True))
        before = r.prompt_ids


def _faults(
    r: ObservedRound, row: int, text: Sequence[int], finish: Mapping[int, Finish | None]
) -> dict[str, bool]:
    """Returns what can be wrong with a row of a round that comes after a text, and whether it is."""
    emitted = list(r.emitted[row])
    tokens = [*r.draft.tokens[row, r.verdict.kept()[row]].tolist(), int(r.verdict.token[row])]
    ended = finish.get(r.prompt_ids[row], None if r.live[row] else r.finish[row])
    return {
        "its pending token is not the last of the text": int(r.pending[row]) != text[-1],
        "it does not fit how the text had ended": (
            r.live[row] != (ended is None) or ended not in (None, r.finish[row])
        ),
        "what it emits is not what was accepted": emitted != tokens[: len(emitted)],
        "it emits nothing, or goes on after the end": bool(emitted) != r.live[row],
        "its length is not that of the text": r.lengths[row] != len(text) + len(emitted) - 1,
        "its caches do not hold what its length says": not _caches_fit(r, row),
    }


def _caches_fit(r: ObservedRound, row: int) -> bool:
    """Whether caches held a row's text after the round, and no less once they had read than before."""
    caches = [cache for cache in (r.target_cache, r.draft_cache) if cache is not None]
    return all(
        cache.before[row] <= cache.verified[row] and cache.after[row] == r.lengths[row] for cache in caches
    )
