"""The native library: built once, built again where it is damaged, and clear about what is missing."""

import hashlib
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch
from native_models import ALONE, QUICK_FLAGS, block, needs_compiler, plant, small_pair
from refusals import refused

from minispec import load_pair
from minispec.native import library
from minispec.native.backend import TORCH, on_backend
from minispec.native.model import NativeGPT


@pytest.fixture
def kept(tmp_path, monkeypatch):
    """Returns the folder of libraries in a cache folder of its own; it is made with the first."""
    monkeypatch.setenv("MINISPEC_HOME", str(tmp_path / "home"))
    return tmp_path / "home" / "native"


@pytest.fixture
def bare(tmp_path, monkeypatch):
    """No compiler on the path, none named, and no package that has one; returns an empty folder, the path."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setattr(library, "find_spec", lambda name: None)
    return tmp_path


@pytest.fixture
def quick(monkeypatch):
    """Libraries that are slow and built in a second; yields a list of the compilers that were used."""
    used = []
    real = library.build_library
    monkeypatch.setattr(library, "FLAGS", QUICK_FLAGS)
    monkeypatch.setattr(library, "build_library", lambda *a: (used.append(a[0]), real(*a))[1])
    return used


# A program that has no compiler, and computes with the library that is there.
USES_IT = """
import sys
from native_models import QUICK_FLAGS, small_pair
from minispec.native import library
from minispec.native.model import NativeGPT
library.FLAGS = QUICK_FLAGS
assert not library.will_be_built()
NativeGPT(small_pair()[0])
"""


@needs_compiler
def test_a_library_is_built_once_for_every_process(kept, quick):
    """Again where it is damaged, and not by who comes later, without a compiler; old remains are swept."""
    for name, age in ((".building-old", 4000), (".building-new", 10)):
        (kept / name).mkdir(parents=True)
        (kept / name / "native.so").write_bytes(b"half")
        os.utime(kept / name, (time.time() - age,) * 2)
    assert library.will_be_built()
    model, _ = small_pair()
    NativeGPT(model)
    NativeGPT(model)
    building, path = sorted(kept.iterdir())
    assert len(quick) == 1 and building.name == ".building-new"
    environment = os.environ | ALONE | {"CXX": "/nothing/c++"}
    environment["PYTHONPATH"] += os.pathsep + str(Path(__file__).parents[1])
    subprocess.run([sys.executable, "-c", USES_IT], env=environment, check=True)
    whole = path.read_bytes()
    foreign = kept / f"{path.stem.partition('-')[0]}-{hashlib.sha256(b'foreign').hexdigest()[:24]}.so"
    foreign.write_bytes(b"foreign")  # it has the bytes that its name speaks of, and cannot be loaded
    for damaged in (b"", whole[:-1] + b"\xff", whole[:1000]):
        path.unlink()  # a library that is loaded is not written into
        path.write_bytes(damaged)
        assert library.find_library(library.SOURCE, library.FLAGS) is None


@pytest.mark.skipif(os.name != "posix", reason="scripts stand in for compilers")
@pytest.mark.parametrize("makes", ["nothing", "junk", "another library"])
def test_a_compiler_that_makes_no_library_is_one_clear_line(makes, tmp_path, kept, monkeypatch):
    """It exits with 0, and what it has made is not kept."""
    another = torch._C.__file__  # a library that is none of ours
    made = {"nothing": "", "junk": 'echo junk > "$last"', "another library": f'cp {another} "$last"'}[makes]
    wrong = program(tmp_path, "c++", f'for word; do case "$word" in *.so) last=$word;; esac; done\n{made}\n')
    monkeypatch.setenv("CXX", wrong)
    with refused("c\\+\\+ has made a library that does not work"):
        NativeGPT(small_pair()[0])
    assert not list(kept.iterdir())


@pytest.mark.evidence
@needs_compiler
def test_builds_that_go_on_at_once_do_no_harm(kept, quick):
    """Two begin together in an empty folder: both compute, and one whole library is left."""
    model, _ = small_pair()
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(NativeGPT, [model] * 2))
    (left,) = kept.iterdir()
    assert len(quick) == 2 and library.is_complete(left)


@pytest.mark.evidence
@needs_compiler
def test_a_library_that_computes_something_else_is_refused(tmp_path, kept, monkeypatch):
    """A norm without its root: the check at the end of loading finds it."""
    plant(monkeypatch, tmp_path, "1 / std::sqrt(", "1 / (")
    with pytest.raises(ValueError, match="does not compute what the model does"):
        NativeGPT(small_pair()[0])


@needs_compiler
def test_a_build_that_fails_is_one_clear_line(tmp_path, kept, monkeypatch):
    """A source that does not compile, a folder that cannot be made; nothing is left."""
    wrong = plant(monkeypatch, tmp_path, "#pragma once", "int main( {")
    with refused("could not be built .*; use --backend torch"):
        NativeGPT(small_pair()[0])
    assert not list(kept.iterdir())
    monkeypatch.setenv("MINISPEC_HOME", str(wrong))
    with pytest.raises(ValueError, match="could not be built .*; use --backend torch"):
        NativeGPT(small_pair()[0])


def test_without_a_compiler_there_is_one_clear_line(bare, minispec_home):
    """Which `auto` explains with, computing on torch."""
    pair = load_pair("stories")
    with pytest.raises(ValueError, match="needs a C\\+\\+ compiler and found none.*--backend torch") as error:
        on_backend(pair, "native")
    models = on_backend(pair, "auto")
    assert models.backend is TORCH and models.target is pair.target
    assert str(error.value) in models.note and "\n" not in models.note


@pytest.mark.parametrize(
    ("system", "machine", "tuned", "independent"),
    [
        ("Linux", "x86_64", "-march=native", True),
        ("Linux", "aarch64", "-mcpu=native", True),
        ("Darwin", "arm64", "-mcpu=native", True),
        ("Windows", "AMD64", "-march=native", False),
        ("Windows", "ARM64", "-mcpu=native", False),
    ],
)
def test_flags_of_every_system(system, machine, tuned, independent):
    """Processors are named differently from system to system, and Windows knows no -fPIC."""
    flags = library.flags_for(system, machine)
    assert tuned in flags and ("-fPIC" in flags) is independent and "-shared" in flags


def test_a_system_without_proc_has_a_key_too(monkeypatch):
    """macOS and Windows have no /proc/cpuinfo: there the library's name hangs on what `platform` says."""

    def missing(path, *_, **__):
        raise FileNotFoundError(2, "No such file or directory", str(path))

    keys = set()
    for processor in ("Apple M4", "another"):
        with monkeypatch.context() as patch:
            patch.setattr(library.Path, "read_text", missing)
            patch.setattr(library.platform, "processor", lambda processor=processor: processor)
            assert library.processor_flags() == processor
            keys.add(library.key_of(library.SOURCE, library.FLAGS))
    assert len(keys) == 2


