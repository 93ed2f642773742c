"""`minispec bench`: one document or tables, a file that is whole, and one line for what cannot be."""

import os
from dataclasses import replace

import pytest
import torch
from pairs import build_pair

from minispec.cli import bench, tables
from minispec.cli.options import console
from minispec.core.model import GPTConfig
from minispec.evidence.bench import real_sizes, sections
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
    monkeypatch.setenv("COLUMNS", "80")
    return build_pair(tmp_path / "tiny")


@pytest.fixture
def quick(command, pair):
    """Measures sections of the pair; returns what is printed of them, which fits 80 columns."""

    def measured(*sections):
        chosen = [word for name in sections for word in ("--section", name)]
        out, _ = command("bench --quick --pair", pair, *chosen)
        table, _, reasons = out.partition("not measured")
        lines = table.partition("predicted before the run")[0].splitlines()[1:]
        assert "…" not in out and max(map(len, lines)) <= 80
        return table, reasons

    return measured


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


def test_tables(quick):
    """Milliseconds of forwards, every K, the best, every backend, and how well that was predicted."""
    out, _ = quick("latency", "prediction", "widths")
    assert out.count("greedy") >= 4 and out.count("rejection") >= 3
    for words in ("Milliseconds of a forward", "n = 17", "Every K", "The best K", "Every backend"):
        assert words in out
    for words in ("passes", "shares", "theorem 3.8", "α", "of tested", "of drafted", "acceptance length"):
        assert words in out


def test_drafters_are_two_tables(quick):
    """What each gains and what it takes; what the pair has not says how to get it."""
    out, reasons = quick("drafters")
    for words in ("Every drafter", "ngram", "suffix", "Accepted of the tested", "parameters"):
        assert words in out
    assert "tiny, medusa: the pair tiny has no medusa drafter" in reasons


def test_real_sizes_are_one_table(quick, monkeypatch):
    """Every backend, and what cannot be had says why."""
    monkeypatch.setattr(real_sizes, "SHAPES", {"tiny": GPTConfig(50, 1, 16, 2, 1, 24, max_length=96)})
    monkeypatch.setattr(real_sizes, "SETTLE", 1e-4)
    monkeypatch.setitem(real_sizes.MAKERS, "absent", lambda *_: load_pair("absent"))
    out, reasons = quick("real-sizes")
    assert "float32: milli" in out and "bfloat16: milli" in out and "native" in out
    assert out.count("tiny") == 3 * (3 * len({1, min(2, torch.get_num_threads())}) + 4)  # forwards, decoding
    assert reasons.startswith(": absent, float32")


def test_queues_are_a_table_that_says_where_speculation_stops_paying():
    """With refill and without, the share of live places and tokens per second."""
    point = {"rows": 8, "refill": True, "live_target_only": 0.981, "live_speculative": 0.96}
    point |= {"target_only": 1234.5, "speculative": 2000.0, "gain": 1.62, "low": 1.6, "high": 1.7}
    results = {"queue": [point], "stops_paying": {"without": 16, "with": None}}
    ((title, table),) = tables.grids({"sections": {"batch": results}})
    assert table.rows == [("8", "yes", "98.1%", "96.0%", "1,234", "2,000", "1.62x", "1.60–1.70")]
    assert title.endswith("; speculation stops paying without refill at 16 rows and with refill at no size")


def test_what_an_older_report_lacks_is_a_dash():
    """A limit is written like a speed-up, a share in percent."""
    row = {"name": "exit", "backend": "native", "temperature": 0.0, "k": 4, "speedup": 1.5}
    row |= {"speedup_quartiles": [1.4, 1.6], "tokens_per_target_call": 2.1}
    new = row | {"limit": 1.789, "share": 0.958, "verified_per_target_call": 3.96}
    old, known = tables.grid("drafters", [row, new]).rows
    assert old == ("exit", "native", "0", "4", "–", "2.10", "1.50x", "1.40–1.60", "–", "–")
    assert known == ("exit", "native", "0", "4", "4.0", "2.10", "1.50x", "1.40–1.60", "1.79x", "96%")


