"""What `minispec doctor` looks at: a function per organ, a finding per fact."""

from __future__ import annotations

import locale
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

import torch

from minispec import __version__
from minispec.evidence.bench.machine import processor
from minispec.io.checkpoint import SHIPPED, cache_folder, known_pairs, load_pair

PROGRAM = '#include <cstdio>\nint main() { std::puts("two lines"); }\n'
COMPILERS = ("g++", "clang++", "c++", "cl")
SPACE = 200 * 2**20  # bytes that `make demo` and an hour in class may want to write
WIDTH = 80  # columns that tables are made for
SIGNS = "✓✗★◆→–█"  # of texts and figures
PAIRS = ("quick", "english")  # trained here when first asked for

State = Literal["fine", "missing", "broken"]


@dataclass(frozen=True)
class Finding:
    """One fact about this machine.

    Attributes:
        name: what was looked at.
        value: what was found.
        state: fine; missing, which some things will miss; or broken.
        advice: what to do, or an empty string.
        needed: whether `make demo` cannot do without.
    """

    name: str
    value: str
    state: State = "fine"
    advice: str = ""
    needed: bool = False


def examine() -> list[Finding]:
    """Looks at everything; takes a few seconds."""
    parts = (versions, machine, compiler, gpu, pairs, place, words_and_signs, jupyter)
    return [finding for part in parts for finding in part()]


def usable(findings: list[Finding]) -> bool:
    """Whether nothing that `make demo` needs is broken."""
    return not any(one.needed and one.state == "broken" for one in findings)


def versions() -> Iterator[Finding]:
    """Python, minispec, and all that it needs to run."""
    python = f"{platform.python_version()} ({platform.python_implementation()}, {sys.executable})"
    yield Finding("python", python, needed=True)
    yield Finding("minispec", f"{__version__} in {Path(__file__).resolve().parents[1]}")
    for name in requirements():
        try:
            yield Finding(name, metadata.version(name), needed=True)
        except metadata.PackageNotFoundError:
            advice = f"install it: {Path(sys.executable).name} -m pip install {name}"
            yield Finding(name, "not installed", "broken", advice, needed=True)


def requirements() -> list[str]:
    """Returns the names of the packages that minispec needs to run."""
    try:
        asked = metadata.requires("minispec") or []
    except metadata.PackageNotFoundError:  # it runs from its source, and was never installed
        asked = ["torch", "numpy", "tokenizers", "safetensors", "rich", "typer", "matplotlib", "platformdirs"]
    names = (re.match(r"[\w.-]+", line) for line in asked if "extra ==" not in line)
    return [found[0] for found in names if found]


def machine() -> Iterator[Finding]:
    """Cores, threads, and how torch was built."""
    yield Finding("system", f"{platform.system()} {platform.release()}, {platform.machine()}")
    yield Finding("processor", f"{processor()}, {os.cpu_count()} cores")
    yield Finding("threads", f"torch computes with {torch.get_num_threads()}")
    kind = f"CUDA {torch.version.cuda}" if torch.version.cuda else "processor only"
    if getattr(torch.version, "hip", None):
        kind = f"ROCm {torch.version.hip}"
    if hasattr(torch.optim, "Muon"):
        yield Finding("torch build", kind, needed=True)
    else:
        advice = "training needs torch 2.9 or newer; on an Intel Mac read the site, or use conda"
        yield Finding("torch build", f"{torch.__version__}, too old", "broken", advice, needed=True)


def compiler() -> Iterator[Finding]:
    """A C++ compiler, and whether it can compile and run two lines."""
    names = [name for name in (os.environ.get("CXX"), *COMPILERS) if name]
    found = next((path for name in names if (path := shutil.which(name))), None)
    if found is None and find_spec("ziglang") is not None:
        yield Finding("C++ compiler", "that of the package ziglang")
        return
    if found is None:
        yield Finding("C++ compiler", "none", "missing", compiler_advice())
        return
    fault = compiles(found)
    if fault:
        yield Finding("C++ compiler", f"{found}: {fault}", "broken", compiler_advice())
    else:
        yield Finding("C++ compiler", f"{found} compiles and runs two lines")


def compiler_advice() -> str:
    """Says where a compiler comes from on this system, and what one can do without."""
    by_system = {
        "Linux": "install your distribution's g++ (Debian, Ubuntu: apt install g++)",
        "Darwin": "xcode-select --install",
        "Windows": "install the Visual Studio Build Tools, with C++",
    }
    how = by_system.get(platform.system(), "install g++ or clang++")
    return f"{how}, or pip install ziglang; only the native backend needs it"


