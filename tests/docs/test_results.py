"""The pages of numbers: what the generator writes is what is committed, from records alone."""

import json
from pathlib import Path

import pytest
from book import results_tables as tables
from book.__main__ import main
from book.reports import FOLDER, SAVED, saved_drafters
from book.results import of_pair, page

DOCS = Path(__file__).resolve().parents[2] / "docs"


def row(setting, gain):
    """A row of the section widths."""
    return {"setting": setting, "speedup": gain, "speedup_quartiles": [gain - 0.1, gain + 0.1]}


def report(pair="stories", **sections):
    return {
        "kind": "bench",
        "pair": pair,
        "date": "2026-01-02",
        "machine": {"processor": "a processor", "cores": 2, "threads": 2, "torch": "2.13", "gpu": None},
        "conditions": {"dtype": "float32", "prompt_tokens": 32, "plan": {"new_tokens": 160, "reporting": 8}},
        "settings": [],
        "sections": sections,
    }


def status(*arguments):
    """Runs a command of the book; returns its exit status."""
    with pytest.raises(SystemExit) as ended:
        main([str(argument) for argument in arguments])
    return ended.value.code


def test_the_committed_pages_are_what_the_generator_makes(tmp_path):
    """All four, from what comes with the package, to the letter."""
    assert status("pages", "--folder", tmp_path) == 0
    for path in tmp_path.iterdir():
        assert path.read_text(encoding="utf-8") == (DOCS / path.name).read_text(encoding="utf-8")
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "atlas.md",
        "papers.md",
        "results.md",
        "samplers.md",
    ]


def test_every_report_that_comes_with_the_package_is_on_the_page():
    """None is measured, saved and forgotten."""
    assert {path.stem.removeprefix("bench-") for path in FOLDER.glob("bench-*.json")} == set(SAVED)


def test_a_report_without_predictions_hides_no_loss():
    """Every K stands on the page, and each loss among the losses, also the one that is reported."""
    widths = {"sweep": [row("K = 1", 0.8), row("K = 2", 1.2)], "settings": [row("K = 2", 0.9)]}
    found = report(widths=widths)
    assert tables.compared(found, "widths").splitlines()[2:] == [
        "| K = 1 | **0.80x** | 0.70–0.90 |",
        "| K = 2 | 1.20x | 1.10–1.30 |",
        "| K = 2 ★ | **0.90x** | 0.80–1.00 |",
    ]
    assert tables.losses(found).splitlines()[2:] == [
        "| K = 1 | **0.80x** | 0.70–0.90 |",
        "| K = 2 | **0.90x** | 0.80–1.00 |",
    ]
    assert "None" in tables.losses(report(widths={"sweep": [row("K = 1", 1.0)]}))


def test_the_ratio_of_forward_passes_stands_beside_each_speed_up():
    """Once a report says it of one; a loss has it, too."""
    widths = {"sweep": [row("K = 1", 0.8) | {"limit": 0.91}, row("K = 2", 1.2)]}
    found = report(widths=widths)
    assert tables.compared(found, "widths").splitlines()[2:] == [
        "| K = 1 | **0.80x** | 0.70–0.90 | 0.91x |",
        "| K = 2 | 1.20x | 1.10–1.30 | – |",
    ]
    assert tables.losses(found).splitlines()[0] == "| setting | measured | quartiles | forward passes only |"


def drafted(**changes):
    """A row on a drafter."""
    row = {"pair": "stories", "name": "exit", "backend": "native", "temperature": 0.0, "k": 4}
    row |= {"tokens_per_target_call": 4.4, "speedup": 0.9, "speedup_quartiles": [0.8, 1.0], "parameters": 7}
    row |= {"extra_bytes": 1024, "seconds_to_train": 35.0, "acceptance_by_position": [0.8, 0.5]}
    return row | changes


