"""Answers that live in a worker, judged here by each exercise's own judge.

A stand-in passes each call on to the worker, and hands the judge what comes back.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

from torch import Tensor

from minispec.classroom.exercise import Exercise, Finding
from minispec.classroom.exercises.known_rules import RULES, SOUND
from minispec.classroom.exercises.testing import judge_test
from minispec.classroom.exercises.verifier import judge_verifier
from minispec.classroom.grading.process import Gone, Message, Worker, words
from minispec.classroom.grading.wire import packed, unpacked
from minispec.classroom.judging import Bench, Trial, nested
from minispec.classroom.running import Malformed, Outcome
from minispec.core.records import Draft, Verdict
from minispec.core.rng import Rng
from minispec.evidence.checker.calls import Broken
from minispec.evidence.proof.enumeration import NotScripted


def judged(exercise: Exercise, worker: Worker) -> Finding:
    """Judges what a worker has loaded, by the exercise's own judge.

    Raises:
        Gone: if the worker ends on the way.
        TypeError: if nobody has said how this kind of judge is asked from afar.
    """
    bench = getattr(exercise.judge, "__self__", None)
    if isinstance(bench, Bench):
        own = {field.name: getattr(bench, field.name) for field in fields(Bench)}
        return RemoteBench(**own, worker=worker).judge(RemoteRule(worker))
    if exercise.judge is judge_verifier:
        return judge_verifier(RemoteRule(worker))
    if exercise.judge is judge_test:
        return judge_test(RemoteTest(worker))
    raise TypeError(f"the exercise {exercise.key} cannot be judged from afar")


@dataclass(frozen=True)
class RemoteBench(Bench):
    """A bench whose student sits elsewhere: right and typical wrong answers run here, the student's there."""

    worker: Worker | None = None

    def _run(self, answer: Any, trial: Trial) -> Outcome:
        if not isinstance(answer, RemoteRule):
            return super()._run(answer, trial)
        assert self.worker is not None
        index = next(i for i, one in enumerate(self.trials) if one is trial)
        reply = self.worker.ask({"do": "trial", "index": index})
        if "raised" in reply:
            return Outcome(fault=words(reply.get("text")), kind=words(reply["raised"], 60))
        fault, kind = words(reply.get("fault")), words(reply.get("kind"))
        return Outcome(nested(reply.get("value")), fault, kind, reply.get("blank") is True)


class RemoteRule:
    """An accept rule that lives in a worker. Chance stays here: the worker asks for each decision."""

    def __init__(self, worker: Worker) -> None:
        """Stands for the answer that the worker has loaded."""
        self._worker = worker

    def __call__(self, draft: Draft, target_probs: Tensor, rng: Rng) -> Any:
        """Passes a call on: target_probs [B, K+1, V] (see `Verifier`)."""
        tensors = {"tokens": draft.tokens, "probs": draft.probs, "lengths": draft.lengths}
        order = {name: packed(tensor) for name, tensor in tensors.items()}
        reply = self._worker.ask({"do": "rule", **order, "target_probs": packed(target_probs)})
        stopped: BaseException | None = None
        while "ask" in reply:
            answer, stopped = decided(reply, rng)
            reply = self._worker.ask(answer)
        if stopped is not None and "abandoned" in reply:
            raise stopped
        return returned(reply)


class RemoteTest:
    """A test of rules that lives in a worker, which has the same rules under the same names."""

    def __init__(self, worker: Worker) -> None:
        """Stands for the answer that the worker has loaded."""
        self._worker = worker

    def __call__(self, rule: Any) -> Any:
        """Passes a call on."""
        name = next(name for name, one in {**SOUND, **RULES}.items() if one is rule)
        reply = self._worker.ask({"do": "test", "rule": name})
        if "raised" in reply:
            raise exception(reply)
        return ... if "dots" in reply else None if reply.get("said") is None else reply["said"] is True


def decided(question: Message, rng: Rng) -> tuple[Message, BaseException | None]:
    """Puts a worker's question to chance; returns the reply, and what ends the walk, if anything does."""
    try:
        probs, rows, live = (unpacked(question.get(name)) for name in ("probs", "rows", "live"))
        if probs is None or question["ask"] not in ("bernoulli", "categorical"):
            raise Gone("it wrote into the grader's own line")
        choose = rng.bernoulli if question["ask"] == "bernoulli" else rng.categorical
        return {"decided": packed(choose(probs, rows=rows, live=live))}, None
    except (Broken, NotScripted) as stop:
        return {"abandon": True}, stop
    except Exception as error:  # the student's call was at fault, and the student's code may see it
        return {"raise": type(error).__name__, "text": words(str(error))}, None


def returned(reply: Message) -> Any:
    """Returns what a rule has returned, or raises what it has raised, or what stands for it.

    Raises:
        Broken: if it changed its input, or returned what is no verdict.
    """
    if "raised" in reply:
        raise exception(reply)
    if "changed" in reply:
        raise Broken(f"it changed its input: {words(reply['changed'], 40)}")
    if "none" in reply:
        return None
    if "dots" in reply:
        return ...
    if "type" in reply:
        name = words(reply["type"], 40)
        raise Malformed(f"a Verdict(accepted, token) is wanted, and it returned a {name}")
    try:
        accepted, token = unpacked(reply.get("accepted")), unpacked(reply.get("token"))
        assert accepted is not None and token is not None
        return Verdict(accepted, token)
    except (ValueError, AssertionError):
        raise Broken("what it returned is no verdict") from None


def exception(reply: Message) -> Exception:
    """Returns what stands here for an exception that was raised there."""
    if reply["raised"] == "NotImplementedError":
        return NotImplementedError()
    return AssertionError() if reply["raised"] == "AssertionError" else Broken(words(reply.get("text")))
