"""GGUF: the files of llama.cpp, with the config, the tokenizer and the weights of a checkpoint in one.

What a file says of itself is turned into what a Hugging Face folder says, and is then checked as that is. The
header is read here: the library `gguf` believes every count and length that a file claims. It knows how
blocks of small integers become numbers.
"""

import mmap
import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from minispec.core.model import GPT, GPTConfig
from minispec.io.checkpoint import describe_mismatch, fill
from minispec.io.files import format_value, read_table
from minispec.io.llama import config_from_json

MAGIC = b"GGUF"
VERSIONS = (2, 3)
EMBEDDING = "token_embd.weight"
HEAD = "output.weight"
ROTARY = "rope_freqs.weight"
SUFFIXES = (".weight", ".bias")
ALIGNMENTS = tuple(2**n for n in range(3, 17))
STRING = 8
ARRAY = 9
NUMBERS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
MAX_COUNT = 2**21  # entries of a list; twice the largest vocabulary
MAX_NAMES = 2**16  # fields, and tensors
MAX_DIMENSIONS = 4
ROWS = 1024  # of a matrix, dequantised at once
TABLES = read_table(__file__, "gguf.toml")


@dataclass(frozen=True)
class StoredTensor:
    """Where a tensor lies in a file."""

    kind: int  #: of its numbers, as the library `gguf` counts them
    shape: tuple[int, ...]  #: as torch has it
    start: int  #: its first byte
    size: int  #: how many bytes


@dataclass(frozen=True)
class GGUFFile:
    """A GGUF file whose header has been read and fits the file."""

    path: Path
    data: mmap.mmap = field(repr=False)
    fields: Mapping[str, Any]  #: what it says of itself
    tensors: Mapping[str, StoredTensor]  #: by llama.cpp's names


class HeaderReader:
    """Reads a header piece by piece; a ValueError if it goes on beyond the file."""

    def __init__(self, data: mmap.mmap) -> None:
        """Begins at the first byte."""
        self._data = data
        self.position = 0

    def take(self, size: int) -> bytes:
        """Returns the next bytes."""
        if size > len(self._data) - self.position:
            raise ValueError("it ends within its header")
        self.position += size
        return self._data[self.position - size : self.position]

    def number(self, code: str) -> Any:
        """Returns the next number, of a type of `struct`."""
        return struct.unpack(f"<{code}", self.take(struct.calcsize(f"<{code}")))[0]

    def count(self, code: str = "Q", maximum: int = MAX_COUNT) -> int:
        """Returns how many of something follow."""
        count: int = self.number(code)
        if count > maximum:
            raise ValueError(f"it claims {count:,} of something; {maximum:,} at most are read")
        return count

    def text(self) -> str:
        """Returns the next text."""
        return self.take(self.number("Q")).decode("utf-8")

    def value(self, kind: int) -> Any:
        """Returns the next value: a number, a text, or a list of either."""
        if kind == STRING:
            return self.text()
        if kind in NUMBERS:
            return self.number(NUMBERS[kind])
        entry_kind = self.number("I") if kind == ARRAY else kind
        if entry_kind != STRING and entry_kind not in NUMBERS:
            raise ValueError(f"a field has type {kind} of {entry_kind}; there is no such type")
        count = self.count()
        if entry_kind == STRING:
            return [self.text() for _ in range(count)]
        code = f"<{count}{NUMBERS[entry_kind]}"
        return [*struct.unpack(code, self.take(struct.calcsize(code)))]


def open_gguf(path: Path) -> GGUFFile:
    """Reads the header of a GGUF file; ValueError if it is none, or claims what the file has not."""
    try:
        with path.open("rb") as file:
            data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        reader = HeaderReader(data)
        if (magic := reader.take(len(MAGIC))) != MAGIC:
            raise ValueError(f"it begins with {magic!r}, not with {MAGIC!r}")
        if (version := reader.number("I")) not in VERSIONS:
            raise ValueError(f"it has version {version}; minispec reads 2 and 3, with the low byte first")
        tensor_count = reader.count(maximum=MAX_NAMES)
        field_count = reader.count(maximum=MAX_NAMES)
        fields = unique((reader.text(), reader.value(reader.number("I"))) for _ in range(field_count))
        return GGUFFile(path, data, fields, read_tensors(reader, tensor_count, fields, len(data)))
    except (OSError, ValueError) as error:
        raise ValueError(f"{path} cannot be read as GGUF: {error}") from error


