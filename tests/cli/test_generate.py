"""`minispec generate`: its document says what happened, and its switches do what they say."""

import io
import shlex
import sys

import pytest

from minispec import ModelDrafter, load_pair
from minispec.cli.decoding import automatic
from minispec.cli.main import run
from minispec.drafters.adaptive import PRIOR, best_width
from minispec.drafters.costs import Costs


def test_document_adds_up(generate):
    """Rounds, tokens, calls and acceptance of the document agree with each other."""
    report = generate("--k 4 --seed 1 --max-new-tokens 40 --ignore-eos", prompt="The cat")
    rounds = report["rounds"]
    assert [t for r in rounds for t in r["emitted"]] == report["tokens"]
    assert report["target_calls"] == len(rounds) and report["finish"] == "cap"
    assert report["tokens_per_target_call"] == len(report["tokens"]) / len(rounds)
    accepted = sum(r["accepted"] for r in rounds)
    tested = sum(min(r["accepted"] + 1, len(r["drafted"])) for r in rounds)
    drafted = sum(len(r["drafted"]) for r in rounds)
    assert report["acceptance"] == accepted / tested
    assert report["accepted_over_drafted"] == accepted / drafted and drafted > tested
    assert report["mean_acceptance_length"] == 1 + accepted / len(rounds)
    assert report["seconds"] > 0


def test_same_seed_same_text(generate):
    """A seed fixes the text, another one changes it."""
    item, same, other = (generate(f"--seed {seed} --max-new-tokens 20")["tokens"] for seed in (1, 1, 2))
    assert item == same != other


def test_target_only_is_k_zero(generate):
    """Without a draft every call gives one token, whatever K was asked for."""
    alone = generate("--target-only --seed 3")
    assert alone["tokens"] == generate("--k 0 --seed 3")["tokens"]
    assert alone["target_calls"] == len(alone["tokens"]) and alone["acceptance"] is None
    assert (alone["accepted_over_drafted"], alone["mean_acceptance_length"]) == (None, 1.0)
    assert "costs" not in generate("--k auto --target-only --max-new-tokens 2")


def test_automatic_k_adds_up(generate):
    """Widths stay below 17, the document says by which costs, and a coupled text is target-only's."""
    line = "--seed 1 --max-new-tokens 60 --ignore-eos --dtype float64 --verifier coupled --k"
    report = generate(f"{line} auto")
    alone = generate(f"{line} 0")
    assert report["tokens"] == alone["tokens"] and "costs" not in alone
    assert all(len(r["drafted"]) <= 16 for r in report["rounds"])
    assert set(report["costs"]) >= {"t_draft", "t_target", "catch_up", "round", "place"}
    assert set(report["costs"]["t_target"]) == {"1", "2", "3", "5", "9", "17"}
    assert min(report["costs"]["t_target"].values()) > 0 and report["costs"]["t_draft"] > 0


@pytest.mark.parametrize(
    ("line", "encoding"),
    [
        *(("generate --stream", encoding) for encoding in ("utf-8", "cp1252", "ascii")),
        ("demo --no-train --backend torch --k 3", "ascii"),
    ],
)
def test_stream_and_demo_survive_any_terminal(line, encoding, pair, monkeypatch):
    """Marked text comes out in every encoding: glyphs where it can print them, letters elsewhere."""
    terminal = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
    monkeypatch.setattr(sys, "stdout", terminal)
    more = ["--prompt", "The naïve ☃", "--max-new-tokens", "12", "--pair", str(pair)]
    assert run([*shlex.split(line), *more]) == 0
    text = terminal.buffer.getvalue().decode(encoding)
    assert ("✓" in text) == ("☃" in text) == (encoding == "utf-8")
    assert "accepted" in text


@pytest.mark.parametrize("info", [{"acceptance": 0.25}, {}, {"acceptance": 7}, {"acceptance": -0.1}])
def test_the_recorded_acceptance_is_where_automatic_k_begins(pair, info):
    """The first width is the best one for it; without one that can be it is that for 0.8."""
    prior = 0.25 if info == {"acceptance": 0.25} else PRIOR
    costs = Costs(0.1, {1: 1.0, 17: 1.5})
    drafter = automatic(ModelDrafter(load_pair(pair).draft), costs, info)
    assert drafter.width == best_width(costs, [prior] * 16) > 0
