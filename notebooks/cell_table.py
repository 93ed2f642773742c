"""Counts what the code cells of the notebooks are: `python notebooks/cell_table.py [FOLDER]`.

A cell is the first of these that fits:

- written: the reader writes it (tag `exercise`);
- shown: it writes a phase out in plain lines (tag `written`), which the tests hold to their word;
- folded: it only checks, and its source is hidden (tag `hide-input`);
- helper: it calls a function or class of the package that does a phase, and so hides it: anything
  from `core`, `drafters`, `rules`, `train`, `evidence` or `native`, or `minispec.something`. What
  only holds data or settings does not count: `Warp`, `SeededRng`, records, configurations, pairs;
- visible: it computes with a model, with distributions or with tokens in plain lines: it calls
  `target`, `draft` or another model, or has a loop or a function of its own;
- other: imports, questions, goals, figures, text.

FOLDER holds the texts, by default those beside this file. So an older state can be counted too.
"""

from __future__ import annotations

import ast
import sys
from collections import Counter
from pathlib import Path

from notebook_rules import FOLDER, HIDDEN, code_cells, read_text, tags

KINDS = ("written", "shown", "visible", "helper", "folded", "other")
PHASES = {"core", "drafters", "rules", "train", "evidence", "native"}
DATA = {"Warp", "SeededRng", "KeyedRng", "Draft", "Verdict", "Round", "GPTConfig", "load_pair"}
DATA |= {"stream", "NativeGPT", "GPT", "on_backend", "FirstToken", "parts", "Hardware"}
MODELS = {"target", "draft", "drafter", "model", "small", "large", "exact"}


def kind_of(tree: ast.Module, of_cell: list[str], helpers: set[str]) -> str:
    """Returns what a cell is; `helpers` are names that cells so far have imported from phases."""
    helpers |= imported(tree)
    for tag, kind in (("exercise", "written"), ("written", "shown")):
        if tag in of_cell:
            return kind
    if HIDDEN in of_cell:
        return "folded"
    calls = [node.func for node in ast.walk(tree) if isinstance(node, ast.Call)]
    if any(is_helper(call, helpers) for call in calls):
        return "helper"
    plain = (ast.For, ast.While, ast.FunctionDef, ast.ListComp, ast.GeneratorExp)
    if any(isinstance(node, plain) for node in ast.walk(tree)) and not only_asks(tree):
        return "visible"
    return "visible" if any(getattr(call, "id", "") in MODELS for call in calls) else "other"


def imported(tree: ast.Module) -> set[str]:
    """Returns what a cell imports from packages that do phases."""
    froms = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    froms = [node for node in froms if (node.module or "").split(".")[1:2]]
    names = {a.asname or a.name for n in froms if n.module.split(".")[1] in PHASES for a in n.names}
    return names - DATA


def is_helper(call: ast.expr, helpers: set[str]) -> bool:
    """Whether a call is one of a phase."""
    if isinstance(call, ast.Attribute) and getattr(call.value, "id", "") == "minispec":
        return call.attr not in DATA
    return isinstance(call, ast.Name) and call.id in helpers


def only_asks(tree: ast.Module) -> bool:
    """Whether a cell is a question."""
    return any(getattr(getattr(n, "func", None), "id", "") == "predict" for n in ast.walk(tree))


def counts_of(text: Path) -> Counter[str]:
    """Returns how many code cells of each kind a notebook has."""
    helpers: set[str] = set()
    cells = [(ast.parse(cell.source), tags(cell)) for _, cell in code_cells(read_text(text))]
    return Counter(kind_of(tree, of_cell, helpers) for tree, of_cell in cells)


def main() -> None:
    """Prints the table of a folder."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER / "text"
    counts = {text.name[:2]: counts_of(text) for text in sorted(folder.glob("[0-9][0-9]_*.py"))}
    print("notebook", *(f"{kind:>8}" for kind in KINDS), f"{'all':>8}")
    for number, of in [*counts.items(), ("all", sum(counts.values(), Counter()))]:
        print(f"{number:8}", *(f"{of[kind]:8}" for kind in KINDS), f"{of.total():8}")


if __name__ == "__main__":
    main()
