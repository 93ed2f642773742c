"""`minispec zoo`: the kill matrix as one document or as a table; a survivor is an exit status."""

from dataclasses import replace

import pytest

import minispec.cli.zoo as module
from minispec.evidence.zoo.checks import CHECKS
from minispec.evidence.zoo.mutants import mutant_named
from minispec.evidence.zoo.run import size_ordered_cases, zoo

FEW = [
    mutant_named(name) for name in ("correction-from-p", "token-missing-in-the-drafts-cache", "seed-reset")
]
SOME = [
    check
    for check in CHECKS
    if check.name in ("distribution", "acceptance", "randomness", "vllm-like-greedy")
]


@pytest.fixture(scope="module")
def report():
    """Three mutants and four checks on eight cases, once: the whole zoo has its own tests."""
    return zoo(FEW, size_ordered_cases()[:8], SOME)


@pytest.fixture
def planted(monkeypatch, report):
    """Makes a report, by default that of three mutants, what the command comes to."""

    def use(matrix=report):
        monkeypatch.setattr(module, "zoo", lambda mutants, seed, tell: matrix)

    use()
    return use


def test_zoo_prints_one_document(document, planted):
    """Mutants with damage, instance, diff and cells; survivors; what was said against the shipped code."""
    matrix, _ = document("zoo")
    assert matrix["passed"] and matrix["survivors"] == [] and matrix["unmutated"]["killed_by"] == []
    for mutant, given in zip(matrix["mutants"], FEW, strict=True):
        assert mutant["name"] == given.name and mutant["killed_by"] and mutant["instance"]
        assert mutant["diff"].startswith("---") and mutant["harm"]
        assert set(mutant["cells"]) == {check.name for check in SOME}
    missed = {check["name"]: check["misses"] for check in matrix["checks"]}
    assert missed["vllm-like-greedy"] == [mutant.name for mutant in FEW]


def test_a_survivor_is_exit_status_1(command, document, planted):
    """People and machines are told which one."""
    planted(zoo([replace(FEW[0], name="harmless", new=FEW[0].old)], size_ordered_cases()[:1], SOME))
    assert document("zoo", status=1)[0]["survivors"] == ["harmless"]
    assert "survivors: harmless" in command("zoo", status=1)[0]


def test_a_zoo_without_a_bug_is_status_2_and_a_line(refused, planted):
    planted(zoo([], size_ordered_cases()[:1], SOME[:1]))
    assert "nothing was planted" in refused("zoo --json")


def test_one_mutant_is_shown_as_a_diff(command, document):
    """What it changes, of Python or of C++, for people and as JSON; nothing is built."""
    out, _ = command("zoo ratio-inverted")
    assert "ratio-inverted: accept with probability q/p" in out and "\n-" in out and "\n+" in out
    assert "+" in document("zoo ratio-inverted")[0]["diff"]
    assert "--- minispec/native/cpp/decisions.h" in command("zoo native-residual-reversed")[0]
