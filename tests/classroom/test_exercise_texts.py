"""What exercises say: read from a TOML file, which has neither more nor less than the code."""

import pytest

from minispec.classroom import exercise as texts
from minispec.classroom.exercise import TEXTS, exercise, read_texts

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
