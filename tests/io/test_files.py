"""Files are there whole or not at all."""

import os

import pytest

from minispec.io.files import check_writable, write_whole


def test_writes_and_replaces(tmp_path):
    """A text comes out as UTF-8 with plain line ends, readable by others, and nothing is left beside it."""
    path = tmp_path / "a.txt"
    write_whole(path, "old\n")
    write_whole(path, "é\n✓")
    assert path.read_bytes() == "é\n✓".encode()
    assert path.stat().st_mode & 0o777 == 0o644
    assert os.listdir(tmp_path) == ["a.txt"]


def test_keeps_the_old_file_where_writing_fails(tmp_path):
    """A text that cannot be written at all leaves what was there."""
    path = tmp_path / "a.txt"
    write_whole(path, "old")
    with pytest.raises(UnicodeEncodeError):
        write_whole(path, "new\udcff")
    assert path.read_text(encoding="utf-8") == "old" and os.listdir(tmp_path) == ["a.txt"]


@pytest.mark.parametrize(("name", "words"), [("", "is a folder"), ("no/a.txt", "there is no folder")])
def test_bad_paths_are_one_line(name, words, tmp_path):
    """A folder, or a file in a folder that is not there, is refused in one line, before and when writing."""
    for attempt in (lambda: check_writable(tmp_path / name), lambda: write_whole(tmp_path / name, "x")):
        with pytest.raises(ValueError, match="cannot write") as caught:
            attempt()
        assert "\n" not in str(caught.value)
    with pytest.raises(ValueError, match=words):
        check_writable(tmp_path / name)


def test_a_system_that_lets_every_folder_be_written_complains_when_writing(tmp_path, monkeypatch):
    """On Windows `os.access` says yes to all folders: then writing is what refuses, in one line too."""
    monkeypatch.setattr(os, "access", lambda *_: True)

    def denied(*_):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "replace", denied)
    with pytest.raises(ValueError, match="cannot write .*Permission denied"):
        write_whole(tmp_path / "a.txt", "x")
    assert os.listdir(tmp_path) == []
