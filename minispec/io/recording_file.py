"""Recordings on disk, as JSON: loaded without a model, looked at without our code.

Distributions are stored as the entries that matter and the mass of the rest, so that what is loaded is a
distribution again. Of logits the largest are kept, and the log of what all others add up to in a softmax.

A file is written whole or not at all. Whatever is wrong with one is said in one line.
"""

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import astuple
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from minispec.core.records import Draft, Verdict
from minispec.io.files import read_json, write_whole
from minispec.io.recording import Draw, Recording
from minispec.io.trace import CacheLengths, ObservedRound, Trace

FORMAT = "minispec recording"
VERSION = 1
LEAST = 1e-7  # smaller probabilities are added up
DIGITS = 9  # significant; as many as a float32 needs
TOP_LOGITS = 8
FINISHES = (None, "eos", "cap", "context")
DAMAGE = (KeyError, IndexError, TypeError, ValueError, AttributeError, RuntimeError, OverflowError)


def save_recording(recording: Recording, path: str | Path) -> None:
    """Writes a recording; the file is replaced when the new one is complete.

    Raises:
        ValueError: if it cannot be written.
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
    lines = [f"{_json(key)}: {_json(value)}" for key, value in header.items()]
    lines.append('"rounds": [\n' + ",\n".join(_json(r) for r in rounds) + "\n]")
    write_whole(Path(path), "{\n" + ",\n".join(lines) + "\n}\n")


def load_recording(path: str | Path) -> Recording:
    """Reads a recording; no model is needed.

    Distributions are float64 and sum to 1; what was too small to be stored is spread evenly.

    Raises:
        ValueError: if the file is missing, damaged, something else, or of a later version.
    """
    data = read_json(Path(path))
    if data.get("format") != FORMAT:
        raise ValueError(f"{path} is no recording of minispec")
    if data.get("version") != VERSION:
        raise ValueError(f"{path} has version {data.get('version')!r}; this minispec reads version {VERSION}")
    try:
        return _recording_from_json(data)
    except DAMAGE as error:
        reason = f"{error.args[0]} is missing" if isinstance(error, KeyError) else str(error)
        raise ValueError(f"{path} is a damaged recording: {' '.join(reason.split())}") from error


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def _short(value: float) -> float:
    return float(f"{value:.{DIGITS}g}")


def _round_to_json(r: ObservedRound, draws: Sequence[Draw]) -> dict[str, Any]:
    drafted = r.draft.tokens.tolist()

    def stored(values: Tensor, write: Callable[[Tensor, set[int]], list[Any]]) -> list[list[Any]]:
        """Writes [B, n, V]; tokens that figures point at are kept at their position, however improbable."""
        return [
            [
                write(one, {*drafted[b][i : i + 1], *r.emitted[b][i : i + 1], int(r.verdict.token[b])})
                for i, one in enumerate(row)
            ]
            for b, row in enumerate(values)
        ]

    return {
        "index": r.index,
        "pending": r.pending.tolist(),
        "drafted": drafted,
        "draft_lengths": r.draft.lengths.tolist(),
        "accepted": r.verdict.accepted.tolist(),
        "token": r.verdict.token.tolist(),
        "emitted": r.emitted,
        "live": r.live,
        "finish": r.finish,
        "target_cache": astuple(r.target_cache),
        "draft_cache": astuple(r.draft_cache) if r.draft_cache else None,
        "seconds": {phase: _short(value) for phase, value in r.seconds.items()},
        "draws": [astuple(draw) for draw in draws],
        "q": stored(r.draft.probs, _dist_to_json),
        "p": stored(r.target_probs, _dist_to_json),
        "logits": stored(r.target_logits, _logits_to_json),
    }


def _dist_to_json(dist: Tensor, named: Iterable[int]) -> list[Any]:
    """Returns ids, their probabilities, and the mass of all others: [V] -> three entries."""
    wide = dist.double()
    keep = wide >= LEAST
    keep[list(named)] = True
    ids = keep.nonzero()[:, 0]
    rest = float(wide[~keep].sum())
    return [ids.tolist(), [_short(p) for p in wide[ids].tolist()], _short(rest)]


def _logits_to_json(logits: Tensor, named: Iterable[int]) -> list[Any]:
    """Returns ids, their logits, and the log-sum-exp of all others (None if there are none): [V] -> three."""
    wide = logits.double()
    keep = torch.zeros_like(wide, dtype=torch.bool)
    keep[wide.topk(min(TOP_LOGITS, len(wide))).indices] = True
    keep[list(named)] = True
    keep &= wide.isfinite()
    ids = keep.nonzero()[:, 0]
    others = wide[~keep]
    rest = _short(float(others.logsumexp(0))) if bool(others.isfinite().any()) else None
    return [ids.tolist(), [_short(x) for x in wide[ids].tolist()], rest]


def _recording_from_json(data: Mapping[str, Any]) -> Recording:
    words = tuple(data["words"])
    if not all(isinstance(word, str) for word in words):
        raise ValueError("words should be texts")
    prompts = tuple(tuple(int(token) for token in prompt) for prompt in data["prompts"])
    _check_ids([token for prompt in prompts for token in prompt], len(words))
    rounds = tuple(_round_from_json(r, len(words), len(prompts)) for r in data["rounds"])
    if [r.index for r in rounds] != list(range(len(rounds))):
        raise ValueError("its rounds are not counted from 0")
    draws = tuple(tuple(Draw(*draw) for draw in r["draws"]) for r in data["rounds"])
    return Recording(Trace(prompts, dict(data["config"]), rounds), words, draws, dict(data["info"]))


def _round_from_json(r: Mapping[str, Any], size: int, rows: int) -> ObservedRound:
    tokens = torch.tensor(r["drafted"], dtype=torch.long).view(rows, -1)
    k = tokens.shape[1]
    _check_ids([*tokens.flatten().tolist(), *r["pending"], *r["token"], *sum(r["emitted"], [])], size)
    by_row = [r[key] for key in ("pending", "live", "finish", "emitted", "token", "accepted")]
    if not all(len(one) == rows for one in (*by_row, *r["target_cache"], *(r["draft_cache"] or ()))):
        raise ValueError(f"round {r['index']} does not have {rows} rows")
    if not all(finish in FINISHES for finish in r["finish"]):
        raise ValueError(f"round {r['index']} ends for an unknown reason")
    q = _tensor(r["q"], _dist_from_json, size, rows, k)
    target_cache, draft_cache = (
        r[key] and CacheLengths(*(tuple(map(int, moment)) for moment in r[key]))
        for key in ("target_cache", "draft_cache")
    )
    return ObservedRound(
        index=r["index"],
        pending=torch.tensor(r["pending"], dtype=torch.long),
        draft=Draft(tokens, q, torch.tensor(r["draft_lengths"])),
        target_probs=_tensor(r["p"], _dist_from_json, size, rows, k + 1),
        target_logits=_tensor(r["logits"], _logits_from_json, size, rows, k + 1),
        verdict=Verdict(torch.tensor(r["accepted"]), torch.tensor(r["token"])),
        emitted=tuple(map(tuple, r["emitted"])),
        live=tuple(map(bool, r["live"])),
        finish=tuple(r["finish"]),
        lengths=target_cache.after,
        target_cache=target_cache,
        draft_cache=draft_cache,
        seconds={str(phase): float(value) for phase, value in r["seconds"].items()},
    )


def _check_ids(ids: Iterable[Any], size: int) -> None:
    if not all(type(token) is int and 0 <= token < size for token in ids):
        raise ValueError(f"a token is out of range: ids go from 0 to {size - 1}")


def _tensor(stored: Any, read: Callable[..., Tensor], size: int, rows: int, width: int) -> Tensor:
    """Reads distributions or logits: [rows, width, size] float64."""
    if len(stored) != rows or any(len(row) != width for row in stored):
        raise ValueError(f"there should be {rows} rows of {width} distributions")
    flat = [read(*entry, size) for row in stored for entry in row]
    return torch.stack(flat).view(rows, width, size) if flat else torch.zeros(rows, width, size).double()


def _dist_from_json(ids: list[int], probs: list[float], rest: float, size: int) -> Tensor:
    dist = _filled(ids, probs, rest / max(size - len(ids), 1), size)
    total = float(dist.sum())
    if not abs(total - 1) < 1e-5 or bool((dist < 0).any()):
        raise ValueError(f"a distribution sums to {total:.6g}")
    return dist / total


def _logits_from_json(ids: list[int], values: list[float], rest: float | None, size: int) -> Tensor:
    fill = -math.inf if rest is None else rest - math.log(max(size - len(ids), 1))
    return _filled(ids, values, fill, size)


def _filled(ids: list[int], values: list[float], fill: float, size: int) -> Tensor:
    """Returns [size] float64 that has the given values at some ids and the same at all others."""
    _check_ids(ids, size)
    whole = torch.full((size,), fill, dtype=torch.float64)
    whole[ids] = torch.tensor(values, dtype=torch.float64)
    return whole
