"""Recordings on disk, as JSON: loaded without a model, looked at without our code.

Every field of every round is kept: integers and texts as they are, distributions and logits as
`recording_numbers` tells, hidden states where a drafter reads them.

A file is written whole or not at all. Whatever is wrong with one is told in one line.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import astuple
from pathlib import Path
from typing import Any, get_args

import torch
from torch import Tensor

from minispec.core.records import Draft, Verdict
from minispec.io.files import read_json, write_whole
from minispec.io.recording import Draw, DrawKind, Recording
from minispec.io.recording_check import Allows, check_run, check_values, integers, is_number, length
from minispec.io.recording_numbers import (
    dist_from_json,
    dist_to_json,
    logits_from_json,
    logits_to_json,
    numbers_to_json,
    short,
    tensor_from_json,
)
from minispec.io.trace import CacheLengths, ObservedRound, Trace

FORMAT = "minispec recording"
VERSION = 2
FINISHES = (None, "eos", "cap", "context")
MOST = 2**53  # of lengths and counts
CONFIG: Mapping[str, Allows] = {  # what is shown of a run's settings
    "k": integers(0, MOST),
    "max_new_tokens": integers(0, MOST),
    "context": integers(1, MOST),
    "temperature": lambda value: is_number(value) and value >= 0,
    "verifier": lambda value: isinstance(value, str),
}
# Version 1, of minispec 0.2.0, kept less: no trees, no prompts of rows, and not what the rule tells.
TREE_RULES = ("verify_tree", "verify_tree_greedy", "verify_k_sequential")
LOOKS_BEYOND = ("verify_block",)  # of its rules for chains: those that go on after a rejection
DAMAGE = (KeyError, IndexError, TypeError, ValueError, AttributeError, RuntimeError, OverflowError)


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
        lines = [f"{_json(key)}: {_json(value)}" for key, value in header.items()]
        lines.append('"rounds": [\n' + ",\n".join(_json(r) for r in rounds) + "\n]")
    except (TypeError, ValueError) as error:
        raise ValueError(f"{path}: this recording cannot be written as JSON: {error}") from error
    write_whole(Path(path), "{\n" + ",\n".join(lines) + "\n}\n")


def load_recording(path: str | Path) -> Recording:
    """Reads a recording; no model is needed.

    Distributions are float64 and sum to 1; what was too small to be stored is spread evenly. Recordings of
    version 1, as minispec 0.2.0 wrote them, are read too, unless they need what it did not keep.

    Raises:
        ValueError: if the file is missing, damaged, something else, or of a later version.
    """
    data = read_json(Path(path))
    version = data.get("version")
    if data.get("format") != FORMAT:
        raise ValueError(f"{path} is no recording of minispec")
    if type(version) is not int or version not in (1, VERSION):
        raise ValueError(f"{path} has version {version!r}; this minispec reads versions 1 to {VERSION}")
    if version == 1 and (lost := _lost_by_version_1(data)):
        raise ValueError(f"{path} has version 1, which does not keep {lost}; record the run again")
    try:
        return _recording_from_json(data)
    except DAMAGE as error:
        raise ValueError(f"{path} is a damaged recording: {_reason(error)}") from error


def _reason(error: Exception) -> str:
    reason = f"{error.args[0]} is missing" if isinstance(error, KeyError) else str(error)
    return " ".join(reason.split())


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def _round_to_json(r: ObservedRound, draws: Sequence[Draw]) -> dict[str, Any]:
    drafted = r.draft.tokens.tolist()

    def pointed_at(row: int, i: int) -> set[int]:
        """Returns the tokens that figures point at in a position: they are kept, however improbable."""
        here = slice(i, i + 1) if r.draft.parents is None else slice(None)  # in a tree all tokens
        return {*drafted[row][here], *r.emitted[row][here], int(r.verdict.token[row])}

    def stored(values: Tensor, write: Callable[[Tensor, set[int]], list[Any]]) -> list[list[Any]]:
        """Writes [B, n, V]."""
        return [
            [write(one, pointed_at(row, i)) for i, one in enumerate(each)] for row, each in enumerate(values)
        ]

    return {
        "index": r.index,
        "names": r.names or tuple(range(len(r.live))),
        "pending": r.pending.tolist(),
        "drafted": drafted,
        "draft_lengths": r.draft.lengths.tolist(),
        "parents": None if r.draft.parents is None else r.draft.parents.tolist(),
        "accepted": r.verdict.accepted.tolist(),
        "token": r.verdict.token.tolist(),
        "path": None if r.verdict.path is None else r.verdict.path.tolist(),
        "stops_at_first_rejection": r.stops_at_first_rejection,
        "emitted": r.emitted,
        "live": r.live,
        "finish": r.finish,
        "lengths": r.lengths,
        "target_cache": astuple(r.target_cache),
        "draft_cache": astuple(r.draft_cache) if r.draft_cache else None,
        "seconds": {phase: short(value) for phase, value in r.seconds.items()},
        "draws": [astuple(draw) for draw in draws],
        "q": stored(r.draft.probs, dist_to_json),
        "p": stored(r.target_probs, dist_to_json),
        "logits": stored(r.target_logits, logits_to_json),
        "target_hidden": None if r.target_hidden is None else numbers_to_json(r.target_hidden.tolist()),
    }


def _lost_by_version_1(data: Mapping[str, Any]) -> str | None:
    """Returns what a recording of version 1 needs and does not have; None if nothing."""
    config, prompts, rounds = data.get("config"), data.get("prompts"), data.get("rounds")
    if isinstance(config, dict) and config.get("verifier") in TREE_RULES:
        return "the tree that was drafted"
    first = rounds[0] if isinstance(rounds, list) and rounds else None
    rows = first.get("live") if isinstance(first, dict) else None
    if isinstance(rows, list) and isinstance(prompts, list) and len(rows) < len(prompts):
        return "which prompt a row holds"
    return None


def _recording_from_json(data: Mapping[str, Any]) -> Recording:
    words, prompts, config, info = data["words"], data["prompts"], data["config"], data["info"]
    check_values("words", words, [length("words", words)], lambda word: isinstance(word, str))
    "".join(words).encode()  # refuses halves of characters, which no page can show
    if not isinstance(config, dict) or not isinstance(info, dict):
        raise ValueError("config and info should be objects")
    for name, allows in CONFIG.items():
        if name in config:
            check_values(name, config[name], [], allows)
    if length("prompts", prompts) == 0 or [] in prompts:
        raise ValueError("there is no prompt, or an empty one")
    for prompt in prompts:
        check_values("prompts", prompt, [length("prompts", prompt)], integers(0, len(words) - 1))
    check_values("rounds", data["rounds"], [length("rounds", data["rounds"])], lambda r: isinstance(r, dict))
    read, draws = [], []
    for index, r in enumerate(data["rounds"]):
        try:
            whole = _of_version_1(r, len(prompts), config.get("verifier")) if data["version"] == 1 else r
            read.append(_round_from_json(whole, len(words), len(prompts)))
            draws.append(_draws_from_json(r["draws"], len(words), len(prompts)))
        except DAMAGE as error:
            raise ValueError(f"in its round {index}, {_reason(error)}") from error
    if [r.index for r in read] != list(range(len(read))):
        raise ValueError("its rounds are not counted from 0")
    check_run(prompts, read)
    return Recording(Trace(tuple(map(tuple, prompts)), config, tuple(read)), tuple(words), tuple(draws), info)


def _of_version_1(r: Mapping[str, Any], prompts: int, verifier: Any) -> dict[str, Any]:
    """Returns a round of version 1, a chain with a row for each prompt, as one of this version."""
    plain: dict[str, Any] = dict.fromkeys(("parents", "path", "target_hidden"))
    check_values("target_cache", r["target_cache"], [3], lambda lengths: isinstance(lengths, list))
    plain |= {"names": list(range(prompts)), "lengths": r["target_cache"][2]}
    return {**r, **plain, "stops_at_first_rejection": verifier not in LOOKS_BEYOND}


def _round_from_json(r: Mapping[str, Any], size: int, prompts: int) -> ObservedRound:
    ids, counts = integers(0, size - 1), integers(0, MOST)
    rows = length("live", r["live"])
    if rows == 0 or length("drafted", r["drafted"]) == 0:
        raise ValueError("there is no row")
    k = length("drafted", r["drafted"][0])
    shapes: dict[str, tuple[Sequence[int], Allows]] = {
        "index": ([], counts),
        "names": ([rows], integers(0, prompts - 1)),
        "pending": ([rows], ids),
        "drafted": ([rows, k], ids),
        "draft_lengths": ([rows], integers(0, k)),
        "parents": ([rows, k], counts),
        "accepted": ([rows], integers(0, k)),
        "token": ([rows], ids),
        "path": ([rows, k], lambda value: isinstance(value, bool)),
        "stops_at_first_rejection": ([], lambda value: isinstance(value, bool)),
        "live": ([rows], lambda value: isinstance(value, bool)),
        "finish": ([rows], lambda value: value is None or value in FINISHES),
        "lengths": ([rows], counts),
        "target_cache": ([3, rows], counts),
        "draft_cache": ([3, rows], counts),
        "emitted": ([rows], lambda tokens: isinstance(tokens, list) and all(map(ids, tokens))),
        "seconds": ([], lambda value: isinstance(value, dict) and all(map(is_number, value.values()))),
    }
    for name, (shape, allows) in shapes.items():
        if r[name] is not None or name not in ("parents", "path", "draft_cache"):
            check_values(name, r[name], shape, allows)
    hidden = r["target_hidden"]
    if hidden is not None:
        check_values("target_hidden", hidden, [rows, k + 1], lambda row: isinstance(row, list))
        check_values("target_hidden", hidden, [rows, k + 1, len(hidden[0][0])], is_number)
    return _observed(r, size, rows, k)


def _observed(r: Mapping[str, Any], size: int, rows: int, k: int) -> ObservedRound:
    """Returns a round whose values have been checked but for its distributions."""
    tokens = torch.tensor(r["drafted"], dtype=torch.long).view(rows, k)
    parents, path, hidden = r["parents"], r["path"], r["target_hidden"]
    draft = Draft(
        tokens,
        tensor_from_json(r["q"], dist_from_json, size, rows, k),
        torch.tensor(r["draft_lengths"]),
        None if parents is None else torch.tensor(parents, dtype=torch.long).view(rows, k),
    )
    return ObservedRound(
        index=r["index"],
        pending=torch.tensor(r["pending"]),
        draft=draft,
        target_probs=tensor_from_json(r["p"], dist_from_json, size, rows, k + 1),
        target_logits=tensor_from_json(r["logits"], logits_from_json, size, rows, k + 1),
        verdict=Verdict(
            torch.tensor(r["accepted"]),
            torch.tensor(r["token"]),
            None if path is None else torch.tensor(path, dtype=torch.bool).view(rows, k),
        ),
        emitted=tuple(map(tuple, r["emitted"])),
        live=tuple(r["live"]),
        finish=tuple(r["finish"]),
        lengths=tuple(r["lengths"]),
        names=tuple(r["names"]),
        target_hidden=None if hidden is None else torch.tensor(hidden, dtype=torch.float64),
        stops_at_first_rejection=r["stops_at_first_rejection"],
        target_cache=CacheLengths(*map(tuple, r["target_cache"])),
        draft_cache=r["draft_cache"] and CacheLengths(*map(tuple, r["draft_cache"])),
        seconds={phase: float(value) for phase, value in r["seconds"].items()},
    )


def _draws_from_json(draws: Any, size: int, prompts: int) -> tuple[Draw, ...]:
    check_values(
        "draws", draws, [length("draws", draws), 7], lambda value: not isinstance(value, (list, dict))
    )
    read = tuple(Draw(*draw) for draw in draws)
    for draw in read:
        shapes: dict[str, tuple[Any, Allows]] = {
            "prompt": (draw.prompt, integers(0, prompts - 1)),
            "position": (draw.position or 0, integers(0, MOST)),
            "kind": (draw.kind, lambda kind: kind in get_args(DrawKind)),
            "low": (draw.low, is_number),
            "high": (draw.high, is_number),
            "number": (draw.number or 0, lambda number: is_number(number) and 0 <= number < 1),
            "outcome": (draw.outcome, integers(0, size - 1 if draw.kind == "pick" else 1)),
        }
        for name, (value, allows) in shapes.items():
            check_values(f"a draw's {name}", value, [], allows)
    return read
