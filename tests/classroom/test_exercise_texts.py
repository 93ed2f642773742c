"""What exercises say: read from a TOML file, which has neither more nor less than the code."""

import runpy

import pytest

from minispec.classroom import exercise as texts
from minispec.classroom import exercises
from minispec.classroom.exercise import TEXTS, exercise, read_texts
from minispec.classroom.exercises import CODE, EXERCISES, counting
from minispec.classroom.exercises.sampling import BUGS_WANTED
from minispec.classroom.rules import BUGS

ONE = """
[say-yes]
notebook = 3
difficulty = 2
minutes = 4
title = \"\"\"Say
  yes\"\"\"
stub = '''
def say_yes():
    \"\"\"Returns yes.

    Always.
    \"\"\"
    ...
'''
goal = "A yes: whatever happens."
picture = '''
  yes  yes
= yes
'''
hints = ["First.", "Second, on\\n two lines."]
praise = "Yes."
[say-yes.wrong]
no = "That is no."
not-always = "Not always."
"""


def test_an_exercise_is_read_as_it_is_written():
    """Lines of prose are joined; a stub and a picture keep theirs, and their indentation."""
    (text,) = read_texts(ONE).values()
    assert (text["key"], text["notebook"], text["title"]) == ("say-yes", 3, "Say yes")
    assert text["stub"] == 'def say_yes():\n    """Returns yes.\n\n    Always.\n    """\n    ...\n'
    assert text["picture"] == "  yes  yes\n= yes\n"
    assert text["hints"] == ("First.", "Second, on two lines.")
    assert text["wrong"] == {"no": "That is no.", "not-always": "Not always."}


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [("minutes = 4", "", "minutes"), ('praise = "Yes."', 'praise = "Yes."\nprise = "Yes."', "prise")],
)
def test_a_missing_or_unknown_part_is_told(monkeypatch, old, new, message):
    """An author's error names the part."""
    monkeypatch.setattr(texts, "TEXTS", read_texts(ONE.replace(old, new)))
    with pytest.raises(TypeError, match=message):
        exercise("say-yes", {"no": None, "not-always": None})


def test_wrong_answers_and_their_messages_have_the_same_names():
    """One without a message, and a message without one, are errors."""
    known = dict.fromkeys(TEXTS["write-a-test"]["wrong"])
    for wrong in (known | {"new": None}, {"always-true": None}):
        with pytest.raises(ValueError, match="lacks wrong answers of 'write-a-test'"):
            exercise("write-a-test", wrong)


def test_a_missing_or_surplus_exercise_stops_the_package(monkeypatch):
    """Either is found when the package is loaded."""
    monkeypatch.setattr(texts, "TEXTS", read_texts(ONE))
    with pytest.raises(KeyError, match="cache-bytes"):
        runpy.run_path(counting.__file__)
    monkeypatch.setattr(texts, "TEXTS", TEXTS | {"no-code": {}})
    with pytest.raises(KeyError, match="no-code"):
        runpy.run_path(exercises.__file__)


def test_the_file_has_them_in_the_order_of_the_notebooks():
    """So has it their wrong answers, and it counts the bugs that a test has to find as the code does."""
    assert list(TEXTS) == [exercise.key for exercise in EXERCISES] and len(CODE) == len(TEXTS)
    assert all(list(exercise.wrong) == list(TEXTS[exercise.key]["wrong"]) for exercise in EXERCISES)
    assert f" {BUGS_WANTED} of the {len(BUGS)} bugs" in TEXTS["write-a-test"]["goal"]
