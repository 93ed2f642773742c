"""The English corpus: enough of it, mostly prose, nothing twice, and gathered without side effects."""

import warnings

import pytest

from minispec.train import corpus as english


@pytest.fixture(scope="module")
def documents():
    return english.english_documents()


@pytest.mark.evidence
def test_paragraphs_are_single_lines_and_none_occurs_twice(documents):
    paragraphs = [paragraph for document in documents for paragraph in document.split("\n\n")]
    assert len(set(paragraphs)) == len(paragraphs)
    assert all(paragraph == " ".join(paragraph.split()) for paragraph in paragraphs)


@pytest.mark.evidence
def test_there_is_enough_and_it_is_mostly_prose(documents):
    text = "\n\n".join(documents)
    assert len(text) > 1_200_000 and len(documents) > 2_000
    assert min(map(len, documents)) >= english.MINIMUM_CHARACTERS
    assert "compound statement" in text  # the language reference
    assert "Reformat the single paragraph in 'text'" in text  # a docstring of textwrap
    pieces = text.split()
    words = sum(english.WORD.fullmatch(piece) is not None for piece in pieces)
    assert words > 0.85 * len(pieces) and ">>>" not in text


@pytest.mark.parametrize(
    ("paragraph", "kept"),
    [
        ("Return the number of items in the list.", True),
        ('If *size* is omitted, the stream\'s contents are read (all of them), "as is".', True),
        ("A well-known, time-honoured way; don't change it!", True),
        ("Example: with a prompt it is a doctest, whatever else stands here >>> f(1)", False),
        ("x = f(1) + g[2] if not y else {3: 4}", False),
        ("primary ::= atom | attributeref | subscription | slicing | call", False),
        ("See also:", False),
        ("1.0 2.0 3.0 one two three four 4.0 5.0", False),
    ],
)
def test_prose_is_kept_and_nothing_else(paragraph, kept):
    assert english.is_prose(paragraph) is kept


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
    path = tmp_path / "a.py"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert list(english._docstrings(path)) == []  # there is no such file
        for source in (b'"""No end', b'"""\0"""', b'"""\xff"""'):
            path.write_bytes(source)
            assert list(english._docstrings(path)) == []
        path.write_bytes(b'"""A docstring with \\d in it."""')
        assert list(english._docstrings(path)) == ["A docstring with \\d in it."]


def test_files_are_sorted_and_tests_left_out(tmp_path):
    for name in ("b.py", "a/z.py", "a.py", "test/x.py", "a/tests/y.py", "site-packages/p/q.py", "test.py"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    names = [path.relative_to(tmp_path).as_posix() for path in english._library_files(tmp_path)]
    assert names == ["a.py", "a/z.py", "b.py", "test.py"]
