"""Files, and the folder of a pair, that are there whole or not at all.

All that the package writes goes through `replace_file`, or for a folder through `replace_folder`.
"""

import glob
import json
import os
import shutil
import stat
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory, gettempdir, mkdtemp
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import save_file
from torch import Tensor

MAX_BYTES = 2**28  # of a file that is read as text; the largest tokenizers have a tenth of it
PREVIOUS = "before"  # the name of the previous folder while it is being replaced


class CannotWrite(ValueError):
    """The error for a file or a folder that cannot be written."""

    reason: str  #: why, without the path

    def __init__(self, path: Path, reason: object) -> None:
        if isinstance(reason, CannotWrite):
            self.reason = reason.reason
        else:
            self.reason = str(reason.strerror or reason) if isinstance(reason, OSError) else str(reason)
        super().__init__(f"cannot write {format_path(path)}: {self.reason}")


@contextmanager
def replace_file(path: Path) -> Iterator[Path]:
    """Yields the path of a new file, which replaces the file at `path` if the block raises no error.

    The new file lies in a temporary folder of its own beside `path`, so no other process writes to it, and an
    error or Ctrl-C leaves the old file. A link is followed. A device or a pipe cannot be replaced: what the
    new file holds is written to it in the end.

    Raises:
        ValueError: if it cannot be written; what was there is unchanged.
    """
    destination_path, is_stream = destination(path)
    try:
        folder = gettempdir() if is_stream else destination_path.parent
        with TemporaryDirectory(
            prefix=".", suffix=".part", dir=folder, ignore_cleanup_errors=True
        ) as temporary:
            new_file = Path(temporary) / "new"
            yield new_file
            if is_stream:
                with new_file.open("rb") as source, destination_path.open("wb") as sink:
                    shutil.copyfileobj(source, sink)
            else:
                if destination_path.exists():
                    shutil.copymode(destination_path, new_file)
                os.replace(new_file, destination_path)
    except OSError as error:
        raise CannotWrite(path, error) from error


def destination(path: Path) -> tuple[Path, bool]:
    """Returns the path with links followed, and whether it is a device or a pipe.

    Raises:
        ValueError: if no file can be written there.
    """
    try:
        status = os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        resolved = Path(os.path.realpath(path))
        if not resolved.parent.is_dir():
            raise CannotWrite(path, f"there is no folder {format_path(resolved.parent)}") from None
        return resolved, False
    except (OSError, ValueError) as error:
        raise CannotWrite(path, error) from error
    if stat.S_ISDIR(status.st_mode):
        raise CannotWrite(path, "it is a folder")
    if stat.S_ISCHR(status.st_mode) or stat.S_ISFIFO(status.st_mode):
        return path, True  # unresolved: the pipe behind /dev/stdout has no path
    if not stat.S_ISREG(status.st_mode):
        raise CannotWrite(path, "it is no file, no pipe and no terminal")
    for descriptor in (1, 2):
        with suppress(OSError):  # closed
            if os.path.samestat(os.fstat(descriptor), status):
                raise CannotWrite(path, "standard output or error goes there; choose another file")
    return Path(os.path.realpath(path)), False


def write_text_file(path: Path, text: str) -> None:
    """Writes a text as UTF-8, whole or not at all; ValueError if it cannot be written."""
    encoded = text.encode("utf-8")
    with replace_file(path) as new:
        new.write_bytes(encoded)


def write_json(path: Path, data: Mapping[str, Any]) -> None:
    """Writes an object as a JSON file, UTF-8 and indented, whole or not at all; ValueError if it cannot."""
    write_text_file(path, json.dumps(data, indent=2, ensure_ascii=False) + "\n")


def make_folder_of(path: Path) -> None:
    """Makes the folder of a file, if it is not there; ValueError if it cannot."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise CannotWrite(path, error) from error


def write_tensors(path: Path, tensors: Mapping[str, Tensor], metadata: dict[str, str]) -> None:
    """Writes tensors, [...] each, as safetensors, whole or not at all, and makes their folder."""
    make_folder_of(path)
    try:
        # A tied head and its embedding share memory; in the file each stands by itself.
        copies = {name: tensor.detach().cpu().contiguous().clone() for name, tensor in tensors.items()}
        with replace_file(path) as new:
            save_file(copies, new, metadata=metadata)
    except (OSError, SafetensorError) as error:
        raise CannotWrite(path, error) from error


def write_chunks(path: Path, chunks: Iterable[bytes]) -> None:
    """Writes bytes as they come, whole or not at all, and makes their folder; ValueError if it cannot."""
    make_folder_of(path)
    with replace_file(path) as new, new.open("wb") as file:
        file.writelines(chunks)


def check_writable(path: Path) -> None:
    """Raises ValueError if no file can be written at a path: worth checking before long work."""
    destination_path, is_stream = destination(path)
    try:
        if not is_stream:
            TemporaryDirectory(prefix=".", suffix=".part", dir=destination_path.parent).cleanup()
        elif not os.access(destination_path, os.W_OK):
            raise PermissionError("it cannot be written to")
    except OSError as error:
        raise CannotWrite(path, error) from error


def holds_pair(folder: Path) -> bool:
    """Whether a folder is a pair's, which another may replace."""
    return (folder / "pair.json").is_file()


