"""Writes docs/online.md: how to open the notebooks on Binder and Colab, from the address in _repository.txt.

python docs/online.py
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path

DOCS = Path(__file__).resolve().parent
ADDRESS = DOCS / "_repository.txt"
PAGE = DOCS / "online.md"
NOBODY = "OWNER"  # stands in the file until the project has an address


@dataclass(frozen=True)
class Repository:
    """An address on GitHub.

    Attributes:
        slug: owner/repository.
        branch: what links point to.
    """

    slug: str
    branch: str

    @property
    def is_real(self) -> bool:
        """Whether somebody has filled it in."""
        return self.slug.partition("/")[0] != NOBODY

    def binder(self, notebook: str) -> str:
        """Returns the link that starts a machine and opens a student's copy of a notebook."""
        return (
            f"https://mybinder.org/v2/gh/{self.slug}/{self.branch}?urlpath=lab/tree/minispec-lab/{notebook}"
        )

    def colab(self, notebook: str) -> str:
        """Returns the link that opens a notebook in Colab."""
        return f"https://colab.research.google.com/github/{self.slug}/blob/{self.branch}/notebooks/{notebook}"

    def row(self, notebook: Path) -> str:
        """Returns a notebook's line of the table."""
        links = f"[Binder]({self.binder(notebook.name)}) | [Colab]({self.colab(notebook.name)})"
        return f"| {title_of(notebook)} | {links} |"

    @property
    def install(self) -> str:
        """Returns the line that installs minispec in Colab."""
        return f'%pip install --quiet "minispec-decoding[figures] @ git+https://github.com/{self.slug}@{self.branch}"'


def read_repository(path: Path = ADDRESS) -> Repository:
    """Reads the address.

    Raises:
        ValueError: if the file does not hold owner/repository and a branch.
    """
    lines = [line.strip() for line in path.read_text(encoding="utf-8").splitlines()]
    values = [line for line in lines if line and not line.startswith("#")]
    if len(values) != 2 or not re.fullmatch(r"[\w.-]+/[\w.-]+", values[0]):
        raise ValueError(f"{path.name} must hold owner/repository and a branch, a line each, not {values}")
    return Repository(*values)


def title_of(notebook: Path) -> str:
    """Returns the first heading of a notebook."""
    cell = json.loads(notebook.read_text(encoding="utf-8"))["cells"][0]
    return "".join(cell["source"]).splitlines()[0].lstrip("# ")


def page(repository: Repository) -> str:
    """Returns the whole page."""
    state = PLACEHOLDER.format(binder=repository.binder("NOTEBOOK.ipynb"))
    if repository.is_real:
        state = "\n".join([REAL, *map(repository.row, sorted((DOCS.parent / "notebooks").glob("*.ipynb")))])
    return TEXT.format(state=state, install=repository.install)


REAL = """A click opens a notebook on somebody else's machine.

| notebook | Binder | Colab |
|---|---|---|"""
PLACEHOLDER = """This copy of minispec has no published address yet, so no notebook has a link. Whoever
publishes it writes the address into `docs/_repository.txt` and runs `python docs/online.py`; then a table
here has links such as `{binder}`."""

TEXT = """<!-- Written by docs/online.py: change that, or docs/_repository.txt, and run it again. -->
# Without installing anything

{state}

Neither was tried: both need an address to fetch from. What can be tried without one is. The list of
packages for Binder is checked against the project's own, and its start script runs in a test.

## Binder

Binder builds a machine from the folder `binder/`: slowly the first time, faster after that. The machine is
small, has no GPU, and forgets everything when you leave: download what you want to keep. minispec computes
with one thread there.

JupyterLab opens on your copy of the notebooks, without outputs, in `minispec-lab`. Times measured there say
little: others use the same cores.

## Colab

Colab wants a Google account. It opens the notebook as it was committed, with outputs. *Edit › Clear all
outputs* hides the answers. Then add a cell at the top and run it:

<!-- not run: Colab only; it needs the project's address -->
```text
{install}
```

The shipped pair comes with the package, so nothing else is fetched. If Colab asks you to restart the
session after the installation, do so once.
"""


if __name__ == "__main__":
    PAGE.write_text(page(read_repository()), encoding="utf-8")
    print(f"wrote {PAGE}")
