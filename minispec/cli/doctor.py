"""`minispec doctor`: what this machine has, what is missing, and what to do about it.

A function per part of the machine, a `Fact` per thing that was found.
"""

import os
import platform
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path
from typing import Literal

import torch
from rich.console import Console

from minispec import __version__
from minispec.cli import options
from minispec.evidence.bench.machine import processor
from minispec.io.checkpoint import RESERVED_NAMES, SHIPPED, cache_folder, known_pairs, load_pair
from minispec.io.files import printable_line
from minispec.native.library import FLAGS, SOURCE, find_compiler, find_library

GLYPHS = {"fine": "✓", "missing": "–", "broken": "✗"}
DISTRIBUTION = "minispec-decoding"  # as pip knows this package
OPTIONAL = {"jupyterlab": "notebooks", "matplotlib": "figures"}  # packages, and the extras that bring them
PAIRS = ("quick", "english")  # trained here when first asked for


@dataclass(frozen=True)
class Fact:
    """One fact about this machine."""

    name: str  #: what was looked at
    value: str  #: what was found
    state: Literal["fine", "missing", "broken"] = "fine"  #: missing: some things will miss it
    advice: str = ""  #: what to do, or an empty string
    needed: bool = False  #: whether `make demo` cannot do without


def doctor(as_json: bool = False) -> int:
    """Look at this machine, and say what to do about what is missing."""
    console = options.console(as_json)
    parts = (versions, machine, compiler, native, pairs, cache)
    with console.status("looking"):
        facts = [fact for part in parts for fact in part()]
    broken = [fact.name for fact in facts if fact.needed and fact.state == "broken"]
    if as_json:
        options.print_json({"passed": not broken, "findings": [asdict(fact) for fact in facts]})
    else:
        show(facts, broken, console)
    return int(bool(broken))


def show(facts: Sequence[Fact], broken: Sequence[str], console: Console) -> None:
    """Prints a line per fact, what to do below it, and in the end whether `make demo` can work."""
    width = max(len(fact.name) for fact in facts)
    for fact in facts:
        line = f"{GLYPHS[fact.state]} {fact.name:{width}}  {fact.value}"
        console.out(printable_line(line))
        if fact.advice:
            console.out(f"{'':{width + 4}}{printable_line(fact.advice)}")
    verdict = f"broken, and needed: {', '.join(broken)}" if broken else "all that `make demo` needs is there"
    console.out(f"\n{verdict}")


def versions() -> Iterator[Fact]:
    """Python, minispec, all that it needs to run, JupyterLab for `minispec lab`, matplotlib for figures."""
    python = f"{platform.python_version()} ({platform.python_implementation()}, {sys.executable})"
    yield Fact("python", python, needed=True)
    yield Fact("minispec", f"{__version__} in {Path(__file__).resolve().parents[1]}")
    pip = f"{Path(sys.executable).name} -m pip install"
    for name in (*requirements(), *OPTIONAL):
        needed = name not in OPTIONAL
        package = name if needed else f"-e '.[{OPTIONAL[name]}]' in minispec's folder"
        try:
            yield Fact(name, metadata.version(name), needed=needed)
        except metadata.PackageNotFoundError:
            advice = f"install it: {pip} {package}"
            yield Fact(name, "not installed", "broken" if needed else "missing", advice, needed)


def requirements() -> list[str]:
    """Returns the names of the packages that minispec needs to run."""
    try:
        lines = metadata.requires(DISTRIBUTION) or []
    except metadata.PackageNotFoundError:  # it runs from its source, and was never installed
        lines = []
    return [re.split(r"[^\w.-]", line)[0] for line in lines if "extra ==" not in line]


def machine() -> Iterator[Fact]:
    """Cores, threads, how torch was built, and a GPU that it can use; nothing here needs one."""
    yield Fact("system", f"{platform.system()} {platform.release()}, {platform.machine()}")
    yield Fact("processor", f"{processor()}, {os.cpu_count()} cores")
    yield Fact("threads", f"torch computes with {torch.get_num_threads()}")
    kind = f"CUDA {torch.version.cuda}" if torch.version.cuda else "processor only"
    if torch.version.hip:
        kind = f"ROCm {torch.version.hip}"
    if hasattr(torch.optim, "Muon"):
        yield Fact("torch build", kind, needed=True)
    else:
        advice = "training needs torch 2.9 or newer; on an Intel Mac read the site, or use conda"
        yield Fact("torch build", f"{torch.__version__}, too old", "broken", advice, needed=True)
    if torch.cuda.is_available():
        yield Fact("GPU", f"{torch.cuda.get_device_name()}; use it with --device cuda")
    else:
        yield Fact("GPU", "none that torch can use", "missing", "all runs on processors")


def compiler() -> Iterator[Fact]:
    """The C++ compiler of the native backend."""
    by_system = {
        "Linux": "install your distribution's g++ (Debian, Ubuntu: apt install g++)",
        "Darwin": "xcode-select --install",
    }
    install = by_system.get(platform.system(), "install g++ or clang++")
    advice = f"{install}, or pip install ziglang; only the native backend needs it"
    try:
        command = find_compiler()
    except ValueError:
        yield Fact("C++ compiler", "none", "missing", advice)
    else:
        yield Fact("C++ compiler", "that of the package ziglang" if len(command) > 1 else command[0])


def native() -> Iterator[Fact]:
    """Whether the native backend's library is built: without a compiler it is needed."""
    if find_library(SOURCE, FLAGS) is not None:
        yield Fact("native backend", "built: it needs no compiler any more")
    else:
        advice = "it is built when first asked for, in some seconds: --backend native"
        yield Fact("native backend", "not built yet", "missing", advice)


def pairs() -> Iterator[Fact]:
    """Every pair that can be named, and every other folder among them: its size, and whether it loads."""
    folders = {path.name for path in cache_folder().glob("[!.]*") if path.is_dir()} - RESERVED_NAMES
    for name in sorted(known_pairs() | folders | {"stories"}):
        is_cached = name in folders
        folder = (cache_folder() if is_cached else SHIPPED) / name
        place = "in the cache" if is_cached else "shipped"
        size = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file()) / 2**20
        try:
            load_pair(folder)
        except ValueError as error:
            advice = "get the project's files again: this pair comes with them"
            if is_cached:
                advice = f"delete {folder} and run: minispec train --preset {name}"
            reason = " ".join(str(error).split())[:160]
            yield Fact(f"pair {name}", f"{place}, {reason}", "broken", advice, needed=name == "stories")
        else:
            yield Fact(f"pair {name}", f"{place}, complete, {size:.1f} MB", needed=name == "stories")
    for name in PAIRS:
        if name not in known_pairs() | folders:
            advice = f"it is trained when first asked for: minispec train --preset {name}"
            yield Fact(f"pair {name}", "not trained yet", "missing", advice)


def cache() -> Iterator[Fact]:
    """Where trained pairs are kept, and whether that can be written."""
    folder = cache_folder()
    existing = next(path for path in (folder.absolute(), *folder.absolute().parents) if path.exists())
    if existing.is_dir() and os.access(existing, os.W_OK):
        yield Fact("cache folder", f"{folder}")
    else:
        advice = "set MINISPEC_HOME to a folder that you can write to"
        yield Fact("cache folder", f"{folder} cannot be written", "broken", advice, needed=True)
