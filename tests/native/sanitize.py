"""Runs the native backend's tests, or those that are named, under two sanitizers: `address` and `thread`.

`address` finds memory that is not ours and what C++ leaves undefined, `thread` races. The library is built
with the compiler's switches; the sanitizer's own library must be loaded before Python is. Of races only those
count that the native library takes part in: torch and Python were not built for this.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

NATIVE = Path(__file__).parent
TESTS = NATIVE.parent
CHECKED = {
    "address": ("-fsanitize=address,undefined", "-fno-sanitize-recover=undefined", "-O0"),
    "thread": ("-fsanitize=thread", "-O1"),
}
RUNTIMES = {"address": ("libasan.so", "libstdc++.so"), "thread": ("libtsan.so", "libstdc++.so")}
OPTIONS = {
    "ASAN_OPTIONS": "detect_leaks=0",  # Python frees nothing when it ends
    "UBSAN_OPTIONS": "print_stacktrace=1",
    "TSAN_OPTIONS": "ignore_noninstrumented_modules=1:report_signal_unsafe=0:exitcode=66",
    "OMP_NUM_THREADS": "1",
}
MISSING = "g++ has no sanitizers here"


def runtimes(kind):
    """Returns the sanitizer's libraries, or None where the compiler has none."""
    compiler = shutil.which("g++")
    if compiler is None or not sys.platform.startswith("linux"):
        return None
    asked = [[compiler, f"-print-file-name={name}"] for name in RUNTIMES[kind]]
    found = [subprocess.run(one, capture_output=True, text=True).stdout.strip() for one in asked]
    return found if all(Path(path).is_absolute() and Path(path).exists() for path in found) else None


def environment(kind, home):
    """Returns the variables under which a Python process computes with a library that is checked."""
    wrapper = home / "c++"  # the compiler itself is not to be checked
    wrapper.write_text(f'#!/bin/sh\nunset LD_PRELOAD\nexec {shutil.which("g++")} "$@"\n')
    wrapper.chmod(0o755)
    own = {"MINISPEC_SANITIZE": " ".join(CHECKED[kind]), "MINISPEC_HOME": str(home), "CXX": str(wrapper)}
    paths = os.pathsep.join([str(TESTS.parent), str(TESTS)])
    preload = {"LD_PRELOAD": " ".join(runtimes(kind)), "PYTHONPATH": paths}
    return os.environ | OPTIONS | own | preload


def run(kind, command):
    """Runs a Python command under a sanitizer; returns its result, standard error joined to its output."""
    with tempfile.TemporaryDirectory(prefix="minispec-sanitize-") as home:
        shell = ["setarch", "-R"] if kind == "thread" and shutil.which("setarch") else []  # fixed addresses
        return subprocess.run(
            [*shell, sys.executable, *command],
            env=environment(kind, Path(home)),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            cwd=TESTS.parent,
        )


def main(tests):
    """Runs tests under each sanitizer; returns the exit status."""
    failed = False
    for kind in CHECKED:
        if runtimes(kind) is None:
            print(f"{kind}: {MISSING}")
            continue
        started = time.perf_counter()
        done = run(kind, ["-m", "pytest", "-q", "-p", "no:cacheprovider", *tests])
        print(done.stdout)
        print(f"{kind}: exit status {done.returncode} after {time.perf_counter() - started:.0f} seconds")
        failed |= done.returncode != 0
    return failed


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:] or [str(NATIVE)]))
