"""The process that a student's code runs in. It answers questions, and decides nothing.

The grader sends a source, then one call after another. What comes back is what the function returned, as
numbers. Whether that is right is found out in the grader, where none of the student's code has ever run.
"""

from __future__ import annotations

import linecache
import os
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any, BinaryIO, Unpack

import torch
from torch import Tensor

from minispec.classroom.exercises import EXERCISES
from minispec.classroom.exercises.known_rules import RULES, SOUND
from minispec.classroom.grading.fence import put_up
from minispec.classroom.grading.wire import line_of, message_in, packed, unpacked
from minispec.classroom.judging import Bench
from minispec.classroom.running import attempt, described, raised, unwritten
from minispec.core.records import Draft, Verdict
from minispec.core.rng import Which

FILE = "your answer"  # what tracebacks call the source
Message = dict[str, Any]


class Abandoned(BaseException):
    """The grader does not want to know any more what this call comes to."""


class Channel:
    """A line to the grader that nothing else writes to: standard output is another file by then."""

    def __init__(self, incoming: BinaryIO, outgoing: BinaryIO) -> None:
        """Takes both ends."""
        self._incoming, self._outgoing = incoming, outgoing

    def say(self, message: Message) -> None:
        """Sends a message."""
        self._outgoing.write(line_of(message))
        self._outgoing.flush()

    def hear(self) -> Message:
        """Waits for a message; ends the process, without further ado, when the grader has closed the line."""
        line = self._incoming.readline()
        if not line:
            os._exit(0)
        return message_in(line)


class AskedRng:
    """An `Rng` whose decisions the grader makes: for rules that are walked through, branch by branch."""

    def __init__(self, channel: Channel) -> None:
        """Asks through this channel."""
        self._channel = channel

    def bernoulli(self, probs: Tensor, **which: Unpack[Which]) -> Tensor:
        """Decides: probs [B] -> [B] bool (see `Rng`)."""
        return self._ask("bernoulli", probs, which)

    def categorical(self, probs: Tensor, **which: Unpack[Which]) -> Tensor:
        """Picks: probs [B, V] -> [B] ids (see `Rng`)."""
        return self._ask("categorical", probs, which)

    def _ask(self, what: str, probs: Tensor, which: Which) -> Tensor:
        tensors = {
            "probs": packed(probs),
            "rows": packed(which.get("rows")),
            "live": packed(which.get("live")),
        }
        self._channel.say({"ask": what, **tensors})
        reply = self._channel.hear()
        if "abandon" in reply:
            raise Abandoned
        if "raise" in reply:
            raise type(reply["raise"], (Exception,), {})(reply["text"])
        decided = unpacked(reply["decided"])
        assert decided is not None
        return decided


class Student:
    """One answer at a time, and what the grader may ask of it."""

    def __init__(self, channel: Channel) -> None:
        """Answers through this channel; nothing is loaded yet."""
        self._channel = channel
        self._answer: Any = None
        self._key = ""
        self._rules = {**SOUND, **RULES}

    def load(self, order: Message) -> Message:
        """Runs a source; keeps what it calls by the name that is asked for."""
        self._key, source = order["key"], order["source"]
        linecache.cache[FILE] = (len(source), None, source.splitlines(keepends=True), FILE)
        torch.manual_seed(0)
        module = ModuleType("answer")
        exec(compile(source, FILE, "exec"), vars(module))
        self._answer = vars(module)[order["name"]]
        lack = unwritten(self._answer)
        return {} if lack is None else {"verdict": lack.verdict, "message": lack.message}

    def trial(self, order: Message) -> Message:
        """Calls the answer on one trial of its exercise."""
        bench = next(exercise for exercise in EXERCISES if exercise.key == self._key).judge.__self__  # type: ignore[attr-defined]
        assert isinstance(bench, Bench)
        outcome = attempt(bench.play(self._answer), bench.trials[order["index"]].make(), bench.read)
        value = outcome.value.tolist() if isinstance(outcome.value, Tensor) else outcome.value
        return {"value": value, "fault": outcome.fault, "kind": outcome.kind, "blank": outcome.blank}

    def rule(self, order: Message) -> Message:
        """Calls the answer as an accept rule."""
        names = ("tokens", "probs", "lengths", "target_probs")
        tokens, probs, lengths, target_probs = (unpacked(order[name]) for name in names)
        assert tokens is not None and probs is not None
        assert lengths is not None and target_probs is not None
        draft = Draft(tokens, probs, lengths)
        said = self._answer(draft, target_probs, AskedRng(self._channel))
        now = dict(zip(names, (draft.tokens, draft.probs, draft.lengths, target_probs), strict=True))
        for name, tensor in now.items():
            before = unpacked(order[name])
            if before is not None and not torch.equal(before, tensor):
                return {"changed": name}
        if isinstance(said, Verdict):
            return {"accepted": packed(said.accepted), "token": packed(said.token)}
        return (
            {"none": True}
            if said is None
            else {"dots": True}
            if said is ...
            else {"type": type(said).__name__}
        )

    def test(self, order: Message) -> Message:
        """Calls the answer as a test of one known rule."""
        said = self._answer(self._rules[order["rule"]])
        return {"said": None} if said is None else {"dots": True} if said is ... else {"said": bool(said)}

    def do(self, order: Message) -> Message:
        """Follows an order; whatever the student's code raises becomes part of the reply."""
        orders: dict[str, Callable[[Message], Message]]
        orders = {"load": self.load, "trial": self.trial, "rule": self.rule, "test": self.test}
        try:
            return orders[order["do"]](order)
        except Abandoned:
            return {"abandoned": True}
        except BaseException as error:  # somebody's code may do anything
            return {"raised": type(error).__name__, "text": raised(error, self._answer)}


def main(scratch: Path) -> None:
    """Answers the grader until it closes the line.

    Args:
        scratch: the folder in which files may be written.
    """
    channel = Channel(os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb"))
    nothing = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(nothing, number)
    put_up(scratch, lambda what: channel.say({"alarm": what}))
    torch.set_num_threads(1)
    student = Student(channel)
    channel.say({"ready": True})
    while True:
        order = channel.hear()
        reply = student.do(order)
        try:
            channel.say({"did": order["do"], **reply})
        except (TypeError, ValueError, RecursionError):  # it is no data
            value = reply.get("value")
            channel.say(
                {"did": order["do"], "raised": "TypeError", "text": f"it returned {described(value)}"}
            )


if __name__ == "__main__":
    main(Path(sys.argv[1]))
