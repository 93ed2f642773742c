"""The notebooks show what they claim: plant a bug in the package, and the cell that claims otherwise fails.

A cell is run in this process, after those cells before it that it needs. Also here: each row of the table of
all claims is shown in some cell.
"""

import pytest
from cell_trees import NOTEBOOKS, left_blank, needed, run, trees
from claims_rows import BUGS, CASES, NOT_YET, QUESTIONS, TABLES
from claims_table import cells_of, claim_rows

from minispec.classroom.questions import predict
from minispec.evidence.zoo.mutants import MUTANTS
from minispec.evidence.zoo.mutation import planted

BY_NAME = {mutant.name: mutant for mutant in (*MUTANTS, *BUGS)}


each = pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.notebook:02}-{case.tag}-{case.mutant}")


def tagged_cell(case):
    """Returns the cells that the tagged one needs, that cell, and the names that they begin with."""
    cells = trees(case.notebook)
    tagged = [index for index, (_, of_cell) in enumerate(cells) if case.tag in of_cell]
    return needed(cells, tagged[case.nth]), cells[tagged[case.nth]][0], left_blank(cells)


@each
def test_a_planted_bug_makes_the_tagged_cell_fail(case):
    """It is this cell that raises, and none before it."""
    before, cell, names = tagged_cell(case)
    with planted(BY_NAME[case.mutant]):
        run(before, names)
        with pytest.raises((AssertionError, IndexError, RuntimeError, ValueError)):
            run([cell], names)


@pytest.mark.evidence
@each
def test_without_the_bug_the_tagged_cell_runs(case):
    """After those that it needs; in the whole notebook `test_cells.py` runs it on every change."""
    before, cell, names = tagged_cell(case)
    run([*before, cell], names)


def test_at_least_fifteen_claims_are_tried_by_bugs():
    """The cases cover fifteen different sentences or more, and every notebook."""
    assert len({case.tag for case in CASES}) >= 15
    assert {case.notebook for case in CASES} == set(NOTEBOOKS)


def test_every_sentence_is_shown_and_every_tag_is_a_sentence():
    """Each sentence has a tag of its own and cells, or says what is missing. No cell has an unknown tag."""
    known = [tag for sentences in TABLES.values() for tag in sentences]
    assert len(set(known)) == len(known)
    assert {*NOT_YET, *QUESTIONS, *(case.tag for case in CASES)} <= set(known)
    assert [tag for tag in known if not cells_of(tag) and tag not in NOT_YET] == []
    used_tags = {tag for number in NOTEBOOKS for _, of_cell in trees(number) for tag in of_cell}
    assert {tag for tag in used_tags if tag.startswith(("claim-", "misleads-", "misconception-"))} <= set(
        known
    )


def test_misconceptions_are_asked():
    """Each is a wrong choice, or a wrong number, of a question that exists."""
    for tag in TABLES["Misconceptions"]:
        for key in QUESTIONS[tag]:
            question = predict(key).question
            assert question.slips or any(choice.belief for choice in question.choices.values())


def test_a_line_of_the_table_says_where_a_sentence_is_shown_and_tried():
    """The section of a cell, the question, the planted bug; and each sentence has its line."""
    lines = {row[0]: row for title in TABLES for row in claim_rows(title)[1:]}
    assert list(lines) == [f"`{tag}`" for sentences in TABLES.values() for tag in sentences]
    same_seed = lines["`misconception-same-seed`"]
    place = "[9: The same distribution](../notebooks/09_prove_it.ipynb)"
    assert same_seed[2:] == [place, "`same-seed`", "`noise-starts-anew-each-round`"]
    assert lines["`claim-A2`"][4] == "asserted" and lines["`misconception-bad-draft`"][4] == "shown"
