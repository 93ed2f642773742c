"""`minispec generate`: its document says what happened, and its switches do what they say."""

import json
import os
import subprocess
import sys

import pytest
from native_models import has_compiler

from minispec import ModelDrafter, load_pair
from minispec.cli.decoding import automatic
from minispec.cli.main import run
from minispec.drafters.adaptive import PRIOR, best_width
from minispec.drafters.costs import Costs


@pytest.fixture
def generate(pair, capsys):
    def call(*arguments):
        assert run(["generate", "--pair", str(pair), "--prompt", "The cat", "--json", *arguments]) == 0
        return json.loads(capsys.readouterr().out)

    return call


def test_document_adds_up(generate):
    """Rounds, tokens, calls and acceptance of the document agree with each other."""
    report = generate("--k", "4", "--seed", "1", "--max-new-tokens", "40", "--ignore-eos")
    rounds = report["rounds"]
    assert [t for r in rounds for t in r["emitted"]] == report["tokens"]
    assert report["target_calls"] == len(rounds) and report["finish"] == "cap"
    assert report["tokens_per_target_call"] == len(report["tokens"]) / len(rounds)
    accepted = sum(r["accepted"] for r in rounds)
    tested = sum(min(r["accepted"] + 1, len(r["drafted"])) for r in rounds)
    drafted = sum(len(r["drafted"]) for r in rounds)
    assert report["acceptance"] == accepted / tested
    assert report["acceptance"] * tested == pytest.approx(accepted)
    assert report["accepted_over_drafted"] * drafted == pytest.approx(accepted) and drafted > tested
    assert report["mean_acceptance_length"] == 1 + accepted / len(rounds)
    assert {r["kind"] for r in rounds} <= {"correction", "bonus", "draft"}
    assert report["seconds"] > 0


def test_same_seed_same_text(generate):
    """A seed fixes the text, another one changes it."""
    one, same, other = (generate("--seed", seed)["tokens"] for seed in ("1", "1", "2"))
    assert one == same != other


def test_target_only_is_k_zero(generate):
    """Without a draft every call gives one token."""
    alone = generate("--target-only", "--seed", "3")
    assert alone["tokens"] == generate("--k", "0", "--seed", "3")["tokens"]
    assert alone["target_calls"] == len(alone["tokens"]) and alone["acceptance"] is None
    assert (alone["accepted_over_drafted"], alone["mean_acceptance_length"]) == (None, 1.0)


def test_automatic_k_adds_up(generate):
    """Widths change from round to round and stay below 17, and the document says by which costs."""
    report = generate("--k", "auto", "--seed", "1", "--max-new-tokens", "60", "--ignore-eos")
    assert [t for r in report["rounds"] for t in r["emitted"]] == report["tokens"]
    assert len(report["tokens"]) == 60 and report["finish"] == "cap"
    assert all(len(r["drafted"]) <= 16 for r in report["rounds"])
    assert set(report["costs"]) >= {"t_draft", "t_target", "catch_up", "round", "place"}
    assert set(report["costs"]["t_target"]) == {"1", "2", "3", "5", "9", "17"}
    assert min(report["costs"]["t_target"].values()) > 0 and report["costs"]["t_draft"] > 0


def test_automatic_k_keeps_the_text_where_k_does_not_matter(generate):
    """Greedy and coupled texts are those of target-only; without a draft nothing is measured."""
    for verifier in ("greedy", "coupled"):
        settings = ("--verifier", verifier, "--dtype", "float64", "--seed", "4")
        auto, alone = generate("--k", "auto", *settings), generate("--k", "0", *settings)
        assert auto["tokens"] == alone["tokens"] and "costs" in auto and "costs" not in alone
    assert "costs" not in generate("--k", "auto", "--target-only")


