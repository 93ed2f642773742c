"""Recordings on disk, as JSON: loaded without a model, looked at without our code.

Every field of every round is kept: integers and texts as they are, distributions and logits as
`recording_numbers` tells. `FIELDS`, from recording.toml, says where each stands.

A file is written whole or not at all. A damaged file is refused in one line.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import astuple
from functools import partial
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple, get_args

import torch
from torch import Tensor

from minispec.core.records import Draft, Verdict
from minispec.io.files import read_json, read_table, write_text_file
from minispec.io.recording import Draw, DrawKind, Recording
from minispec.io.recording_check import IsAllowed, check_run, check_values, integers, is_number
from minispec.io.recording_numbers import (
    dist_to_json,
    dists_from_json,
    logits_from_json,
    logits_to_json,
    round_number,
)
from minispec.io.trace import CacheLengths, ObservedRound, Trace

FORMAT = "minispec recording"
VERSION = 2
MAX_COUNT = 2**53  # of lengths and counts
DAMAGE_ERRORS = (KeyError, IndexError, TypeError, ValueError, AttributeError, RuntimeError, OverflowError)


def _as_tuples(value: Any) -> Any:
    return tuple(map(_as_tuples, value)) if isinstance(value, list) else value


PARSERS: Mapping[str, Callable[[Any], Any]] = {  # what turns a JSON value into the round's value
    "tuples": _as_tuples,
    "integers": partial(torch.tensor, dtype=torch.long),
    "flags": partial(torch.tensor, dtype=torch.bool),
    "lengths": lambda moments: CacheLengths(*_as_tuples(moments)),
}


class Field(NamedTuple):
    """A field of a round, as it is stored in a file."""

    attribute: str  #: its attribute of a round, or of a record in a round
    shape: str  #: the lengths of its nested lists, by the names in `_round_from_json`
    entry_kind: str  #: the kind of its entries, by the names in `_allowed_kinds`
    parse: str = "tuples"  #: which of the `PARSERS` reads it
    optional: bool = False  #: whether it may be null


TABLES = read_table(__file__, "recording.toml")
FIELDS = {name: Field(**row) for name, row in TABLES["round"].items()}


def save_recording(recording: Recording, path: str | Path) -> None:
    """Writes a recording; the file is replaced when the new one is complete.

    Raises:
        ValueError: if it cannot be written, or holds what JSON cannot.
    """
    trace = recording.trace
    rounds = [_round_to_json(r, draws) for r, draws in zip(trace.rounds, recording.draws, strict=True)]
    header = {
        "format": FORMAT,
        "version": VERSION,
        "info": dict(recording.info),
        "config": dict(trace.config),
        "prompts": trace.prompts,
        "words": recording.words,
    }
    try:
        lines = [f"{_encode(key)}: {_encode(value)}" for key, value in header.items()]
        lines.append('"rounds": [\n' + ",\n".join(_encode(r) for r in rounds) + "\n]")
    except (TypeError, ValueError) as error:
        raise ValueError(f"{path}: this recording cannot be written as JSON: {error}") from error
    write_text_file(Path(path), "{\n" + ",\n".join(lines) + "\n}\n")


def load_recording(path: str | Path) -> Recording:
    """Reads a recording; no model is needed.

    Distributions are float64 and sum to 1; what was too small to be stored is spread evenly.

    Raises:
        ValueError: if the file is missing, damaged, something else, or of another version.
    """
    data = read_json(Path(path))
    if data.get("format") != FORMAT:
        raise ValueError(f"{path} is no recording of minispec")
    if data.get("version") != VERSION:  # 1 was that of minispec 0.2.0
        raise ValueError(f"{path} was recorded by another version of minispec; record it again")
    try:
        return _recording_from_json(data)
    except DAMAGE_ERRORS as error:
        raise ValueError(f"{path} is a damaged recording: {_reason(error)}") from error


def _reason(error: Exception) -> str:
    reason = f"{error.args[0]} is missing" if isinstance(error, KeyError) else str(error)
    return " ".join(reason.split())


def _encode(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False, default=_as_json)


def _as_json(value: Any) -> Any:
    """Returns as lists what JSON does not know: tensors and records."""
    return value.tolist() if isinstance(value, Tensor) else astuple(value)


def _round_to_json(r: ObservedRound, draws: Sequence[Draw]) -> dict[str, Any]:
    drafted = r.draft.tokens.tolist()

    def required_ids(row: int, i: int) -> set[int]:
        """Returns the ids that figures show at a position: they are stored, however improbable."""
        positions = slice(i, i + 1) if r.draft.parents is None else slice(None)  # in a tree all tokens
        return {*drafted[row][positions], *r.emitted[row][positions], int(r.verdict.token[row])}

    def write_rows(values: Tensor, write: Callable[[Tensor, set[int]], list[Any]]) -> list[list[Any]]:
        """Writes [B, n, V]."""
        return [
            [write(vector, required_ids(row, i)) for i, vector in enumerate(matrix)]
            for row, matrix in enumerate(values)
        ]

    return {
        **{name: attrgetter(field.attribute)(r) for name, field in FIELDS.items()},
        "seconds": {phase: round_number(seconds) for phase, seconds in r.seconds.items()},
        "draws": draws,
        "q": write_rows(r.draft.probs, dist_to_json),
        "p": write_rows(r.target_probs, dist_to_json),
        "logits": write_rows(r.target_logits, logits_to_json),
    }


def _recording_from_json(data: Mapping[str, Any]) -> Recording:
    words, prompts, config, info = (data[name] for name in ("words", "prompts", "config", "info"))
    check_values("words", words, [None], lambda word: isinstance(word, str))
    "".join(words).encode()  # refuses halves of characters, which no page can show
    if not isinstance(config, dict) or not isinstance(info, dict):
        raise ValueError("config and info should be objects")
    check_values("prompts", prompts, [None, None], integers(0, len(words) - 1))
    if not prompts or [] in prompts:
        raise ValueError("there is no prompt, or an empty one")
    allowed = _allowed_kinds(len(words), len(prompts))
    for name, kind in TABLES["config"].items():
        if name in config:
            check_values(name, config[name], [], allowed[kind])
    check_values("rounds", data["rounds"], [None], lambda r: isinstance(r, dict))
    rounds: list[ObservedRound] = []
    draws: list[tuple[Draw, ...]] = []
    for index, r in enumerate(data["rounds"]):
        try:
            rounds.append(_round_from_json(r, len(words), len(prompts)))
            draws.append(_draws_from_json(r["draws"], allowed))
        except DAMAGE_ERRORS as error:
            raise ValueError(f"in its round {index}, {_reason(error)}") from error
    if [r.index for r in rounds] != list(range(len(rounds))):
        raise ValueError("its rounds are not counted from 0")
    check_run(prompts, rounds)
    return Recording(Trace(_as_tuples(prompts), config, tuple(rounds)), tuple(words), tuple(draws), info)


def _round_from_json(data: Mapping[str, Any], vocab_size: int, prompt_count: int) -> ObservedRound:
    check_values("live", data["live"], [None])
    rows = len(data["live"])
    check_values("drafted", data["drafted"], [rows, None])
    if rows == 0:
        raise ValueError("there is no row")
    k = len(data["drafted"][0])
    sizes = {"rows": rows, "k": k, "k+1": k + 1, "moments": 3, "any": None}
    allowed = _allowed_kinds(vocab_size, prompt_count, k)
    records: dict[str, dict[str, Any]] = {"": {}, "draft": {}, "verdict": {}}
    for name, field in FIELDS.items():
        value = data[name]
        if value is not None or not field.optional:
            shape = [sizes[name_of_size] for name_of_size in field.shape.split()]
            check_values(name, value, shape, allowed[field.entry_kind])
            value = PARSERS[field.parse](value)
        record, _, attribute = field.attribute.rpartition(".")
        records[record][attribute] = value
    return ObservedRound(
        draft=Draft(probs=dists_from_json(data["q"], vocab_size, rows, k), **records["draft"]),
        target_hidden=torch.zeros(rows, k + 1, 0),  # no figure shows them: they are not stored
        target_probs=dists_from_json(data["p"], vocab_size, rows, k + 1),
        target_logits=logits_from_json(data["logits"], vocab_size, rows, k + 1),
        verdict=Verdict(**records["verdict"]),
        **records[""],
    )


def _draws_from_json(draws: Any, allowed: Mapping[str, IsAllowed]) -> tuple[Draw, ...]:
    check_values("draws", draws, [None, 7], lambda value: not isinstance(value, (list, dict)))
    parsed = tuple(Draw(*draw) for draw in draws)
    for draw in parsed:
        outcome_kind = "id" if draw.kind == "pick" else "answer"
        for name, kind in (TABLES["draw"] | {"outcome": outcome_kind}).items():
            check_values(f"a draw's {name}", getattr(draw, name), [], allowed[kind])
    return parsed


def _allowed_kinds(vocab_size: int, prompt_count: int, k: int = 0) -> dict[str, IsAllowed]:
    """Returns what a value of each kind may be, in a recording of these sizes."""
    count = integers(0, MAX_COUNT)
    return {
        "id": integers(0, vocab_size - 1),
        "prompt": integers(0, prompt_count - 1),
        "drafted": integers(0, k),
        "answer": integers(0, 1),
        "count": count,
        "count or none": lambda value: value is None or count(value),
        "positive": integers(1, MAX_COUNT),
        "number": is_number,
        "temperature": lambda value: is_number(value) and value >= 0,
        "share or none": lambda value: value is None or is_number(value) and 0 <= value < 1,
        "text": lambda value: isinstance(value, str),
        "flag": lambda value: isinstance(value, bool),
        "draw": lambda value: value in get_args(DrawKind),
        "finish": lambda value: value in (None, "eos", "cap", "context"),
        "seconds": lambda value: isinstance(value, dict) and all(map(is_number, value.values())),
    }
