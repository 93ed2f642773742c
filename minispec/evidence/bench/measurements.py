"""Saved measurements: what was measured, when, and on which machine.

Each is a JSON file of its own. Figures and pages read these files, so that what they show was measured once,
on a quiet machine, and says so.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from datetime import date
from pathlib import Path
from typing import Any

from minispec.evidence.bench.machine import describe_machine
from minispec.io.files import read_json, write_json

FORMAT = 1
FOLDER = Path(__file__).parents[1] / "recorded"  # they come with the package


@dataclass(frozen=True)
class Latency:
    """How long a forward of a model over `width` new tokens takes: the median, and its quartiles."""

    model: str
    width: int
    seconds: float
    low: float
    high: float


@dataclass(frozen=True)
class SpeedPoint:
    """The speed-up at one K: `gain` is the measured median, `low` and `high` are its quartiles.

    `alpha` is accepted over tested tokens, which estimates α; `c` is the cost ratio, of a draft step as the
    loop takes it. `simple` and `refined` are what `formulas.speed_up` and `formulas.refined_speed_up`
    predict.
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
    """What a draft of one size comes to, at the K that was best for it.

    `alpha` is accepted over tested tokens, which estimates α, and `gain` the median speed-up between its
    quartiles. `c` is not the cost ratio but `forward_ratio`: of two forward passes, each called alone. It is
    larger than the cost ratio where the loop makes all draft steps in one call, as it does on native.
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
    """What a batch of one size comes to: tokens per second of all rows together, alone and with a draft.

    `gain` is the median speed-up, `low` and `high` are its quartiles.
    """

    rows: int
    target_only: float
    speculative: float
    gain: float
    low: float
    high: float


@dataclass(frozen=True)
class KillRow:
    """One bug of the zoo, and what each check said."""

    name: str  #: of the mutant
    module: str  #: the module in which it is planted, such as `verify`
    effect: str  #: `biased`, `slower` or `breaks`
    harm: str  #: what it does, in a few words
    marks: str  #: a character per check: `x` killed, `!` killed by an exception, `.` missed


KINDS: dict[str, type] = {
    "latency": Latency,
    "speed": SpeedPoint,
    "drafts": DraftPoint,
    "batches": BatchPoint,
    "zoo": KillRow,
}


@dataclass(frozen=True)
class Measurement:
    """What was measured."""

    kind: str  #: a key of `KINDS`
    date: str  #: the day, as in 2026-11-21
    machine: Mapping[str, Any]  #: as `machine.describe_machine` says
    conditions: Mapping[str, Any]  #: what else a reader needs to know: the pair, K, tokens, repetitions
    points: tuple[Any, ...]  #: what came out, records of the kind

    @property
    def where(self) -> str:
        """The machine and the date in a few words, for captions."""
        device = self.machine.get("gpu") or self.machine.get("processor", "an unknown processor")
        return f"{device}, {self.machine.get('threads')} of {self.machine.get('cores')} cores, {self.date}"


def save_measurement(measurement: Measurement, path: Path) -> None:
    """Writes a measurement whole; raises a ValueError if it cannot be written."""
    write_json(path, {"format": FORMAT} | asdict(measurement))


def load_measurement(path: str | Path) -> Measurement:
    """Reads a saved measurement.

    Raises:
        ValueError: if there is none, or it is no measurement; the message is one line.
    """
    document = read_json(Path(path))
    if document.get("kind") not in KINDS or document.get("format") != FORMAT:
        raise ValueError(f"{path} is no measurement of format {FORMAT}")
    try:
        document["points"] = tuple(KINDS[document["kind"]](**point) for point in document["points"])
        return Measurement(**{field.name: document[field.name] for field in fields(Measurement)})
    except (KeyError, TypeError):
        raise ValueError(f"{path} is broken: something is missing in it") from None


def saved(kind: str) -> Measurement:
    """Reads a measurement of a kind that comes with the package; a ValueError lists the kinds."""
    if kind not in KINDS:
        raise ValueError(f"there is no kind of measurement {kind!r}; there is {', '.join(KINDS)}")
    return load_measurement(FOLDER / f"{kind}.json")


def drafters_table(pair: str, temperature: float) -> str:
    """Returns what was measured of a pair's drafters on the native backend, as a table in plain text."""
    lines = [f"{'':16}   K  tokens a call   gain  forward passes only"]
    for row in read_json(FOLDER / f"drafters-{pair}.json")["drafters"]:
        if (row["backend"], row["temperature"]) == ("native", temperature):
            numbers = row["k"], row["tokens_per_target_call"], row["speedup"], row["limit"]
            lines.append("{:16}  {:2}  {:13.2f}  {:5.2f}  {:19.2f}".format(row["name"], *numbers))
    return "\n".join(lines)


def zoo_measurement(document: Mapping[str, Any]) -> Measurement:
    """Returns the kill matrix, from `Zoo.to_json`, as a measurement of today: a row per mutant."""
    is_ours = {check["name"]: check["ours"] for check in document["checks"]}
    rows = []
    for mutant in document["mutants"]:
        cells = (mutant["cells"][check] for check in is_ours)
        marks = ("!" if cell["crashed"] else "x" if cell["killed"] else "." for cell in cells)
        file = file_of(mutant["function"])
        rows.append(KillRow(mutant["name"], file, mutant["effect"], mutant["harm"], "".join(marks)))
    conditions = {"checks": [*is_ours], "theirs": [name for name, ours in is_ours.items() if not ours]}
    return Measurement("zoo", date.today().isoformat(), describe_machine(), conditions, tuple(rows))


def file_of(function: str) -> str:
    """Returns the file that a mutant's `function` names: `verify` for verify.py, `decisions.h` in C++."""
    module = function.partition(":")[0]
    return module.rpartition("/" if "/" in module else ".")[2]
