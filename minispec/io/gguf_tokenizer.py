"""The tokenizer of a GGUF file, turned into what the files of a Hugging Face folder say of theirs.

Two kinds: byte-level byte-pair encoding, which llama.cpp calls `gpt2`, and sentencepiece's, which it calls
`llama`, with bytes for what is in no piece. Others are refused by name.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from tokenizers import Tokenizer as Library

from minispec.io.files import format_value
from minispec.io.gguf import TABLES, GGUFFile
from minispec.io.tokenizer import Tokenizer, library_errors
from minispec.io.tokenizer_config import TokenizerConfig

NORMAL = 1
UNKNOWN = 2
CONTROL = 3
USER_DEFINED = 4
UNUSED = 5
MAX_PIECE = 64  # characters of a piece that others are merged into; sentencepiece makes 16 by default
ENDS = ("eos", "eot", "eom")


def load_gguf_tokenizer(file: GGUFFile) -> Tokenizer:
    """Returns a file's tokenizer; ValueError if there is none that is known."""
    with library_errors(f"{file.path} cannot be used as a tokenizer"):
        library = Library.from_str(json.dumps(tokenizer_data(file)))
        return Tokenizer(library, tokenizer_config(file))


def tokenizer_config(file: GGUFFile) -> TokenizerConfig:
    """Returns what a file says beside its tokens: which begin and end a text, and the chat template."""
    tokens = entries(file, "tokens", str)
    ids = {name: token_id(file, name, len(tokens)) for name in ("bos", *ENDS)}
    begins = file.fields["tokenizer.ggml.model"] == "llama" or pre_tokenizer(file).get("add_bos", False)
    template = file.fields.get("tokenizer.chat_template")
    if not isinstance(template, str | None):
        raise ValueError(f"tokenizer.chat_template is {format_value(template)}; it should be a text")
    return TokenizerConfig(
        special_tokens={f"{name}_token": tokens[i] for name, i in ids.items() if i is not None},
        ends=tuple(i for name, i in ids.items() if name in ENDS and i is not None),
        add_bos=bool(file.fields.get("tokenizer.ggml.add_bos_token", begins)),
        chat_template=template,
    )


def tokenizer_data(file: GGUFFile) -> dict[str, Any]:
    """Returns a file's tokenizer as `tokenizer.json` has it; ValueError if there is none that is known."""
    kind = file.fields.get("tokenizer.ggml.model")
    if kind not in ("gpt2", "llama"):
        raise ValueError(f"it is of kind {format_value(kind)}; minispec reads gpt2, llama")
    tokens = entries(file, "tokens", str)
    kinds = of_each(file, "token_type", int, tokens)
    vocab = {token: i for i, token in enumerate(tokens) if kinds[i] != UNUSED}
    if len(vocab) != len(tokens) - kinds.count(UNUSED):
        raise ValueError("two of tokenizer.ggml.tokens are equal")
    added = [token for token, i in vocab.items() if kinds[i] in (UNKNOWN, CONTROL, USER_DEFINED)]
    parts = byte_level(file, vocab) if kind == "gpt2" else sentencepiece(file, vocab, kinds)
    return parts | {
        "version": "1.0",
        "added_tokens": [
            {"id": vocab[token], "content": token, "special": kinds[vocab[token]] != USER_DEFINED}
            | dict.fromkeys(("normalized", "single_word", "lstrip", "rstrip"), False)
            for token in added
        ],
    }


def byte_level(file: GGUFFile, vocab: Mapping[str, int]) -> dict[str, Any]:
    """Returns what is special about byte-level byte-pair encoding."""
    settings = pre_tokenizer(file)
    return {
        "normalizer": settings.get("normalizer"),
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": settings["steps"]},
        "decoder": settings["steps"][-1],
        "model": {
            "type": "BPE",
            "vocab": vocab,
            "merges": entries(file, "merges", str),
            "ignore_merges": settings.get("ignore_merges", False),
        },
    }


def pre_tokenizer(file: GGUFFile) -> Mapping[str, Any]:
    """Returns how a byte-level tokenizer cuts a text before it merges; ValueError if that is not known."""
    name = file.fields.get("tokenizer.ggml.pre")
    known: Mapping[str, Mapping[str, Any]] = TABLES["pre"]
    if not isinstance(name, str) or name not in known:
        names = ", ".join(known)
        raise ValueError(f"it has tokenizer.ggml.pre {format_value(name)}; minispec reads {names}")
    return known[name]


def sentencepiece(file: GGUFFile, vocab: Mapping[str, int], kinds: Sequence[int]) -> dict[str, Any]:
    """Returns what is special about sentencepiece's byte-pair encoding."""
    scores = of_each(file, "scores", float, kinds)
    normal = [piece for piece, i in vocab.items() if kinds[i] == NORMAL]
    unknown = [piece for piece, i in vocab.items() if kinds[i] == UNKNOWN]
    normalizers, decoders = TABLES["sentencepiece"].values()
    if file.fields.get("tokenizer.ggml.add_space_prefix", True) is not True:
        normalizers = normalizers[1:]
        decoders = decoders[:-1]
    return {
        "normalizer": {"type": "Sequence", "normalizers": normalizers},
        "decoder": {"type": "Sequence", "decoders": decoders},
        "model": {
            "type": "BPE",
            "vocab": vocab,
            "merges": merges_of(sorted(normal, key=lambda piece: -scores[vocab[piece]])),
            "unk_token": unknown[0] if unknown else None,
            "fuse_unk": True,
            "byte_fallback": True,
        },
    }


def merges_of(pieces: Sequence[str]) -> list[tuple[str, str]]:
    """Returns every way to put two pieces together to a third, those to the first pieces first."""
    known = set(pieces)
    return [
        (piece[:i], piece[i:])
        for piece in pieces
        if len(piece) <= MAX_PIECE
        for i in range(1, len(piece))
        if piece[:i] in known and piece[i:] in known
    ]


def token_id(file: GGUFFile, name: str, vocab_size: int) -> int | None:
    """Returns the id of a token that a file names, if it does; ValueError if that is none of its tokens."""
    key = f"tokenizer.ggml.{name}_token_id"
    found = file.fields.get(key)
    if found is not None and (type(found) is not int or not 0 <= found < vocab_size):
        raise ValueError(f"it has {key} {format_value(found)}, and {vocab_size:,} tokens")
    return found


def entries(file: GGUFFile, name: str, kind: type) -> list[Any]:
    """Returns a list of what a file says about its tokenizer; ValueError if it is none, of one kind."""
    found = file.fields.get(f"tokenizer.ggml.{name}")
    if not isinstance(found, list) or any(type(entry) is not kind for entry in found):
        raise ValueError(f"tokenizer.ggml.{name} should be a list, of {kind.__name__} each")
    return found


def of_each(file: GGUFFile, name: str, kind: type, tokens: Sequence[object]) -> list[Any]:
    """Returns what a file says of each of its tokens; ValueError if it does not."""
    found = entries(file, name, kind)
    if len(found) != len(tokens):
        raise ValueError(f"tokenizer.ggml.{name} has {len(found):,} for {len(tokens):,} tokens")
    return found
