"""`minispec check`, and minispec as a tool of other projects: what it imports, and that it is typed."""

import json
import subprocess
import sys
from importlib.resources import files

import pytest

from minispec.cli.main import run

RULES = """
from dataclasses import replace
from minispec import verify_rejection as right

def wrong(draft, target_probs, rng):
    return replace(right(draft, target_probs, rng), token=target_probs[:, 0].argmax(-1))

number = 3
"""


@pytest.fixture
def rules(tmp_path, monkeypatch):
    """A folder with rules in it."""
    (tmp_path / "their_rules.py").write_text(RULES, encoding="utf-8")
    (tmp_path / "broken_rules.py").write_text("1 / 0", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    sys.modules.pop("their_rules", None)


@pytest.mark.parametrize("place", ["their_rules", "minispec.core.verify"])
def test_a_right_rule_passes(rules, capsys, place):
    name = "verify_rejection" if place.startswith("minispec") else "right"
    assert run(["check", f"{place}:{name}"]) == 0
    assert capsys.readouterr().out.startswith("passed: on 3")


def test_a_wrong_rule_fails(rules, capsys):
    """Exit status 1, in words and as a document; the smallest instance drafts nothing."""
    assert run(["check", f"{rules / 'their_rules.py'}:wrong"]) == 1
    assert capsys.readouterr().out.startswith("failed: ")
    assert run(["check", "their_rules.py:wrong", "--json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert (found["passed"], found["method"], found["rule"]) == (False, "exact", "their_rules.py:wrong")
    assert found["damage"]["low"] == found["damage"]["high"] == 0.5
    assert found["counterexample"] == {"k": 0, "lengths": [0], "p": [[[0.5, 0.5]]], "q": []}


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("their_rules", "must be MODULE:RULE"),
        ("their_rules:", "must be MODULE:RULE"),
        ("their_rules:nothing", "no function nothing in their_rules"),
        ("their_rules:number", "no function number in their_rules"),
        ("their_rulez:wrong", "No module named 'their_rulez'"),
        ("nowhere/rules.py:wrong", "cannot be imported: FileNotFoundError"),
        ("broken_rules:wrong", "cannot be imported: ZeroDivisionError"),
    ],
)
def test_a_rule_that_is_not_there_is_one_line(rules, capsys, name, words):
    before = list(sys.path)
    assert run(["check", name]) == 2 and sys.path == before
    out, err = capsys.readouterr()
    assert out == "" and words in err and err.count("\n") == 1


def test_the_checks_import_no_figures_and_no_pair():
    """Other projects import them in their tests."""
    script = (
        "import sys, minispec; minispec.check_verifier, minispec.check_engine; "
        "print(*(name for name in sys.modules if name.split('.')[0] in "
        "('matplotlib', 'IPython', 'jupyterlab', 'rich', 'typer', 'transformers', 'scipy') "
        "or name.startswith(('minispec.show', 'minispec.train', 'minispec.classroom', 'minispec.cli'))))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


def test_the_package_is_typed():
    assert files("minispec").joinpath("py.typed").is_file()
