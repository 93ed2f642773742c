"""Measurements on disk: what was measured, when, and on which machine.

A measurement is a JSON file of its own. Figures and pages read these files, so that what they show was
measured once, on a quiet machine, and says so.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from datetime import date
from pathlib import Path
from typing import Any

from minispec.evidence.bench.machine import describe_machine
from minispec.io.files import write_whole

FORMAT = 1
FOLDER = Path(__file__).parents[1] / "recorded"  # they come with the package


@dataclass(frozen=True)
class Latency:
    """How long a forward takes.

    Attributes:
        model: its name.
        width: new tokens.
        seconds: the median.
        low: the lower quartile.
        high: the upper quartile.
    """

    model: str
    width: int
    seconds: float
    low: float
    high: float


@dataclass(frozen=True)
class SpeedPoint:
    """The speed-up at one K, measured and predicted.

    Attributes:
        k: K.
        alpha: accepted over tested tokens.
        c: seconds of a draft forward over those of a target forward, one token each.
        gain: the measured speed-up, the median.
        low: its lower quartile.
        high: its upper quartile.
        simple: predicted by `theory.speed_up`.
        refined: predicted by `theory.refined_speed_up`.
    """

    k: int
    alpha: float
    c: float
    gain: float
    low: float
    high: float
    simple: float
    refined: float


@dataclass(frozen=True)
class DraftPoint:
    """What a draft of one size comes to.

    Attributes:
        name: of the draft.
        parameters: how many weights it has.
        alpha: accepted over tested tokens.
        c: the cost ratio.
        k: the K that was best for it.
        gain: the speed-up, the median.
        low: its lower quartile.
        high: its upper quartile.
    """

    name: str
    parameters: int
    alpha: float
    c: float
    k: int
    gain: float
    low: float
    high: float


@dataclass(frozen=True)
class BatchPoint:
    """What a batch of one size comes to.

    Attributes:
        rows: texts side by side.
        target_only: tokens per second of the target alone, all rows together.
        speculative: the same with a draft.
        gain: the speed-up, the median.
        low: its lower quartile.
        high: its upper quartile.
    """

    rows: int
    target_only: float
    speculative: float
    gain: float
    low: float
    high: float


@dataclass(frozen=True)
class MemoryPart:
    """What takes memory.

    Attributes:
        model: `target` or `draft`.
        what: `weights` or `cache`.
        bytes: how much.
    """

    model: str
    what: str
    bytes: int


@dataclass(frozen=True)
class KillRow:
    """One bug of the zoo, and what each check said.

    Attributes:
        name: of the mutant.
        module: the module in which it is planted, such as `verify`.
        effect: `biased`, `slower` or `breaks`.
        harm: what it does, in a few words.
        marks: a character per check: `x` killed, `!` killed by an exception, `.` missed.
    """

    name: str
    module: str
    effect: str
    harm: str
    marks: str


Point = Latency | SpeedPoint | DraftPoint | BatchPoint | MemoryPart | KillRow
KINDS: dict[str, type[Point]] = {
    "latency": Latency,
    "speed": SpeedPoint,
    "drafts": DraftPoint,
    "batches": BatchPoint,
    "memory": MemoryPart,
    "zoo": KillRow,
}


@dataclass(frozen=True)
class Measurement:
    """What was measured.

    Attributes:
        kind: a key of `KINDS`.
        date: the day, as in 2026-11-21.
        machine: as `machine.describe_machine` says.
        conditions: what else a reader needs to know: the pair, K, tokens, repetitions.
        points: what came out.
    """

    kind: str
    date: str
    machine: Mapping[str, Any]
    conditions: Mapping[str, Any]
    points: tuple[Any, ...]

    @property
    def where(self) -> str:
        """The machine and the date in a few words, for captions."""
        cores, threads = self.machine.get("cores"), self.machine.get("threads")
        device = self.machine.get("gpu") or self.machine.get("processor", "an unknown processor")
        return f"{device}, {threads} of {cores} cores, {self.date}"


def measured(kind: str, points: Sequence[Point], conditions: Mapping[str, Any]) -> Measurement:
    """Returns a measurement of today, on this machine.

    Raises:
        ValueError: if a point is not of the kind.
    """
    wrong = [point for point in points if type(point) is not KINDS.get(kind)]
    if wrong or kind not in KINDS:
        raise ValueError(f"a measurement of kind {kind!r} cannot hold {type((wrong or points)[0]).__name__}")
    return Measurement(kind, date.today().isoformat(), describe_machine(), dict(conditions), tuple(points))


def save_measurement(measurement: Measurement, path: Path) -> None:
    """Writes a measurement; the file is replaced when the new one is complete.

    Raises:
        ValueError: if it cannot be written.
    """
    document = {"format": FORMAT} | asdict(measurement)
    write_whole(path, json.dumps(document, indent=2, ensure_ascii=False) + "\n")


def load_measurement(path: str | Path) -> Measurement:
    """Reads a measurement.

    Args:
        path: a JSON file.

    Raises:
        ValueError: if there is none, or it is no measurement; the message is one line.
    """
    try:
        document = json.loads(Path(path).read_text(encoding="utf-8"))
    except OSError:
        raise ValueError(f"there is no measurement {path}") from None
    except ValueError:
        raise ValueError(f"{path} is not JSON") from None
    if not isinstance(document, dict) or document.get("kind") not in KINDS:
        raise ValueError(f"{path} is no measurement")
    if document.get("format") != FORMAT:
        raise ValueError(f"{path} has format {document.get('format')}; this version reads {FORMAT}")
    kind = KINDS[document["kind"]]
    try:
        points = tuple(_point(kind, point) for point in document["points"])
        about = {name: document[name] for name in ("kind", "date", "machine", "conditions")}
    except (KeyError, TypeError):
        raise ValueError(f"{path} is broken: something is missing in it") from None
    return Measurement(points=points, **about)


def recorded(kind: str, folder: Path = FOLDER) -> Measurement:
    """Reads a measurement that comes with the package.

    Args:
        kind: a key of `KINDS`.
        folder: where it lies.

    Raises:
        ValueError: if there is none of this kind; the message lists the kinds.
    """
    if kind not in KINDS:
        raise ValueError(f"there is no kind of measurement {kind!r}; there is {', '.join(KINDS)}")
    return load_measurement(folder / f"{kind}.json")


def _point(kind: type[Point], values: Mapping[str, Any]) -> Point:
    """Makes a point; a KeyError if a value is missing, a TypeError if one is of the wrong type."""
    wanted = {field.name: str(field.type) for field in fields(kind)}
    kinds: dict[str, Any] = {"int": int, "float": (int, float), "str": str}
    for name, type_name in wanted.items():
        if not isinstance(values[name], kinds[type_name]):
            raise TypeError(name)
    return kind(**{name: values[name] for name in wanted})


def kill_rows(document: Mapping[str, Any]) -> tuple[list[KillRow], list[str], list[str]]:
    """Reads what `Zoo.to_json` wrote.

    Returns:
        A row per mutant; the names of all checks, in the order of the marks; those of them that retell how
        other projects test.
    """
    checks = [check["name"] for check in document["checks"]]
    rows = [
        KillRow(
            mutant["name"],
            mutant["function"].partition(":")[0].rpartition(".")[2],
            mutant["effect"],
            mutant["harm"],
            "".join(_mark(mutant["cells"][check]) for check in checks),
        )
        for mutant in document["mutants"]
    ]
    return rows, checks, [check["name"] for check in document["checks"] if not check["ours"]]


def _mark(cell: Mapping[str, Any]) -> str:
    return "!" if cell["crashed"] else "x" if cell["killed"] else "."
