"""The library of the native backend: `cpp/native.cpp`, built by a C++ compiler once, and kept.

Building takes some seconds. The file's name is a hash of the source, the compiler and the processor.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch

from minispec.io.checkpoint import cache_folder

SOURCE = Path(__file__).with_name("cpp") / "native.cpp"
PATIENCE = 900  # seconds for the compiler; the first time, ziglang builds a standard library too
COMPILERS = ("g++", "clang++")
NAMES = {torch.float32: "f32", torch.float64: "f64"}
INT, REAL, ADDRESS = ctypes.c_int64, ctypes.c_double, ctypes.c_void_p


def flags_for(system: str, machine: str) -> tuple[str, ...]:
    """Returns what the compiler is told on a system and a processor, as `platform` names them."""
    here = "-mcpu=native" if machine.lower() in ("arm64", "aarch64") else "-march=native"
    independent = () if system == "Windows" else ("-fPIC",)  # there all code is, and the flag is refused
    return ("-O3", here, "-std=c++17", "-shared", *independent)


FLAGS = flags_for(platform.system(), platform.machine())
# The result and the arguments of each function in `native.cpp`; tensors are handed over as addresses.
ARGUMENTS: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "new": (ADDRESS, (ADDRESS, REAL, ADDRESS)),
    "free": (None, (ADDRESS,)),
    "cache": (INT, (ADDRESS,)),
    "hidden": (INT, (ADDRESS, ADDRESS, INT, INT, ADDRESS, ADDRESS, ADDRESS)),
    "logits": (INT, (ADDRESS, ADDRESS, INT, INT, ADDRESS, ADDRESS, ADDRESS)),
    "draft": (INT, (ADDRESS, ADDRESS, INT, ADDRESS, INT, REAL, ADDRESS, ADDRESS, ADDRESS, ADDRESS, ADDRESS)),
    "warp": (INT, (ADDRESS, INT, INT, REAL, ADDRESS)),
    "choose": (INT, (ADDRESS, INT, INT, ADDRESS, ADDRESS, ADDRESS)),
    "agree": (INT, (ADDRESS, ADDRESS, ADDRESS, INT, INT, INT, ADDRESS, ADDRESS)),
    "reject": (INT, (ADDRESS, ADDRESS, ADDRESS, ADDRESS, ADDRESS, INT, INT, INT, ADDRESS, ADDRESS, ADDRESS)),
}


def load_native(
    dtype: torch.dtype,
    folder: Path | None = None,
    source: Path | None = None,
    flags: Sequence[str] | None = None,
) -> SimpleNamespace:
    """Returns the functions of `native.cpp`; the library is built first if it is not there or is damaged.

    Args:
        dtype: float32 or float64.
        folder: where it is kept; by default `native` in the cache folder.
        source: what is built: by default the shipped `native.cpp`.
        flags: for the compiler; by default `FLAGS`.

    Raises:
        ValueError: if there is no C++ compiler, the folder cannot be written, or the build fails.
    """
    compiler = find_compiler()
    recipe = source or SOURCE, flags or FLAGS
    path = library_path(compiler, folder, *recipe)
    if not is_whole(path):
        build_library(compiler, path, *recipe)
    return functions_of(path, dtype)


@cache
def functions_of(path: Path, dtype: torch.dtype) -> SimpleNamespace:
    """Returns the functions of a library; all that use it share them."""
    library = ctypes.CDLL(str(path))
    found = SimpleNamespace()
    for name, (result, arguments) in ARGUMENTS.items():
        function = library[f"{name}_{NAMES[dtype]}"]
        function.restype, function.argtypes = result, arguments
        setattr(found, name, function)
    return found


@cache
def native_functions(dtype: torch.dtype) -> SimpleNamespace:
    """Returns the functions as `load_native` does; they are loaded once in a process."""
    return load_native(dtype)


def find_compiler() -> tuple[str, ...]:
    """Returns the command that compiles C++: `CXX`, g++, clang++, or the clang of the package ziglang.

    Raises:
        ValueError: if there is none.
    """
    for name in (os.environ.get("CXX"), *COMPILERS):
        found = shutil.which(name) if name else None
        if found:
            return (found,)
    if find_spec("ziglang") is not None:
        return (sys.executable, "-m", "ziglang", "c++")
    raise ValueError(
        "the native backend needs a C++ compiler and found none; install g++, clang or the package ziglang, "
        "or use --backend torch"
    )


def library_path(
    compiler: Sequence[str],
    folder: Path | None = None,
    source: Path | None = None,
    flags: Sequence[str] | None = None,
) -> Path:
    """Returns where the library that a compiler builds is kept, by default in the cache folder."""
    return (folder or cache_folder() / "native") / f"{key_of(compiler, source, flags)}.so"


def will_be_built() -> bool:
    """Whether the library has to be built when it is asked for: there is a compiler, and no library yet."""
    try:
        return not is_whole(library_path(find_compiler()))
    except ValueError:
        return False


def build_library(compiler: Sequence[str], path: Path, source: Path, flags: Sequence[str]) -> None:
    """Compiles `native.cpp`; the file appears when it is complete.

    Args:
        compiler: its command.
        path: of the library.
        source: of `native.cpp`.
        flags: for the compiler.

    Raises:
        ValueError: if the folder cannot be written, or the build fails.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=path.parent, prefix=".building-") as folder:
            made = Path(folder) / path.name
            command = [*compiler, *flags, "-o", str(made), str(source)]
            done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)
            if done.returncode:
                raise OSError((done.stderr.strip() or "the compiler failed").splitlines()[0])
            mark = Path(folder) / "mark"
            mark.write_text(hashlib.sha256(made.read_bytes()).hexdigest())
            os.replace(made, path)
            os.replace(mark, path.with_suffix(".sha256"))
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ValueError(
            f"the native backend could not be built ({str(error)[:200]}); use --backend torch"
        ) from error


def is_whole(path: Path) -> bool:
    """Whether a library is there with the bytes that were written: half of one would end the process."""
    mark = path.with_suffix(".sha256")
    if not (path.is_file() and mark.is_file()):
        return False
    return mark.read_bytes() == hashlib.sha256(path.read_bytes()).hexdigest().encode()


def key_of(compiler: Sequence[str], source: Path | None = None, flags: Sequence[str] | None = None) -> str:
    """Returns a hash of all that decides what is built; the arguments are those of `load_native`."""
    about = (tuple(flags or FLAGS), compiler, platform.machine(), processor_flags())
    digest = hashlib.sha256(repr(about).encode())
    for path in sorted((source or SOURCE).parent.iterdir()):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:24]


def processor_flags() -> str:
    """Returns what the processor can do, as the system tells it; "" where it does not."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((line for line in lines if line.startswith(("flags", "Features"))), "")