def test_where_a_drafter_is_right_is_said_once_for_both_backends():
    """Of two backends the first row counts; percentages by position, bytes, and no seconds where unknown."""
    row = {"pair": "p", "name": "exit", "temperature": 1.0, "acceptance_by_position": [0.954, 0.5]}
    row |= {"seconds_to_train": 35.4, "parameters": 16512, "extra_bytes": 2048}
    rows = [row, row | {"acceptance_by_position": [0.1]}, row | {"name": "model", "seconds_to_train": None}]
    assert tables.drafter_parts(rows).rows == [
        ("exit", "1", "95 50", "35", "16,512", "2,048"),
        ("model", "1", "95 50", "–", "16,512", "2,048"),
    ]
    other = row | {"pair": "a"}
    assert tables.grouped([row, other, row], "pair") == {"p": [row, row], "a": [other]}


def test_all_backends_fit_80_columns(capsys, monkeypatch):
    """Milliseconds of large models on four backends: no heading and no number is broken."""
    monkeypatch.setenv("COLUMNS", "80")
    backends = {"native": 67.38, "torch": 150.0, "llama.cpp": 114.0, "transformers": 673.8}
    about = {"shape": "135M", "dtype": "float32", "threads": 16}
    rows = [about | {"backend": name, "milliseconds": {"9": time}} for name, time in backends.items()]
    (table,) = tables.tables({"sections": {}, "real_sizes": rows})
    console().print(table)
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 80 and any("llama.cpp     × transformers" in line for line in lines)
    assert any("67.38 150.00 2.23x    114.00 1.69x       673.80 10.00x" in line for line in lines)


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
    """Sections that stand alone have tables, too, which fit 80 columns."""
    (table,) = tables.tables({"sections": {section: section_results}})
    console().print(table)
    assert max(map(len, capsys.readouterr().out.splitlines())) <= 80


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
    message = refused("bench", *models)
    assert "text 4 of 4 has" in message and "at least 32" in message
    assert "with --prompts" in refused("bench", *models[:4])


def test_a_target_alone_is_measured_with_drafters_that_need_no_model(document, refused, pair, tmp_path):
    """Sections that need a draft model are refused; a drafter that does is listed as not measured."""
    texts = tmp_path / "texts.txt"
    texts.write_text(
        "\n\n".join(f"Day {day}. The cat sat on the mat. " * 9 for day in "abc"), encoding="utf-8"
    )
    models = ("--target", pair / "target", "--prompts", texts)
    message = refused("bench --section widths", *models)
    assert "the section widths needs a draft model: give one with --draft" in message
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
    with pytest.raises(ValueError, match="has 2 prompts of at least 32 tokens; the bench needs 3"):
        bench_prompts(replace(models, info={"prompts": rows[1:]}))


def test_a_setting_that_loses_is_explained(capsys, document, command, pair, monkeypatch):
    """Why, and what would help, stand in the document and under the tables; a gain is not explained."""
    monkeypatch.setattr(sections, "ADVICE_BELOW", 1e9)
    monkeypatch.setattr(sections, "advise", lambda *_: ("too dear", "what would help: K"))
    line = "bench --quick --section widths --k 2 --backend torch --pair"
    report, _ = document(line, pair)
    assert [setting["advice"] for setting in report["settings"]] == [["too dear", "what would help: K"]] * 2
    bench.show(report, console(), None)
    assert capsys.readouterr().out.count("too dear\n  what would help: K") == 2
    monkeypatch.setattr(sections, "ADVICE_BELOW", 0.0)
    assert "would help" not in command(line, pair)[0]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("--section weather", "there is latency"),
        ("--quick --full", "contradict"),
        ("--k 17", "less than or equal to 16"),
        ("--k 4 --k 0", "greater than or equal to 1"),
        ("--output missing/report.json", "no folder"),
        ("--device cuda", "--device cuda"),
    ],
)
def test_what_cannot_be_measured(refused, pair, line, words, monkeypatch, tmp_path):
    """One line on standard error, exit status 2, and nothing is measured or written before."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    monkeypatch.setattr("minispec.evidence.bench.run._measure", lambda *_: pytest.fail("it was measured"))
    before = sorted(tmp_path.iterdir())
    assert words in refused(f"bench {line} --pair", pair)
    assert sorted(tmp_path.iterdir()) == before


def test_the_first_columns_of_a_table_stand_left():
    """As many as it says; numbers stand right."""
    table = tables.Grid(["pair", "rule", "speed-up"], [["a", "b", "1"]], left_columns=2).rich("")
    assert [column.justify for column in table.columns] == ["left", "left", "right"]
