"""`minispec atlas`: one document, or a table; a rule that is not what it says is status 1."""

import json

import pytest

import minispec.cli.atlas as command
from minispec.cli.main import run
from minispec.evidence.atlas import samplers
from minispec.evidence.atlas.atlas import entries
from minispec.evidence.atlas.rules import RULES, Rule
from minispec.evidence.atlas.samplers import Sampler
from minispec.rules.lossy import verify_typical

KEYS = {"name", "lossless", "candidates", "total_variation", "accepted", "optimum"}


@pytest.fixture(autouse=True)
def no_chains(monkeypatch):
    """They have their own tests."""
    monkeypatch.setattr(command, "chain_means", lambda seed: [])


def test_atlas_prints_one_document(capsys):
    """A line per number of candidates; a seed gives another family."""
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
    said = capsys.readouterr().err
    assert "--rule 'magic' is unknown" in said and all(rule.name in said for rule in RULES)
    assert said.count("\n") == 1


def test_samplers_of_other_projects(capsys, monkeypatch, tmp_path):
    """Those that are here run; the others' recorded verdicts come, and all are written where one asks."""
    sampler = Sampler("mine", "rule", None, lambda at: 1 / 0, "all")
    monkeypatch.setattr(samplers, "SAMPLERS", (sampler, *samplers.SAMPLERS[:1]))
    written = tmp_path / "samplers.json"
    arguments = ["atlas", "--samplers", "--checkout", f"mine={tmp_path}", "--output", str(written)]
    monkeypatch.setattr(samplers.metadata, "version", missing)
    assert run([*arguments, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document == json.loads(written.read_text(encoding="utf-8"))
    mine, known = document["samplers"][:2]
    assert mine["instance"] == "it raised ZeroDivisionError: division by zero" and mine["lossless"] is None
    assert known["project"] == "transformers" and known["lossless"] and known["recorded"]
    assert run(arguments) == 0
    out = capsys.readouterr().out
    assert "mine a folder without git, rule: not judged" in out and "run on 20" in out


def missing(name):
    """No package is installed."""
    raise samplers.metadata.PackageNotFoundError(name)


def test_a_checkout_needs_a_name_and_a_folder(capsys):
    """One line says so."""
    assert run(["atlas", "--samplers", "--checkout", "EAGLE"]) == 2
    assert "--checkout must be NAME=PATH of a folder, not 'EAGLE'" in capsys.readouterr().err
