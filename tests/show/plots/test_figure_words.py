"""The words of the figures: words.toml has those that figures ask for, and no others."""

import re
from pathlib import Path

import pytest

from minispec.show import plots
from minispec.show.plots.board import PARTS, WORDS, worded
from minispec.show.plots.style import sheet

SOURCES = [path.read_text(encoding="utf-8") for path in sorted(Path(plots.__file__).parent.glob("*.py"))]


def faults(words, sources):
    """Returns figures without words, words without a figure, and tables that lack or add something."""
    asked = {name for source in sources for name in re.findall(r'worded\(\s*"([\w-]+)"', source)}
    found = [f"no words: {name}" for name in asked - words.keys()]
    found += [f"no figure: {name}" for name in words.keys() - asked]
    for name, table in words.items():
        cases = {key: case for key, case in table.items() if isinstance(case, dict)}
        found += [f"{name}: not {part}" for part in PARTS if part not in table]
        found += [f"{name}: what is {key}?" for key in table.keys() - cases.keys() - {*PARTS}]
        found += [f"{name}: no figure names {case}" for case in cases if not asked_for(case, sources)]
        found += [
            f"{name}.{case}: empty, or more" for case, of in cases.items() if not of or {*of} - {*PARTS}
        ]
    return sorted(found)


def asked_for(case, sources):
    """Whether some figure has a case of this name."""
    return any(f'"{case}"' in source for source in sources)


def test_every_figure_has_its_words():
    assert faults(WORDS, SOURCES) == []


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"draft": {"title": "a", "alt": "b"}}, "draft: not caption"),
        ({"draft": WORDS["draft"] | {"captoin": "c"}}, "draft: what is captoin?"),
        ({"draft": WORDS["draft"] | {"sure": {"title": "d"}}}, "draft: no figure names sure"),
        ({"draft": WORDS["draft"] | {"certain": {"tilte": "d"}}}, "draft.certain: empty, or more"),
        ({"magic": WORDS["draft"]}, "no figure: magic"),
    ],
)
def test_planted_faults_are_found(changed, says):
    assert says in faults(WORDS | changed, SOURCES)
    assert "no words: draft" in faults({k: v for k, v in WORDS.items() if k != "draft"}, SOURCES)


def test_what_the_words_leave_open_must_be_given():
    """A figure that forgets a value fails; it does not show the name of it."""
    with pytest.raises(KeyError, match="gain"):
        worded("timeline", sheet(), "", count=3, fast=1.0, slow=3.0, passes="1 pass", calls=1)
