"""`minispec atlas`: one document, or a table; a rule that is not what it says is status 1."""

import json

import pytest

import minispec.cli.atlas as command
from minispec.cli.main import run
from minispec.evidence.atlas.atlas import entries
from minispec.evidence.atlas.rules import RULES, Rule
from minispec.rules.lossy import verify_typical

KEYS = {"name", "lossless", "candidates", "total_variation", "accepted", "optimum"}


@pytest.fixture(autouse=True)
def no_chains(monkeypatch):
    """They have their own tests."""
    monkeypatch.setattr(command, "chain_means", lambda seed: [])


def test_atlas_prints_one_document(capsys):
    """A line per number of candidates, and recorded samplers; a seed gives another family."""
    assert run(["atlas", "--rule", "greedy-drafting", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["passed"] and document["seed"] == 0
    assert {"project", "version", "rule", "lossless", "damage", "instance"} <= document["samplers"][0].keys()
    assert [one["candidates"] for one in document["rules"]] == [2, 3, 4]
    for one in document["rules"]:
        assert one.keys() >= KEYS and one["lossless"] and one["total_variation"] <= 1e-12
        assert one["accepted"] == pytest.approx(one["optimum"], abs=1e-12)
    assert document["rules"][0]["recorded"].keys() >= KEYS - {"name", "lossless", "candidates"}
    assert run(["atlas", "--rule", "token", "--seed", "1", "--json"]) == 0
    (other,) = json.loads(capsys.readouterr().out)["rules"]
    assert other["accepted"] == pytest.approx(0.6, abs=0.03)


def test_atlas_prints_a_table(capsys, monkeypatch):
    """Damage of a lossy rule in digits, and the legend; it fits 80 columns."""
    monkeypatch.setenv("COLUMNS", "80")
    assert run(["atlas", "--rule", "mixture"]) == 0
    out = capsys.readouterr().out
    assert "mixture" in out and "0.198" in out and "0.802" in out and "passed in" in out


def test_a_rule_that_is_not_what_it_says_is_exit_status_1(capsys, monkeypatch):
    """And the table shows its damage."""
    claims = Rule("typical", lambda draft, target_probs, rng: verify_typical(draft, target_probs, rng))
    monkeypatch.setattr(command, "entries", lambda rules, seed: entries([claims], seed))
    assert run(["atlas"]) == 1
    out = capsys.readouterr().out
    assert "FAILED" in out and "0.198" in out


def test_an_unknown_rule_is_one_line(capsys):
    """It lists those that there are."""
    assert run(["atlas", "--rule", "magic"]) == 2
    message = capsys.readouterr().err
    assert "--rule 'magic' is unknown" in message and all(rule.name in message for rule in RULES)
    assert message.count("\n") == 1
