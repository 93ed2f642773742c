"""Files that are there whole or not at all."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path


def write_whole(path: Path, text: str) -> None:
    """Writes a text as UTF-8 under a temporary name and renames it, so that a crash leaves the old file.

    Args:
        path: what to write or replace.
        text: its content.

    Raises:
        ValueError: if the file cannot be written; what was there before is unchanged.
    """
    check_writable(path)
    temporary: str | None = None
    try:
        handle, temporary = tempfile.mkstemp(prefix=f".{path.name}-", dir=path.parent)
        with open(handle, "w", encoding="utf-8", newline="\n") as file:
            file.write(text)
        # Temporary files are for their owner's eyes only; this one is to be an ordinary file.
        os.chmod(temporary, path.stat().st_mode & 0o777 if path.exists() else 0o644)
        os.replace(temporary, path)
        temporary = None
    except OSError as error:
        raise ValueError(f"cannot write {path}: {error.strerror or error}") from error
    finally:
        if temporary is not None:
            Path(temporary).unlink(missing_ok=True)


def check_writable(path: Path) -> None:
    """Refuses a path where no file can be written: worth checking before long work.

    Raises:
        ValueError: if the path is a folder, or its folder is missing or cannot be written to.
    """
    if path.is_dir():
        raise ValueError(f"cannot write {path}: it is a folder")
    if not path.parent.is_dir():
        raise ValueError(f"cannot write {path}: there is no folder {path.parent}")
    if not os.access(path.parent, os.W_OK):
        raise ValueError(f"cannot write {path}: the folder {path.parent} cannot be written to")
