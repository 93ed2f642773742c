"""Files, and the folder of a pair, that are there whole or not at all.

All that the package writes goes through `replaced`, or for a folder through `replacing`.
"""

import glob
import json
import os
import shutil
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory, gettempdir, mkdtemp
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import save_file
from torch import Tensor

MOST_BYTES = 2**28  # of a file that is read as text; the largest tokenizers have a tenth of it
BEFORE = "before"  # what a folder that is being replaced is called meanwhile


class CannotWrite(ValueError):
    """A file or a folder that cannot be written: which, and why."""

    why: str  #: without the path

    def __init__(self, path: Path, why: object) -> None:
        if isinstance(why, CannotWrite):
            self.why = why.why
        else:
            self.why = str(why.strerror or why) if isinstance(why, OSError) else str(why)
        super().__init__(f"cannot write {shown_path(path)}: {self.why}")


@contextmanager
def replaced(path: Path) -> Iterator[Path]:
    """Gives the path of a new file, which replaces what is at `path` when all went well.

    The new file lies in a temporary folder of its own beside `path`, so no other process writes to it, and an
    error or Ctrl-C leaves the old file. A link is followed. A device or a pipe cannot be replaced: what the
    new file holds is written to it in the end.

    Raises:
        ValueError: if it cannot be written; what was there is unchanged.
    """
    place, through = destination(path)
    try:
        folder = gettempdir() if through else place.parent
        with TemporaryDirectory(prefix=".", suffix=".part", dir=folder, ignore_cleanup_errors=True) as aside:
            new = Path(aside) / "new"
            yield new
            if through:
                with new.open("rb") as source, place.open("wb") as sink:
                    shutil.copyfileobj(source, sink)
            else:
                if place.exists():
                    shutil.copymode(place, new)
                os.replace(new, place)
    except OSError as error:
        raise CannotWrite(path, error) from error


def destination(path: Path) -> tuple[Path, bool]:
    """Returns what a path leads to, links followed, and whether that is a device or a pipe.

    Raises:
        ValueError: if no file can be written there.
    """
    try:
        status = os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        place = Path(os.path.realpath(path))
        if not place.parent.is_dir():
            raise CannotWrite(path, f"there is no folder {shown_path(place.parent)}") from None
        return place, False
    except (OSError, ValueError) as error:
        raise CannotWrite(path, error) from error
    if stat.S_ISDIR(status.st_mode):
        raise CannotWrite(path, "it is a folder")
    if stat.S_ISCHR(status.st_mode) or stat.S_ISFIFO(status.st_mode):
        return path, True  # unresolved: the pipe behind /dev/stdout has no path
    if not stat.S_ISREG(status.st_mode):
        raise CannotWrite(path, "it is no file, no pipe and no terminal")
    for stream in (1, 2):
        with suppress(OSError):  # closed
            if os.path.samestat(os.fstat(stream), status):
                raise CannotWrite(path, "standard output or error goes there; choose another file")
    return Path(os.path.realpath(path)), False


def write_whole(path: Path, text: str) -> None:
    """Writes a text as UTF-8, whole or not at all; ValueError if it cannot be written."""
    encoded = text.encode("utf-8")
    with replaced(path) as new:
        new.write_bytes(encoded)


def write_json(path: Path, data: Mapping[str, Any]) -> None:
    """Writes an object as a JSON file, UTF-8 and indented, whole or not at all; ValueError if it cannot."""
    write_whole(path, json.dumps(data, indent=2, ensure_ascii=False) + "\n")


