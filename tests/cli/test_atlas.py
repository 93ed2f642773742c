"""`minispec atlas`: one document, or a table; a rule that is not what it says is status 1."""

from dataclasses import replace

import pytest

import minispec.cli.atlas as module
from minispec.evidence.atlas.atlas import entries
from minispec.evidence.atlas.rules import Rule
from minispec.verifiers.lossy import verify_typical

KEYS = {"name", "lossless", "candidates", "total_variation", "accepted", "optimum"}


@pytest.fixture(autouse=True)
def no_chains(monkeypatch):
    """They have their own tests."""
    monkeypatch.setattr(module, "chain_means", lambda seed: [])


def test_atlas_prints_one_document(document):
    """A line per number of candidates, and recorded samplers; a seed gives another family."""
    report, _ = document("atlas --rule greedy-drafting")
    assert report["passed"] and report["seed"] == 0 and 0 < report["seconds"] < 600
    assert {"project", "version", "rule", "lossless", "damage", "instance"} <= report["samplers"][0].keys()
    assert [entry["candidates"] for entry in report["rules"]] == [2, 3, 4]
    for entry in report["rules"]:
        assert entry.keys() >= KEYS and entry["lossless"] and entry["total_variation"] <= 1e-12
        assert entry["accepted"] == pytest.approx(entry["optimum"], abs=1e-12)
    assert report["rules"][0]["recorded"].keys() >= KEYS - {"name", "lossless", "candidates"}
    (other,) = document("atlas --rule token --seed 1")[0]["rules"]
    assert other["accepted"] == pytest.approx(0.6, abs=0.03)


def test_a_rule_that_is_not_what_it_says_is_exit_status_1(command, monkeypatch):
    """And the table shows its damage."""
    claims = Rule("typical", replace(verify_typical, lossless=True))
    monkeypatch.setattr(module, "entries", lambda rules, seed: entries([claims], seed))
    out, _ = command("atlas", status=1)
    assert "FAILED" in out and "0.198" in out
