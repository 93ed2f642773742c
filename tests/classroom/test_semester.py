"""A semester's exercises: drawn by its tag, so that neither our solutions nor last year's answers fit."""

import ast
import sys

import nbformat
import pytest
import torch

from minispec.classroom.exercises import EXERCISES
from minispec.classroom.exercises.semester import draw_option, semester

SHIPPED = {exercise.key: exercise for exercise in EXERCISES}
ONE, OTHER = semester("2027S"), semester("2027W")
KEYS = [exercise.key for exercise in ONE.exercises]


def test_the_same_tag_asks_for_the_same():
    """Also in another process, and in small letters; four exercises, under the notebooks' names."""
    assert [e.stub for e in semester("2027s").exercises] == [e.stub for e in ONE.exercises]
    assert len(KEYS) == len(set(KEYS)) == 4 and set(KEYS) <= set(SHIPPED)
    assert draw_option("2027S", "residual_of", "total", range(1000)) == 128


@pytest.mark.evidence
def test_two_tags_have_different_right_answers():
    """The answers of one semester are wrong in the next, in at least three exercises of any two years."""
    years = [semester(f"{year}") for year in range(2026, 2036)]
    for before, after in zip([ONE, *years], [OTHER, *years[1:]], strict=False):
        pairs = zip(before.exercises, after.exercises, strict=True)
        assert sum(new.judge(old.right).verdict == "wrong" for old, new in pairs) >= 3


@pytest.mark.parametrize("tag", ["2027S", "exam-3"])
def test_what_we_ship_is_wrong_and_what_is_asked_for_is_right(tag):
    """For each exercise of a tag."""
    for exercise in semester(tag).exercises:
        assert exercise.judge(exercise.right).verdict == "right", exercise.key
        judgement = exercise.judge(SHIPPED[exercise.key].right)
        assert judgement.verdict == "wrong" and judgement.detail, exercise.key
        assert exercise.judge(lambda *_: ...).verdict == "blank"


# By hand, from the stubs that were printed for 2027S.
WRITTEN = {
    "cache-bytes": """
def packed_bytes(config, tokens):
    bits = 0
    for layer in range(1, config.layers + 1):
        kept = min(tokens, 8) if layer % 2 == 0 else tokens
        bits += kept * config.kv_heads * config.head_dim * (2 + 4)
    return bits / 8
""",
    "verify-greedily": """
def verify_row(best, drafted):
    best, kept = best[3:], 0
    for one, other in zip(drafted, best):
        if one != other:
            break
        kept += 1
        if one == 2:
            return kept, -1
    return kept, best[kept]
""",
    "shift-the-mask": """
def window_mask(cached, k):
    rows = [[i - 4 < j <= i for j in range(cached + k + 1)] for i in range(cached, cached + k + 1)]
    return torch.tensor([row[cached:] + row[:cached] for row in rows])
""",
    "residual": """
def surplus(draft, target):
    gap = [max(0, float(a / target.sum() - b / draft.sum())) for a, b in zip(target, draft, strict=True)]
    return [2 * x / sum(gap) for x in gap] if sum(gap) > 0 else gap
""",
}
SAYS = {  # what these were written from
    "cache-bytes": ("key takes 2 bits", "value 4 bits", "multiple of 2", "last 8 tokens"),
    "verify-greedily": ("drafted ids are kept", "best[3] is the target's choice", "Id 2 ends the text"),
    "shift-the-mask": ("may look", "the 3 before it", "the new tokens, then the cached ones"),
    "residual": ("what target has more than draft", "to the sum 2"),
}


@pytest.mark.parametrize("exercise", ONE.exercises, ids=KEYS)
def test_stubs_say_all_that_is_needed(exercise):
    """Who reads the stubs of one tag, and nothing else, can be right."""
    assert all(words in " ".join(exercise.stub.split()) for words in SAYS[exercise.key])
    space = {"torch": torch}
    exec(WRITTEN[exercise.key], space)
    card = ONE.check(exercise.key, space[exercise.function])
    assert card.passed, card.text()


@pytest.mark.evidence
def test_the_notebook_of_a_semester(monkeypatch):
    """It is a notebook, each stub is blank and checked in it."""
    notebook = nbformat.reads(ONE.notebook(), as_version=4)
    nbformat.validate(notebook)
    space, cards = {}, []
    monkeypatch.setattr(sys, "displayhook", cards.append)
    for cell in notebook.cells[1::2]:
        exec(compile(ast.Interactive(ast.parse(cell.source).body), "cell", "single"), space)
    assert [card.kind for card in cards] == ["blank"] * len(KEYS)


@pytest.mark.parametrize("tag", ["", "a b", "x" * 41, "../x", "2027\n", '"'])
def test_what_is_no_tag(tag):
    """One clear line."""
    with pytest.raises(ValueError, match="tag"):
        semester(tag)
