"""The process that a student's code runs in. It answers, and decides nothing.

The grader sends a source, then one call after another. What comes back is what the answer returned, as plain
data. Whether that is right is found out in the grader, where none of the student's code has ever run, and
nothing that is imported here knows the right answers.
"""

import json
import linecache
import os
import sys
from contextlib import suppress
from functools import partialmethod
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any, Unpack

import torch
from torch import Tensor

from minispec.classroom.rules import RULES
from minispec.classroom.running import Outcome, attempt, raised, unwritten
from minispec.classroom.trials import RUNS
from minispec.classroom.wire import decode, encode, line_of
from minispec.core.rng import Which

ANSWERS = "minispec.classroom.exercises"
FILE = "your answer"  # what tracebacks call the source
LIMITS = {"RLIMIT_DATA": 8 * 2**30, "RLIMIT_FSIZE": 16 * 2**20, "RLIMIT_CORE": 0}  # bytes


class Grader:
    """The line to the grader. It is an `Rng` too, for the grader makes the random decisions."""

    def __init__(self) -> None:
        """Takes standard input and output for itself; whoever prints from now on prints nowhere."""
        self._incoming, self._outgoing = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
        nothing = os.open(os.devnull, os.O_RDWR)
        for number in (0, 1, 2):
            os.dup2(nothing, number)

    def say(self, message: dict[str, Any]) -> None:
        """Sends a message."""
        self._outgoing.write(line_of(message))
        self._outgoing.flush()

    def hear(self) -> Any:
        """Waits for a message; ends the process at once when the grader has closed the line."""
        return json.loads(self._incoming.readline() or os._exit(0))

    def _decision(self, kind: str, probs: Tensor, **which: Unpack[Which]) -> Tensor:
        tensors = {"probs": probs, "rows": which.get("rows"), "live": which.get("live")}
        self.say({"decide": kind, **{name: encode(tensor) for name, tensor in tensors.items()}})
        reply = self.hear()
        if "fault" in reply:
            raise RuntimeError(reply["fault"])
        decided: Tensor = decode(reply["decided"])
        return decided

    bernoulli = partialmethod(_decision, "bernoulli")  # probs [B] -> [B] bool (see `Rng`)
    categorical = partialmethod(_decision, "categorical")  # probs [B, V] -> [B] ids


class NoAnswers(MetaPathFinder):
    """Refuses to import the exercises, whatever has been taken out of `sys.modules`."""

    def find_spec(self, name: str, path: Any, target: ModuleType | None = None) -> ModuleSpec | None:
        """Says that there are no exercises; leaves all other modules to the finders after this one."""
        if f"{name}.".startswith(f"{ANSWERS}."):
            raise ModuleNotFoundError(f"{name} is not to be had here", name=name)
        return None


def load(source: str, name: str) -> Any:
    """Runs a source, and returns what it calls by the name that is asked for."""
    linecache.cache[FILE] = (len(source), None, source.splitlines(keepends=True), FILE)
    torch.manual_seed(0)
    module = ModuleType("answer")
    exec(compile(source, FILE, "exec"), vars(module))
    return vars(module)[name]


def limit() -> None:
    """Limits what the process may take, where the system can do that."""
    try:
        import resource
    except ImportError:  # Windows
        return
    for name, most in LIMITS.items():
        with suppress(AttributeError, ValueError, OSError):  # this system has no such limit
            resource.setrlimit(getattr(resource, name), (most, most))


def main() -> None:
    """Answers the grader until it closes the line."""
    grader, answer = Grader(), None
    special = {"rng": grader, **RULES}
    limit()
    torch.set_num_threads(1)
    sys.meta_path.insert(0, NoAnswers())
    while True:
        order = grader.hear()
        try:
            if "source" in order:
                answer = load(order["source"], order["name"])
                outcome = unwritten(answer) or Outcome()
            else:
                pairs = zip(order["special"], decode(order["arguments"]), strict=True)
                arguments = [special[name] if name else value for name, value in pairs]
                outcome = attempt(RUNS[order["run"]], answer, *arguments)
            grader.say({"value": encode(outcome.value), "fault": outcome.fault, "kind": outcome.kind})
        except BaseException as error:  # somebody's code may do anything
            grader.say({"fault": raised(error, answer), "kind": type(error).__name__})
