"""The notebooks show what they claim: plant a bug in the package, and the cell that claims otherwise fails.

A cell is run in this process, after those cells before it that it needs. Also here: the table of all claims
is current, and each of its rows is shown in some cell.
"""

import ast
from functools import lru_cache

import pytest
from claims_rows import BUGS, CASES, MISCONCEPTIONS, TABLES
from claims_table import TABLE, cells_of, table
from notebook_rules import code_cells, is_solution, read_text, tags, texts

from minispec.classroom.questions import question_named
from minispec.evidence.mutants import MUTANTS
from minispec.evidence.mutation import planted

NOTEBOOKS = {int(text.name[:2]): text for text in texts() if not is_solution(text)}
BY_NAME = {mutant.name: mutant for mutant in (*MUTANTS, *BUGS)}


def name_of(case):
    return f"{case.notebook:02}-{case.tag}-{case.mutant}"


@pytest.mark.parametrize("case", CASES, ids=name_of)
def test_a_planted_bug_makes_the_tagged_cell_fail(case):
    """Without the bug the cell runs. With it, it is this cell that raises, and none before it."""
    before, cell = needed(case)
    run([*before, cell], {})
    names = {}
    with planted(BY_NAME[case.mutant]):
        run(before, names)
        with pytest.raises((AssertionError, IndexError, RuntimeError, ValueError)):
            run([cell], names)


def run(trees, names):
    for tree in trees:
        exec(compile(tree, "<cell>", "exec"), names)


def needed(case):
    """Returns the trees of a case's cell, and of those before it that define what it uses, step by step."""
    cells = read(case.notebook)
    tagged = [place for place, (_, of_cell) in enumerate(cells) if case.tag in of_cell]
    place = tagged[case.nth]
    chosen, wanted = [], used(cells[place][0])
    for tree, of_cell in reversed(cells[:place]):
        if wanted & made(tree) and "exercise" not in of_cell:
            wanted |= used(tree)
            chosen.insert(0, tree)
    return chosen, cells[place][0]


@lru_cache
def read(notebook):
    return [(ast.parse(c.source), tags(c)) for _, c in code_cells(read_text(NOTEBOOKS[notebook]))]


def used(tree):
    """Returns all names that a cell reads."""
    return {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}


def made(tree):
    """Returns all names that a cell binds: by assignment, import or definition."""
    names = {n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            names |= {(alias.asname or alias.name).partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.add(node.name)
    return names


def test_at_least_fifteen_claims_are_tried_by_bugs():
    """The cases cover fifteen different rows or more, and every notebook."""
    assert len({case.tag for case in CASES}) >= 15
    assert {case.notebook for case in CASES} == set(NOTEBOOKS)


def test_every_row_is_shown_or_not_yet():
    """Each claim, each misleading sentence and each misconception has cells, or says what is missing."""
    rows = [row for part in TABLES.values() for row in part]
    assert [row.tag for row in rows if not cells_of(row) and not row.not_yet] == []
    assert len({row.tag for row in rows}) == len(rows)


def test_every_tag_is_a_row():
    """No cell is tagged with a row that does not exist."""
    known = {row.tag for part in TABLES.values() for row in part}
    kinds = ("claim-", "misleads-", "misconception-")
    found = {tag for number in NOTEBOOKS for _, of_cell in read(number) for tag in of_cell}
    assert {tag for tag in found if tag.startswith(kinds)} <= known


def test_misconceptions_are_asked():
    """Each is a wrong choice, or a wrong number, of a question that exists."""
    for row in MISCONCEPTIONS:
        for key in row.questions:
            question = question_named(key)
            assert question.slips or any(choice.belief for choice in question.choices.values())


def test_the_table_is_current():
    """docs/claims.md is what the script writes: `python notebooks/claims_table.py`."""
    assert TABLE.read_text(encoding="utf-8") == table()