def test_every_row_on_drafters_is_over_its_own_backend():
    """Those of other pairs are left out, those of torch beside native ones, and columns that no row has."""
    slow = report() | {"drafters": [drafted(), drafted(pair="english")]}
    line = "| exit | native | 0 | 4 | 4.40 | **0.90x** | 0.80–1.00 | 35 | 1,024 |"
    assert tables.drafters_gain(slow).splitlines()[2:] == [line]
    known = {"limit": 1.62, "share": 0.9, "target_only_share": 0.97, "verified_per_target_call": 3.9}
    fast = report() | {"drafters": [drafted(speedup=1.5, speedup_quartiles=[1.4, 1.6], **known)]}
    line = "| exit | native | 0 | 4 | 3.9 | 4.40 | 1.50x | 1.40–1.60 | 1.62x | 90% | 97% | 35 | 1,024 |"
    assert tables.drafters_gain(fast).splitlines()[2:] == [line]
    both = report() | {"drafters": [drafted(backend="torch"), drafted(k=6)]}
    assert [line.split(" | ")[3] for line in tables.drafters_gain(both).splitlines()[2:]] == ["6"]


def test_decoding_stands_beside_its_forwards():
    """A section of its own, where it was measured."""
    decoding = [{"temperature": 0.0, "k": 0, "milliseconds_per_token": 9.876, "over_forward": 1.05}]
    point = {"shape": "135M", "backend": "native", "dtype": "float32", "threads": 2, "decoding": decoding}
    found = report() | {"real_sizes": [point, point | {"decoding": []}]}
    assert tables.decoding(found).splitlines()[2:] == ["| 135M | float32 | 2 | 9.88 (1.05x) |"]
    assert tables.decoding(report()) == ""


def test_near_ties_stand_beside_texts():
    """Where texts part, how many do so at a near tie."""
    texts = {
        "ours": {"texts": 9, "equal": 9, "near_ties": 0},
        "theirs": {"texts": 9, "equal": 7, "near_ties": 2},
    }
    said = tables.equal_texts(report(transformers={"texts": texts}))
    assert said.startswith("ours 9 of 9, theirs 7 of 9 (2 of")


def test_queues_stand_beside_batches_once_they_are_recorded():
    """A table with the share of live places, and where speculation stops paying."""
    point = {"rows": 8, "refill": True, "live_target_only": 0.981, "live_speculative": 0.96}
    point |= {"target_only": 1234.5, "speculative": 2000.0, "gain": 1.62, "low": 1.6, "high": 1.7}
    batch = {"k": 4, "points": [], "queue": [point], "stops_paying": {"without": 16, "with": None}}
    text = "\n".join(of_pair(report(batch=batch)))
    assert "| 8 | yes | 98.1% | 96.0% | 1,234 | 2,000 | 1.62x | 1.60–1.70 |" in text
    assert "without refill at 16 rows and with refill at no size" in " ".join(text.split())
    del batch["queue"]
    assert "refill" not in "\n".join(of_pair(report(batch=batch)))


def test_what_was_not_measured_says_why(tmp_path):
    """A backend or a pair that was not there; a pair that has its own report was."""
    assert saved_drafters(tmp_path) == []
    drafters = saved_drafters()[:1]
    drafters[0]["sections"]["drafters"]["unavailable"] |= {"english": "there is none", "x": "there is none"}
    text = page([report()], drafters)
    assert "- english; x: there is none" in text and "### Drafters of stories" in text
    text = page([report()], [*drafters, drafters[0] | {"pair": "english"}])
    assert "### Drafters of english" in text and "- x: there is none" in text
    assert "Ways to draft" not in page([report()])


def test_a_results_page_of_ones_own(tmp_path, capsys):
    """Written whole or not at all: a report that is none ends in one line and leaves the old page."""
    good = tmp_path / "good.json"
    bad = tmp_path / "bad.json"
    out = tmp_path / "page.md"
    good.write_text(json.dumps(report()))
    assert status("results", out, good) == 0
    before = out.read_text()
    assert before.startswith("# Results\n")
    for text in ("{}", "[]", "{", None):
        bad.unlink(missing_ok=True) if text is None else bad.write_text(text)
        assert status("results", out, bad) == 2 and out.read_text() == before
        assert capsys.readouterr().err.count("\n") == 1
    assert status("results", out) == 2
    with pytest.raises(ValueError, match="no report"):
        page([])
