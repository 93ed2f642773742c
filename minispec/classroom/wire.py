"""Values as plain data, for the line between the grader and the process that runs a student's code.

A message is one line of JSON, tensors are lists of numbers, and nothing is unpickled. The grader believes
nothing that comes back: what is not exactly of this form raises ValueError.
"""

import json
from typing import Any

import numpy as np
import torch
from torch import Tensor

from minispec.core.model import GPTConfig
from minispec.core.records import Draft, Verdict
from minispec.core.warp import Warp

MOST_LINE = 64_000_000  # characters of a message
DTYPES = {str(t)[6:]: t for t in (torch.bool, torch.int32, torch.int64, torch.float32, torch.float64)}
RECORDS = {record.__name__: record for record in (Draft, GPTConfig, Verdict, Warp)}


class Description(str):
    """Stands for a value that cannot be sent."""


def described(value: Any) -> str:
    """Says what kind of thing something is."""
    if isinstance(value, Description):
        return value
    shape = f"a tensor of shape {list(value.shape)}" if isinstance(value, Tensor) else ""
    return shape or f"{type(value).__name__} {value!s:.60}"


def encode(value: Any) -> Any:
    """Returns a value as plain data; of what is neither numbers, texts nor tensors, only a description."""
    if value is None or type(value) in (bool, int, float, str):
        return value
    if isinstance(value, np.generic | np.ndarray):
        value = torch.as_tensor(np.asarray(value))
    if isinstance(value, Tensor) and str(value.dtype)[6:] in DTYPES:
        flat = value.detach().reshape(-1).tolist()
        return {"tensor": str(value.dtype)[6:], "shape": list(value.shape), "numbers": flat}
    if type(value) is list:
        return [encode(item) for item in value]
    if type(value) is tuple:
        return {"tuple": encode(list(value))}
    if type(value) is dict:
        return {"dict": encode(list(value.items()))}
    if type(value).__name__ in RECORDS:
        return {"record": type(value).__name__, "fields": encode(vars(value))}
    return {"other": described(value)}


def decode(data: Any) -> Any:
    """Returns the value that `encode` has made plain.

    Raises:
        ValueError: if the data are of no such form.
    """
    try:
        match data:
            case None | bool() | int() | float() | str():
                return data
            case list():
                return [decode(item) for item in data]
            case {"tensor": kind, "shape": shape, "numbers": numbers} if min(shape, default=0) >= 0:
                return torch.tensor(numbers, dtype=DTYPES[kind]).reshape(shape)
            case {"tuple": items}:
                return tuple(decode(items))
            case {"dict": items}:
                return dict(decode(items))
            case {"record": name, "fields": fields}:
                return RECORDS[name](**decode(fields))
            case {"other": str(text)}:
                return Description(text[:200])
    except Exception as error:  # there are many ways to be of another form
        raise ValueError("that is no value") from error
    raise ValueError("that is no value")


def line_of(message: dict[str, Any]) -> bytes:
    """Returns a message as one line."""
    return json.dumps(message).encode("ascii") + b"\n"
