"""The records and functions of `cpp/minispec.h`, which says what they are."""

import ctypes
from enum import IntEnum
from typing import Any

import torch

INT = ctypes.c_int64
REAL = ctypes.c_double
ADDRESS = ctypes.c_void_p
ENUM = ctypes.c_int
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
    """What drafts a chain: `ms_kind`."""

    MODEL = 0
    EXIT = 1
    FEATURE = 2
    PARALLEL = 3
    MEDUSA = 4


def fields(names: str, *kinds: Any) -> list[tuple[str, Any]]:
    """Returns the fields of a record: names, and the type of each."""
    return list(zip(names.split(), kinds, strict=True))


class BlockRecord(ctypes.Structure):
    """What a forward reads: `ms_block`."""

    _fields_ = fields(
        "rows n tokens states starts cache begin end positions mask window",
        *(INT, INT, ADDRESS, ADDRESS, ADDRESS, ADDRESS, INT, INT, ADDRESS, ADDRESS, INT),
    )


class WarpRecord(ctypes.Structure):
    """From logits to distributions: `ms_warp`."""

    _fields_ = fields("temperature top_k top_p", REAL, INT, REAL)


class SourceRecord(ctypes.Structure):
    """What makes random decisions: `ms_source`."""

    _fields_ = fields("numbers count used seed prompt_ids positions", ADDRESS, INT, INT, INT, ADDRESS, ADDRESS)


class DecisionRecord(ctypes.Structure):
    """A draft, the target's distributions, and a verdict: `ms_decision`."""

    _fields_ = fields(
        "rows k vocab p q tokens lengths budgets parents accepted token path", *[INT] * 3, *[ADDRESS] * 9
    )


class DrafterRecord(ctypes.Structure):
    """What drafts a chain: `ms_drafter`."""

    _fields_ = fields(
        "kind type model layers matrices mask first_layers threads cache",
        *(ENUM, ENUM, ADDRESS, ADDRESS, ADDRESS, ADDRESS, INT, INT, ADDRESS),
    )


class DraftRecord(ctypes.Structure):
    """A draft to be drawn: `ms_draft`."""

    _fields_ = fields(
        "drafter rows k pending starts budgets warp states parents space tokens q seconds",
        *(ADDRESS, INT, INT, *[ADDRESS] * 9, REAL),
    )


class RoundRecord(ctypes.Structure):
    """A round of the loop: `ms_round`."""

    _fields_ = fields(
        "type target threads warp draft pending block rule decision source hidden catches_up seconds",
        *(ENUM, ADDRESS, INT, *[ADDRESS] * 4, ENUM, ADDRESS, ADDRESS, ADDRESS, INT, REAL * 3),
    )


# The arguments of each function; all return an `ms_status`, but for those of `RESULTS`.
FUNCTIONS: dict[str, tuple[Any, ...]] = {
    "ms_model_new": (ENUM, ADDRESS, REAL, INT, ADDRESS, ADDRESS),
    "ms_model_free": (ENUM, ADDRESS),
    "ms_cache_numbers": (ENUM, ADDRESS),
    "ms_matrix_new": (ENUM, INT, INT, INT, ADDRESS, ADDRESS),
    "ms_matrix_free": (ENUM, ADDRESS),
    "ms_read": (ENUM, ADDRESS, INT, ADDRESS, INT, ADDRESS),
    "ms_head": (ENUM, ADDRESS, INT, ADDRESS, INT, ADDRESS),
    "ms_multiply": (ENUM, ADDRESS, INT, ADDRESS, INT, ADDRESS),
    "ms_gather": (ENUM, ADDRESS, ADDRESS, INT, INT, INT, INT, ADDRESS, INT),
    "ms_distributions": (ENUM, ADDRESS, ADDRESS, INT, INT, ADDRESS),
    "ms_choose": (ENUM, ADDRESS, INT, INT, ADDRESS, ADDRESS, ADDRESS),
    "ms_decide": (ENUM, ENUM, ADDRESS, ADDRESS),
    "ms_draw": (ADDRESS, ADDRESS),
    "ms_play": (ADDRESS,),
}
RESULTS = {"ms_model_free": None, "ms_matrix_free": None, "ms_gather": None, "ms_cache_numbers": INT}
