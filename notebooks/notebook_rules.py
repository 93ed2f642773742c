"""What a committed notebook must be. Each rule returns the faults that it finds, as lines.

`build_notebooks.py` refuses a notebook with faults, and the tests look at those that are committed.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path
from typing import Any

import jupytext
import nbformat
from nbformat import NotebookNode

FOLDER = Path(__file__).resolve().parent
MOST_CODE_CELLS = 26  # but for those that only check, which are folded, and the one to play with
MOST_LINES = 12  # of a code cell; what the reader writes, and its solution, may be longer
MOST_WRITTEN_LINES = 16  # of a cell that writes a phase out, and runs it
MOST_EXERCISE_LINES = 30
MOST_WORDS = 120  # of prose between two outputs
MOST_LINE = 100  # characters; JupyterLab cuts off what is longer
LONGER = {"exercise": MOST_EXERCISE_LINES, "written": MOST_WRITTEN_LINES}
TRY = "try-it"  # the tag of the one cell of a notebook to play with
TRY_TITLE = "### Try it: change a value and run the cell again"  # in the prose before it
HIDDEN = "hide-input"  # the tag of cells that only check: JupyterLab and the book fold them

TAG = re.compile(r"[a-z]+(-[A-Za-z0-9]+)*")
PARTS = ("**You'll do**", "**You'll learn**", "**You'll need**", "**Time**")
MACHINE = re.compile(
    r"(?<![\w.<])/(work\w*|root|home|Users|tmp|private|mnt|opt)/|\b[A-Z]:\\(?!n\b)|file://"
)
ADDRESS = re.compile(r"\bat 0x[0-9a-fA-F]{6,}")
DATA = re.compile(r"data:[\w/+.-]+;base64,[A-Za-z0-9+/=]+")


def texts(folder: Path = FOLDER) -> list[Path]:
    """Returns the texts of all notebooks, solutions last, in order of their numbers."""
    numbered = "[0-9][0-9]_*.py"
    return [
        *sorted((folder / "text").glob(numbered)),
        *sorted((folder / "solutions").glob(numbered)),
    ]


def notebook_of(text: Path) -> Path:
    """Returns the notebook that a text is paired with."""
    folder = text.parent.parent if text.parent.name == "text" else text.parent
    return folder / f"{text.stem}.ipynb"


def is_solution(path: Path) -> bool:
    """Returns whether a text or a notebook holds solutions."""
    return "solutions" in path.parts[-2:]


def read_text(text: Path) -> NotebookNode:
    """Returns the cells of a text, without outputs."""
    return jupytext.read(text, fmt="py:percent")


def read_notebook(path: Path) -> NotebookNode:
    """Returns a notebook with its outputs."""
    return nbformat.read(path, as_version=4)


def outcome_faults(notebook: NotebookNode) -> list[str]:
    """Every code cell ran, in order, without error or warning; nothing is of this machine only."""
    faults = []
    for count, (name, cell) in enumerate(code_cells(notebook), start=1):
        if cell.execution_count != count:
            faults.append(f"{name}: execution count {cell.execution_count}, not {count}")
        for output in cell.outputs:
            if output.output_type == "error":
                faults.append(f"{name}: {output.ename}: {output.evalue}")
            elif output.get("name") == "stderr":
                faults.append(f"{name}: on standard error: {output.text.strip()[:200]}")
    for text in strings(notebook):
        text = DATA.sub("", text)
        for pattern, what in ((MACHINE, "a path of a machine"), (ADDRESS, "an address in memory")):
            if match := pattern.search(text):
                faults.append(f"{what}: {text[max(match.start() - 20, 0) : match.end() + 40]!r}")
    return faults


def metadata_faults(notebook: NotebookNode) -> list[str]:
    """Nothing is stored that changes from run to run or from machine to machine."""
    faults = []
    if notebook.metadata != plain_metadata():
        faults.append(f"metadata of the notebook: {dict(notebook.metadata)}")
    ids = [cell.get("id") for cell in notebook.cells]
    if len({str(name)[:2] for name in ids}) > 1 or ids != cell_ids(str(ids[0])[:2], len(ids)):
        faults.append("cell ids are not in order")
    for number, cell in enumerate(notebook.cells):
        if dict(cell.metadata) != cell_metadata(tags(cell)):
            faults.append(f"cell {number}: metadata {dict(cell.metadata)}")
    return faults


def shape_faults(notebook: NotebookNode) -> list[str]:
    """It opens with what is to come, ends with a recap, and its pieces are small."""
    first = notebook.cells[0].source
    last = notebook.cells[-1]
    code = code_cells(notebook)
    titled = re.match(r"# \d+\. \w", first)
    faults = [] if titled else ["it does not open with a title, '# 2. Fill …'"]
    faults += [f"the first cell lacks {part}" for part in PARTS if part not in first]
    if last.cell_type != "markdown" or not last.source.startswith("## Recap"):
        faults.append("it does not end with a recap")
    if (shown := sum(not {HIDDEN, TRY} & {*tags(cell)} for _, cell in code)) > MOST_CODE_CELLS:
        faults.append(f"{shown} code cells, more than {MOST_CODE_CELLS}")
    for name, cell in code:
        most = next((LONGER[tag] for tag in tags(cell) if tag in LONGER), MOST_LINES)
        lines = [line for line in cell.source.splitlines() if line.strip()]
        if len(lines) > most:
            faults.append(f"{name}: {len(lines)} lines, more than {most}")
        if max(map(len, lines), default=0) > MOST_LINE:
            faults.append(f"{name}: a line of more than {MOST_LINE} characters")
    named = (tag for cell in notebook.cells for tag in tags(cell))
    faults += [f"tag {tag!r} is not like claim-A1" for tag in named if not TAG.fullmatch(tag)]
    return faults + word_faults(notebook) + check_faults(notebook)


def try_faults(notebook: NotebookNode) -> list[str]:
    """One cell is there to play with: its title stands before it, and it checks nothing."""
    cells = notebook.cells
    try_cells = [number for number, cell in enumerate(cells) if TRY in tags(cell)]
    faults = [] if len(try_cells) == 1 else [f"{len(try_cells)} cells with the tag {TRY}, not 1"]
    for number in try_cells:
        before = cells[number - 1]
        if before.cell_type != "markdown" or TRY_TITLE not in before.source:
            faults.append(f"cell {number}: before it stands no {TRY_TITLE!r}")
        if "assert" in cells[number].source:
            faults.append(f"cell {number}: a check in the cell to play with")
    return faults


def check_faults(notebook: NotebookNode) -> list[str]:
    """Checks stand out of the way: one line at a cell's end, or in a cell that is folded."""
    faults = []
    for name, cell in code_cells(notebook):
        tree = ast.parse(cell.source)
        asserts = [node for node in ast.walk(tree) if isinstance(node, ast.Assert)]
        if HIDDEN in tags(cell):
            faults += [] if asserts else [f"{name}: folded, and checks nothing"]
            continue
        shown = bool(tree.body) and isinstance(tree.body[-1], ast.Expr)
        end = tree.body[-2:] if shown else tree.body[-1:]
        if len(asserts) > 1 or not {*asserts} <= {*end}:
            faults.append(f"{name}: {len(asserts)} asserts; one may stand, at the end")
        if "import limited" in cell.source:
            faults.append(f"{name}: limited models among lines that teach")
    return faults


