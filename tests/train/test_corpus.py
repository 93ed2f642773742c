"""Corpora: split by document, nothing on both sides, the same for the same seed."""

import hashlib
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from refusals import refused

from minispec.train.corpus import (
    Corpus,
    load_corpus,
    passages,
    python_documents,
    read_documents,
    split_documents,
)

PARAGRAPHS = [f"Paragraph {i} tells of day {i} and of naïve café № {i}. " * 12 for i in range(40)]


def text_file(tmp_path, data, name="book.txt"):
    path = tmp_path / name
    path.write_bytes(data if isinstance(data, bytes) else data.encode())
    return path


def test_stories_are_split_and_known():
    """No seed's training is its own validation or another's, and the grammar's record belongs to its text."""
    corpora = [load_corpus("stories", seed, stories=400) for seed in range(3)]
    held_out = {text for corpus in corpora for text in corpus.validation}
    for corpus in corpora:
        assert not held_out & set(corpus.train)
        assert [story.text for story in corpus.stories] == list(corpus.validation)
        assert 350 < len(corpus.train) <= 400 and len(corpus.validation) >= 100


@pytest.mark.parametrize("name", ["stories", "english", "python", "file"])
def test_a_seed_fixes_the_corpus(name, tmp_path, monkeypatch):
    """The same seed gives the same split and hash, another seed another."""
    for documents in ("english_documents", "python_documents"):  # all of them take seconds
        monkeypatch.setattr(f"minispec.train.corpus.{documents}", lambda *_: PARAGRAPHS)
    source = text_file(tmp_path, "\n\n".join(PARAGRAPHS)) if name == "file" else name
    one, same, other = (load_corpus(source, seed, stories=50) for seed in (1, 1, 2))
    assert list(one.train) == list(same.train) and one.sha256 == same.sha256
    assert list(one.validation) != list(other.validation) and one.sha256 != other.sha256


def test_the_hash_covers_every_document_and_the_split():
    """sha256 is that of all documents, each closed by a zero byte, each part by a one."""
    assert Corpus("any", ["a", "bé"], ["c"]).sha256 == hashlib.sha256(b"a\0b\xc3\xa9\0\1c\0\1").hexdigest()


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_a_file_is_split_by_passages(tmp_path, end):
    """Every paragraph of a file is in exactly one part, whole, and a twentieth is held out."""
    corpus = load_corpus(text_file(tmp_path, (end * 2).join(PARAGRAPHS)))
    documents = [*corpus.train, *corpus.validation]
    assert sorted(documents) == sorted(text.strip("\n") for text in PARAGRAPHS)
    assert len(corpus.validation) == 2 and not corpus.stories


def test_source_is_that_of_a_folders_modules(tmp_path):
    """In the order of their names, as each says that it is encoded; no packages, nothing private."""
    (tmp_path / "package").mkdir()
    for name in ("b.py", "_generated.py", "package/c.py"):
        text_file(tmp_path, f"# {name}\n" + "x = 1\n" * 200 + "\ny = 2\n", name)
    text_file(tmp_path, "# -*- coding: latin-1 -*-\nname = 'é'\n".encode("latin-1"), "a.py")
    text_file(tmp_path, "# -*- coding: none -*-\n", "z.py")  # no encoding: left out
    documents = python_documents(tmp_path)
    assert [text.split("\n")[0] for text in documents] == ["# -*- coding: latin-1 -*-", "# b.py", "y = 2"]
    assert "é" in documents[0] and len(documents[1]) >= 800


LINES = st.lists(st.sampled_from(["", " ", "\r", "né", "word " * 30, "  word" * 80]), max_size=12)


@given(lines=LINES, end=st.sampled_from(["\n", "\r\n"]))
def test_a_file_has_the_passages_of_its_text(tmp_path_factory, lines, end):
    """What is found in the bytes and read later is what a text in memory is cut into."""
    text = end.join(lines)
    expected = list(passages(text.replace("\r\n", "\n").split("\n")))
    path = text_file(tmp_path_factory.getbasetemp(), text)
    if not expected:
        with pytest.raises(ValueError, match="empty"):
            read_documents(path)
        return
    documents = read_documents(path)
    assert list(documents) == expected and documents[-1] == expected[-1]
    assert list(documents[::2]) == expected[::2] and documents.size >= sum(map(len, expected))


def test_a_folder_is_all_its_files(tmp_path):
    """In the order of their names, below it too; what begins with a dot is left out; a bad file is named."""
    texts = {"b.txt": PARAGRAPHS[:20], "a/c.txt": PARAGRAPHS[20:], ".git/x": ["hidden"], "a/empty": []}
    for name, paragraphs in texts.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        text_file(tmp_path, "\n\n".join(paragraphs), name)
    found = list(read_documents(tmp_path))
    assert found == [text.strip("\n") for text in (*PARAGRAPHS[20:], *PARAGRAPHS[:20])]
    whole = load_corpus(text_file(tmp_path, "\n\n".join(PARAGRAPHS), ".whole"))
    assert sorted(load_corpus(tmp_path).validation) == sorted(whole.validation)
    text_file(tmp_path, b"\xff", "a/image")
    with pytest.raises(ValueError, match="a/image is not UTF-8: byte 0"):
        load_corpus(tmp_path)


def test_a_paragraph_that_comes_twice_is_one_document():
    """A repeated document cannot be in both parts."""
    corpus = split_documents("any", ["a", "b", "a", "b", "c"], seed=0)
    assert sorted([*corpus.train, *corpus.validation]) == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("data", "complaint"),
    [
        (b"", "empty"),
        (b" \n\t\r\n ", "empty"),
        (b"good \xff bad", "not UTF-8: byte 5"),
        ("only one passage", "too short to train on"),
        ("the same\n" * 60 + "\n" + "the same\n" * 60, "too short to train on"),
        ("word " * 30, "no blank line for"),
        pytest.param(
            lambda path: os.mkfifo(path),
            "it is no file but a pipe or a device",
            marks=pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="pipes in folders are POSIX"),
        ),
        (Path.mkdir, "empty"),
        (lambda path: None, "No such file"),
    ],
    ids=["empty", "blank", "latin-1", "one", "twice the same", "large", "pipe", "folder", "none"],
)
def test_an_unusable_file_is_refused(data, complaint, tmp_path, monkeypatch):
    """What nothing can be learned from is refused by its name, with the reason, in one line."""
    path = tmp_path / "book.txt"
    if callable(data):
        data(path)
    else:
        text_file(tmp_path, data)
    monkeypatch.setattr("minispec.train.corpus.LONGEST_PASSAGE", 149 if "no blank" in complaint else 10**6)
    with refused(complaint, path):
        load_corpus(path)


def test_short_paragraphs_are_joined_and_none_is_lost():
    """Passages are at least as long as asked, but for the last, and hold all lines in order."""
    lines = [line for i in range(30) for line in (f"line {i}", "" if i % 2 else f"more {i}")]
    texts = list(passages(lines, minimum=50))
    assert [line for text in texts for line in text.split("\n") if line] == [line for line in lines if line]
    assert all(sum(map(len, text.split("\n"))) >= 50 for text in texts[:-1])
