"""The library of the native backend: `cpp/native.cpp`, built by a C++ compiler once, and kept.

Building takes some seconds. The file's name is a hash of the source, the flags and the processor, and one of
its own bytes: half of a library would end the process, so the bytes are compared before it is loaded.
"""

import ctypes
import hashlib
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace

import torch

from minispec.io.checkpoint import cache_folder
from minispec.native.structs import FUNCTIONS, TYPES

SOURCE = Path(__file__).with_name("cpp") / "native.cpp"
COMPILE_SECONDS = 900  # seconds for the compiler; the first time, ziglang builds a standard library too
BUILDING = ".building-"  # how folders of builds that go on begin
ABANDONED_SECONDS = 3600  # seconds after which such a folder is what an interrupted build has left
COMPILERS = ("g++", "clang++")


def flags_for(system: str, machine: str) -> tuple[str, ...]:
    """Returns what the compiler is told on a system and a processor, as `platform` names them."""
    this_machine = "-mcpu=native" if machine.lower() in ("arm64", "aarch64") else "-march=native"
    # On Windows all code is independent of its position, and -fPIC is refused.
    independent = () if system == "Windows" else ("-fPIC", "-pthread")
    # For AMD, GCC fuses products with their sums in some tiles and not in others: their bits would differ.
    fused = () if system == "Darwin" else ("--param=avoid-fma-max-bits=0",)
    return ("-O3", this_machine, *fused, "-std=c++17", "-shared", *independent)


FLAGS = flags_for(platform.system(), platform.machine())


def load_native(
    dtype: torch.dtype, source: Path | None = None, flags: Sequence[str] | None = None
) -> SimpleNamespace:
    """Returns the functions of `native.cpp`, for matrices that are kept in a type of `TYPES`.

    The library is built first if it is not in its folder, or is damaged. By default it is of the shipped
    source, with `FLAGS`. Raises ValueError if there is no C++ compiler, the folder cannot be written, or the
    build fails.
    """
    build = (source or SOURCE, flags or FLAGS)
    return functions_of(find_library(*build) or build_library(find_compiler(), *build), dtype)


def library_folder() -> Path:
    """Returns where libraries are kept: `native` in the cache folder."""
    return cache_folder() / "native"


@cache
def functions_of(path: Path, dtype: torch.dtype) -> SimpleNamespace:
    """Returns the functions of a library, and the number of a type for them; all that use it share them."""
    library = ctypes.CDLL(str(path))
    native = SimpleNamespace(type=TYPES[dtype], dtype=dtype)
    for name, (result, arguments) in FUNCTIONS.items():
        function = library[name]
        function.restype = result
        function.argtypes = arguments
        setattr(native, name.removeprefix("ms_"), function)
    return native


@cache
def native_functions(dtype: torch.dtype) -> SimpleNamespace:
    """Returns the functions as `load_native` does; they are loaded once in a process."""
    return load_native(dtype)


def why_missing() -> str | None:
    """Says why there is no native backend here; None if there is one, built now if it was not before."""
    try:
        native_functions(torch.float64)
    except ValueError as error:
        return str(error)
    return None


def find_compiler() -> tuple[str, ...]:
    """The command that compiles C++: `CXX`, g++, clang++, or the clang of ziglang; ValueError if none."""
    for name in (os.environ.get("CXX"), *COMPILERS):
        path = shutil.which(name) if name else None
        if path:
            return (path,)
    if find_spec("ziglang") is not None:
        return (sys.executable, "-m", "ziglang", "c++")
    raise ValueError(
        "the native backend needs a C++ compiler and found none; install g++, clang or the package ziglang, "
        "or use --backend torch"
    )