def word_faults(notebook: NotebookNode) -> list[str]:
    """Between two outputs stand no more words than a reader will read."""
    faults = []
    words = 0
    start = 1
    for number, cell in enumerate(notebook.cells[1:], start=1):
        if cell.cell_type == "markdown":
            words += len(re.findall(r"\S*\w\S*", cell.source))
        elif cell.outputs:
            if words > MOST_WORDS:
                faults.append(f"cells {start} to {number}: {words} words, more than {MOST_WORDS}")
            words = 0
            start = number + 1
    return faults


def sync_faults(notebook: NotebookNode, text: NotebookNode) -> list[str]:
    """The notebook and its text have the same cells, with the same tags."""
    pairs = zip_longest(map(content, notebook.cells), map(content, text.cells))
    return [
        f"cell {number}: the text differs in kind, source or tags"
        for number, (cell, text_cell) in enumerate(pairs)
        if cell != text_cell
    ]


def plain_metadata() -> dict[str, Any]:
    """Returns what every notebook says about itself: no version, no path."""
    return {
        "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
        "language_info": {"name": "python"},
    }


def cell_metadata(of_cell: list[str]) -> dict[str, Any]:
    """Returns what a cell with these tags stores, also that JupyterLab folds what only checks."""
    folded = {"jupyter": {"source_hidden": True}} if HIDDEN in of_cell else {}
    return {"tags": of_cell, **folded} if of_cell else {}


def cell_ids(number: str, count: int) -> list[str]:
    """Returns the ids of a notebook's cells: 02-00, 02-01, …"""
    return [f"{number}-{index:02}" for index in range(count)]


def code_cells(notebook: NotebookNode) -> list[tuple[str, NotebookNode]]:
    """Returns all code cells, each with a name for people."""
    numbered = enumerate(notebook.cells)
    return [(f"cell {number}", cell) for number, cell in numbered if cell.cell_type == "code"]


def content(cell: NotebookNode) -> tuple[str, str, list[str]]:
    """Returns what a cell and its text have in common."""
    return cell.cell_type, cell.source.strip(), tags(cell)


def tags(cell: NotebookNode) -> list[str]:
    """Returns a cell's tags."""
    return list(cell.metadata.get("tags", []))


def strings(value: Any) -> Iterator[str]:
    """Yields every text in a notebook but its images."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, part in value.items():
            if not str(key).startswith("image/"):
                yield from strings(part)
    elif isinstance(value, list):
        for part in value:
            yield from strings(part)
