"""Text to token ids and back, by the `tokenizers` library.

Ours have two alphabets. `bpe` is byte-level byte-pair encoding, trained on the corpus. `characters` is the
same thing with no merges but single bytes: one id per byte, so that any UTF-8 input round-trips. A checkpoint
from elsewhere comes with its own tokenizer, which is byte-level too, or sentencepiece's.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import takewhile
from math import prod
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer as Library
from tokenizers import decoders, models, pre_tokenizers, trainers

from minispec.io.files import read_text, shorten, write_text_file
from minispec.io.tokenizer_config import TokenizerConfig, read_config

END_OF_TEXT = "<|endoftext|>"
MAX_GROWTH = 64  # times; a hostile file could double a text again and again
BYTE = re.compile("<0x[0-9A-Fa-f]{2}>")  # a byte that is no character of a sentencepiece vocabulary


class Tokenizer:
    """A tokenizer of the `tokenizers` library, and what its checkpoint says of it.

    Attributes:
        config: what the checkpoint says.
        vocab_size: the number of ids, those that no token has counted; a model may have more.
        begin: the ids before a prompt, as a rule BOS or nothing.
        ends: the ids that end a text.
    """

    def __init__(self, library: Library, config: TokenizerConfig | None = None) -> None:
        """Wraps a tokenizer of the `tokenizers` library.

        Raises:
            ValueError: if it is neither byte-level nor sentencepiece's, lacks a token that the config names,
                or could fill the memory.
        """
        parts = (library.normalizer, library.pre_tokenizer, library.decoder)
        if any(growth(json.loads(part.__getstate__())) > MAX_GROWTH for part in parts if part is not None):
            raise ValueError(f"it can make a text more than {MAX_GROWTH} times longer")
        self.library = library
        # A prompt is read as it is: never cut, never filled up.
        library.no_truncation()
        library.no_padding()
        # What a person types is text: "<|endoftext|>" in a prompt is 13 characters, not the end of a text.
        library.encode_special_tokens = True
        self.config = config or TokenizerConfig()
        self.vocab_size: int = max(library.get_vocab().values(), default=-1) + 1
        self.special = {i for i, added in library.get_added_tokens_decoder().items() if added.special}
        self.begin = self._begin()
        self.ends = self._ends()
        self._silent = self.special | {*self.ends}
        self._spell = spelling(library)
        # Sentencepiece writes a space before a text, which is no part of it.
        self._drops_space: bool = library.decoder.decode(["▁a"]) == "a"

    def _begin(self) -> tuple[int, ...]:
        """Returns what stands before a prompt."""
        if self.config.add_bos is None:
            encoding = self.library.encode("a")
            marked = zip(encoding.ids, encoding.special_tokens_mask, strict=True)
            return tuple(token for token, _ in takewhile(lambda one: one[1], marked))
        return self._named("bos_token") if self.config.add_bos else ()

    def _ends(self) -> tuple[int, ...]:
        """Returns what ends a text."""
        if outside := [token for token in self.config.ends if token >= self.vocab_size]:
            raise ValueError(f"id {outside[0]} ends texts, and the tokens are 0 to {self.vocab_size - 1}")
        if self.config.ends:
            return self.config.ends
        if "eos_token" in self.config.special_tokens:
            return self._named("eos_token")
        end = self.library.token_to_id(END_OF_TEXT)
        return () if end is None else (end,)

    def _named(self, name: str) -> tuple[int, ...]:
        """Returns the id of a special token, given its name; none if the checkpoint has none of that name."""
        text = self.config.special_tokens.get(name)
        token = None if text is None else self.library.token_to_id(text)
        if text is not None and token is None:
            raise ValueError(f"{name} is {shorten(repr(text), 80)}, which is no token of it")
        return () if token is None else (token,)

    @property
    def end_of_text(self) -> int:
        """The id that ends a document, the first of `ends`; ValueError if there is none."""
        if not self.ends:
            raise ValueError("this tokenizer has no token that ends a text")
        return self.ends[0]

    def encode(self, text: str) -> list[int]:
        """Returns the ids of a text, what a prompt begins with before it; special tokens in it are text.

        Raises:
            ValueError: if it cannot be encoded.
        """
        with library_errors("this text cannot be encoded"):
            return [*self.begin, *self.library.encode(text, add_special_tokens=False).ids]

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """Returns the ids of each text, as `encode` does."""
        with library_errors("a text cannot be encoded"):
            encodings = self.library.encode_batch(list(texts), add_special_tokens=False)
        return [[*self.begin, *encoding.ids] for encoding in encodings]

    def encode_rendered(self, text: str) -> list[int]:
        """Returns the ids of a text that a chat template has written: special tokens in it are read as such.

        Nothing is put before it. Raises ValueError if it cannot be encoded.
        """
        self.library.encode_special_tokens = False
        try:
            return self.encode(text)[len(self.begin) :]
        finally:
            self.library.encode_special_tokens = True

    def decode(self, ids: Sequence[int]) -> str:
        """Returns the text of some ids.

        Special tokens and ids beyond the vocabulary are left out, incomplete UTF-8 becomes U+FFFD. The space
        that sentencepiece writes before a text is left out where the text begins: after BOS, or at the first
        id of a tokenizer that has none before a prompt. So ids that continue a prompt keep their space.
        """
        pieces = map(self.bytes_after, [None, *ids[:-1]], ids)
        return b"".join(pieces).decode("utf-8", "replace")

    def bytes_after(self, previous: int | None, token: int) -> bytes:
        """Returns the bytes of a token in a text, given the token before it, None for the first."""
        data = self.bytes_of(token)
        begins = (previous,) == self.begin[-1:] if self.begin else previous is None
        return data.removeprefix(b" ") if self._drops_space and begins else data

    def bytes_of(self, token: int) -> bytes:
        """Returns the bytes that a token stands for; none for special tokens and unknown ids."""
        return b"" if token in self._silent else self._spell(self.library.id_to_token(token) or "")

    def piece(self, token: int) -> str:
        """Returns one token as text, for pictures; an end is shown as ⏹, other special tokens by name."""
        if token in self.ends:
            return "⏹"
        if token in self.special:
            return str(self.library.id_to_token(token))
        return self.bytes_of(token).decode("utf-8", "replace")

    def save(self, path: str | Path) -> None:
        """Writes the tokenizer in the `tokenizers` library's JSON format; ValueError if it cannot."""
        write_text_file(Path(path), self.library.to_str(pretty=False))