def program(folder, name, does=""):
    """Puts a program into a folder; by default it does nothing."""
    path = folder / name
    path.write_text(f"#!/bin/sh\n{does}")
    path.chmod(0o755)
    return str(path)


def test_compilers_are_looked_for_in_order(bare, monkeypatch):
    """What CXX names, then g++, then clang++, then the package ziglang."""
    monkeypatch.setattr(library, "find_spec", lambda name: name == "ziglang" or None)
    assert library.find_compiler() == (sys.executable, "-m", "ziglang", "c++")
    monkeypatch.setenv("CXX", "my-c++")  # as yet there is none of that name
    for name in ("clang++", "g++", "my-c++"):
        made = program(bare, name)
        assert library.find_compiler() == (made,)


@pytest.mark.skipif(find_spec("ziglang") is None, reason="the package ziglang is not installed")
@torch.inference_mode()
def test_the_package_ziglang_can_build_it(bare, kept, monkeypatch):
    """With no compiler on the path the library is built by the package, and computes the same."""
    monkeypatch.setattr(library, "find_spec", find_spec)
    model, _ = small_pair(torch.float64)
    text = block(model, 2, 9)
    found = NativeGPT(model)(text)
    torch.testing.assert_close(found, model(text), rtol=0, atol=1e-11)
