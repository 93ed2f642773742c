"""The records and functions of `cpp/minispec.h`, read from it: that header is the one to read."""

import ctypes
import re
from collections.abc import Sequence
from enum import IntEnum
from pathlib import Path
from typing import Any

import torch

HEADER = Path(__file__).with_name("cpp") / "minispec.h"
INT = ctypes.c_int64
ADDRESS = ctypes.c_void_p
Integers = ctypes.Array[INT]
ENUM = ctypes.c_int
C_TYPES = {"int64_t": INT, "double": ctypes.c_double, "void": None}  # the others are enums, or addresses
# The types of matrices, as `ms_type` counts them, and what is computed in.
TYPES = {torch.float32: 0, torch.float64: 1, torch.bfloat16: 2, torch.int8: 3}
COMPUTES_IN = {kept: torch.float64 if kept is torch.float64 else torch.float32 for kept in TYPES}


class Status(IntEnum):
    """What came of a call: `ms_status`."""

    OK = 0
    NO_MEMORY = 1
    BAD_TOKEN = 2
    BAD_LOGITS = 3
    BAD_NUMBER = 4
    BAD_DRAFT = 5
    BAD_DISTRIBUTION = 6


class Rule(IntEnum):
    """An acceptance rule: `ms_rule`."""

    GREEDY = 0
    REJECTION = 1
    BLOCK = 2
    COUPLED = 3
    TREE_GREEDY = 4
    TREE = 5


class Kind(IntEnum):
    """What drafts: `ms_kind`."""

    MODEL = 0
    EXIT = 1
    FEATURE = 2
    PARALLEL = 3
    MEDUSA = 4
    JOINED = 5


def integers(numbers: Sequence[int]) -> Integers:
    """Returns whole numbers as the library reads them."""
    return (INT * len(numbers))(*numbers)


def c_type(declared: str) -> Any:
    """Returns the type of what is declared in C."""
    return ADDRESS if "*" in declared else C_TYPES.get(declared.split()[0], ENUM)


def fields_of(body: str) -> list[tuple[str, Any]]:
    """Returns the fields of a record: a line such as `int64_t rows, n;` or `double seconds[3];` has some."""
    fields = []
    for kind, names in re.findall(r"([\w *]*[ *])(\w[\w, ]*(?:\[\d+\])?);", body):
        name, _, count = names.rstrip("]").partition("[")
        fields += [
            (field, c_type(kind) * int(count) if count else c_type(kind)) for field in name.split(", ")
        ]
    return fields


TEXT = re.sub(r"//.*", "", HEADER.read_text(encoding="utf-8"))
RECORDS = {
    name: fields_of(body) for body, name in re.findall(r"typedef struct {(.*?)} (\w+);", TEXT, re.DOTALL)
}
FUNCTIONS = {  # the result of each, and its arguments
    name: (c_type(result), [c_type(argument) for argument in arguments.split(",")])
    for result, name, arguments in re.findall(r"^(\w+) (ms_\w+)\((.*?)\);", TEXT, re.DOTALL | re.MULTILINE)
}


class BlockRecord(ctypes.Structure):
    """What a forward reads."""

    _fields_ = RECORDS["ms_block"]


class WarpRecord(ctypes.Structure):
    """From logits to distributions."""

    _fields_ = RECORDS["ms_warp"]


class SourceRecord(ctypes.Structure):
    """What makes random decisions."""

    _fields_ = RECORDS["ms_source"]


class DecisionRecord(ctypes.Structure):
    """A draft, what the target makes of it, and a verdict."""

    _fields_ = RECORDS["ms_decision"]


class DrafterRecord(ctypes.Structure):
    """What drafts."""

    _fields_ = RECORDS["ms_drafter"]


class DraftRecord(ctypes.Structure):
    """A draft to be drawn."""

    _fields_ = RECORDS["ms_draft"]


class RoundRecord(ctypes.Structure):
    """A round of the loop."""

    _fields_ = RECORDS["ms_round"]
