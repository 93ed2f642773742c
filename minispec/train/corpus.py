"""Corpora: the texts that models learn from, split into training and validation by document.

`stories` comes from our own grammar. `english` is prose that every Python installation carries: the language
reference that `help()` shows, and the docstrings of the standard library. `python` is the library's source.
None needs a download; the last two differ a little between versions of Python. Any UTF-8 text file will do
as well, or a folder of them, larger than memory if need be: a passage is read when it is asked for. The same
seed gives the same split.
"""

import ast
import hashlib
import re
import sysconfig
import tokenize
import warnings
from array import array
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain
from pathlib import Path
from pydoc_data.topics import topics
from typing import Any

import numpy as np

from minispec.io.files import check_regular, format_path
from minispec.train.stories import Story, draw_stories

VALIDATION_STORIES = 400
VALIDATION_SHARE = 0.05
CORPUS_NAMES = ("stories", "english", "python")
PASSAGE = 400  # characters of a passage, at least
SOURCE_PASSAGE = 800  # of a passage of source
LONGEST_PASSAGE = 2**24  # bytes; a text without blank lines must not fill the memory

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

    name: str  #: `stories`, `english`, `python`, or the path of a file or a folder
    train: Sequence[str]  #: documents to learn from
    validation: Sequence[str]  #: documents to be measured on, none of them in `train`
    stories: Sequence[Story] = field(default=())  #: the validation documents, with what the grammar knows

    @cached_property
    def sha256(self) -> str:
        """The hash of all documents in order, as hexadecimal digits."""
        digest = hashlib.sha256()
        for part in (self.train, self.validation):
            for document in part:
                digest.update(document.encode("utf-8") + b"\0")
            digest.update(b"\1")
        return digest.hexdigest()


class FilePassages(Sequence[str]):
    """Passages of text files, of which each is read when it is asked for."""

    def __init__(self, paths: Sequence[Path], spans: np.ndarray) -> None:
        """Takes the files, and spans [N, 3]: which file, from which byte, to which; files in order."""
        self.paths = paths
        self.spans = spans

    @property
    def size(self) -> int:
        """How many bytes the passages have."""
        return int((self.spans[:, 2] - self.spans[:, 1]).sum())

    def __len__(self) -> int:
        return len(self.spans)

    def __getitem__(self, index: Any) -> Any:
        """Returns a passage, or for a slice or an array of numbers several, not read yet."""
        if isinstance(index, int):
            return next(iter(self[[index]]))
        return FilePassages(self.paths, self.spans[index])

    def __iter__(self) -> Iterator[str]:
        for number in np.unique(self.spans[:, 0]):
            first, last = np.searchsorted(self.spans[:, 0], [number, number + 1])
            with self.paths[number].open("rb") as file:
                for _, start, end in self.spans[first:last]:
                    file.seek(start)
                    yield file.read(end - start).decode("utf-8").replace("\r\n", "\n").strip("\n")


def load_corpus(name: str | Path, seed: int = 0, stories: int = 20_000, friends: int = 3) -> Corpus:
    """Makes or reads a corpus, and splits it.

    Args:
        name: `stories`, `english`, `python`, or the path of a UTF-8 text file, or of a folder of them.
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


def read_documents(path: Path) -> FilePassages:
    """Finds the passages of a text file, or of all files below a folder whose names begin with no dot.

    Raises ValueError if one is missing or not UTF-8, or if there is no text.
    """
    spans = array("q")
    try:
        paths = text_files(path)
        for number, text in enumerate(paths):
            for start, end in passage_spans(text):
                spans.extend((number, start, end))
    except OSError as error:
        place = format_path(Path(error.filename or path))
        raise ValueError(f"{place} cannot be read: {error.strerror or error}") from error
    if not spans:
        raise ValueError(f"{path} is empty; it needs some text to train on")
    return FilePassages(paths, np.frombuffer(spans, np.int64).reshape(-1, 3))


def text_files(path: Path) -> list[Path]:
    """Returns a file itself, or the files below a folder, sorted; OSError for a pipe or a device."""
    if path.is_dir():
        names = sorted(file.relative_to(path) for file in path.rglob("*") if file.is_file())
        return [path / name for name in names if not any(part.startswith(".") for part in name.parts)]
    check_regular(path)
    return [path]


def passage_spans(path: Path) -> Iterator[tuple[int, int]]:
    """Yields from which byte to which each passage of a file reaches: those that `passages` makes of it.

    Raises ValueError if the file is not UTF-8, or a passage has more than `LONGEST_PASSAGE` bytes.
    """
    start = end = size = 0
    with path.open("rb") as file:
        while line := file.readline(LONGEST_PASSAGE + 1):
            if end + len(line) - start > LONGEST_PASSAGE:
                raise ValueError(
                    f"{format_path(path)} has no blank line for {LONGEST_PASSAGE // 2**20} MB; "
                    f"separate passages by blank lines"
                )
            try:
                text = line.decode("utf-8").replace("\r\n", "\n").removesuffix("\n")
            except UnicodeDecodeError as error:
                place = end + error.start
                raise ValueError(f"{format_path(path)} is not UTF-8: byte {place} cannot be read") from error
            end += len(line)
            size += len(text)
            if not text.strip() and size >= PASSAGE:
                yield start, end
                start = end
                size = 0
        if size < PASSAGE:  # the last passage: nothing blank around it
            file.seek(start)
            rest = file.read().decode("utf-8")
            start = end - len(rest.lstrip().encode())
            end = start + len(rest.strip().encode())
        if start < end:
            yield start, end


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


def passages(lines: Iterable[str], minimum: int = PASSAGE) -> Iterable[str]:
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
    digests = (hashlib.sha256(f"{seed} {text}".encode()).digest() for text in documents)
    ranks = np.fromiter((int.from_bytes(digest[:8], "big") for digest in digests), np.uint64, len(documents))
    ranked = np.unique(ranks, return_index=True)[1]  # of equal documents the first
    if len(ranked) < 2:
        raise ValueError(
            f"{name} is too short to train on: it has one passage, and one more is needed to measure on; "
            f"separate passages by blank lines"
        )
    count = int(len(ranked) * VALIDATION_SHARE) or 1
    held_out, train = (pick(documents, np.sort(part)) for part in (ranked[:count], ranked[count:]))
    return Corpus(name, train, held_out)


def pick(documents: Sequence[str], indices: np.ndarray) -> Sequence[str]:
    """Returns the documents of some numbers, [N]."""
    if isinstance(documents, FilePassages):
        return documents[indices]
    return [documents[i] for i in indices]
