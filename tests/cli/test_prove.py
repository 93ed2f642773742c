"""`minispec prove`: one document with cases, branches, coverage and samples; a failure is an exit status."""

import pytest
from native_models import needs_compiler

import minispec.cli.prove as module
from minispec.evidence.proof import sampling
from minispec.evidence.proof.prove import Proof, ProvedCase, few_cases
from minispec.evidence.proof.sampling import check_calibration, tiny_experiments
from minispec.evidence.theory.acceptance import Coupling


@pytest.fixture(autouse=True)
def few(monkeypatch):
    """Only two cases, a small experiment, 40 seeds: the whole proof has its own tests."""
    monkeypatch.setattr(sampling, "tiny_experiments", lambda _: tiny_experiments(1_000)[:1])
    monkeypatch.setattr(
        sampling,
        "check_calibration",
        lambda test, seeds, alarm: check_calibration(test, seeds[:40], alarm),
    )
    cases = [case for case in few_cases() if case.name.endswith("K 1")]
    monkeypatch.setattr(module, "few_cases", lambda: iter(cases))


def test_prove_prints_what_it_has_shown(document):
    """Cases, branches, errors, coverage by name, sampled tests with their error rates, what was left out."""
    report, _ = document("prove --backend torch", status=1)  # two cases do not bring everything up
    assert not report["passed"] and report["instances"] == len(report["cases"]) == 2
    assert "the native backend: --backend torch" in report["left_out"]
    assert report["coverage"]["K = 1: accepted 1"] and not report["coverage"]["K = 4: accepted 4"]
    assert report["branches"] == sum(case["branches"] for case in report["cases"]) > 0
    assert 0 <= report["largest_error"] <= 1e-10
    for test in report["sampled"]:
        assert test["passed"] and test["samples"] > 0 and test["false_alarm"] <= 1e-6 and test["detects"] < 1


@needs_compiler
def test_prove_takes_the_native_backend_too(document, monkeypatch):
    """Each case twice, the second time with the library, and exactly; with `--backend native` only so."""
    monkeypatch.setattr(module, "sampled_tests", lambda *_: [])
    both, native = (
        [case["name"] for case in document(f"prove --backend {name}", status=1)[0]["cases"]]
        for name in ("auto", "native")
    )
    assert both[1::2] == [f"{name}, native" for name in both[::2]] == native


def test_prove_takes_the_cases_of_one_drafter(document, monkeypatch):
    """All of its cases, no other, no samples; it passes, and only what concerns it must come up."""
    monkeypatch.setattr(module, "few_cases", few_cases)
    report, _ = document("prove --drafter ngram")
    assert report["passed"] and report["sampled"] == []
    assert {"ngram" in case["name"] for case in report["cases"]} == {True}
    wanted = {case.name for case in few_cases() if case.drafts_with == "ngram"}
    assert wanted <= {case["name"] for case in report["cases"]} and len(wanted) >= 6
    assert all(mark.startswith("ngram: ") for mark in report["coverage"])
    assert {f"ngram: drafted {n}" for n in range(4)} <= set(report["coverage"])


def test_the_full_proof_compares_rejection_and_coupling(document, monkeypatch):
    """On the trained pair, where the drafter model is among those that are proved."""
    monkeypatch.setattr(module, "all_cases", module.few_cases)
    monkeypatch.setattr(module, "sampled_tests", lambda *_: [])
    monkeypatch.setattr(module, "compare_acceptance", lambda *_, **__: Coupling(7, 0.5, 0.5, 0.5))
    report, _ = document("prove --full --backend torch", status=1)
    assert report["coupling"]["positions"] == 7


def test_a_proof_of_nothing_is_status_2_and_a_line(refused):
    """Both cases that there are here are the model's."""
    message = refused("prove --drafter ngram --backend torch")
    assert "nothing was enumerated" in message and "2 cases of the drafter model" in message


def test_a_case_without_a_branch_proves_nothing():
    assert not ProvedCase("empty", 0, 0.0, 0.0).passed and not Proof((), {}, ()).passed
    assert ProvedCase("one", 1, 0.0, 0.0).passed and Proof((ProvedCase("one", 1, 0.0, 0.0),), {}, ()).passed
