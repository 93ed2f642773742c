"""Text to token ids and back, by the `tokenizers` library.

Two alphabets. `bpe` is byte-level byte-pair encoding, trained on the corpus. `characters` is the
same thing with no merges but single bytes: one id per byte, so that any UTF-8 input round-trips.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path

from tokenizers import Tokenizer as Library
from tokenizers import decoders, models, pre_tokenizers, trainers

from minispec.io.files import read_text, write_text_file

END_OF_TEXT = "<|endoftext|>"


class Tokenizer:
    """A byte-level tokenizer with an end-of-text token."""

    def __init__(self, library: Library) -> None:
        """Wraps a tokenizer of the `tokenizers` library.

        Raises:
            ValueError: if it has no end-of-text token.
        """
        end = library.token_to_id(END_OF_TEXT)
        if end is None:
            raise ValueError(f"this tokenizer has no {END_OF_TEXT} token; minispec needs one")
        self.library = library
        # What a person types is text: "<|endoftext|>" in a prompt is 13 characters, not the end of a text.
        self.library.encode_special_tokens = True
        self.end_of_text: int = end  #: the id that ends a document
        self.vocab_size: int = library.get_vocab_size()  #: the number of ids
        self._byte_of = byte_of_character()

    def encode(self, text: str) -> list[int]:
        """Returns the ids of a text, without an end-of-text token."""
        return self.library.encode(text, add_special_tokens=False).ids

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """Returns the ids of each text."""
        return [encoding.ids for encoding in self.library.encode_batch(list(texts), add_special_tokens=False)]

    def decode(self, ids: Sequence[int]) -> str:
        """Returns the text of some ids; end-of-text is left out, incomplete UTF-8 becomes U+FFFD."""
        return self.library.decode(list(ids), skip_special_tokens=True)

    def bytes_of(self, token: int) -> bytes:
        """Returns the bytes that a token stands for; none for end-of-text."""
        if token == self.end_of_text:
            return b""
        return bytes(self._byte_of[character] for character in self.library.id_to_token(token) or "")

    def piece(self, token: int) -> str:
        """Returns one token as text, for pictures; end-of-text is shown as ⏹."""
        return "⏹" if token == self.end_of_text else self.decode([token])

    def save(self, path: str | Path) -> None:
        """Writes the tokenizer in the `tokenizers` library's JSON format; ValueError if it cannot."""
        write_text_file(Path(path), self.library.to_str(pretty=False))


def byte_of_character() -> dict[str, int]:
    """Returns the byte that each character of a byte-level vocabulary stands for.

    Printable bytes stand for themselves, the others, in order, as the characters from 256 on: no blanks.
    """
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in printable]
    bytes_of_printable = {chr(byte): byte for byte in printable}
    return bytes_of_printable | {chr(256 + i): byte for i, byte in enumerate(others)}


def load_tokenizer(path: str | Path) -> Tokenizer:
    """Reads a `tokenizer.json`, given its path or its folder.

    Raises:
        ValueError: if the file is missing or no tokenizer.
    """
    path = Path(path) / "tokenizer.json" if Path(path).is_dir() else Path(path)
    try:
        return Tokenizer(Library.from_str(read_text(path)))
    except BaseException as error:  # the library raises plain Exception; where it panics, a BaseException
        if isinstance(error, KeyboardInterrupt | SystemExit):
            raise
        raise ValueError(f"{path} is not a tokenizer file: {' '.join(str(error).split())}") from error


def train_tokenizer(texts: Iterable[str], kind: str = "bpe", vocab_size: int = 512) -> Tokenizer:
    """Trains a tokenizer.

    Args:
        texts: documents to learn from.
        kind: `bpe` or `characters`.
        vocab_size: at most this many ids (`bpe`; 257 at least). `characters` always has 257.

    Raises:
        ValueError: on an unknown kind, or fewer than 257 ids.
    """
    if kind not in ("bpe", "characters"):
        raise ValueError(f"tokenizer kind {kind!r} is unknown; choose bpe or characters")
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    if vocab_size < len(alphabet) + 1:
        raise ValueError(f"vocab_size must be at least {len(alphabet) + 1}, not {vocab_size}")
    library = Library(models.BPE())
    library.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    library.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size if kind == "bpe" else len(alphabet) + 1,
        special_tokens=[END_OF_TEXT],
        initial_alphabet=alphabet,
        show_progress=False,
    )
    library.train_from_iterator(texts if kind == "bpe" else [], trainer)
    return Tokenizer(library)
