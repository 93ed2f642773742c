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
        "skipped": {"transformers": "transformers is not installed"},
    }


def status(*arguments):
    """Runs a command of the book; returns its exit status."""
    with pytest.raises(SystemExit) as ended:
        main([str(argument) for argument in arguments])
    return ended.value.code


def test_the_committed_pages_are_what_the_generator_makes(tmp_path):
    """All three, from what comes with the package, to the letter."""
    assert status("pages", "--folder", tmp_path) == 0
    for path in tmp_path.iterdir():
        assert path.read_text(encoding="utf-8") == (DOCS / path.name).read_text(encoding="utf-8")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["atlas.md", "results.md", "samplers.md"]


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


def drafters(pair="stories"):
    """A report on two drafters."""
    sampled = {
        "name": "exit",
        "pair": pair,
        "backend": "torch",
        "temperature": 1.0,
        "k": 4,
        "tokens_per_target_call": 4.5,
        "acceptance_by_position": [0.95, 0.9],
        "parameters": 16512,
        "speedup_same_backend": 3.1,
        "extra_bytes": 128,
        "seconds_to_train": 35.4,
    }
    greedy = {"name": "ngram", "backend": "native", "temperature": 0.0, "speedup_same_backend": 0.9}
    unavailable = {"english": "there is none"}
    return report(pair, drafters={"unavailable": unavailable}) | {"drafters": [sampled, sampled | greedy]}


def test_ways_to_draft_stand_on_the_page_once_they_are_recorded(tmp_path):
    """What each gains, a loss marked; where it is right and what it takes; what was not measured, and why."""
    assert saved_drafters(tmp_path) == []
    (tmp_path / "drafters-stories.json").write_text(json.dumps(drafters()))
    text = page([report()], saved_drafters(tmp_path))
    assert f"| exit |{' – |' * 3} 3.10x | 4 | 4.50 |{' – |' * 6}\n" in text
    assert f"| ngram |{' – |' * 6} **0.90x** | 4 | 4.50 |{' – |' * 3}\n" in text
    assert "| ngram | 0 | 95 90 | 35 | 16,512 | 128 |" in text and "### Drafters of stories" in text
    assert "| exit | 1 | 95" not in text  # acceptance at T = 1 is in the record
    assert "- english: there is none" in text and "a processor, 2 cores" in text
    assert "- stories, transformers: transformers is not installed" in text
    assert "Ways to draft" not in page([report()])
    (tmp_path / "drafters-english.json").write_text(json.dumps(drafters("english")))
    text = page([report()], saved_drafters(tmp_path))
    assert "### Drafters of english" in text and "- english: there is none" not in text


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
