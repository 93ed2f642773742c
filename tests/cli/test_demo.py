"""`minispec demo`: its table, its document, why it loses, and the page that `--html` writes."""

import re

import pytest
from native_models import has_compiler

from minispec.drafters.costs import Costs

SHORT = "demo --no-train --prompt 'The cat' --max-new-tokens 12"
BACKENDS = ["torch", "native"] if has_compiler() else ["torch"]


@pytest.fixture(autouse=True)
def dear_drafts(monkeypatch):
    """Costs that nobody waits for, at which drafting cannot pay."""
    costs = Costs(1.0, {1: 1.0, 17: 1.5}, catch_up=1.0)
    monkeypatch.setattr("minispec.cli.decoding.measure_costs", lambda *_, **__: costs)


@pytest.fixture
def runs(document, pair):
    """Runs the demo; returns its document's runs, and what people read."""

    def demo(line, *more):
        report, err = document(f"{SHORT} {line}", "--pair", pair, *more)
        (shown_runs,) = report["pairs"]
        return shown_runs["runs"], err

    return demo


def table_of(text):
    """Returns the lines of the demo's table of runs."""
    lines = text.splitlines()
    start = next(number for number, line in enumerate(lines) if line.strip().startswith("tiny, K ="))
    end = next(number for number in range(start, len(lines)) if lines[number].startswith("  speed-up:"))
    return lines[start:end]


@pytest.mark.parametrize("columns", [80, 60])
def test_the_table_fits_its_terminal(columns, command, pair, monkeypatch):
    """Every backend is in it, no line is too long, and nothing is cut off."""
    monkeypatch.setenv("COLUMNS", str(columns))
    out, _ = command(f"{SHORT} --k 3", "--pair", pair)
    table = table_of(out)
    assert out.count("Target-only, temperature") == out.count("Speculative, ") == 2
    assert max(map(len, table)) <= columns and "…" not in out
    if columns == 60:  # words may be folded
        return
    starts = ("target-only ", "greedy ", "rejection ")
    rows = [line.split()[:2] for line in table if line.strip().startswith(starts)]
    rules = ("greedy", "rejection")
    assert rows == [[label, name] for rule in rules for name in BACKENDS for label in ("target-only", rule)]


def test_the_document_names_the_backends(runs):
    """Both rules on each backend; greedily the text is target-only's, whose figures stand beside it."""
    shown_runs, err = runs("--k 3")
    wanted = [(rule, backend) for rule in ("greedy", "rejection") for backend in BACKENDS]
    assert [(run["verifier"], run["backend"]) for run in shown_runs] == wanted
    for run in shown_runs:
        assert run["seconds"] > 0 and run["target_only_seconds"] > 0
        assert run["same_as_target_only"] is (True if run["verifier"] == "greedy" else None)
        assert 0 <= run["accepted_over_drafted"] <= run["acceptance"] <= 1
        assert run["mean_acceptance_length"] >= run["tokens"] / run["target_calls"]  # the last round is cut
    assert "speed-up" in err


@pytest.mark.parametrize("rule", ["coupled", "mixture"])
def test_it_shows_one_rule(rule, runs):
    """On every backend, and says if it is lossy."""
    shown_runs, err = runs(f"--verifier {rule} --k 2")
    assert [(run["verifier"], run["backend"]) for run in shown_runs] == [(rule, label) for label in BACKENDS]
    assert {run["lossless"] for run in shown_runs} == {rule != "mixture"} == {"is lossy" not in err}


def test_it_shows_another_drafter(runs):
    """Its runs are named, the text is the target's, and nothing is said of the draft model's costs."""
    shown_runs, err = runs("--drafter suffix --backend torch --k 2")
    assert "drafter: suffix" in err
    assert [(run["drafter"], run["advice"]) for run in shown_runs] == [("suffix", [])] * 2
    assert shown_runs[0]["same_as_target_only"]
    assert "drafter:" not in runs("--backend torch --k 2")[1]


def test_where_nothing_is_drafted_there_is_no_k(runs):
    """A text of one token leaves no room for a draft: no K, and not 0."""
    shown_runs, _ = runs("--backend torch --max-new-tokens 1 --drafter ngram --k 3")
    assert [run["k"] for run in shown_runs] == [None, None]


@pytest.mark.parametrize(("k", "width"), [("auto", None), ("3", 3)])
def test_it_says_why_it_loses(k, width, runs, monkeypatch):
    """An automatic K is 0 at once; the document and the terminal say why."""
    monkeypatch.setattr("minispec.show.text.Outcome.speed_up", lambda *_: 0.5)
    shown_runs, err = runs(f"--backend torch --k {k}")
    for run in shown_runs:
        assert (run["k"], run["speedup"]) == (width, 0.5)
        assert ("nothing was drafted" in run["advice"][0]) == (k == "auto")
        assert "a draft step takes 1.00 target steps" in " ".join(run["advice"])
        assert all(sentence in " ".join(err.split()) for sentence in run["advice"])
    assert f"tiny, K = {k}" in err and "torch backend, 0.50x: a loss" in err


def test_its_page_has_both_runs_and_is_the_same_each_time(command, pair, tmp_path):
    """The page has a stepper for each verifier, and does not depend on the clock; people read where it is."""
    for name in ("a.html", "b.html"):
        out, _ = command(f"{SHORT} --k 2 --backend torch", "--pair", pair, "--html", tmp_path / name)
        assert name in out.replace("\n", "")
    page = (tmp_path / "a.html").read_text(encoding="utf-8")
    assert re.findall(r'aria-label="Pair tiny, (\w+) verifier', page) == ["greedy", "rejection"]
    assert page == (tmp_path / "b.html").read_text(encoding="utf-8")