@contextmanager
def replace_folder(folder: Path, is_ours: Callable[[Path], bool] = holds_pair) -> Iterator[Path]:
    """Yields an empty temporary folder, which replaces `folder` if the block raises no error.

    No call replaces a folder at once on every system, so there are two renames: the old folder goes aside,
    the new one comes. A process that is killed between them leaves the old one aside, whole, and there
    `readable_folder` finds it: at every moment a reader gets all of the old folder, or all of the new one.

    is_ours: whether a folder that holds files may be replaced.

    Raises:
        ValueError: if something is in the way: a full disk, or somebody's files. What was there is left. A
            link to a folder is followed.
    """
    check_folder(folder, is_ours)
    try:
        resolved = Path(os.path.realpath(folder))
        resolved.parent.mkdir(parents=True, exist_ok=True)
        finish_interrupted(resolved)
        temporary = Path(mkdtemp(prefix=f".{resolved.name}-", dir=resolved.parent))
        new_folder = temporary / "new"
        previous = temporary / PREVIOUS
        try:
            new_folder.mkdir()
            yield new_folder
            if resolved.exists():
                resolved.rename(previous)
            new_folder.rename(resolved)
        finally:
            if previous.exists() and not resolved.exists():
                previous.rename(resolved)
            remove_temporary(temporary)
    except (OSError, CannotWrite) as error:
        reason = CannotWrite(folder, error).reason
        raise CannotWrite(folder, f"{reason}; what was there before is unchanged") from error


def finish_interrupted(folder: Path) -> None:
    """Finishes the replacements that killed processes left: brings the previous folder back, or removes it.

    New folders that are not whole stay: the processes that write them may be alive.
    """
    for previous in previous_folders(folder):
        if not folder.exists():
            previous.rename(folder)
        remove_temporary(previous.parent)


def remove_temporary(temporary: Path) -> None:
    """Removes a temporary folder. It is renamed first, so that a half-removed folder is never read."""
    previous = temporary / PREVIOUS
    with suppress(OSError):  # it is not there, as a rule
        previous.rename(temporary / "removed")
    shutil.rmtree(temporary, ignore_errors=True)


def previous_folders(folder: Path) -> list[Path]:
    """Returns the previous versions of a folder that is being replaced, the latest first."""
    folders = folder.parent.glob(f".{glob.escape(folder.name)}-*/{PREVIOUS}")
    return sorted(folders, key=lambda path: path.stat().st_ctime_ns, reverse=True)


def interrupted_names(root: Path) -> set[str]:
    """Returns the names of the folders in `root` that are being replaced."""
    return {path.parent.name[1:].rpartition("-")[0] for path in root.glob(f".*-*/{PREVIOUS}")}


def readable_folder(folder: Path) -> Path:
    """Returns where to read a folder that `replace_folder` writes: the previous one while it is missing."""
    resolved = Path(os.path.realpath(folder))
    return folder if resolved.exists() else next(iter(previous_folders(resolved)), folder)


def check_folder(folder: Path, is_ours: Callable[[Path], bool] = holds_pair) -> None:
    """Raises ValueError if `folder` cannot be written, or if files are in it that are not ours.

    This is checked before a training: a temporary folder is made in the nearest folder that exists.
    """
    try:
        resolved = Path(os.path.realpath(folder))
        if resolved.is_symlink():
            raise OSError("the link leads to itself")
        ancestor = next((parent for parent in resolved.parents if parent.exists()), resolved)
        if not ancestor.is_dir():
            raise OSError(f"{format_path(ancestor)} is not a folder")
        has_other_files = resolved.exists() and not is_ours(resolved) and any(resolved.iterdir())
        TemporaryDirectory(prefix=f".{resolved.name}-", dir=ancestor).cleanup()
    except (OSError, ValueError) as error:
        raise CannotWrite(folder, error) from error
    if has_other_files:
        raise CannotWrite(folder, "it holds other files; choose a new folder")


def check_regular(path: Path) -> None:
    """Raises OSError for what is there and no file: a folder, or a pipe or a device, which may never end."""
    if path.is_dir():
        raise OSError("it is a folder")
    if path.exists() and not path.is_file():
        raise OSError("it is no file but a pipe or a device, which may never end")


def read_text(path: Path) -> str:
    """Reads a file of UTF-8; OSError or ValueError if it cannot."""
    check_regular(path)
    with path.open("rb") as file:
        data = file.read(MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        raise OSError(f"it is larger than {MAX_BYTES // 2**20} MB")
    return data.decode("utf-8")


def read_json(path: Path) -> dict[str, Any]:
    """Reads an object from a JSON file; raises ValueError if it is missing, damaged, or something else."""
    try:
        data = json.loads(read_text(path))
    except (OSError, ValueError, RecursionError) as error:
        raise ValueError(f"{path} cannot be read as JSON: {error}") from error
    if not isinstance(data, dict):
        raise ValueError(f"{path} should hold a JSON object")
    return data


def read_table(module: str, name: str) -> dict[str, Any]:
    """Reads the TOML file of a name that lies beside a module of the package, given its `__file__`."""
    return tomllib.loads(Path(module).with_name(name).read_text(encoding="utf-8"))


def format_path(path: Path) -> str:
    """Returns a path as messages show it: on one line, shortened."""
    return shorten(printable_line(str(path)), max_length=200)


def printable_line(text: str) -> str:
    """Returns a text on one line; characters that could control a terminal are escaped."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)


def format_value(value: object, max_length: int = 80) -> str:
    """Returns a value as messages show it: its repr, shortened."""
    return shorten(repr(value), max_length)


def shorten(text: str, max_length: int) -> str:
    """Returns a text; of one longer than max_length, both ends."""
    half = max_length // 2
    return text if len(text) <= max_length else f"{text[:half]} … {text[-half:]}"
