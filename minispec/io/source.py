"""Where a checkpoint is read from: a folder, a GGUF file, or a model on a hub."""

import os
import re
from dataclasses import dataclass
from pathlib import Path

from minispec.io.files import format_path
from minispec.io.gguf import GGUFFile, open_gguf
from minispec.io.hub import download

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
