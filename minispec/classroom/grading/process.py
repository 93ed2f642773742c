"""A worker process as the grader sees it: started, asked, and ended with all that it has started."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import Any

from minispec.classroom.grading.wire import MOST_LINE, line_of, message_in

ROOT = Path(__file__).resolve().parents[3]
WARDEN = Path(__file__).with_name("warden.py")
START = "import sys; sys.path.append(sys.argv.pop()); from pathlib import Path; "
START += "from minispec.classroom.grading.worker import main; main(Path(sys.argv[1]))"
STARTING = 120.0  # seconds to import everything, on a slow machine
ENDING = 15.0  # seconds until a warden that does not end is killed
MOST_ALARMS = 10
MOST_TEXT = 600  # characters of what a worker says in words
Message = dict[str, Any]


class Gone(BaseException):
    """A worker has ended, or was ended, before its answer came. The message says how."""


class Worker:
    """A process that runs a student's code, on a leash.

    Attributes:
        alarms: what its fence has refused since `begin`.
    """

    def __init__(self) -> None:
        """Starts it, with an empty home that is thrown away in the end.

        Raises:
            OSError: if no process can be started.
            Gone: if it does not get ready.
        """
        self.alarms: list[str] = []
        self._late = ""
        self._timer: threading.Timer | None = None
        self._scratch = Path(tempfile.mkdtemp(prefix="minispec-grade-"))
        python = [sys.executable, "-I", "-B"]
        command = [*python, "-c", START, str(self._scratch), str(ROOT)]
        if os.name == "posix":
            command = [*python, "-S", str(WARDEN), *command]
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd=self._scratch,
            env=clean_environment(self._scratch),
            start_new_session=True,
        )
        self.begin(STARTING, "it did not start")
        self._hear()

    def begin(self, seconds: float, late: str) -> None:
        """Sets the clock; when it runs out the process is killed.

        Args:
            seconds: from now.
            late: what is said then.
        """
        if self._timer:
            self._timer.cancel()
        self.alarms = []

        def stop() -> None:
            self._late = late
            self._kill()

        self._timer = threading.Timer(seconds, stop)
        self._timer.daemon = True
        self._timer.start()

    def ask(self, message: Message) -> Message:
        """Sends a message and returns the reply.

        Raises:
            Gone: if none comes.
        """
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(line_of(message))
            self._process.stdin.flush()
        except OSError:
            raise self._gone() from None
        return self._hear()

    def close(self) -> None:
        """Ends the process and all that it has started; its files go too."""
        if self._timer:
            self._timer.cancel()
        self._kill()
        for pipe in (self._process.stdin, self._process.stdout):
            try:
                if pipe:
                    pipe.close()
            except OSError:  # what was not sent yet goes nowhere
                pass
        shutil.rmtree(self._scratch, ignore_errors=True)

    def _hear(self) -> Message:
        """Reads up to the next message that is no alarm."""
        assert self._process.stdout is not None
        while True:
            line = self._process.stdout.readline(MOST_LINE)
            if not line:
                raise self._gone()
            try:
                message = message_in(line)
            except ValueError:
                raise Gone("it wrote into the grader's own line") from None
            if "alarm" not in message:
                return message
            self.alarms.append(words(message["alarm"], 200))
            if len(self.alarms) > MOST_ALARMS:
                raise Gone("it kept trying what no exercise needs")

    def _gone(self) -> Gone:
        if self._late:
            return Gone(self._late)
        try:
            status: object = self._process.wait(ENDING)
        except subprocess.TimeoutExpired:
            status = "unknown"
        return Gone(f"its process ended before it had answered (exit status {status})")

    def _kill(self) -> None:
        if os.name != "posix":  # taskkill takes the children along, as far as it knows them
            command = ["taskkill", "/F", "/T", "/PID", str(self._process.pid)]
            subprocess.run(command, capture_output=True, check=False)
            return
        if self._process.poll() is None:
            self._process.terminate()  # the warden kills its family, then ends
            try:
                self._process.wait(ENDING)
            except subprocess.TimeoutExpired:
                pass
        try:
            os.killpg(self._process.pid, signal.SIGKILL)  # whoever is left of the session
        except (ProcessLookupError, PermissionError):
            pass
        self._process.wait()


def clean_environment(scratch: Path) -> dict[str, str]:
    """Returns the variables that a worker gets: none of the teacher's but those that Python needs."""
    kept = {name: os.environ[name] for name in ("PATH", "LANG", "SYSTEMROOT") if name in os.environ}
    home = str(scratch)
    places = {name: home for name in ("HOME", "USERPROFILE", "TMPDIR", "TEMP", "TMP", "MPLCONFIGDIR")}
    return kept | places | {"MINISPEC_HOME": home, "OMP_NUM_THREADS": "1"}


def words(value: Any, most: int = MOST_TEXT) -> str:
    """Returns a text of a worker's as one line that can be printed anywhere."""
    line = " ".join(str(value or "").split())
    return "".join(sign if sign.isprintable() else "?" for sign in line)[:most]
