"""Checks of recordings: values have the right kind and shape, and rounds fit each other.

A file may be cut, edited or damaged. It is refused here, before anything shows it.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from minispec.core.records import Finish
from minispec.io.files import format_value
from minispec.io.trace import ObservedRound

IsAllowed = Callable[[Any], bool]


def check_values(
    name: str, values: Any, shape: Sequence[int | None], is_allowed: IsAllowed = lambda value: True
) -> None:
    """Raises ValueError if nested lists do not have this shape, or an entry is not allowed.

    None in the shape means any length; without is_allowed entries may be anything.
    """
    if not shape:
        if not is_allowed(values):
            raise ValueError(f"{format_value(values)} in {name} is of the wrong kind, or out of range")
    elif not isinstance(values, list) or shape[0] not in (None, len(values)):
        expected_shape = " × ".join("any" if size is None else str(size) for size in shape)
        raise ValueError(f"{name} should be a list of {expected_shape}")
    else:
        for value in values:
            check_values(name, value, shape[1:], is_allowed)


def integers(low: int, high: int) -> IsAllowed:
    """Returns a function that tells whether a value is an integer from low to high; booleans are not."""
    return lambda value: type(value) is int and low <= value <= high


def is_number(value: Any) -> bool:
    """Returns whether a value is a finite number; booleans are not."""
    return type(value) in (int, float) and math.isfinite(value)


def check_run(prompts: Sequence[Sequence[int]], rounds: Iterable[ObservedRound]) -> None:
    """Checks that each round continues the prompts and the rounds before it.

    Raises:
        ValueError: with the first round and row that do not fit.
    """
    texts = [list(prompt) for prompt in prompts]
    finish: dict[int, Finish | None] = {}  # by prompt id, of prompts that had a row
    previous_ids: Sequence[int] = ()  # the prompt ids of the last round's rows
    for r in rounds:
        if previous_ids and len(r.prompt_ids) != len(previous_ids):
            raise ValueError(
                f"round {r.index} has {len(r.prompt_ids)} rows, the one before it {len(previous_ids)}"
            )
        if len(set(r.prompt_ids)) != len(r.prompt_ids):
            raise ValueError(f"round {r.index} has a prompt in two rows")
        for row, prompt in enumerate(r.prompt_ids):
            row_changed = bool(previous_ids) and previous_ids[row] != prompt
            faults = {
                "it takes a row from a text that goes on": (
                    row_changed and (prompt in finish or finish[previous_ids[row]] is None)
                ),
                **_faults(r, row, texts[prompt], finish),
            }
            for fault, is_present in faults.items():
                if is_present:
                    raise ValueError(f"round {r.index}, row {row}: {fault}")
            texts[prompt] += r.emitted[row]
        finish |= dict(zip(r.prompt_ids, r.finish, strict=True))
        previous_ids = r.prompt_ids


def _faults(
    r: ObservedRound, row: int, text: Sequence[int], finish: Mapping[int, Finish | None]
) -> dict[str, bool]:
    """Returns the faults that a row of a round can have after a text, each with whether it has it."""
    emitted = list(r.emitted[row])
    kept_tokens = [*r.draft.tokens[row, r.verdict.kept()[row]].tolist(), int(r.verdict.token[row])]
    previous_finish = finish.get(r.prompt_ids[row], None if r.live[row] else r.finish[row])
    return {
        "its pending token is not the last of the text": int(r.pending[row]) != text[-1],
        "it does not fit how the text had ended": (
            r.live[row] != (previous_finish is None) or previous_finish not in (None, r.finish[row])
        ),
        "what it emits is not what was accepted": emitted != kept_tokens[: len(emitted)],
        "it emits nothing, or goes on after the end": bool(emitted) != r.live[row],
        "its length is not that of the text": r.lengths[row] != len(text) + len(emitted) - 1,
        "its caches do not hold what its length says": not _caches_fit(r, row),
    }


def _caches_fit(r: ObservedRound, row: int) -> bool:
    """Returns whether a row's cache lengths agree with its text, and reading did not shorten them."""
    caches = [cache for cache in (r.target_cache, r.draft_cache) if cache is not None]
    return all(
        cache.before[row] <= cache.verified[row] and cache.after[row] == r.lengths[row] for cache in caches
    )