@contextmanager
def library_errors(message: str) -> Iterator[None]:
    """Makes one line of what the library raises: plain Exception or, where it panics, a BaseException."""
    try:
        yield
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt | SystemExit):
            raise
        raise ValueError(f"{message}: {shorten(' '.join(str(error).split()), 400)}") from error


def growth(part: Any) -> int:
    """Returns how many times longer a part of a tokenizer, given as in its file, makes a text at most."""
    if not isinstance(part, dict | list):
        return 1
    fields = part if isinstance(part, dict) else dict(enumerate(part))
    content = fields.get("content")  # what is put in place of something, or added to it
    factor = 1 + len(content) if isinstance(content, str) else 1
    return factor * (1 + (fields.get("type") == "ByteLevel")) * prod(map(growth, fields.values()))


def spelling(library: Library) -> Callable[[str], bytes]:
    """Returns what gives a token's bytes, as the library decodes it; ValueError for another decoder."""
    decoder = library.decoder
    if decoder is not None and decoder.decode(["aĠb"]) == "a b":
        byte_of = byte_of_character()

        def spell(token: str) -> bytes:
            # Tokens that were added stand there as they are, without a character for each byte.
            is_spelled = all(character in byte_of for character in token)
            return bytes(byte_of[character] for character in token) if is_spelled else token.encode()

        return spell
    if decoder is not None and decoder.decode(["a", "▁b"]) == "a b":
        return lambda token: (
            bytes.fromhex(token[3:5]) if BYTE.fullmatch(token) else token.replace("▁", " ").encode()
        )
    raise ValueError(
        "minispec reads tokenizers that are byte-level or sentencepiece's, and this has another decoder"
    )


def first_difference(target: Tokenizer, draft: Tokenizer) -> str | None:
    """Returns the first id that is another token to each, and both, in words; None if they share ids.

    Ids that only one has after its last are no difference: nothing is drafted with them.
    """
    shared = min(target.vocab_size, draft.vocab_size)
    tokens = [{i: text for text, i in each.library.get_vocab().items()} for each in (target, draft)]
    ids = (i for i in tokens[0].keys() | tokens[1].keys() if i < shared)
    first = min((i for i in ids if tokens[0].get(i) != tokens[1].get(i)), default=None)
    if first is None:
        return None
    texts = [repr(each[first]) if first in each else "no token" for each in tokens]
    return f"id {first} is {shorten(texts[0], 80)} to the target and {shorten(texts[1], 80)} to the draft"


def byte_of_character() -> dict[str, int]:
    """Returns the byte that each character of a byte-level vocabulary stands for.

    Printable bytes stand for themselves, the others, in order, as the characters from 256 on: no blanks.
    """
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in printable]
    bytes_of_printable = {chr(byte): byte for byte in printable}
    return bytes_of_printable | {chr(256 + i): byte for i, byte in enumerate(others)}


def load_tokenizer(path: str | Path) -> Tokenizer:
    """Reads a `tokenizer.json`, given its path or its folder, and what its checkpoint says of it beside it.

    Raises:
        ValueError: if the file is missing or no tokenizer, or what stands beside it is damaged.
    """
    path = Path(path) / "tokenizer.json" if Path(path).is_dir() else Path(path)
    with library_errors(f"{path} is not a tokenizer file"):
        library = Library.from_str(read_text(path))
    config = read_config(path.parent)
    with library_errors(f"{path} cannot be used"):
        return Tokenizer(library, config)


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
