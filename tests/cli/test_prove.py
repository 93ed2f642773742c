"""`minispec prove`: one document with cases, branches, coverage and samples; a failure is an exit status."""

import json

import pytest
from native_models import needs_compiler

import minispec.cli.prove as command
from minispec.cli.main import run
from minispec.evidence.proof import sampling
from minispec.evidence.proof.prove import Proof, Proved, few_cases
from minispec.evidence.proof.sampling import check_calibration, tiny_experiments


@pytest.fixture(autouse=True)
def few(monkeypatch):
    """Only two cases, a small experiment, 40 seeds: the whole proof has its own tests."""
    monkeypatch.setattr(sampling, "tiny_experiments", lambda _: tiny_experiments(1_000)[:1])
    monkeypatch.setattr(
        sampling, "check_calibration", lambda one, seeds, alarm: check_calibration(one, seeds[:40], alarm)
    )
    monkeypatch.setattr(
        command, "few_cases", lambda: iter([c for c in few_cases() if c.name.endswith("K 1")])
    )


def test_prove_prints_what_it_has_shown(capsys):
    """Cases, branches, errors, coverage by name, sampled tests with their error rates, what was left out."""
    status = run(["prove", "--json", "--backend", "torch"])
    document = json.loads(capsys.readouterr().out)
    assert status == 1 and not document["passed"]  # two cases do not bring everything up
    assert document["instances"] == len(document["cases"]) == 2
    assert "the native backend: --backend torch" in document["left_out"]
    assert document["coverage"]["K = 1: accepted 1"] and not document["coverage"]["K = 4: accepted 4"]
    assert document["branches"] == sum(case["branches"] for case in document["cases"]) > 0
    assert 0 <= document["largest_error"] <= 1e-10
    for test in document["sampled"]:
        assert test["passed"] and test["samples"] > 0 and test["false_alarm"] <= 1e-6 and test["detects"] < 1


@needs_compiler
def test_prove_takes_the_native_backend_too(capsys):
    """Each case twice, the second time with the library; with `--backend torch` once."""
    run(["prove", "--json"])
    names = [case["name"] for case in json.loads(capsys.readouterr().out)["cases"]]
    alone = names[::2]
    assert names[1::2] == [f"{name}, native" for name in alone]
    run(["prove", "--json", "--backend", "torch"])
    assert [case["name"] for case in json.loads(capsys.readouterr().out)["cases"]] == alone


def test_prove_says_what_never_came_up(capsys):
    """People read it in a line, and how much was done in another."""
    run(["prove", "--backend", "torch"])
    out = capsys.readouterr().out
    assert "never came up" in out and "FAILED: 2 cases with" in out


def test_a_proof_of_nothing_is_status_2_and_a_line(capsys):
    """Both cases that there are here are the model's."""
    assert run(["prove", "--drafter", "ngram", "--backend", "torch"]) == 2
    out, err = capsys.readouterr()
    assert "passed" not in out and err.count("\n") == 1
    assert "nothing was enumerated" in err and "2 cases of the drafter model" in err


def test_a_case_without_a_branch_proves_nothing():
    assert not Proved("empty", 0, 0.0, 0.0).passed and not Proof((), {}, ()).passed
    assert Proved("one", 1, 0.0, 0.0).passed and Proof((Proved("one", 1, 0.0, 0.0),), {}, ()).passed