def compiles(path: str) -> str:
    """Compiles and runs two lines; returns what went wrong, or an empty string."""
    with tempfile.TemporaryDirectory() as folder:
        source, program = Path(folder) / "two.cpp", Path(folder) / "two.exe"
        source.write_text(PROGRAM, encoding="utf-8")
        output = [f"/Fe{program}"] if Path(path).stem.lower() == "cl" else ["-o", str(program)]
        try:
            for command in ([path, str(source), *output], [str(program)]):
                done = subprocess.run(
                    command,
                    cwd=folder,
                    capture_output=True,
                    text=True,
                    timeout=60,
                    errors="replace",
                    check=False,
                )
                if done.returncode:
                    said = (done.stderr or done.stdout).strip().splitlines() or ["no reason given"]
                    return f"it fails on two lines ({said[0][:80]})"
        except (OSError, subprocess.TimeoutExpired) as error:
            return f"it does not run ({type(error).__name__})"
    return "" if done.stdout.strip() == "two lines" else "what it makes does not run"


def gpu() -> Iterator[Finding]:
    """A GPU that torch can use; nothing here needs one."""
    if torch.cuda.is_available():
        yield Finding("GPU", f"{torch.cuda.get_device_name()}; use it with --device cuda")
    else:
        yield Finding(
            "GPU", "none that torch can use", "missing", "nothing here needs one: all runs on processors"
        )


def pairs() -> Iterator[Finding]:
    """Every pair that can be named, and every other folder among them: its size, and whether it loads."""
    cached = cache_folder().iterdir() if cache_folder().is_dir() else ()
    folders = {entry.name for entry in cached if entry.is_dir() and not entry.name.startswith(".")}
    for name in sorted(known_pairs() | folders | {"stories"}):
        own = cache_folder() / name
        folder = own if name in folders else SHIPPED / name
        where = "in the cache" if folder == own else "shipped"
        size = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file()) / 2**20
        try:
            load_pair(folder)
        except ValueError as error:
            advice = f"delete {folder} and run: minispec train --preset {name}"
            if where == "shipped":
                advice = "get the project's files again: this pair comes with them"
            reason = " ".join(str(error).split())[:160]
            yield Finding(f"pair {name}", f"{where}, {reason}", "broken", advice, needed=name == "stories")
        else:
            yield Finding(f"pair {name}", f"{where}, complete, {size:.1f} MB", needed=name == "stories")
    for name in PAIRS:
        if name not in known_pairs() | folders:
            advice = f"it is trained when first asked for: minispec train --preset {name}"
            yield Finding(f"pair {name}", "not trained yet", "missing", advice)


def place() -> Iterator[Finding]:
    """Where trained pairs are kept, whether that can be written, and how much room there is."""
    folder = cache_folder()
    there = next(place for place in (folder.absolute(), *folder.absolute().parents) if place.exists())
    if not (there.is_dir() and os.access(there, os.W_OK)):
        advice = "set MINISPEC_HOME to a folder that you can write to"
        yield Finding("cache folder", f"{folder} cannot be written", "broken", advice, needed=True)
        return
    left = sorted(entry.name for entry in folder.glob(".*-*") if entry.is_dir()) if folder.is_dir() else []
    if left:
        yield Finding("cache folder", f"{folder}", "broken", f"left by a crash, delete: {', '.join(left)}")
    else:
        yield Finding("cache folder", f"{folder}")
    free = shutil.disk_usage(there).free
    if free < SPACE:
        yield Finding(
            "free disk", f"{free / 2**20:.0f} MB", "broken", "make room, or set MINISPEC_HOME", True
        )
    else:
        yield Finding("free disk", f"{free / 2**30:.1f} GB", needed=True)


def words_and_signs() -> Iterator[Finding]:
    """The terminal and the font of the figures."""
    encoding = getattr(sys.stdout, "encoding", None) or locale.getpreferredencoding(False)
    try:
        SIGNS.encode(encoding)
        yield Finding("characters", f"{encoding}: {SIGNS}")
    except (UnicodeEncodeError, LookupError):
        advice = "set PYTHONUTF8=1, and use a terminal that shows UTF-8; signs come out as question marks now"
        yield Finding("characters", f"{encoding} has no signs such as a check mark", "missing", advice)
    columns = shutil.get_terminal_size().columns
    if columns < WIDTH:
        yield Finding("terminal", f"{columns} columns", "missing", f"make it {WIDTH} wide: tables wrap")
    else:
        yield Finding("terminal", f"{columns} columns")
    yield font()


def font() -> Finding:
    """The font of the figures, and whether it has their signs."""
    from matplotlib.font_manager import findfont, get_font  # it reads all fonts: seconds, the first time

    path = findfont("DejaVu Sans")
    lacking = [sign for sign in SIGNS if not get_font(path).get_char_index(ord(sign))]
    if lacking:
        advice = "install the font DejaVu Sans, which comes with matplotlib: reinstall that"
        return Finding("font", f"{Path(path).name} lacks {len(lacking)} signs", "missing", advice)
    return Finding("font", f"{Path(path).name} has all signs")


def jupyter() -> Iterator[Finding]:
    """JupyterLab, for `minispec lab`."""
    try:
        yield Finding("JupyterLab", metadata.version("jupyterlab"))
    except metadata.PackageNotFoundError:
        advice = "for the notebooks: pip install 'minispec[notebooks]', or make lab"
        yield Finding("JupyterLab", "not installed", "missing", advice)
