"""What the grader and a worker say to each other: one JSON object a line, tensors as numbers.

The grader believes nothing that comes back. Nothing is unpickled, and what is read is data: numbers, texts,
lists.
"""

from __future__ import annotations

import base64
import json
from typing import Any

import torch
from torch import Tensor

MOST_LINE = 64_000_000  # characters
DTYPES = {
    "bool": torch.bool,
    "int32": torch.int32,
    "int64": torch.int64,
    "float32": torch.float32,
    "float64": torch.float64,
}


def packed(tensor: Tensor | None) -> Any:
    """Returns a tensor, [...], as plain data; None stays None.

    Raises:
        TypeError: if it is no tensor, or of a kind that is not sent.
    """
    if tensor is None:
        return None
    if not isinstance(tensor, Tensor):
        raise TypeError(f"a tensor is wanted, not a {type(tensor).__name__}")
    kind = str(tensor.dtype).removeprefix("torch.")
    if kind not in DTYPES:
        raise TypeError(f"a tensor of {kind} is not expected here")
    raw = tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()
    return {"kind": kind, "shape": list(tensor.shape), "data": base64.b64encode(raw).decode("ascii")}


def unpacked(data: Any) -> Tensor | None:
    """Reads a tensor, [...], from plain data.

    Raises:
        ValueError: if it is none.
    """
    if data is None:
        return None
    try:
        dtype, shape = DTYPES[data["kind"]], [int(size) for size in data["shape"]]
        raw = bytearray(base64.b64decode(data["data"], validate=True))
        flat = torch.frombuffer(raw, dtype=dtype) if raw else torch.zeros(0, dtype=dtype)
        return flat.reshape(shape).clone()
    except (KeyError, TypeError, ValueError, RuntimeError) as error:
        raise ValueError("that is no tensor") from error


def line_of(message: dict[str, Any]) -> bytes:
    """Returns a message as one line."""
    return json.dumps(message).encode("ascii") + b"\n"


def message_in(line: bytes) -> dict[str, Any]:
    """Reads a message.

    Raises:
        ValueError: if the line is none.
    """
    try:
        message = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise ValueError("that is no message") from error
    if not isinstance(message, dict):
        raise ValueError("that is no message")
    return message
