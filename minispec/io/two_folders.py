"""Two folders: a target and a draft that lie anywhere, and are no pair yet."""

from pathlib import Path

import torch

from minispec.io.checkpoint import Pair, check_pair, load_model, with_vocabulary
from minispec.io.files import format_path, printable_line
from minispec.io.tokenizer import first_difference, load_tokenizer


def load_models(
    target: str | Path,
    draft: str | Path,
    *,
    device: str | torch.device = "cpu",
    dtype: torch.dtype = torch.float32,
) -> Pair:
    """Loads a target and a draft from two folders that are no pair.

    Args:
        target: its folder; `tokenizer.json` lies in it, or in the folder around it.
        draft: its folder; a tokenizer that lies there has to have the same tokens as the target's; its last
            ids may be missing. Its model is made to know as many ids as the target.
        device: where to put the models.
        dtype: float32, bfloat16 or float64.

    Raises:
        ValueError: if a file is missing or damaged, or vocabularies or tokenizers differ.
    """
    folders = (Path(target), Path(draft))
    paths = [path for folder in folders for path in tokenizer_files(folder)[:1]]
    if not tokenizer_files(folders[0]):
        raise ValueError(f"{format_path(folders[0])} has no tokenizer.json, nor has the folder around it")
    tokenizers = [load_tokenizer(path) for path in paths]
    location = " and ".join(map(format_path, folders))
    if difference := first_difference(tokenizers[0], tokenizers[-1]):
        raise ValueError(f"{location}: draft and target must share one vocabulary: {difference}")
    models = [load_model(folder, device=device, dtype=dtype) for folder in folders]
    if models[1].vocab_size >= tokenizers[-1].vocab_size:
        models[1] = with_vocabulary(models[1], models[0].vocab_size)
    info = {"name": printable_line(f"{folders[0].name} + {folders[1].name}")}
    pair = Pair(models[0], models[1], tokenizers[0], folders[0], info)
    check_pair(pair, location)
    return pair


def tokenizer_files(folder: Path) -> list[Path]:
    """Returns the tokenizers of a model's folder: in it, and in the folder around it, as a pair has it."""
    return [path for path in (folder / "tokenizer.json", folder.parent / "tokenizer.json") if path.is_file()]
