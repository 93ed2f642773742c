"""A part of a command in a process of its own, for code that people hand over.

Such code may end its process, print, fork, crash or never come back. The command still ends in what it should
say: whatever is printed there goes to standard error, and what came of it is one document in a file.
"""

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from minispec.io.files import read_json, write_text_file

START = """
import json, sys
sys.path[:] = json.loads(sys.argv[1])
from minispec.cli import apart, check
apart.answer(check.check_named)
"""
CHUNK_BYTES = 65_536  # bytes at a time


def run_apart(request: dict[str, Any], limit: float) -> tuple[dict[str, Any], int]:
    """Runs `check_named` in a process of its own.

    Args:
        request: its keywords, plain data.
        limit: seconds until it must have ended.

    Returns:
        What it returns, and how many bytes were printed to standard output there.

    Raises:
        ValueError: if it raises one, or the process ends without an answer, or not in time.
    """
    with TemporaryDirectory(prefix="minispec-") as folder:
        reply = Path(folder) / "reply.json"
        process = subprocess.Popen(
            [sys.executable, "-P", "-c", START, json.dumps(sys.path), json.dumps(request), str(reply)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
        printed: list[int] = []
        reader = threading.Thread(target=pass_on, args=(process, printed), daemon=True)
        reader.start()
        try:
            status = process.wait(limit)
        except subprocess.TimeoutExpired:
            raise ValueError(f"it had not ended after {limit:g} seconds; --limit gives it more") from None
        finally:
            end(process)
            reader.join(1)  # what it has started may hold the line open
        if not reply.is_file():
            how = f"exit status {status}" if status >= 0 else f"signal {-status}"
            raise ValueError(f"its process ended before the check was done, with {how}")
        document = read_json(reply)
    if "error" in document:
        raise ValueError(document["error"])
    return document["answer"], sum(printed)


def pass_on(process: "subprocess.Popen[bytes]", printed: list[int]) -> None:
    """Writes what a process prints to standard error, and notes how many bytes that are."""
    assert process.stdout is not None
    while part := os.read(process.stdout.fileno(), CHUNK_BYTES):
        printed.append(len(part))
        with suppress(OSError, ValueError):  # nobody reads it
            sys.stderr.write(part.decode("utf-8", "replace"))
            sys.stderr.flush()


def end(process: "subprocess.Popen[bytes]") -> None:
    """Ends a process and, where there are groups, what it has started."""
    if hasattr(os, "killpg"):
        with suppress(ProcessLookupError, PermissionError):  # nobody is left
            os.killpg(process.pid, signal.SIGKILL)
    process.kill()
    process.wait()


def answer(function: Callable[..., dict[str, Any]]) -> None:
    """Runs a function with what `run_apart` asks for, in the process that it has started."""
    request, reply = sys.argv[2:]
    process_id = os.getpid()
    document: dict[str, Any] = {}
    try:
        document["answer"] = function(**json.loads(request))
    except (ValueError, OSError) as error:
        document["error"] = str(error)
    if os.getpid() == process_id:
        write_text_file(Path(reply), json.dumps(document))
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)  # threads that somebody's code has left behind do not keep the process
