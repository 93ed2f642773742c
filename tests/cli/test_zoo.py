"""`minispec zoo`: the kill matrix as one document or as a table; a survivor is an exit status."""

import json
from dataclasses import replace

import pytest

import minispec.cli.zoo as command
from minispec.cli.main import run
from minispec.evidence.zoo.cases import size_ordered_cases
from minispec.evidence.zoo.checks import CHECKS
from minispec.evidence.zoo.mutants import mutant_named
from minispec.evidence.zoo.run import zoo

FEW = [
    mutant_named(name) for name in ("correction-from-p", "token-missing-in-the-drafts-cache", "seed-reset")
]
SOME = [check for check in CHECKS if check.name in ("law", "acceptance", "chance", "vllm-like-greedy")]


@pytest.fixture(scope="module")
def report():
    """Three mutants and four checks on eight cases, once: the whole zoo has its own tests."""
    return zoo(FEW, size_ordered_cases()[:8], SOME)


@pytest.fixture
def small(monkeypatch, report):
    monkeypatch.setattr(command, "zoo", lambda mutants, seed, tell: report)


def test_zoo_prints_one_document(capsys, small):
    """Mutants with damage, instance, diff and cells; survivors; what was said against the shipped code."""
    status = run(["zoo", "--json"])
    document = json.loads(capsys.readouterr().out)
    assert status == 0 and document["passed"]
    assert document["survivors"] == [] and document["unmutated"]["killed_by"] == []
    for mutant, given in zip(document["mutants"], FEW, strict=True):
        assert mutant["name"] == given.name and mutant["killed_by"] and mutant["instance"]
        assert mutant["diff"].startswith("---") and mutant["harm"]
        assert set(mutant["cells"]) == {check.name for check in SOME}
    missed = {check["name"]: check["misses"] for check in document["checks"]}
    assert missed["vllm-like-greedy"] == [mutant.name for mutant in FEW]


def test_zoo_prints_a_table(capsys, small, monkeypatch):
    """A row per mutant, a letter per check, and a line that says what it comes to; it fits 80 columns."""
    monkeypatch.setenv("COLUMNS", "80")
    assert run(["zoo"]) == 0
    out = capsys.readouterr().out
    assert all(mutant.name in out for mutant in FEW)
    assert "survivors: none" in out and "vllm-like-greedy misses 3" in out
    assert "those of the target alone. (our reimplementation)" in out


def test_a_survivor_is_exit_status_1(capsys, monkeypatch):
    """People and machines are told which one."""
    harmless = replace(FEW[0], name="harmless", new=FEW[0].old)
    report = zoo([harmless], size_ordered_cases()[:1], SOME)
    monkeypatch.setattr(command, "zoo", lambda mutants, seed, tell: report)
    assert run(["zoo", "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["survivors"] == ["harmless"]
    assert run(["zoo"]) == 1
    assert "survivors: harmless" in capsys.readouterr().out


def test_what_is_left_out_is_a_line(capsys, monkeypatch, report):
    """Where there is no library, the table says so, and the document too."""
    less = replace(report, left_out="the native backend needs a C++ compiler and found none")
    monkeypatch.setattr(command, "zoo", lambda mutants, seed, tell: less)
    assert run(["zoo"]) == 0
    assert "without the bugs of the C++: the native backend needs a C++ compiler" in capsys.readouterr().out
    assert run(["zoo", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["left_out"] == less.left_out


def test_a_zoo_without_a_bug_is_status_2_and_a_line(capsys, monkeypatch):
    empty = zoo([], size_ordered_cases()[:1], SOME[:1])
    monkeypatch.setattr(command, "zoo", lambda mutants, seed, tell: empty)
    assert run(["zoo", "--json"]) == 2
    out, err = capsys.readouterr()
    assert out == "" and "nothing was planted" in err and err.count("\n") == 1


def test_a_bug_of_the_cpp_is_shown_as_a_diff(capsys):
    """Of the file that it is planted in; nothing is built."""
    assert run(["zoo", "native-residual-reversed"]) == 0
    assert "--- minispec/native/cpp/decisions.h" in capsys.readouterr().out


def test_one_mutant_is_shown_as_a_diff(capsys):
    """What it changes and where it was seen, for people and as JSON."""
    assert run(["zoo", "ratio-inverted"]) == 0
    out = capsys.readouterr().out
    assert "ratio-inverted: accept with probability q/p" in out and "\n-" in out and "\n+" in out
    assert run(["zoo", "ratio-inverted", "--json"]) == 0
    assert "+" in json.loads(capsys.readouterr().out)["diff"]


def test_an_unknown_mutant_is_one_line(capsys):
    """The message names the nearest."""
    assert run(["zoo", "inverted-ratio"]) == 2
    out, err = capsys.readouterr()
    assert out == "" and err.count("\n") == 1 and "'inverted-ratio'" in err and "ratio-inverted" in err