def unique(items: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    """Returns a dict of what is listed; ValueError if a name stands there twice."""
    found: dict[str, Any] = {}
    for name, value in items:
        if name in found:
            raise ValueError(f"{format_value(name)} stands there twice")
        found[name] = value
    return found


def read_tensors(
    reader: HeaderReader, count: int, fields: Mapping[str, Any], file_size: int
) -> dict[str, StoredTensor]:
    """Returns where tensors lie: after the header, one after the other; ValueError if they do not.

    So no byte is in two tensors, and all of them together are no larger than the file.
    """
    alignment = fields.get("general.alignment", 32)
    if type(alignment) is not int or alignment not in ALIGNMENTS:
        raise ValueError(f"general.alignment is {format_value(alignment)}; it should be a power of 2")
    tensors = unique(read_tensor(reader) for _ in range(count))
    first = end = -(-reader.position // alignment) * alignment
    for name, tensor in tensors.items():
        start = -(-end // alignment) * alignment
        end = start + tensor.size
        if first + tensor.start != start or end > file_size:
            raise ValueError(f"{format_value(name)} does not lie where a tensor of its size has to")
        tensors[name] = replace(tensor, start=start)
    return tensors


def read_tensor(reader: HeaderReader) -> tuple[str, StoredTensor]:
    """Reads what a header says of a tensor: its name, and where it lies after the header."""
    from gguf import GGML_QUANT_SIZES, GGMLQuantizationType

    name = reader.text()
    shape = [reader.number("Q") for _ in range(reader.count("I", MAX_DIMENSIONS))]
    kind = GGMLQuantizationType(reader.number("I"))
    block, block_size = GGML_QUANT_SIZES[kind]
    if not shape or 0 in shape or shape[0] % block:
        raise ValueError(
            f"{format_value(name)} has shape {shape}; a row of {kind.name} has blocks of {block}"
        )
    size = prod(shape) // block * block_size
    return name, StoredTensor(kind, tuple(reversed(shape)), reader.number("Q"), size)


def config_of(file: GGUFFile) -> GPTConfig:
    """Returns a file's config; ValueError if its model is not one of ours."""
    prefix = f"{architecture_of(file)}."
    fields = {key.removeprefix(prefix): v for key, v in file.fields.items() if key.startswith(prefix)}
    for key, value in TABLES["required"].items():
        check_value(file, f"{prefix}{key}", fields.get(key, value), value)
    data = {name: fields[key] for name, key in TABLES["config"].items() if key in fields}
    # A float32 has seven digits: 1e-05 comes as 9.99999975e-06.
    data = {name: float(f"{v:.7g}") if isinstance(v, float) else v for name, v in data.items()}
    usual = {"num_key_value_heads": data.get("num_attention_heads")}
    described = {"model_type": architecture_of(file), "tie_word_embeddings": HEAD not in file.tensors}
    if ROTARY in file.tensors:
        divisors = read_weight(file, ROTARY, None, torch.float64)
        described["rope_scaling"] = TABLES["llama3"] | {"factor": float(divisors.max())}
    if EMBEDDING in file.tensors:
        described["vocab_size"] = file.tensors[EMBEDDING].shape[0]
    config = config_from_json(usual | data | described, file.path)
    for key in TABLES["head_dims"]:
        check_value(file, f"{prefix}{key}", fields.get(key, config.head_dim), config.head_dim)
    if ROTARY in file.tensors and not are_divisors(config, divisors):
        raise ValueError(f"{file.path} has {ROTARY} that scale positions in another way than Llama 3 does")
    return config


def are_divisors(config: GPTConfig, divisors: Tensor) -> bool:
    """Returns whether [head_dim / 2] numbers are what the scaling of a config divides frequencies by."""
    half = torch.arange(0, config.head_dim, 2, dtype=torch.float64)
    frequency = config.rope_theta ** (-half / config.head_dim)
    if config.rope_scaling is None or divisors.shape != frequency.shape:
        return False
    return torch.allclose(frequency / config.rope_scaling.scale(frequency), divisors, rtol=1e-4)


def architecture_of(file: GGUFFile) -> str:
    """Returns the architecture of a file; ValueError if it is none of ours."""
    architecture = file.fields.get("general.architecture")
    if architecture not in TABLES["architectures"]:
        names = ", ".join(TABLES["architectures"])
        raise ValueError(f"{file.path} describes {format_value(architecture)}; minispec reads {names}")
    return str(architecture)


def check_value(file: GGUFFile, key: str, value: object, only: object) -> None:
    """Raises ValueError if a field has another value than the only one that our model supports."""
    if value != only:
        raise ValueError(f"{file.path} has {key} {format_value(value)}; minispec reads {only!r} only")


def read_gguf(file: GGUFFile, device: str | torch.device, dtype: torch.dtype) -> GPT:
    """Reads the model of a file; ValueError if it is none of ours, or lacks weights of it."""
    config = config_of(file)
    with torch.device("meta"):
        model = GPT(config)
    names = stored_names(file, model)
    outlines = {name: torch.empty(file.tensors[key].shape, device="meta") for name, key in names.items()}
    if mismatch := describe_mismatch(model, outlines):
        raise ValueError(f"{file.path} does not fit its own config: {mismatch}")
    if config.tied:
        del names["lm_head.weight"]  # it is the embedding, which is read once
    is_permuted = architecture_of(file) in TABLES["permuted"]
    heads = {"q_proj": config.heads, "k_proj": config.kv_heads} if is_permuted else {}
    weights = {
        name: read_weight(file, key, heads.get(name.split(".")[-2]), dtype) for name, key in names.items()
    }
    return fill(model, weights, device, dtype)


def stored_names(file: GGUFFile, model: GPT) -> dict[str, str]:
    """Returns llama.cpp's name of each weight in a file, by the model's; an unknown one keeps its own."""
    from gguf import MODEL_ARCH_NAMES, get_tensor_name_map

    architectures = {name: number for number, name in MODEL_ARCH_NAMES.items()}
    table = get_tensor_name_map(architectures[architecture_of(file)], model.config.layers)
    known = {table.get_name(name, SUFFIXES): name for name in model.state_dict()}
    names = {known.get(name, name): name for name in file.tensors if name != ROTARY}
    return names | {"lm_head.weight": EMBEDDING} if model.config.tied else names


def read_weight(file: GGUFFile, name: str, heads: int | None, dtype: torch.dtype) -> Tensor:
    """Reads one tensor, a group of rows at a time.

    Args:
        file: where it is.
        name: llama.cpp's.
        heads: whose rows llama.cpp has put into another order, so that pairs that are rotated stand
            side by side; here they stand half a head apart. None: it has not.
        dtype: of the result.

    Returns:
        The tensor as torch has it, [out, in] or [n].

    Raises:
        ValueError: if the library cannot read numbers of this kind.
    """
    from gguf import GGMLQuantizationType, dequantize

    stored = file.tensors[name]
    kind = GGMLQuantizationType(stored.kind)
    rows = np.frombuffer(file.data, np.uint8, stored.size, stored.start).reshape(prod(stored.shape[:-1]), -1)
    weight = torch.empty(len(rows), stored.shape[-1], dtype=dtype)
    try:
        for i in range(0, len(rows), ROWS):
            with np.errstate(all="ignore"):  # a damaged scale may be anything
                values = dequantize(rows[i : i + ROWS], kind)
            weight[i : i + ROWS] = torch.from_numpy(np.require(values, requirements="W"))
    except NotImplementedError as error:
        raise ValueError(
            f"{file.path} has {name} as {kind.name}, which the library gguf cannot read"
        ) from error
    if heads is not None:
        weight = weight.view(heads, -1, 2, stored.shape[-1]).transpose(1, 2)
    return weight.reshape(stored.shape)
