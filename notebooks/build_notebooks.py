"""Makes notebooks from their texts: `make notebooks`, or `python notebooks/build_notebooks.py`.

Each text is turned into a notebook, run in a kernel of its own, and cleaned of what would differ on
another machine. A notebook that breaks a rule of `notebook_rules.py`, or takes too long, is not
written: what was there before stays.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from time import perf_counter

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellTimeoutError, DeadKernelError
from nbformat import NotebookNode
from notebook_rules import (
    cell_ids,
    cell_metadata,
    is_solution,
    metadata_faults,
    notebook_of,
    outcome_faults,
    plain_metadata,
    read_text,
    shape_faults,
    tags,
    texts,
)

MOST_SECONDS = 60


def main() -> int:
    """Builds what the command line asks for; returns 1 if anything was refused."""
    parser = argparse.ArgumentParser(
        description="Make the notebooks from their texts, run and clean."
    )
    parser.add_argument("--only", metavar="NN", action="append", help="only this; may be repeated")
    options = parser.parse_args()
    chosen = [text for text in texts() if options.only is None or text.name[:2] in options.only]
    if not chosen:
        print(f"there is no notebook {' or '.join(options.only or [])}", file=sys.stderr)
        return 2
    return 1 if sum(map(build, chosen)) else 0


def build(text: Path, most_seconds: float = MOST_SECONDS) -> int:
    """Makes one notebook; returns how many faults it has. With none, it is written."""
    started = perf_counter()
    notebook = clean(run(prepared(text), notebook_of(text).parent, most_seconds))
    seconds = perf_counter() - started
    faults = outcome_faults(notebook) + metadata_faults(notebook)
    if not is_solution(text):
        faults += shape_faults(notebook)
    if seconds > most_seconds:
        faults.append(f"it took {seconds:.1f} s, more than {most_seconds:g}")
    print(f"{text.stem:40} {seconds:5.1f} s  {'refused' if faults else 'written'}", flush=True)
    for fault in faults:
        print(f"  {fault}", flush=True)
    if not faults:
        write(notebook, notebook_of(text))
    return len(faults)


def prepared(text: Path) -> NotebookNode:
    """Returns a text's cells as a notebook that has not run."""
    notebook = clean(read_text(text))
    for cell, name in zip(
        notebook.cells, cell_ids(text.name[:2], len(notebook.cells)), strict=True
    ):
        cell.id = name
    notebook.nbformat = 4
    notebook.nbformat_minor = 5
    return notebook


def run(notebook: NotebookNode, folder: Path, most_seconds: float) -> NotebookNode:
    """Runs all cells in a fresh kernel, where the notebook will lie; errors become outputs."""
    # this environment's kernel, not another one's
    os.environ.setdefault("JUPYTER_PREFER_ENV_PATH", "1")
    client = NotebookClient(
        notebook,
        timeout=int(2 * most_seconds),
        kernel_name="python3",
        resources={"metadata": {"path": str(folder)}},
        record_timing=False,
        coalesce_streams=True,
        allow_errors=True,
        extra_arguments=["--HistoryManager.enabled=False", "--log-level=ERROR"],
    )
    try:
        client.execute()
    except (CellTimeoutError, DeadKernelError) as error:
        print(f"  {str(error).splitlines()[0]}", flush=True)
    return notebook


def clean(notebook: NotebookNode) -> NotebookNode:
    """Keeps no metadata but what follows from tags; returns the notebook."""
    notebook.metadata = nbformat.from_dict(plain_metadata())
    for cell in notebook.cells:
        cell.metadata = nbformat.from_dict(cell_metadata(tags(cell)))
    return notebook


def write(notebook: NotebookNode, path: Path) -> None:
    """Writes under a temporary name and renames, so that a crash leaves the old notebook whole."""
    nbformat.validate(notebook)
    temporary = path.with_suffix(".ipynb.tmp")
    temporary.write_text(
        nbformat.writes(notebook, version=4) + "\n", encoding="utf-8", newline="\n"
    )
    temporary.replace(path)


if __name__ == "__main__":
    sys.exit(main())