def test_automatic_k_where_there_is_no_budget(generate):
    """A cap of 0 or 1 gives no token or one, and nothing is drafted."""
    assert generate("--k", "auto", "--max-new-tokens", "0")["tokens"] == []
    report = generate("--k", "auto", "--max-new-tokens", "1")
    assert len(report["tokens"]) == 1 and report["rounds"][0]["drafted"] == []


@pytest.mark.parametrize("encoding", ["utf-8", "cp1252", "ascii"])
def test_stream_and_demo_survive_any_terminal(pair, encoding):
    """Marked text comes out in every encoding: glyphs where it can print them, letters elsewhere."""
    both = (
        ["generate", "--prompt", "The cat", "--stream", "--pair", str(pair)],
        ["demo", "--no-train", "--prompt", "The cat", "--backend", "torch", "--pair", str(pair)],
    )
    program = (
        f"from minispec.cli.main import run\nfor command in {both!r}:\n    print(run(command), 'ends it')"
    )
    environment = os.environ | {"PYTHONIOENCODING": encoding}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, check=True)
    for text in done.stdout.decode(encoding).split("0 ends it")[:2]:
        assert ("✓" in text) == (encoding == "utf-8")
        assert "accepted" in text


@pytest.mark.parametrize("backend", ["torch", "auto"])
def test_demo_prints_both_verifiers(pair, capsys, backend):
    """The demo's document has both verifiers on each backend, and greedy equals target-only."""
    options = ["--no-train", "--prompt", "The cat", "--json", "--backend", backend]
    assert run(["demo", "--pair", str(pair), *options]) == 0
    out, err = capsys.readouterr()
    (report,) = json.loads(out)["pairs"]
    backends = ["torch", "native"] if backend == "auto" and has_compiler() else ["torch"]
    found = [(r["verifier"], r["backend"], r["same_as_target_only"]) for r in report["runs"]]
    assert found == [
        (verifier, name, same)
        for verifier, same in (("greedy", True), ("rejection", None))
        for name in backends
    ]
    assert "speed-up" in err


def test_demo_says_why_it_loses(pair, capsys, monkeypatch):
    """With costs at which drafting cannot pay K is 0 at once; the document and the terminal say why."""
    costs = Costs(1.0, {1: 1.0, 17: 1.5}, catch_up=1.0)
    monkeypatch.setattr("minispec.cli.decoding.measure_costs", lambda *_, **__: costs)
    monkeypatch.setattr("minispec.show.text.Outcome.speed_up", lambda *_: 0.5)
    options = ["--no-train", "--prompt", "The cat", "--backend", "torch", "--max-new-tokens", "20", "--json"]
    for k, widths in (("auto", {None}), ("3", {3})):
        assert run(["demo", "--pair", str(pair), *options, "--k", k]) == 0
        out, err = capsys.readouterr()
        runs = json.loads(out)["pairs"][0]["runs"]
        assert {found["k"] for found in runs} == widths and {found["speedup"] for found in runs} == {0.5}
        for found in runs:
            assert ("nothing was drafted" in found["advice"][0]) == (k == "auto")
            assert "a draft step takes 1.00 target steps" in " ".join(found["advice"])
            assert all(sentence in " ".join(err.split()) for sentence in found["advice"])
        assert f"tiny, K = {k}" in err and "torch backend, 0.50x: a loss" in err


@pytest.mark.parametrize(
    ("info", "prior"), [({"acceptance": 0.25}, 0.25), ({}, PRIOR), ({"acceptance": 7}, PRIOR)]
)
def test_the_recorded_acceptance_is_where_automatic_k_begins(pair, info, prior):
    """The first width is the best one for it; without one that can be it is that for 0.8."""
    costs = Costs(0.1, {1: 1.0, 17: 1.5})
    drafter = automatic(ModelDrafter(load_pair(pair).draft), costs, info)
    assert drafter.width == best_width(costs, [prior] * 16) > 0


def test_a_pair_is_its_folder(pair):
    """The folder that the command line takes is the one that `load_pair` takes."""
    assert load_pair(pair).name == "tiny"
