"""The English corpus: enough of it, mostly prose, nothing twice, and gathered without side effects."""

import subprocess
import sys
import warnings
from collections import Counter

import pytest

from minispec.train import corpus as english


@pytest.fixture(scope="module")
def documents():
    return english.english_documents()


def test_no_paragraph_occurs_twice(documents):
    counts = Counter(paragraph for document in documents for paragraph in document.split("\n\n"))
    assert [paragraph for paragraph, count in counts.items() if count > 1] == []


def test_there_is_enough(documents):
    assert sum(map(len, documents)) > 1_200_000
    assert len(documents) > 2_000
    assert min(map(len, documents)) >= english.MINIMUM_CHARACTERS


def test_it_comes_from_topics_and_from_docstrings(documents):
    text = "\n\n".join(documents)
    assert "compound statement" in text  # the language reference
    assert "Reformat the single paragraph in 'text'" in text  # a docstring of textwrap


def test_it_is_mostly_prose(documents):
    pieces = [piece for document in documents for piece in document.split()]
    words = sum(english.WORD.fullmatch(piece) is not None for piece in pieces)
    assert words > 0.85 * len(pieces)
    assert not any(">>>" in document for document in documents)


def test_whitespace_is_normalised(documents):
    for document in documents:
        for paragraph in document.split("\n\n"):
            assert paragraph == " ".join(paragraph.split())


# Some of these files act when they are imported.
FILES = "antigravity this turtle tkinter pdb doctest smtplib __phello__ argparse textwrap".split()
PROGRAM = f"""
import hashlib, sys
from minispec.train import corpus as english
files, before = english._library_files, set(sys.modules)
few = lambda root: [path for path in files(root) if {{path.stem, path.parent.stem}} & {{*{FILES}}}]
english._library_files = few
text = "\\0".join(english.english_documents())
print(len(text), hashlib.sha256(text.encode()).hexdigest(), *set(sys.modules) - before)
"""


def test_a_fresh_process_gets_the_same_and_runs_no_module_that_it_reads():
    """Two processes, each with a hash seed of its own, read a few files alike, and import none of them."""
    command = [sys.executable, "-c", PROGRAM]
    runs = [subprocess.Popen(command, stdout=subprocess.PIPE, encoding="utf-8") for _ in range(2)]
    (size, one, *imported), (_, other, *_) = (run.communicate()[0].split() for run in runs)
    assert int(size) > 300_000 and one == other
    # sysconfig imports a few helpers of its own.
    assert {"turtle", "tkinter", "pdb", "doctest", "smtplib", "__phello__"}.isdisjoint(imported)
    assert {"antigravity", "this"}.isdisjoint(imported)


@pytest.mark.parametrize(
    "paragraph",
    [
        "Return the number of items in the list.",
        'If *size* is omitted, the stream\'s contents are read (all of them), "as is".',
        "A well-known, time-honoured way; don't change it!",
    ],
)
def test_prose_is_kept(paragraph):
    assert english.is_prose(paragraph)


@pytest.mark.parametrize(
    "paragraph",
    [
        "Example: with a prompt it is a doctest, whatever else stands here >>> f(1)",
        "x = f(1) + g[2] if not y else {3: 4}",
        "primary ::= atom | attributeref | subscription | slicing | call",
        "See also:",
        "1.0 2.0 3.0 one two three four 4.0 5.0",
    ],
)
def test_what_is_not_prose_is_dropped(paragraph):
    assert not english.is_prose(paragraph)


def test_a_paragraph_stays_with_the_first_document_that_is_long_enough():
    said_twice = "This is one sentence that is said in more than one place."
    other = "And this is another sentence, that stands beside it in the longer one."
    texts = [said_twice, f"{said_twice}\n \n{other}\n\n\n{other}", f"{other}\n\n{said_twice}"]
    assert english.distinct_documents(texts) == [f"{said_twice}\n\n{other}"]


def test_docstrings_come_in_the_order_of_the_source(tmp_path):
    path = tmp_path / "a.py"
    path.write_text(
        '"""One."""\n'
        "if True:\n"
        "    class A:\n"
        '        """Two."""\n'
        "        async def f(self):\n"
        '            """Three."""\n'
        "def g():\n"
        "    'Four.'\n"
        "'not a docstring'\n"
        "raise SystemExit\n",
        encoding="utf-8",
    )
    assert list(english._docstrings(path)) == ["One.", "Two.", "Three.", "Four."]


def test_what_cannot_be_read_is_skipped_in_silence(tmp_path):
    bad = tmp_path / "bad.py"
    bad.write_bytes(b'"""No end')
    null = tmp_path / "null.py"
    null.write_bytes(b'"""\0"""')
    latin = tmp_path / "latin.py"
    latin.write_bytes(b'"""\xff"""')
    escape = tmp_path / "escape.py"
    escape.write_text('"""A docstring with \\d in it."""', encoding="utf-8")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for path in (bad, null, latin, tmp_path / "missing.py"):
            assert list(english._docstrings(path)) == []
        assert list(english._docstrings(escape)) == ["A docstring with \\d in it."]


def test_files_are_sorted_and_tests_left_out(tmp_path):
    for name in ("b.py", "a/z.py", "a.py", "test/x.py", "a/tests/y.py", "site-packages/p/q.py", "test.py"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    names = [path.relative_to(tmp_path).as_posix() for path in english._library_files(tmp_path)]
    assert names == ["a.py", "a/z.py", "b.py", "test.py"]
