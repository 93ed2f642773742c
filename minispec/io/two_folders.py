"""Two folders: a target and a draft that lie anywhere, and are no pair yet."""

from pathlib import Path

import torch

from minispec.io.checkpoint import Pair, check_pair, load_model
from minispec.io.files import format_path, printable_line
from minispec.io.tokenizer import load_tokenizer


def load_models(
    target: str | Path,
    draft: str | Path,
    *,
    device: str | torch.device = "cpu",
    dtype: torch.dtype | None = torch.float32,
) -> Pair:
    """Loads a target and a draft from two folders that are no pair.

    Args:
        target: its folder; `tokenizer.json` lies in it, or in the folder around it.
        draft: its folder; a tokenizer that lies there has to have the same tokens as the target's.
        device: where to put the models.
        dtype: float32, bfloat16 or float64; None: as they are stored.

    Raises:
        ValueError: if a file is missing or damaged, or vocabularies or tokenizers differ.
    """
    folders = (Path(target), Path(draft))
    paths = [path for folder in folders for path in tokenizer_files(folder)[:1]]
    if not tokenizer_files(folders[0]):
        raise ValueError(f"{format_path(folders[0])} has no tokenizer.json, nor has the folder around it")
    tokenizers = [load_tokenizer(path) for path in paths]
    models = [load_model(folder, device=device, dtype=dtype) for folder in folders]
    info = {"name": printable_line(f"{folders[0].name} + {folders[1].name}")}
    pair = Pair(models[0], models[1], tokenizers[0], folders[0], info)
    location = " and ".join(map(format_path, folders))
    check_pair(pair, location)
    if tokenizers[0].library.get_vocab() != tokenizers[-1].library.get_vocab():
        raise ValueError(f"{location}: draft and target must share one vocabulary: their tokenizers differ")
    return pair


def tokenizer_files(folder: Path) -> list[Path]:
    """Returns the tokenizers of a model's folder: in it, and in the folder around it, as a pair has it."""
    return [path for path in (folder / "tokenizer.json", folder.parent / "tokenizer.json") if path.is_file()]
