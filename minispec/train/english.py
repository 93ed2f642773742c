"""English: the prose that every Python installation carries.

It comes from two parts of CPython's standard library: the language reference that `help()` shows
(`pydoc_data.topics`) and the docstrings of the library's modules, classes and functions. So there is
real English to train on without a download. It differs a little between versions of Python.
"""

import ast
import re
import sysconfig
import warnings
from collections.abc import Iterable, Iterator
from pathlib import Path
from pydoc_data.topics import topics

# Tests and data have little prose, and installed packages differ from one machine to the next.
SKIPPED_FOLDERS = frozenset(
    {"test", "tests", "idle_test", "site-packages", "dist-packages", "idlelib", "lib2to3"}
)
MINIMUM_WORDS = 4
MINIMUM_PROSE = 2 / 3
MINIMUM_CHARACTERS = 80

# A word: letters, perhaps with an apostrophe or hyphens, perhaps in quotes, brackets or emphasis.
WORD = re.compile(r"""["'`(*]*[^\W\d_]+(?:['’-][^\W\d_]+)*["'`)*]*[.,;:!?]*["')]*""")
BLANK_LINES = re.compile(r"\n(?:[^\S\n]*\n)+")


def english_documents() -> list[str]:
    """Collects the English of the standard library, the same and in the same order for one Python version.

    A document is one topic or one docstring, as paragraphs joined by blank lines. No paragraph occurs
    twice in the whole collection, so a later split by document leaks nothing from one side to the other.
    """
    return distinct_documents(_raw_texts())


def distinct_documents(texts: Iterable[str]) -> list[str]:
    """Makes documents of the prose in texts, each paragraph only where it is seen first; no short ones."""
    seen: set[str] = set()
    documents = []
    for text in texts:
        fresh = dict.fromkeys(part for part in paragraphs(text) if part not in seen and is_prose(part))
        document = "\n\n".join(fresh)
        # What is dropped as too short is not seen: a longer document may still say it.
        if len(document) >= MINIMUM_CHARACTERS:
            seen.update(fresh)
            documents.append(document)
    return documents


def paragraphs(text: str) -> Iterator[str]:
    """Yields the paragraphs of a text, each on one line, with single spaces."""
    for block in BLANK_LINES.split(text):
        paragraph = " ".join(block.split())
        if paragraph:
            yield paragraph


def is_prose(paragraph: str) -> bool:
    """Says whether a paragraph is mostly prose.

    The criterion: no doctest prompt, at least four words, and two thirds of what stands between
    spaces are words. Code, tables, grammar rules and headings fail it.
    """
    if ">>>" in paragraph:
        return False
    pieces = paragraph.split()
    words = sum(WORD.fullmatch(piece) is not None for piece in pieces)
    return words >= MINIMUM_WORDS and words >= MINIMUM_PROSE * len(pieces)


def _raw_texts() -> Iterator[str]:
    """Yields all topics, then all docstrings, in a fixed order."""
    for name in sorted(topics):
        yield topics[name]
    for path in _library_files(Path(sysconfig.get_paths()["stdlib"])):
        yield from _docstrings(path)


def _library_files(root: Path) -> list[Path]:
    """Lists the library's source files, sorted alike on every system."""
    found = [path.relative_to(root) for path in root.rglob("*.py")]
    kept = [path for path in found if SKIPPED_FOLDERS.isdisjoint(path.parts[:-1])]
    return [root / path for path in sorted(kept, key=lambda path: path.as_posix())]


def _docstrings(path: Path) -> Iterator[str]:
    """Yields the docstrings of one file, top to bottom; nothing if it cannot be read as Python.

    The source is parsed, never imported: some modules of the library act when they are imported.
    """
    try:
        with warnings.catch_warnings():
            # Old modules have escapes that newer Pythons warn about. That is not the student's concern.
            warnings.simplefilter("ignore")
            tree = ast.parse(path.read_bytes())
    except (OSError, SyntaxError, ValueError):
        return
    yield from _docstrings_below(tree)


def _docstrings_below(node: ast.AST) -> Iterator[str]:
    """Yields the docstring of a node and of all that it defines, in the order of the source."""
    if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
        docstring = ast.get_docstring(node)
        if docstring:
            yield docstring
    for child in ast.iter_child_nodes(node):
        # Expressions define nothing that has a docstring, and they are most of a tree.
        if not isinstance(child, ast.expr):
            yield from _docstrings_below(child)
