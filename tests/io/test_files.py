"""Files are there whole or not at all."""

import os
import re
import stat
import threading
from pathlib import Path

import pytest
import torch
from refusals import refused

import minispec
from minispec.io.files import (
    check_writable,
    printable_line,
    replace_file,
    replace_folder,
    write_tensors,
    write_text_file,
)


def test_writes_and_replaces(tmp_path):
    """A text comes out as UTF-8 with plain line ends, readable by others, and nothing is left beside it."""
    path = tmp_path / "a.txt"
    write_text_file(path, "old\n")
    write_text_file(path, "é\n✓")
    assert path.read_bytes() == "é\n✓".encode()
    assert path.stat().st_mode & 0o777 == 0o644
    assert os.listdir(tmp_path) == ["a.txt"]


@pytest.mark.parametrize(("name", "words"), [("", "is a folder"), ("no/a.txt", "there is no folder")])
@pytest.mark.parametrize("attempt", [check_writable, lambda path: write_text_file(path, "x")])
def test_bad_paths_are_one_line(name, words, attempt, tmp_path):
    """A folder, or a file in a folder that is not there, is refused in one line, before and when writing."""
    with refused(f"cannot write .*{words}"):
        attempt(tmp_path / name)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs Linux's /dev/full")
@pytest.mark.parametrize(
    "attempt",
    [lambda path: write_text_file(path, "x"), lambda path: write_tensors(path, {"a": torch.ones(2)}, {})],
)
def test_devices_are_written_to_and_stay(attempt):
    """A full device is one line, /dev/null takes everything, and both are devices afterwards."""
    with refused("^cannot write /dev/full: No space left on device$"):
        attempt(Path("/dev/full"))
    attempt(Path("/dev/null"))
    check_writable(Path("/dev/full"))
    assert all(stat.S_ISCHR(os.stat(path).st_mode) for path in ("/dev/full", "/dev/null"))


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="pipes in folders are POSIX")
def test_a_pipe_is_written_to_and_stays(tmp_path):
    """Whoever reads the pipe gets the text, and it is a pipe afterwards."""
    path = tmp_path / "pipe"
    os.mkfifo(path)
    heard = []
    reader = threading.Thread(target=lambda: heard.append(path.read_text(encoding="utf-8")), daemon=True)
    reader.start()
    write_text_file(path, "é\n")
    reader.join(10)
    assert heard == ["é\n"] and stat.S_ISFIFO(path.stat().st_mode) and os.listdir(tmp_path) == ["pipe"]


@pytest.mark.skipif(os.name == "nt", reason="links need rights on Windows")
def test_links_are_followed(tmp_path):
    """A text and a folder replace what a link leads to, also where nothing is there yet."""
    (tmp_path / "far").mkdir()
    for name in ("file", "pair", "round"):
        (tmp_path / name).symlink_to(tmp_path / ("round" if name == "round" else f"far/{name}"))
    for text in ("old", "new"):
        write_text_file(tmp_path / "file", text)
        with replace_folder(tmp_path / "pair") as new:
            write_text_file(new / "pair.json", text)
        for path in ("far/file", "far/pair/pair.json"):
            assert (tmp_path / path).read_text(encoding="utf-8") == text
    assert (tmp_path / "file").is_symlink() and (tmp_path / "pair").is_symlink()
    assert sorted(os.listdir(tmp_path / "far")) == ["file", "pair"]
    with refused("cannot write .*round: Too many levels of symbolic links"):
        write_text_file(tmp_path / "round", "x")


def test_where_standard_output_goes_no_file_is_replaced(tmp_path):
    """`--output a.json > a.json` would lose what is printed: it is refused."""
    path = tmp_path / "a.json"
    before = os.dup(1)
    try:
        with path.open("w") as file:
            os.dup2(file.fileno(), 1)
            with refused("standard output or error goes there; choose another file"):
                check_writable(path)
    finally:
        os.dup2(before, 1)
        os.close(before)


def test_two_processes_have_different_temporary_names(tmp_path):
    """Two that write the same file at the same time do not write into each other's, and leave nothing."""
    path = tmp_path / "a"
    with replace_file(path) as first, replace_file(path) as second:
        assert first != second
        first.write_text("first", encoding="utf-8")
        second.write_text("second", encoding="utf-8")
    assert path.read_text(encoding="utf-8") == "first" and os.listdir(tmp_path) == ["a"]
    for error in (OSError(28, "No space left on device"), KeyboardInterrupt()):
        with pytest.raises((ValueError, KeyboardInterrupt)), replace_file(path) as new:
            new.write_text("half", encoding="utf-8")
            raise error
        assert path.read_text(encoding="utf-8") == "first" and os.listdir(tmp_path) == ["a"]


WRITES = r"\.write_text\(|\.write_bytes\(|save_file\(|open\([^)]*[\"'][wax]b?[\"']|os\.replace\("
UNPICKLES = (
    r"^\s*(import|from) .*\b(c?pickle|_pickle|dill|joblib|cloudpickle|shelve|marshal)\b"
    r"|\b(torch|np|numpy)\.(load|save)\b|^from (torch|numpy) import .*\b(load|save)\b"
)
# They write too: a copy that is imported and removed, pipes between processes, what a compiler has built.
WRITERS = {"cli/apart.py", "evidence/zoo/mutation.py", "cli/main.py", "native/library.py", "io/files.py"}


@pytest.mark.parametrize(("calls", "where"), [(WRITES, WRITERS), (UNPICKLES, set())])
def test_few_modules_write_and_none_unpickles(calls, where):
    """Writing, whatever does it, stands in files.py, with few exceptions."""
    package = Path(minispec.__file__).parent
    modules = {path.relative_to(package).as_posix(): path for path in package.rglob("*.py")}
    texts = {name: path.read_text("utf-8") for name, path in modules.items()}
    found = {name for name, text in texts.items() if re.search(calls, text, re.MULTILINE)}
    assert found <= where and ("io/files.py" in found or not where)


def test_nothing_in_a_message_controls_a_terminal(tmp_path):
    """Escape sequences in names are shown, not sent; a long name is shortened."""
    with refused("cannot write", r"\x1b[31mred\x07") as caught:
        check_writable(tmp_path / "no" / "\x1b[31mred\x07")
    assert str(caught.value).isprintable()
    assert printable_line("é…\n\u202e\udcff") == r"é…\n\u202e\udcff"