def write_tensors(path: Path, tensors: Mapping[str, Tensor], metadata: dict[str, str]) -> None:
    """Writes tensors, [...] each, as safetensors, whole or not at all, and makes their folder."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        # A tied head and its embedding share memory; in the file each stands by itself.
        contiguous = {name: tensor.detach().cpu().contiguous().clone() for name, tensor in tensors.items()}
        with replaced(path) as new:
            save_file(contiguous, new, metadata=metadata)
    except (OSError, SafetensorError) as error:
        raise CannotWrite(path, error) from error


def check_writable(path: Path) -> None:
    """Raises ValueError if no file can be written at a path: worth checking before long work."""
    place, through = destination(path)
    try:
        if not through:
            TemporaryDirectory(prefix=".", suffix=".part", dir=place.parent).cleanup()
        elif not os.access(place, os.W_OK):
            raise PermissionError("it cannot be written to")
    except OSError as error:
        raise CannotWrite(path, error) from error


@contextmanager
def replacing(folder: Path) -> Iterator[Path]:
    """Gives an empty temporary folder that replaces `folder`, which may not exist yet, when all went well.

    No call replaces a folder at once on every system, so there are two renames: the old folder goes aside,
    the new one comes. A process that is killed between them leaves the old one aside, whole, and there
    `whole_folder` finds it: at every moment a reader gets all of the old folder, or all of the new one.

    Raises:
        ValueError: if something is in the way: a full disk, or something other than a pair. What was there
            is left. A link to a folder is followed.
    """
    check_pair_folder(folder)
    try:
        place = Path(os.path.realpath(folder))
        place.parent.mkdir(parents=True, exist_ok=True)
        settle(place)
        temporary = Path(mkdtemp(prefix=f".{place.name}-", dir=place.parent))
        new = temporary / "new"
        before = temporary / BEFORE
        try:
            new.mkdir()
            yield new
            if place.exists():
                place.rename(before)
            new.rename(place)
        finally:
            if before.exists() and not place.exists():
                before.rename(place)
            remove(temporary)
    except (OSError, CannotWrite) as error:
        why = CannotWrite(folder, error).why
        raise CannotWrite(folder, f"{why}; what was there before is unchanged") from error


def settle(place: Path) -> None:
    """Ends what a killed process has left of replacing a folder: the old one comes back, or its rest goes.

    New folders that are not whole stay: the processes that write them may be alive.
    """
    for before in set_aside(place):
        if not place.exists():
            before.rename(place)
        remove(before.parent)


def remove(folder: Path) -> None:
    """Removes a temporary folder; whatever ends this half-way, a half-removed folder is never read."""
    before = folder / BEFORE
    with suppress(OSError):  # it is not there, as a rule
        before.rename(folder / "removed")
    shutil.rmtree(folder, ignore_errors=True)


def set_aside(place: Path) -> list[Path]:
    """Returns the old folders that processes have put aside to replace a folder, the latest first."""
    leftovers = place.parent.glob(f".{glob.escape(place.name)}-*/{BEFORE}")
    return sorted(leftovers, key=lambda path: path.stat().st_ctime_ns, reverse=True)


def names_aside(root: Path) -> set[str]:
    """Returns the names of all folders in a folder that are aside while they are replaced."""
    return {path.parent.name[1:].rpartition("-")[0] for path in root.glob(f".*-*/{BEFORE}")}


def whole_folder(folder: Path) -> Path:
    """Returns where to read a folder that `replacing` writes: itself or, if it is missing, what it was."""
    place = Path(os.path.realpath(folder))
    if not place.exists():
        for before in set_aside(place):
            return before
    return folder


def check_pair_folder(folder: Path) -> None:
    """Raises ValueError if no pair can be written there, or something else than a pair is there.

    A typo must not cost anybody's files, and what cannot be written should be known before a training. So a
    folder beside it is made, and removed again.
    """
    cannot = f"cannot write a pair to {shown_path(folder)}"
    missing: list[Path] = []
    try:
        above = next((parent for parent in folder.absolute().parents if parent.exists()), folder.parent)
        if above.exists() and not above.is_dir():
            raise OSError(f"{shown_path(above)} is not a folder")
        place = Path(os.path.realpath(folder))
        if place.is_symlink():
            raise OSError("the link leads to itself")
        occupied = place.exists() and not (place / "pair.json").is_file() and any(place.iterdir())
        missing = [path for path in place.parents if not path.exists()]
        place.parent.mkdir(parents=True, exist_ok=True)
        TemporaryDirectory(prefix=f".{place.name}-", dir=place.parent).cleanup()
    except (OSError, ValueError) as error:
        raise ValueError(f"{cannot}: {CannotWrite(folder, error).why}") from error
    finally:
        for path in missing:
            with suppress(OSError):  # it was not made, or another process uses it by now
                path.rmdir()
    if occupied:
        raise ValueError(f"{cannot}: it holds other files; choose a new folder")


def read_text(path: Path) -> str:
    """Reads a file of UTF-8, no pipe or device, which may never end; OSError or ValueError if it cannot."""
    if path.is_dir():
        raise OSError("it is a folder")
    if path.exists() and not path.is_file():
        raise OSError("it is no file but a pipe or a device, which may never end")
    with path.open("rb") as file:
        data = file.read(MOST_BYTES + 1)
    if len(data) > MOST_BYTES:
        raise OSError(f"it is larger than {MOST_BYTES // 2**20} MB")
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


def shown_path(path: Path) -> str:
    """Returns what a message says of a path."""
    return shortened(printable_line(str(path)), most=200)


def printable_line(text: str) -> str:
    """Returns a name or a message on one line; what could control a terminal is escaped."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)


def shown(value: object, most: int = 80) -> str:
    """Returns what a message says of a value that somebody gave: of a long one, both ends."""
    return shortened(repr(value), most)


def shortened(text: str, most: int) -> str:
    """Returns a text, or both ends of a long one."""
    half = most // 2
    return text if len(text) <= most else f"{text[:half]} … {text[-half:]}"
