"""`minispec bench`: one document or tables, a file that is whole, and one line for what cannot be."""

import os
from dataclasses import replace

import pytest
from pairs import build_pair

from minispec.cli import bench, tables
from minispec.cli.options import console
from minispec.evidence.bench.measure import bench_prompts
from minispec.evidence.bench.section import Plan
from minispec.io.checkpoint import load_pair
from minispec.io.files import read_json

TINY = Plan(
    "quick",
    choosing=1,
    reporting=1,
    repeats=1,
    new_tokens=8,
    widths=(2, 12),
    few_widths=(2,),
    latencies=1,
)


@pytest.fixture
def pair(tmp_path, monkeypatch):
    monkeypatch.setattr(bench, "QUICK", TINY)
    return build_pair(tmp_path / "tiny")


def test_one_document(document, pair, tmp_path):
    """`--json` prints what outside checks read, and `--output` writes the same."""
    path = tmp_path / "report.json"
    line = "bench --quick --section widths --section latency --k 2 --pair"
    report, err = document(line, pair, "--output", path)
    assert read_json(path) == report and "minispec:" not in err
    assert set(report["sections"]) == {"target-only", "widths", "latency"}
    assert report["machine"]["cores"] >= 1
    for setting in report["settings"]:
        assert {"pair", "verifier", "temperature", "k", "speedup", "acceptance", "alpha"} < set(setting)
        assert 0 <= setting["accepted_over_drafted"] <= setting["acceptance"]  # no rule looks further here
        assert setting["mean_acceptance_length"] >= setting["tokens_per_target_call"]  # texts end in rounds
        assert {"draft", "verify", "rollback", "other"} < set(setting["seconds"]) and setting["k"] == 2


def test_people_get_tables(command, pair):
    """Of forwards, rules and drafters; what the pair has not is named."""
    out, _ = command("bench --quick --section latency --section widths --section drafters --pair", pair)
    table, _, reasons = out.partition("not measured")
    assert all(words in table for words in ("n = 17", "greedy", "rejection", "ngram", "suffix"))
    assert "medusa" in reasons


SPEED = {"verifier": "rejection", "k": 3, "speedup": 1.5, "speedup_quartiles": [1.4, 1.6], "acceptance": 0.7}
SPEED |= {"tokens_per_target_call": 2.1, "target_only_tokens_per_second": 99.0, "tokens_per_second": 150.0}
SPEED |= {"limit": 2.2, "share": 0.9, "target_only_share": 1.0}
DRAFT = {"name": "d", "parameters": 9, "k": 3, "c": 0.1, "alpha": 0.7, "gain": 1.5, "low": 1.4, "high": 1.6}
AUTO = {"verifier": "greedy", "k": 3, "over_best_fixed": 1.01, "quartiles": [0.9, 1.1]}
AUTO |= {"mean_width": 2.5, "tokens_per_second": 99.0}


@pytest.mark.parametrize(
    ("section", "section_results"),
    [("auto", {"rows": [AUTO]}), ("temperature", {"points": [SPEED]}), ("drafts", {"points": [DRAFT]})],
)
def test_every_section_prints_something(capsys, section, section_results):
    """Sections that stand alone have tables, too."""
    (table,) = tables.tables({"sections": {section: section_results}})
    console().print(table)
    assert "1." in capsys.readouterr().out


def test_two_folders_and_prompts_of_a_file(document, refused, pair, tmp_path):
    """`--target`, `--draft` and `--prompts` measure models that are no pair; a device takes the report."""
    texts = tmp_path / "texts.txt"
    text = "\n\n".join(
        f"Day {day}. The cat sat on the mat and the dog ran to the river. " * 4 for day in "abc"
    )
    texts.write_text(text, encoding="utf-8")
    models = ("--target", pair / "target", "--draft", pair / "draft", "--prompts", texts)
    line = f"bench --quick --section latency --backend torch --output {os.devnull}"
    report, err = document(line, *models)
    assert report["pair"] == "target + draft" and err == ""
    assert sorted(path.name for path in tmp_path.iterdir()) == ["texts.txt", "tiny"]
    texts.write_text(text + "\n\ntoo short", encoding="utf-8")
    assert "text 4 of 4" in refused("bench", *models)


def test_a_target_alone_is_measured_with_drafters_that_need_no_model(document, refused, pair, tmp_path):
    """Sections that need a draft model are refused; a drafter that does is listed as not measured."""
    texts = tmp_path / "texts.txt"
    texts.write_text(
        "\n\n".join(f"Day {day}. The cat sat on the mat. " * 9 for day in "abc"), encoding="utf-8"
    )
    models = ("--target", pair / "target", "--prompts", texts)
    assert "--draft" in refused("bench --section widths", *models)
    report, _ = document("bench --quick --backend torch --k 3", *models)
    drafters = report["sections"]["drafters"]
    assert {row["name"] for row in drafters["rows"]} == {"ngram", "suffix"}
    assert "needs a draft model" in drafters["unavailable"]["target, model"]


def test_longer_prompts_are_cut_and_shorter_ones_left_out(pair):
    """The bench needs 3 prompts of at least 32 tokens, and says so where a pair has fewer."""
    models = load_pair(pair)
    rows = [[1] * 40, [2] * 32, [3] * 31, [4] * 99]
    cut = bench_prompts(replace(models, info={"prompts": rows}))
    assert cut == [[1] * 32, [2] * 32, [4] * 32]
    with pytest.raises(ValueError, match="2 prompts"):
        bench_prompts(replace(models, info={"prompts": rows[1:]}))
