"""`minispec check`, and minispec as a tool of other projects: what it imports, and that it is typed."""

import subprocess
import sys

import pytest

from minispec.cli.check import check_named

RULES = """
import os, sys
from dataclasses import replace
from pathlib import Path
from minispec import verify_greedy as greedy, verify_rejection as right
from minispec.verifiers.tree import verify_tree as tree

with Path(__file__).with_name("imports").open("a") as file:
    file.write("once,")

def wrong(draft, target_probs, rng):
    return replace(right(draft, target_probs, rng), token=target_probs[:, 0].argmax(-1))

def prints(draft, target_probs, rng):
    if draft.k == 4:
        print("from Python")
        os.write(1, b"from below\\n")
    return right(draft, target_probs, rng)

def leaves(draft, target_probs, rng):
    os._exit(0)

def hangs(draft, target_probs, rng):
    while True:
        pass

def clears(draft, target_probs, rng):
    raise ValueError("\x1b[2J")

def refuses(draft, target_probs, rng):
    raise NotImplementedError("not for me")

number = 3
"""


@pytest.fixture
def rules(tmp_path, monkeypatch):
    """A folder with rules in it."""
    (tmp_path / "their_rules.py").write_text(RULES, encoding="utf-8")
    (tmp_path / "broken_rules.py").write_text("1 / 0", encoding="utf-8")
    (tmp_path / "exiting_rules.py").write_text("import sys; sys.exit(0)", encoding="utf-8")
    (tmp_path / "forking_rules.py").write_text("import os; os.fork()", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield tmp_path
    for name in ("their_rules", "broken_rules", "exiting_rules", "forking_rules"):
        sys.modules.pop(name, None)


def requests(rule, **settings):
    """What the command's process answers, in this one."""
    plain = {"trees": False, "candidates": [], "greedy": False, "samples": 1000}
    return check_named(rule, **plain | settings)["document"]


@pytest.fixture
def here(monkeypatch):
    """The command checks in this process."""
    monkeypatch.setattr("minispec.cli.check.run_apart", lambda request, limit: (check_named(**request), 0))


def test_a_right_rule_passes_whatever_it_prints(rules, document):
    """Standard output is one document; the module is imported once."""
    report, err = document("check their_rules:prints")
    assert report["passed"] and report["instances"] > 300 and report["left_out"] == []
    assert "from Python" in err and "from below" in err and report["printed"] > 20
    assert (rules / "imports").read_text() == "once,"


def test_a_wrong_rule_fails(rules, document, here):
    """Exit status 1; the smallest instance drafts nothing."""
    report, _ = document("check", f"{rules / 'their_rules.py'}:wrong", status=1)
    assert (report["passed"], report["method"]) == (False, "exact")
    assert report["damage"]["low"] == report["damage"]["high"] == 0.5
    assert report["counterexample"] == {"k": 0, "lengths": [0], "p": [[[0.5, 0.5]]], "q": []}


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("leaves", "its process ended before the check was done, with exit status 0"),
        ("hangs --limit 0.5", "had not ended after 0.5 seconds; --limit"),
    ],
)
def test_a_process_without_an_answer_is_status_2_and_a_line(rules, refused, line, words):
    assert words in refused(f"check their_rules:{line}")


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("refuses", "nothing was checked, which is no pass: 305 left out: the rule refuses"),
        ("right --limit nan", "--limit must be seconds above 0"),
        ("right --candidates 'most probable'", "give --trees too"),
        ("right --trees --candidates luck", "--candidates 'luck' is unknown"),
    ],
)
def test_what_is_not_checked_is_status_2_and_a_line(rules, refused, here, line, words):
    assert words in refused(f"check their_rules:{line}")


def test_a_message_of_a_rule_does_not_control_the_terminal(rules, command, here):
    out, err = command("check their_rules.py:clears", status=1)
    assert out.startswith("failed: ") and "ValueError: \\x1b[2J" in out and "\x1b" not in out + err


def test_rules_for_trees_and_for_temperature_0(rules):
    """A rule's own `greedy` counts; trees are tried where they are asked for."""
    report = requests("their_rules:tree", trees=True, candidates=["most probable"])
    assert report["passed"] and report["instances"] == 35
    report = requests("their_rules:right", trees=True)
    assert not report["passed"] and report["counterexample"]["parents"] == (0, 0)
    report = requests("minispec.verifiers.tree:verify_k_sequential", trees=True)
    assert report["passed"] and report["instances"] == 35
    left_out = {row["why"].rpartition(": ")[2]: row["instances"] for row in report["left_out"]}
    assert left_out == {"without replacement": 35, "most probable": 35, "greedy drafting": 35}
    assert requests("their_rules:greedy")["passed"] and requests("their_rules:right", greedy=True)["passed"]


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
        ("exiting_rules:wrong", "cannot be imported: it called sys.exit(0)"),
        ("forking_rules:wrong", "the copy of the process came back"),
    ],
)
def test_a_rule_that_is_not_there_is_one_line(rules, name, words):
    with pytest.raises(ValueError, match=".") as caught:
        requests(name)
    assert words in str(caught.value) and "\n" not in str(caught.value)


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
