"""Writes docs/online.md: how to open the notebooks on Binder and Colab, from the address in _repository.txt.

python docs/online.py
"""

import json
import re
from pathlib import Path

DOCS = Path(__file__).resolve().parent
NOTEBOOKS = DOCS.parent / "notebooks"
ADDRESS = DOCS / "_repository.txt"
PAGE = DOCS / "online.md"
NOBODY = "OWNER/"  # stands in the file until the project has an address


def read_repository(path=ADDRESS):
    """Reads owner/repository on GitHub, and the branch that links point to.

    Raises:
        ValueError: if the file does not hold both.
    """
    lines = [line.strip() for line in path.read_text(encoding="utf-8").splitlines()]
    values = [line for line in lines if line and not line.startswith("#")]
    if len(values) != 2 or not re.fullmatch(r"[\w.-]+/[\w.-]+", values[0]):
        raise ValueError(f"{path.name} must hold owner/repository and a branch, a line each, not {values}")
    return values


def title_of(notebook):
    """Returns the first heading of a notebook."""
    cell = json.loads(notebook.read_text(encoding="utf-8"))["cells"][0]
    return "".join(cell["source"]).splitlines()[0].lstrip("# ")


def page(repository, branch):
    """Returns the whole page. Binder opens a student's copy of a notebook, Colab the committed one."""
    binder = f"https://mybinder.org/v2/gh/{repository}/{branch}?urlpath=lab/tree/minispec-lab/"
    colab = f"https://colab.research.google.com/github/{repository}/blob/{branch}/notebooks/"
    if repository.startswith(NOBODY):
        state = PLACEHOLDER.format(binder=f"{binder}NOTEBOOK.ipynb")
    else:
        state = REAL
        for path in sorted(NOTEBOOKS.glob("*.ipynb")):
            state += f"\n| {title_of(path)} | [Binder]({binder}{path.name}) | [Colab]({colab}{path.name}) |"
    install = f'"minispec-decoding[figures] @ git+https://github.com/{repository}@{branch}"'
    return TEXT.format(state=state, install=install)


REAL = """A click opens a notebook on somebody else's machine.

| notebook | Binder | Colab |
|---|---|---|"""
PLACEHOLDER = """This copy of minispec has no published address yet, so no notebook has a link. Whoever
publishes it writes the address into `docs/_repository.txt` and runs `python docs/online.py`; then a table
here has links such as `{binder}`."""

TEXT = """<!-- Written by docs/online.py: change that, or docs/_repository.txt, and run it again. -->
# Without installing anything

{state}

Neither was tried: both need an address to fetch from. A test checks Binder's list of packages and its
start script.

## Binder

Binder builds a machine from the folder `binder/`: slowly the first time, faster after that. The machine is
small, has no GPU, and forgets everything when you leave: download what you want to keep. minispec computes
with one thread there.

JupyterLab opens on your copy of the notebooks, without outputs, in `minispec-lab`. Others use the same cores,
so times measured there mean little.

## Colab

Colab wants a Google account. It opens the notebook as it was committed, with outputs. *Edit › Clear all
outputs* hides the answers. Then add a cell at the top and run it:

<!-- not run: Colab only; it needs the project's address -->
```text
%pip install --quiet {install}
```

Nothing else is fetched. If Colab asks you to restart the session after the installation, do so once.
"""


if __name__ == "__main__":
    PAGE.write_text(page(*read_repository()), encoding="utf-8")
    print(f"wrote {PAGE}")
