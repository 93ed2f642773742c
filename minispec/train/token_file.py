"""Token file: the ids of a text that is larger than memory, and sequences that are read out of it.

The text is tokenized once, some passages at a time on all cores, and each passage is followed by end-of-text.
A sequence is a stretch of the file. To read some, the file is mapped into memory for a moment, so that only
their pages are ever there.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from minispec.io.files import write_chunks
from minispec.io.tokenizer import Tokenizer

PASSAGES = 1024  # tokenized at once
PART = 2**22  # ids of a file that are looked through at once


@dataclass(frozen=True)
class TokenFile:
    """Sequences [N, W] of a token file, and perhaps some more after them."""

    path: Path
    dtype: np.dtype[Any]  #: of the ids in the file
    starts: np.ndarray  #: at which id each sequence begins, [N − M]
    width: int  #: W
    more: Sequence[Tensor] | Tensor = ()  #: the last sequences, not in the file: [M, W]

    @property
    def shape(self) -> tuple[int, int]:
        """How many sequences there are, and the tokens of each."""
        return len(self), self.width

    def __len__(self) -> int:
        return len(self.starts) + len(self.more)

    def __getitem__(self, rows: Sequence[int]) -> Tensor:
        """Reads the sequences of some rows: [B, W]."""
        ids = np.memmap(self.path, self.dtype, "r")
        stored = len(self.starts)
        return torch.stack(
            [
                torch.tensor(ids[self.starts[row] :][: self.width].tolist())
                if row < stored
                else self.more[row - stored]
                for row in rows
            ]
        )


def write_token_file(path: Path, documents: Iterable[str], tokenizer: Tokenizer) -> None:
    """Writes the ids of documents, whole or not at all; ValueError if it cannot."""
    dtype = id_type(tokenizer)

    def chunks() -> Iterator[bytes]:
        texts = iter(documents)
        while some := list(islice(texts, PASSAGES)):
            for row in tokenizer.encode_batch(some):
                yield np.array([*row, tokenizer.end_of_text], dtype).tobytes()

    write_chunks(path, chunks())


def id_type(tokenizer: Tokenizer) -> np.dtype[Any]:
    """Returns the smallest type that holds every id."""
    return np.min_scalar_type(tokenizer.vocab_size)


def read_token_file(path: Path, tokenizer: Tokenizer, width: int) -> TokenFile:
    """Finds the sequences of a width in what `write_token_file` has written."""
    dtype = id_type(tokenizer)
    lengths = document_lengths(path, dtype, tokenizer.end_of_text)
    return TokenFile(path, dtype, np.fromiter(sequence_starts(lengths, width), np.int64), width)


def document_lengths(path: Path, dtype: np.dtype[Any], end_of_text: int) -> Iterator[int]:
    """Yields the tokens of each document in a token file, its end-of-text included."""
    begun = read = 0
    with path.open("rb") as file:
        while len(ids := np.fromfile(file, dtype, PART)):
            for place in np.flatnonzero(ids == end_of_text).tolist():
                end = read + place + 1
                yield end - begun
                begun = end
            read += len(ids)


def sequence_starts(lengths: Iterable[int], width: int) -> Iterator[int]:
    """Yields where sequences of a width begin, in documents of these lengths that stand one after another.

    A sequence holds whole documents until it is full; what the last one has left over is dropped. A document
    longer than a sequence gives several: there is no other way to see its later parts.
    """
    start = end = 0
    for length in lengths:
        begin = end
        end += length
        while end - start >= width:
            yield start
            # A long document goes on in the next sequence; the tail of one that began inside is dropped.
            start = start + width if begin <= start else end
