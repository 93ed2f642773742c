"""A target, and perhaps a draft, that are no pair: each from a folder, a GGUF file or a hub."""

from itertools import chain
from pathlib import Path

import torch

from minispec.io.checkpoint import Pair, check_pair, read_model, with_vocabulary
from minispec.io.files import format_path, printable_line
from minispec.io.gguf_tokenizer import load_gguf_tokenizer
from minispec.io.source import Source, find_source
from minispec.io.tokenizer import Tokenizer, first_difference, load_tokenizer


def load_models(
    target: str | Path,
    draft: str | Path | None = None,
    *,
    device: str | torch.device = "cpu",
    dtype: torch.dtype = torch.float32,
) -> Pair:
    """Loads a target, and a draft if there is one, that are no pair.

    Args:
        target: a folder, a GGUF file or a model on a hub (see `find_source`). The tokenizer of a folder
            lies in it, or in the folder around it.
        draft: likewise; a tokenizer that it has must have the same tokens as the target's; its last ids may
            be missing. It is made to know as many ids as the target. None: the pair's draft is the target
            itself, for drafters that need no draft model.
        device: where to put the models.
        dtype: float32, bfloat16 or float64.

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
    models = [read_model(source, device=device, dtype=dtype) for source in sources]
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
