"""Models from a folder, a GGUF file or a hub: one by itself, or a target and a draft that are no pair."""

import os
import re
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import torch

from minispec.core.model import GPT
from minispec.io.checkpoint import Pair, check_pair, read_folder, with_vocabulary
from minispec.io.files import format_path, printable_line
from minispec.io.gguf import GGUFFile, open_gguf, read_gguf
from minispec.io.gguf_tokenizer import load_gguf_tokenizer
from minispec.io.hub import download
from minispec.io.tokenizer import Tokenizer, first_difference, load_tokenizer

# An owner, a name, and perhaps a revision.
HUB_NAME = re.compile(r"(?P<model>[\w-][\w.-]*/[\w-][\w.-]*)(?:@(?P<revision>[\w-][\w./-]*))?")


@dataclass(frozen=True)
class Source:
    """Where a checkpoint is read from."""

    path: Path  #: a folder, or a file
    name: str  #: what names it again: of a model on a hub, with its commit
    gguf: GGUFFile | None = None  #: the file, opened; None: it is a folder


def find_source(what: str | Path) -> Source:
    """Finds what a person names as a checkpoint: what lies here comes first, then what is on a hub.

    A model on a hub is downloaded, unless it has been already.

    Raises:
        ValueError: if there is none, or it cannot be had.
    """
    path = Path(what)
    if os.path.lexists(path):
        return Source(path, str(what), open_gguf(path) if path.is_file() else None)
    hub_name = HUB_NAME.fullmatch(str(what))
    if hub_name is None:
        raise ValueError(
            f"there is no folder or file {format_path(path)}, and on a hub names have the form owner/name"
        )
    folder = download(hub_name["model"], hub_name["revision"])
    return Source(folder, f"{hub_name['model']}@{folder.name}")


def load_model(
    what: str | Path, *, device: str | torch.device = "cpu", dtype: torch.dtype | None = torch.float32
) -> GPT:
    """Loads one model.

    Args:
        what: a folder with `config.json` and `model.safetensors`, or the files that an index names; a GGUF
            file; or a model on a hub, `owner/name` or `owner/name@revision` (see `find_source`).
        device: where to put it.
        dtype: of its weights in memory; those that are stored so are not copied, but mapped from the file.
            None: none is copied; those of a GGUF file become float32.

    Raises:
        ValueError: if it cannot be had, is damaged, or of another architecture.
    """
    return read_model(find_source(what), device=device, dtype=dtype)


def read_model(source: Source, *, device: str | torch.device, dtype: torch.dtype | None) -> GPT:
    """Reads one model; a ValueError says what is wrong with it. The arguments are those of `load_model`."""
    if source.gguf is None:
        return read_folder(source.path, device=device, dtype=dtype)
    return read_gguf(source.gguf, device, dtype or torch.float32)


def load_models(
    target: str | Path,
    draft: str | Path | None = None,
    *,
    device: str | torch.device = "cpu",
    dtype: torch.dtype | None = torch.float32,
    dequantised: torch.dtype = torch.float32,
) -> Pair:
    """Loads a target, and a draft if there is one, that are no pair.

    Args:
        target: a folder, a GGUF file or a model on a hub (see `find_source`). The tokenizer of a folder
            lies in it, or in the folder around it.
        draft: likewise; a tokenizer that it has must have the same tokens as the target's; its last ids may
            be missing. It is made to know as many ids as the target. None: the pair's draft is the target
            itself, for drafters that need no draft model.
        device: where to put the models.
        dtype: float32, bfloat16 or float64; None: as they are stored.
        dequantised: what weights of a GGUF file become where `dtype` is None.

    Returns:
        The pair. Its `info` names the two under `sources`, a model on a hub with its commit.

    Raises:
        ValueError: if a file is missing or damaged, or vocabularies or tokenizers differ.
    """
    sources = [find_source(what) for what in (target, draft) if what is not None]
    found = [tokenizers_of(source) for source in sources]
    location = " and ".join(format_path(source.path) for source in sources)
    if not found[0]:
        raise ValueError(
            f"{format_path(sources[0].path)} has no tokenizer.json, nor has the folder around it"
        )
    tokenizers = [*chain(*found)]
    if difference := first_difference(tokenizers[0], tokenizers[-1]):
        raise ValueError(f"{location}: draft and target must share one vocabulary: {difference}")
    types = [dtype if source.gguf is None else dtype or dequantised for source in sources]
    models = [read_model(source, device=device, dtype=t) for source, t in zip(sources, types, strict=True)]
    if models[-1].vocab_size >= tokenizers[-1].vocab_size:
        models[-1] = with_vocabulary(models[-1], models[0].vocab_size)
    name = printable_line(" + ".join(Path(source.name).name for source in sources))
    info = {"name": name, "sources": [source.name for source in sources]}
    pair = Pair(models[0], models[-1], tokenizers[0], sources[0].path, info)
    check_pair(pair, location)
    return pair


def tokenizers_of(source: Source) -> list[Tokenizer]:
    """Returns the tokenizer of a model, if it has one: a folder may have it in the folder around it."""
    if source.gguf is not None:
        return [load_gguf_tokenizer(source.gguf)]
    paths = [folder / "tokenizer.json" for folder in (source.path, source.path.parent)]
    return [load_tokenizer(path) for path in [path for path in paths if path.is_file()][:1]]
