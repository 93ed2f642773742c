"""`minispec lab`: a student's own copy of the notebooks, opened in JupyterLab.

The copy has no outputs. So nobody reads an answer before the question, and all results
were computed here. What a student has changed is never overwritten.
"""

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

from minispec.cli import options
from minispec.io.files import write_text_file

NOTEBOOKS = Path(__file__).resolve().parents[2] / "notebooks"


def lab(folder: Path = Path("minispec-lab"), with_solutions: bool = False, no_open: bool = False) -> int:
    """Copy the notebooks into a folder of your own and open them in JupyterLab."""
    if not no_open and importlib.util.find_spec("jupyterlab") is None:
        raise ValueError("JupyterLab is not installed: in minispec's folder, pip install -e '.[notebooks]'")
    outcomes = copy_notebooks(folder, find_notebooks(with_solutions))
    changed = outcomes.pop("kept")
    counts = ", ".join(f"{len(names)} {outcome}" for outcome, names in outcomes.items() if names)
    console = options.console()
    console.out(f"Notebooks in {folder}: {counts or 'nothing new'}.")
    for name in changed:
        console.out(f"  kept yours: {name} (to start afresh, rename it and run this again)")
    return 0 if no_open else open_jupyterlab(folder)


def find_notebooks(with_solutions: bool = False) -> dict[str, Path]:
    """Returns the notebooks by the name that they have in a copy."""
    folders = ("", "solutions/") if with_solutions else ("",)
    paths = sorted(path for folder in folders for path in NOTEBOOKS.glob(f"{folder}[0-9][0-9]_*.ipynb"))
    if not paths:
        raise ValueError(
            "this installation has no notebooks: they come with the project's source, not with the package; "
            "get the source and run `minispec lab` from there"
        )
    return {path.relative_to(NOTEBOOKS).as_posix(): path for path in paths}


def copy_notebooks(folder: Path, notebooks: dict[str, Path]) -> dict[str, list[str]]:
    """Copies notebooks without outputs, by name; a file that exists is not changed.

    Returns the names by outcome: `copied`; `there already`, equal to a fresh copy; or `kept`, which differs.
    """
    outcomes: dict[str, list[str]] = {"copied": [], "there already": [], "kept": []}
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, source in notebooks.items():
            text = without_outputs(source)
            copy = folder / name
            if copy.exists():
                same = copy.read_text(encoding="utf-8", errors="replace") == text
                outcomes["there already" if same else "kept"].append(name)
            else:
                copy.parent.mkdir(parents=True, exist_ok=True)
                write_text_file(copy, text)
                outcomes["copied"].append(name)
    except OSError as error:
        raise ValueError(f"cannot copy notebooks to {folder}: {error.strerror or error}") from error
    return outcomes


def without_outputs(path: Path) -> str:
    """Returns a notebook as JSON, as if it had never run."""
    notebook = json.loads(path.read_text(encoding="utf-8"))
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            cell |= {"outputs": [], "execution_count": None}
    return json.dumps(notebook, indent=1, ensure_ascii=False) + "\n"


def open_jupyterlab(folder: Path) -> int:
    """Runs JupyterLab in a folder until it is closed; returns its exit status."""
    first = sorted(path.name for path in folder.glob("[0-9][0-9]_*.ipynb"))[:1]
    command = [sys.executable, "-m", "jupyterlab", *first]
    try:
        return subprocess.call(command, cwd=folder)
    except KeyboardInterrupt:  # JupyterLab has had it too, and has ended
        return 130
