"""Write it, then use it: each phase stands in plain lines in a notebook before the package does it.

The lines are `core/basic.py`'s own where it has them, and the cells that use a phase need its lines: with a
stub in their place they fail.
"""

import ast
import copy
from pathlib import Path

import pytest
from cell_trees import left_blank, needed, run, trees
from notebook_rules import HIDDEN

import minispec.core.basic

LONG_WAY = (*range(1, 9), *range(12, 17))
SHORT_WAY = (1, 5, 6, 8)
SKIPPED = ("exercise", HIDDEN)  # tags of cells that no other needs
# For each notebook: the functions that it writes out, and the package's names that may follow them only.
PHASES = {
    1: (("most_probable", "continue_alone"), ("generate",)),
    -1: (("speculate_greedily",), ("record", "speculate", "verify_greedy", "ModelDrafter")),
    2: (("read", "catch_up"), ("generate", "prefill", "record")),
    -2: (("generate_basic",), ("generate", "record")),
    3: (("train", "distil"), ("train_pair",)),
    4: (("draft",), ("ModelDrafter", "propose", "record", "speculate")),
    5: (("accept_greedy",), ("verify_greedy", "record", "speculate")),
    6: (
        ("rule_1", "rule_2", "rule_3", "rule_4"),
        ("first_token", "verify_coupled", "verify_rejection", "verify_greedy", "rule_with"),
    ),
    -6: (("accept_rejection",), ("record", "speculate")),
    7: (("truncate",), ("truncate", "rollback", "record", "speculate")),
    8: (("speculate_basic",), ("speculate", "record", "on_backend")),
    12: (("matched",), ("LookupDrafter", "NgramDrafter", "SuffixAutomaton", "DRAFTERS")),
    -12: (("first_layers", "other_layers"), ("EarlyExitGPT", "ExitDrafter", "DRAFTERS")),
    13: (("seen_from",), ("Tree", "TreeDrafter", "verify_tree")),
    -13: (("try_one", "accept_path"), ("verify_tree", "TreeDrafter", "speculate", "record")),
    14: (("one_round", "commit", "next_in_line", "serve"), ("speculate", "Batch", "record")),
    15: (("accept_block",), ("verify_block", "record", "expected_accepted", "chain_means")),
    -15: (("limit",), ("measure", "by_subsets")),
    16: (("draft_from_feature",), ("FeatureDrafter", "DRAFTERS")),
}


def functions(tree):
    return [node for node in tree.body if isinstance(node, ast.FunctionDef)]


def mentions(tree, names):
    """Whether a cell says one of these names: as a name, an attribute or an import."""
    fields = {ast.Name: "id", ast.Attribute: "attr", ast.alias: "name"}
    return any(getattr(node, fields[type(node)]) in names for node in ast.walk(tree) if type(node) in fields)


def written_in(notebook):
    """Returns the functions that a notebook writes out: name, number of its cell."""
    cells = enumerate(trees(notebook))
    return {f.name: i for i, (tree, of_cell) in cells if "written" in of_cell for f in functions(tree)}


BASIC = functions(ast.parse(Path(minispec.core.basic.__file__).read_text(encoding="utf-8")))


@pytest.mark.parametrize("function", BASIC, ids=lambda function: function.name)
def test_each_function_of_the_basic_file_is_a_cell_of_one_notebook(function):
    """Equal as a tree, docstring and all, in one of the notebooks of the long way and in no other."""
    homes = [
        notebook
        for notebook in LONG_WAY
        for tree, of_cell in trees(notebook)
        if "basic" in of_cell and ast.dump(function) in map(ast.dump, functions(tree))
    ]
    assert len(homes) == 1


def test_the_last_notebook_prints_what_the_short_way_has_not_written():
    """Notebook 8 prints the source of those functions that stand in no notebook of the short way."""
    written = {name for notebook in SHORT_WAY for name in written_in(notebook)}
    printed = {call.args[0].id for tree, _ in trees(8) for call in calls(ast.walk(tree), "getsource")}
    assert printed == {function.name for function in BASIC} - written


@pytest.mark.parametrize("key", PHASES, ids=lambda key: f"{abs(key):02}-{PHASES[key][0][-1]}")
def test_lines_stand_before_the_package_is_used(key):
    """In no cell before those that write a phase out does the package do it."""
    names, package = PHASES[key]
    last = max(written_in(abs(key))[name] for name in names)
    early = [i for i, (tree, _) in enumerate(trees(abs(key))) if mentions(tree, package) and i < last]
    assert early == []


def uses():
    """Yields every function that is written out, with each later cell that uses it.

    Left out are cells that build on one of those: they fail with it. `make test` has the first of each.
    """
    for notebook in LONG_WAY:
        cells = trees(notebook)
        for name, at in written_in(notebook).items():
            failing = set()
            for index, (tree, of_cell) in enumerate(cells):
                if index < at or "exercise" in of_cell or only_shown(tree, name):
                    continue
                if not failing & {*needed(cells, index, SKIPPED)}:
                    marks = pytest.mark.evidence if failing else ()
                    name_of_case = f"{notebook:02}-{name}-{index}"
                    yield pytest.param(notebook, name, at, index, id=name_of_case, marks=marks)
                failing.add(tree)


def only_shown(tree, name):
    """Whether a cell does not run a function: it defines it, uses it in another, or hands it to `wrote`."""
    outside = [node for part in tree.body if not isinstance(part, ast.FunctionDef) for node in ast.walk(part)]
    loads = {node for node in outside if getattr(node, "id", "") == name and isinstance(node.ctx, ast.Load)}
    return loads <= {arg for call in calls(outside, "wrote") for arg in call.args}


def calls(nodes, name):
    """Returns the calls of a function among nodes of a tree."""
    return [node for node in nodes if isinstance(node, ast.Call) and getattr(node.func, "id", "") == name]


@pytest.mark.parametrize(("notebook", "name", "at", "index"), [*uses()])
def test_a_cell_that_uses_a_phase_needs_its_lines(notebook, name, at, index):
    """With a stub for the function, the cell fails, or one before it that it builds on."""
    cells = [*trees(notebook)]
    cells[at] = (stubbed(cells[at][0], name), cells[at][1])
    with pytest.raises((AssertionError, AttributeError, IndexError, RuntimeError, TypeError, ValueError)):
        run([*needed(cells, index, SKIPPED), cells[index][0]], left_blank(cells))


def stubbed(tree, name):
    """Returns a cell in which a function does nothing."""
    tree = copy.deepcopy(tree)
    for function in functions(tree):
        if function.name == name:
            function.body = [ast.Return(None)]
    return ast.fix_missing_locations(tree)
