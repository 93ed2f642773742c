"""An answer in a process of its own, as the grader sees it: nothing that it says is believed."""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from minispec.classroom.rules import RULES
from minispec.classroom.running import Malformed, Outcome
from minispec.classroom.trials import Trial
from minispec.classroom.wire import MOST_LINE, decode, encode, line_of
from minispec.core.rng import Rng
from minispec.evidence.checker.calls import Broken, one_line
from minispec.evidence.proof.enumeration import NotScripted

ROOT = Path(__file__).resolve().parents[3]
START = (
    "import sys; sys.path.append(sys.argv[1]); from minispec.classroom.grading import worker; worker.main()"
)
STARTING = 120.0  # seconds to import everything, on a slow machine


class Gone(BaseException):
    """A worker has ended, or its time is over, before its answer came. The message says how."""


class RaisedThere(Malformed, Broken):
    """What went wrong in the worker, in its words: for our judges and for `check_verifier` alike."""


class Worker:
    """A process that runs a student's code. It can be called like the answer that it has loaded.

    It starts when something is loaded, also after it has been closed.
    """

    _process: Any = None
    _home = ""

    def _start(self) -> None:
        """Starts it, with an empty home that is thrown away in the end. It gets none of your variables."""
        self._home = home = tempfile.mkdtemp(prefix="minispec-grade-")
        kept = {name: os.environ[name] for name in ("PATH", "LANG", "SYSTEMROOT") if name in os.environ}
        homes = ("HOME", "USERPROFILE", "TMPDIR", "TEMP", "TMP", "MPLCONFIGDIR", "MINISPEC_HOME")
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-B", "-c", START, str(ROOT)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd=home,
            env=kept | dict.fromkeys(homes, home) | {"OMP_NUM_THREADS": "1"},
            start_new_session=True,
        )
        self.load("answer = ...", "answer", STARTING)  # starting is not on the student's time

    def load(self, source: str, name: str, seconds: float) -> Outcome:
        """Loads an answer; loading and all calls that follow must end within some seconds.

        Raises:
            Gone: if they do not, or if the worker has ended; also from calls. Close it then.
        """
        if self._process is None:
            self._start()
        self._deadline, self._seconds = time.monotonic() + seconds, seconds
        return self._outcome({"source": source, "name": name})

    def run_trial(self, trial: Trial) -> Outcome:
        """Runs the answer on a trial, there."""
        return self._run(trial.run, *trial.arguments)

    def __call__(self, *arguments: Any) -> Any:
        """Calls the answer: a rule with a draft, probabilities and an rng, or a test with a rule."""
        outcome = self._run("called", *arguments)
        if outcome.blank:
            raise NotImplementedError
        if outcome.kind == "AssertionError":
            raise AssertionError
        if outcome.kind not in ("", "None"):
            raise RaisedThere(outcome.fault)
        return outcome.value

    def _run(self, run: str, *arguments: Any) -> Outcome:
        rng = next((value for value in arguments if hasattr(value, "categorical")), None)
        known = {id(rule): name for name, rule in RULES.items()} | ({id(rng): "rng"} if rng else {})
        special = [known.get(id(value)) for value in arguments]
        data = [None if name else value for name, value in zip(special, arguments, strict=True)]
        return self._outcome({"run": run, "special": special, "arguments": encode(data)}, rng)

    def _outcome(self, order: dict[str, Any], rng: Rng | None = None) -> Outcome:
        stopped = None
        try:
            reply = self._ask(order)
            while "decide" in reply and rng is not None:
                answer, stopped = decision(reply, rng)
                reply = self._ask(answer)
            outcome = Outcome(decode(reply.get("value")), words(reply.get("fault")), words(reply.get("kind")))
        except (ValueError, RecursionError):
            raise Gone("it wrote into the grader's own line") from None
        if stopped is not None:
            raise stopped
        return outcome

    def _ask(self, message: dict[str, Any]) -> dict[str, Any]:
        lines: list[bytes] = []
        there = self._process

        def exchange() -> None:
            with suppress(OSError):  # it has ended
                there.stdin.write(line_of(message))
                there.stdin.flush()
                lines.append(there.stdout.readline(MOST_LINE))

        thread = threading.Thread(target=exchange, daemon=True)
        thread.start()  # of its own, for a child of a worker that has ended can hold the pipes open
        thread.join(max(0.0, self._deadline - time.monotonic()))
        if thread.is_alive():
            raise Gone(f"it had not come to an end after {self._seconds:g} seconds")
        if not lines or not lines[0]:
            raise Gone("its process ended before it had answered")
        reply = json.loads(lines[0])
        if not isinstance(reply, dict):
            raise ValueError("that is no message")
        return reply

    def close(self) -> None:
        """Ends the process, if it runs, and where there are groups all of its group; its files go too."""
        if self._process is None:
            return
        if hasattr(os, "killpg"):
            with suppress(ProcessLookupError, PermissionError):  # nobody is left
                os.killpg(self._process.pid, signal.SIGKILL)
        self._process.kill()
        self._process.wait()
        self._process = None
        shutil.rmtree(self._home, ignore_errors=True)


def decision(question: dict[str, Any], rng: Rng) -> tuple[dict[str, Any], Exception | None]:
    """Makes a random decision; returns the reply, and what ends the enumeration, if anything does.

    Raises:
        ValueError: if the question has no such form.
    """
    probs, rows, live = (decode(question.get(name)) for name in ("probs", "rows", "live"))
    choose = rng.bernoulli if question["decide"] == "bernoulli" else rng.categorical
    try:
        return {"decided": encode(choose(probs, rows=rows, live=live))}, None
    except Exception as error:  # the student's call was at fault, and the student's code may see it
        return {"fault": one_line(error)}, error if isinstance(error, Broken | NotScripted) else None


def words(value: Any) -> str:
    """Returns a text of a worker's as one line that can be printed anywhere."""
    line = " ".join(str(value or "").split())
    return "".join(sign if sign.isprintable() else "?" for sign in line)[:600]