def find_library(source: Path, flags: Sequence[str]) -> Path | None:
    """Returns a library that was built earlier of what `load_native` names, or None.

    Any will do, whichever compiler made it: it is of the same source, for the same processor, it has answered
    before it was kept, and `NativeGPT` compares what it computes. So with a library no compiler is needed.
    """
    for path in sorted(library_folder().glob(f"{key_of(source, flags)}-*.so")):
        try:
            if is_complete(path):
                ctypes.CDLL(str(path))  # fails where another system has built it, in a folder that both share
                return path
        except OSError:
            continue
    return None


def will_be_built() -> bool:
    """Whether the library has to be built when it is asked for: there is a compiler, and no library yet."""
    try:
        return find_library(SOURCE, FLAGS) is None and bool(find_compiler())
    except ValueError:
        return False


def build_library(compiler: Sequence[str], source: Path, flags: Sequence[str]) -> Path:
    """Compiles `native.cpp` by a command; the file appears when it is complete and has answered.

    Processes that build at the same time write the same name, or each its own. ValueError if it fails.
    """
    folder = library_folder()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        remove_leftovers(folder)
        with tempfile.TemporaryDirectory(dir=folder, prefix=BUILDING) as temporary:
            built = Path(temporary) / "native.so"
            command = [*compiler, *flags, "-o", str(built), str(source)]
            result = subprocess.run(command, capture_output=True, text=True, timeout=COMPILE_SECONDS)
            if result.returncode:
                raise OSError((result.stderr.strip() or "the compiler failed").splitlines()[0])
            if not works(built):
                raise OSError(f"{compiler[0]} has made a library that does not work")
            path = folder / f"{key_of(source, flags)}-{hash_of(built)}.so"
            os.replace(built, path)
            return path
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ValueError(
            f"the native backend could not be built ({str(error)[:200]}); use --backend torch"
        ) from error


def remove_leftovers(folder: Path) -> None:
    """Removes what interrupted builds have left, and damaged libraries."""
    for path in (*folder.glob(f"{BUILDING}*"), *folder.glob("*-*.so")):
        with suppress(OSError):  # another process may have removed it first
            if path.suffix == ".so" and not is_complete(path):
                path.unlink()
            elif path.is_dir() and time.time() - path.stat().st_mtime > ABANDONED_SECONDS:
                shutil.rmtree(path, ignore_errors=True)


TRIAL = """
import ctypes, math, sys
library = ctypes.CDLL(sys.argv[1])
for name in sys.argv[2:]:
    library[name]
whole, warp = ctypes.c_int64, (ctypes.c_double * 3)(1, 0, 1)
for kind, real in enumerate((ctypes.c_float, ctypes.c_double)):
    logits, found = (real * 2)(0, math.log(3)), (real * 2)()
    status = library.ms_distributions(kind, warp, logits, whole(1), whole(2), found)
    assert status == 0 and abs(found[0] - 0.25) + abs(found[1] - 0.75) < 1e-6
"""


def works(path: Path) -> bool:
    """Whether a new library has all functions and makes a distribution of two logits.

    It is asked in a process of its own: one for another processor would end this one.
    """
    command = [sys.executable, "-I", "-c", TRIAL, str(path), *FUNCTIONS]
    return (
        path.is_file()
        and not subprocess.run(command, capture_output=True, timeout=COMPILE_SECONDS).returncode
    )


def is_complete(path: Path) -> bool:
    """Whether a library has the bytes that its name speaks of."""
    return path.is_file() and path.stem.endswith(f"-{hash_of(path)}")


def hash_of(path: Path) -> str:
    """Returns a hash of a file's bytes."""
    return hashlib.sha256(path.read_bytes()).hexdigest()[:24]


def key_of(source: Path, flags: Sequence[str]) -> str:
    """Returns a hash of what is built and for which processor."""
    digest = hashlib.sha256(repr((tuple(flags), platform.machine(), processor_flags())).encode())
    for path in sorted(source.parent.iterdir()):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:24]


def processor_flags() -> str:
    """Returns what the processor can do, as the system tells it; "" where it does not."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((line for line in lines if line.startswith(("flags", "Features"))), "")
