"""Corpora: the texts that models learn from, split into training and validation by document.

`stories` comes from our own grammar, `english` from Python's own documentation, `python` from the source of
its library; none needs a download. Any UTF-8 text file will do as well. The same seed gives the same split.
"""

import hashlib
import sysconfig
import tokenize
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from minispec.train.english import english_documents
from minispec.train.stories import Story, draw_stories

VALIDATION_STORIES = 400
VALIDATION_SHARE = 0.05
NAMES = ("stories", "english", "python")
SOURCE = 800  # characters of a passage of source, at least


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
        return split("english", english_documents(), seed)
    if name == "python":
        return split("python", python_documents(Path(sysconfig.get_paths()["stdlib"])), seed)
    return split(str(name), read_documents(Path(name)), seed)


def story_corpus(seed: int, count: int, friends: int = 3) -> Corpus:
    """Draws stories; those for validation come from another stream, and none of them is in training."""
    held_out = list(draw_stories(VALIDATION_STORIES, seed * 2 + 1, friends))
    texts = {story.text for story in held_out}
    drawn = (story.text for story in draw_stories(count, seed * 2, friends))
    train = [text for text in drawn if text not in texts]
    return Corpus("stories", train, [story.text for story in held_out], held_out)


def read_documents(path: Path) -> list[str]:
    """Reads a text file; its documents are the passages between blank lines.

    Raises:
        ValueError: if the file is missing, not UTF-8, or empty.
    """
    try:
        text = path.read_bytes().decode("utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is not UTF-8: byte {error.start} cannot be read") from error
    except OSError as error:
        raise ValueError(f"{path} cannot be read: {error.strerror or error}") from error
    if not text.strip():
        raise ValueError(f"{path} is empty; it needs some text to train on")
    lines = text.replace("\r\n", "\n").split("\n")
    return list(passages(lines))


def python_documents(root: Path) -> list[str]:
    """Cuts the modules of a folder into passages: those of Python's library, in the order of their names.

    Packages are left out, and so is what begins with an underscore: some of it was generated for one machine.
    The modules differ a little between versions of Python. They are under the Python Software Foundation's
    license (https://docs.python.org/3/license.html); they are read where they lie, and none is copied.

    Raises:
        ValueError: if there are none: some installations keep compiled files only.
    """
    documents: list[str] = []
    for path in sorted(root.glob("[!_]*.py")):
        with suppress(OSError, SyntaxError), tokenize.open(path) as file:  # it says how it is encoded
            documents += passages(file.read().split("\n"), SOURCE)
    if not documents:
        raise ValueError(f"this Python has no sources of its library in {root}; take a file, with --text")
    return documents


def passages(lines: Iterable[str], least: int = 400) -> Iterable[str]:
    """Joins paragraphs to passages of at least `least` characters, cut at blank lines only."""
    kept: list[str] = []
    for line in [*lines, ""]:
        kept.append(line)
        if not line.strip() and sum(map(len, kept)) >= least:
            yield "\n".join(kept).strip("\n")
            kept = []
    if rest := "\n".join(kept).strip():
        yield rest


def split(name: str, documents: Sequence[str], seed: int) -> Corpus:
    """Splits documents by a hash of the seed and the text, so that the order plays no part.

    Raises:
        ValueError: if there are too few documents to hold some out.
    """
    unique = list(dict.fromkeys(documents))
    ranked = sorted(unique, key=lambda text: hashlib.sha256(f"{seed} {text}".encode()).digest())
    held_out = set(ranked[: int(len(unique) * VALIDATION_SHARE) or 1])
    if len(unique) < 2:
        raise ValueError(
            f"{name} is too short to train on: it has one passage, and one more is needed to measure on; "
            f"separate passages by blank lines"
        )
    return Corpus(name, [d for d in unique if d not in held_out], [d for d in unique if d in held_out])
