"""Corpora: the texts that models learn from, split into training and validation by document.

`stories` comes from our own grammar. `english` is prose that every Python installation carries: the language
reference that `help()` shows, and the docstrings of the standard library. `python` is the library's source.
None needs a download; the last two differ a little between versions of Python. Any UTF-8 text file will do
as well. The same seed gives the same split.
"""

import ast
import hashlib
import re
import sysconfig
import tokenize
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from pydoc_data.topics import topics

from minispec.io.files import format_path, read_text
from minispec.train.stories import Story, draw_stories

VALIDATION_STORIES = 400
VALIDATION_SHARE = 0.05
CORPUS_NAMES = ("stories", "english", "python")
SOURCE_PASSAGE = 800  # characters of a passage of source, at least

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


@dataclass(frozen=True)
class Corpus:
    """A text in documents, split."""

    name: str  #: `stories`, `english`, `python`, or the file's path
    train: Sequence[str]  #: documents to learn from
    validation: Sequence[str]  #: documents to be measured on, none of them in `train`
    stories: Sequence[Story] = field(default=())  #: the validation documents, with what the grammar knows

    @property
    def sha256(self) -> str:
        """The hash of all documents in order, as hexadecimal digits."""
        digest = hashlib.sha256()
        for part in (self.train, self.validation):
            for document in part:
                digest.update(document.encode("utf-8") + b"\0")
            digest.update(b"\1")
        return digest.hexdigest()


def load_corpus(name: str | Path, seed: int = 0, stories: int = 20_000, friends: int = 3) -> Corpus:
    """Makes or reads a corpus, and splits it.

    Args:
        name: `stories`, `english`, `python`, or the path of a UTF-8 text file.
        seed: of the stories, and of the split.
        stories: how many stories to train on; there is no end of them.
        friends: how many friends a story has: 3, or fewer for easier texts.

    Raises:
        ValueError: if there is no such file, it is not UTF-8, or too short to split; or if this Python has no
            sources.
    """
    if name == "stories":
        return story_corpus(seed, stories, friends)
    if name == "english":
        return split_documents("english", english_documents(), seed)
    if name == "python":
        return split_documents("python", python_documents(Path(sysconfig.get_paths()["stdlib"])), seed)
    return split_documents(str(name), read_documents(Path(name)), seed)


def story_corpus(seed: int, count: int, friends: int = 3) -> Corpus:
    """Draws stories; those for validation come from another stream, and none of them is in training."""
    held_out = list(draw_stories(VALIDATION_STORIES, seed * 2 + 1, friends))
    texts = {story.text for story in held_out}
    drawn = (story.text for story in draw_stories(count, seed * 2, friends))
    train = [text for text in drawn if text not in texts]
    return Corpus("stories", train, [story.text for story in held_out], held_out)


def read_documents(path: Path) -> list[str]:
    """Reads the passages of a text file; ValueError if it is missing, not UTF-8, or empty."""
    try:
        text = read_text(path)
    except UnicodeDecodeError as error:
        raise ValueError(f"{format_path(path)} is not UTF-8: byte {error.start} cannot be read") from error
    except OSError as error:
        raise ValueError(f"{format_path(path)} cannot be read: {error.strerror or error}") from error
    if not text.strip():
        raise ValueError(f"{path} is empty; it needs some text to train on")
    lines = text.replace("\r\n", "\n").split("\n")
    return list(passages(lines))


def english_documents() -> list[str]:
    """Collects the English of the standard library, the same and in the same order for one Python version.

    A document is one topic or one docstring, as paragraphs joined by blank lines. No paragraph occurs
    twice in the whole collection, so a later split by document leaks nothing from one side to the other.
    """
    files = _library_files(Path(sysconfig.get_paths()["stdlib"]))
    docstrings = (text for path in files for text in _docstrings(path))
    return distinct_documents(chain((topics[name] for name in sorted(topics)), docstrings))


def distinct_documents(texts: Iterable[str]) -> list[str]:
    """Makes documents of the prose in texts, a line a paragraph, where it is seen first; no short ones."""
    used: set[str] = set()
    documents = []
    for text in texts:
        paragraphs = (" ".join(block.split()) for block in BLANK_LINES.split(text))
        new_paragraphs = dict.fromkeys(part for part in paragraphs if part not in used and is_prose(part))
        document = "\n\n".join(new_paragraphs)
        # What is dropped as too short is not used: a longer document may still say it.
        if len(document) >= MINIMUM_CHARACTERS:
            used.update(new_paragraphs)
            documents.append(document)
    return documents


def is_prose(paragraph: str) -> bool:
    """Says whether a paragraph is prose: no doctest prompt, at least four words, two thirds of it words.

    Code, tables, grammar rules and headings fail.
    """
    if ">>>" in paragraph:
        return False
    pieces = paragraph.split()
    words = sum(WORD.fullmatch(piece) is not None for piece in pieces)
    return words >= MINIMUM_WORDS and words >= MINIMUM_PROSE * len(pieces)


def _library_files(root: Path) -> list[Path]:
    """Lists the library's source files, sorted alike on every system."""
    paths = [path.relative_to(root) for path in root.rglob("*.py")]
    library_paths = [path for path in paths if SKIPPED_FOLDERS.isdisjoint(path.parts[:-1])]
    return [root / path for path in sorted(library_paths, key=lambda path: path.as_posix())]


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
    pending_nodes: list[ast.AST] = [tree]
    while pending_nodes:
        node = pending_nodes.pop()
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            if docstring := ast.get_docstring(node):
                yield docstring
        # Expressions define nothing that has a docstring, and they are most of a tree.
        children = [child for child in ast.iter_child_nodes(node) if not isinstance(child, ast.expr)]
        pending_nodes += reversed(children)


def python_documents(root: Path) -> list[str]:
    """Cuts the modules of a folder into passages: those of Python's library, in the order of their names.

    Packages are left out, and so is what begins with an underscore: some of it was generated for one machine.
    They are under the Python Software Foundation's license (https://docs.python.org/3/license.html); they are
    read where they lie, and none is copied. Some installations keep compiled files only: then a ValueError.
    """
    documents: list[str] = []
    for path in sorted(root.glob("[!_]*.py")):
        with suppress(OSError, SyntaxError), tokenize.open(path) as file:  # it says how it is encoded
            documents += passages(file.read().split("\n"), SOURCE_PASSAGE)
    if not documents:
        raise ValueError(f"this Python has no sources of its library in {root}; take a file, with --text")
    return documents


def passages(lines: Iterable[str], minimum: int = 400) -> Iterable[str]:
    """Joins paragraphs to passages of at least `minimum` characters, cut at blank lines only."""
    passage: list[str] = []
    for line in [*lines, ""]:
        passage.append(line)
        if not line.strip() and sum(map(len, passage)) >= minimum:
            yield "\n".join(passage).strip("\n")
            passage = []
    if rest := "\n".join(passage).strip():
        yield rest


def split_documents(name: str, documents: Sequence[str], seed: int) -> Corpus:
    """Splits documents by a hash of seed and text, whatever their order; ValueError if there are too few."""
    unique = list(dict.fromkeys(documents))
    ranked = sorted(unique, key=lambda text: hashlib.sha256(f"{seed} {text}".encode()).digest())
    held_out = set(ranked[: int(len(unique) * VALIDATION_SHARE) or 1])
    if len(unique) < 2:
        raise ValueError(
            f"{name} is too short to train on: it has one passage, and one more is needed to measure on; "
            f"separate passages by blank lines"
        )
    return Corpus(name, [d for d in unique if d not in held_out], [d for d in unique if d in held_out])
