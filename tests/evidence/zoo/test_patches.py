"""Mutants are read from text as it is written, and a slip of its author is told in a line."""

import pytest

from minispec.evidence.zoo.mutants import families_in
from minispec.evidence.zoo.mutation import Mutant

TEXT = """# about
#   the format

== FIRST

plain
title: does: something
@@ minispec.core.loop:speculate
- if a:
-     b = "- c"
+ pass

# in between
full
title: does more
@@ minispec/native/cpp/decisions.h:reject
- # old
+ == new
+
+   last
seen: somewhere: twice
breaks: a promise
crosses rows

== SECOND

slow
title: loses time
@@ minispec.core.loop:speculate
- a
+ b
slower
"""


def test_mutants_are_read_as_they_are_written():
    """Lines keep their indentation; what is not written is as for any other mutant."""
    plain = Mutant("plain", "does: something", "minispec.core.loop:speculate", 'if a:\n    b = "- c"', "pass")
    place, new = "minispec/native/cpp/decisions.h:reject", "== new\n\n  last"
    full = Mutant(
        "full", "does more", place, "# old", new, "somewhere: twice", "breaks", "a promise", crosses_rows=True
    )
    slow = Mutant("slow", "loses time", plain.function, "a", "b", effect="slower")
    assert families_in(TEXT) == {"FIRST": (plain, full), "SECOND": (slow,)}
    assert list(families_in(TEXT)) == ["FIRST", "SECOND"]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("seen:", "sen:", "'full' has an unknown line 'sen: somewhere: twice'"),
        ("slower\n", "slow\n", "'slow' has an unknown line 'slow'"),
        ("title: loses time\n", "", "'slow' lacks a line with title:"),
        ("@@ minispec.core.loop:speculate\n- a\n", "- a\n", "'slow' lacks a line with @@"),
        ("- a\n+ b\n", "", "'slow' lacks a line with - and with [+]"),
    ],
)
def test_what_is_missing_or_unknown_is_told_in_a_line(old, new, message):
    """Each names the mutant."""
    assert TEXT.count(old) == 1
    with pytest.raises(ValueError, match=message) as error:
        families_in(TEXT.replace(old, new))
    assert "\n" not in str(error.value)
