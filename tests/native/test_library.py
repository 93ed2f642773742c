"""The native library: built once, built again where it is damaged, and clear about what is missing."""

import shutil
import sys
from importlib.util import find_spec

import pytest
import torch
from native_models import block, needs_compiler, small_pair

from minispec.native import library
from minispec.native.model import NativeGPT


def copied(folder, old, new):
    """Returns a copy of the source in which something is replaced."""
    shutil.copytree(library.SOURCE.parent, folder / "cpp")
    path = folder / "cpp" / "forward.h"
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new))
    return folder / "cpp" / "native.cpp"


@needs_compiler
def test_the_library_is_built_once_and_a_damaged_one_again(tmp_path, monkeypatch):
    """Half a file is replaced; another source has another file."""
    model, _ = small_pair()
    NativeGPT(model, tmp_path)
    (path,) = tmp_path.glob("*.so")
    damaged = tmp_path / "damaged"
    shutil.copytree(tmp_path, damaged)
    (damaged / path.name).write_bytes(path.read_bytes()[:1000])
    built, real = [], library.build_library
    monkeypatch.setattr(library, "build_library", lambda *a: (built.append(a[1]), real(*a)))
    NativeGPT(model, tmp_path)
    assert built == []
    NativeGPT(model, damaged)
    assert built == [damaged / path.name]
    (damaged / path.name).with_suffix(".sha256").write_bytes(b"\xff")
    assert not library.is_whole(damaged / path.name)
    monkeypatch.setattr(library, "SOURCE", copied(tmp_path, "#pragma once", "#pragma once  // other"))
    NativeGPT(model, tmp_path)
    assert len(built) == 2 and built[1].name != path.name


@needs_compiler
def test_a_library_that_computes_something_else_is_refused(tmp_path, monkeypatch):
    """A norm without its root: the check at the end of loading finds it."""
    monkeypatch.setattr(library, "SOURCE", copied(tmp_path, "1 / std::sqrt(", "1 / ("))
    with pytest.raises(ValueError, match="does not compute what the model does"):
        NativeGPT(small_pair()[0], tmp_path)


@needs_compiler
def test_a_build_that_fails_is_one_clear_line(tmp_path, monkeypatch):
    """A source that does not compile, a folder that cannot be made; nothing is left."""
    wrong = copied(tmp_path, "#pragma once", "int main( {")
    monkeypatch.setattr(library, "SOURCE", wrong)
    with pytest.raises(ValueError, match="could not be built .*; use --backend torch") as error:
        NativeGPT(small_pair()[0], tmp_path / "kept")
    assert "\n" not in str(error.value) and not list((tmp_path / "kept").iterdir())
    with pytest.raises(ValueError, match="could not be built .*; use --backend torch"):
        NativeGPT(small_pair()[0], wrong / "kept")


def test_without_a_compiler_there_is_one_clear_line(tmp_path, monkeypatch):
    """No compiler on the path, and no package that has one."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setattr(library, "find_spec", lambda name: None)
    with pytest.raises(ValueError, match="needs a C\\+\\+ compiler and found none") as error:
        NativeGPT(small_pair()[0], tmp_path)
    assert "\n" not in str(error.value) and "--backend torch" in str(error.value)


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

    with monkeypatch.context() as patch:
        patch.setattr(library.Path, "read_text", missing)
        patch.setattr(library.platform, "processor", lambda: "Apple M4")
        assert library.processor_flags() == "Apple M4"
        key = library.key_of(["clang++"])
        patch.setattr(library.platform, "processor", lambda: "another")
        assert key != library.key_of(["clang++"])


def program(folder, name):
    """Puts an empty program into a folder."""
    path = folder / name
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return str(path)


def test_compilers_are_looked_for_in_order(tmp_path, monkeypatch):
    """What CXX names, then g++, then clang++, then the package ziglang."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setattr(library, "find_spec", lambda name: name == "ziglang" or None)
    assert library.find_compiler() == (sys.executable, "-m", "ziglang", "c++")
    for name in ("clang++", "g++"):
        made = program(tmp_path, name)
        assert library.find_compiler() == (made,)
    own = program(tmp_path, "my-c++")
    monkeypatch.setenv("CXX", "my-c++")
    assert library.find_compiler() == (own,)
    monkeypatch.setenv("CXX", "nothing-of-that-name")
    assert library.find_compiler() == (str(tmp_path / "g++"),)


@pytest.mark.skipif(find_spec("ziglang") is None, reason="the package ziglang is not installed")
def test_the_package_ziglang_can_build_it(tmp_path, monkeypatch):
    """With no compiler on the path the library is built by the package, and computes the same."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CXX", raising=False)
    model, _ = small_pair(torch.float64)
    text = block(model, 2, 9)
    with torch.inference_mode():
        found = NativeGPT(model, tmp_path / "kept")(text)
        torch.testing.assert_close(found, model(text), rtol=0, atol=1e-11)
