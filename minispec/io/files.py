"""Files, and the folder of a pair, that are there whole or not at all."""

import json
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import save_file
from torch import Tensor

MOST_BYTES = 2**28  # of a file that is read as text; the largest tokenizers have a tenth of it


def write_whole(path: Path, text: str) -> None:
    """Writes UTF-8 under a temporary name and renames it: a crash, or a ValueError, leaves the old file."""
    check_writable(path)
    temporary = path.with_name(f".{path.name}-{os.getpid()}")
    try:
        temporary.write_text(text, encoding="utf-8", newline="\n")
        if path.exists():
            shutil.copymode(path, temporary)
        os.replace(temporary, path)
    except OSError as error:
        raise ValueError(f"cannot write {path}: {error.strerror or error}") from error
    finally:
        temporary.unlink(missing_ok=True)


def write_tensors(path: Path, tensors: Mapping[str, Tensor], metadata: dict[str, str]) -> None:
    """Writes tensors, [...] each, as safetensors in the same way, and makes their folder."""
    temporary = path.with_name(path.name + ".part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        # A tied head and its embedding share memory; in the file each stands by itself.
        whole = {name: tensor.detach().cpu().contiguous().clone() for name, tensor in tensors.items()}
        save_file(whole, temporary, metadata=metadata)
        os.replace(temporary, path)
    except (OSError, SafetensorError) as error:
        raise ValueError(f"cannot write {shown(str(path), most=200)}: {error}") from error


def check_writable(path: Path) -> None:
    """Raises ValueError if no file can be written at a path: worth checking before long work."""
    if path.is_dir():
        raise ValueError(f"cannot write {path}: it is a folder")
    if not path.parent.is_dir():
        raise ValueError(f"cannot write {path}: there is no folder {path.parent}")
    if not os.access(path.parent, os.W_OK):
        raise ValueError(f"cannot write {path}: the folder {path.parent} cannot be written to")


@contextmanager
def replacing(folder: Path) -> Iterator[Path]:
    """Gives an empty temporary folder that replaces `folder`, which may not exist yet, when all went well.

    A ValueError says what is in the way: a full disk, or something other than a pair. What was there is left.
    """
    check_pair_folder(folder)
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        prefix = f".{folder.name}-"
        with TemporaryDirectory(prefix=prefix, dir=folder.parent, ignore_cleanup_errors=True) as temporary:
            new, old = Path(temporary) / "new", Path(temporary) / "old"
            new.mkdir()
            yield new
            if folder.exists():
                folder.rename(old)
            try:
                new.rename(folder)
            except OSError:
                if old.exists():
                    old.rename(folder)
                raise
    except (OSError, SafetensorError) as error:
        raise ValueError(f"cannot write {folder}: {error}; what was there before is unchanged") from error


def check_pair_folder(folder: Path) -> None:
    """Raises ValueError if something else than a pair is there: a typo must not cost anybody's files."""
    above = next((parent for parent in folder.absolute().parents if parent.exists()), None)
    if above is not None and not above.is_dir():
        raise ValueError(f"cannot write a pair to {folder}: {above} is not a folder")
    try:
        taken = folder.exists() and not (folder / "pair.json").is_file() and any(folder.iterdir())
    except OSError as error:
        raise ValueError(f"cannot write a pair to {folder}: {error.strerror or error}") from error
    if taken:
        raise ValueError(f"cannot write a pair to {folder}: it holds other files; choose a new folder")


def read_text(path: Path) -> str:
    """Reads a file of UTF-8, no pipe or device, which may never end; OSError or ValueError if it cannot."""
    if path.exists() and not path.is_file():
        raise OSError("it is no file")
    if path.stat().st_size > MOST_BYTES:
        raise OSError(f"it is larger than {MOST_BYTES // 2**20} MB")
    return path.read_text(encoding="utf-8")


def read_json(path: Path) -> dict[str, Any]:
    """Reads an object from a JSON file; raises ValueError if it is missing, damaged, or something else."""
    try:
        data = json.loads(read_text(path))
    except (OSError, ValueError, RecursionError) as error:
        raise ValueError(f"{path} cannot be read as JSON: {error}") from error
    if not isinstance(data, dict):
        raise ValueError(f"{path} should hold a JSON object")
    return data


def write_json(path: Path, data: Mapping[str, Any]) -> None:
    """Writes an object as a JSON file, UTF-8 and indented."""
    path.write_text(json.dumps(data, indent=2, ensure_ascii=False) + "\n", encoding="utf-8", newline="\n")


def shown(value: object, most: int = 80) -> str:
    """Returns what a message says of a value that somebody gave: of a long one, both ends."""
    text, half = repr(value), most // 2
    return text if len(text) <= most else f"{text[:half]} … {text[-half:]}"
