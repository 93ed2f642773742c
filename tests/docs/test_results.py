"""The results page: what the generator writes is what is committed, and every figure comes from a report."""

import json
from pathlib import Path

import pytest
from book import results_tables as tables
from book.reports import FOLDER, SAVED, saved_drafters, saved_reports
from book.results import SECTIONS, main, of_pair, page

PAGE = Path(__file__).resolve().parents[2] / "docs" / "results.md"


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


def test_the_committed_page_is_what_the_generator_makes():
    """From the reports that come with the package, to the letter."""
    assert PAGE.read_text(encoding="utf-8") == page(saved_reports(), saved_drafters())


def test_every_report_that_comes_with_the_package_is_on_the_page():
    """None is measured, saved and forgotten."""
    assert {path.stem.removeprefix("bench-") for path in FOLDER.glob("bench-*.json")} == set(SAVED)


def test_a_report_without_predictions_hides_no_loss():
    """Every K stands on the page, and each loss among the losses, also the one that is reported."""
    widths = {"sweep": [row("K = 1", 0.8), row("K = 2", 1.2)], "settings": [row("K = 2", 0.9)]}
    found = report(widths=widths)
    assert len(tables.compared(found, "widths").splitlines()) == 2 + 3
    assert "| 0.80x (a loss) |" in tables.compared(found, "widths")
    assert tables.losses(found).splitlines()[2:] == [
        "| K = 1 | 0.80x | 0.70–0.90 |  |",
        "| K = 2 | 0.90x | 0.80–1.00 |  |",
    ]
    assert "Where it loses" in [title for title, needs, _ in SECTIONS if needs == "widths"]


def timed(shape, backend, milliseconds, dtype="float32"):
    """A row of the section real-sizes."""
    return {
        "shape": shape,
        "backend": backend,
        "dtype": dtype,
        "threads": 2,
        "milliseconds": {"1": milliseconds, "5": 2 * milliseconds},
        "tokens_per_second": 1000 / milliseconds,
        "predicted_speedup": [{"draft": 0.1, "acceptance": 0.6, "k": 3, "speedup": 1.5}],
    }


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


def drafters():
    """Two rows as the bench has them, recorded."""
    row = {
        "name": "exit",
        "pair": "stories",
        "backend": "torch",
        "lossless": True,
        "temperature": 1.0,
        "k": 4,
    }
    row |= {"tokens_per_target_call": 4.5, "speedup": 2.0, "speedup_quartiles": [1.9, 2.1]}
    row |= {"acceptance_by_position": [0.95, 0.9], "predicted_speedup": 2.2, "parameters": 16512}
    row |= {"speedup_same_backend": 3.1}
    row |= {"extra_bytes": 128, "seconds_to_train": 35.4}
    greedy = {"name": "ngram", "backend": "native", "temperature": 0.0, "speedup_same_backend": 0.9}
    rows = [row, row | greedy]
    return report(drafters={"unavailable": {"english": "there is none"}}) | {"drafters": rows}


def test_ways_to_draft_stand_on_the_page_once_they_are_recorded(tmp_path):
    """What each gains, a loss marked; where it is right and what it takes; what was not measured."""
    assert saved_drafters(tmp_path) == []
    (tmp_path / "drafters-stories.json").write_text(json.dumps(drafters()))
    text = page([report()], saved_drafters(tmp_path))
    assert "| exit | 1 | 3.10x | 4 | 4.50 | – | – | – |" in text
    assert "| ngram | 0 | – | – | – | 0.90x (a loss) | 4 | 4.50 |" in text
    assert "| ngram | 0 | 95 90 | 35 | 16,512 | 128 |" in text and "### Drafters of stories" in text
    assert "| exit | 1 | 95" not in text  # acceptance at T = 1 is in the record
    assert "- Not measured: english: there is none" in text and "a processor, 2 cores" in text
    assert "Ways to draft" not in page([report()])
    rows = [{**one, "pair": "english"} for one in drafters()["drafters"]]
    other = drafters() | {"pair": "english", "drafters": rows}
    (tmp_path / "drafters-english.json").write_text(json.dumps(other))
    text = page([report()], saved_drafters(tmp_path))
    assert "### Drafters of english" in text and "- Not measured: english" not in text


def test_without_native_there_are_no_ratios():
    """What was measured is still shown."""
    found = report() | {"real_sizes": [timed("1M", "torch", 2.0)]}
    assert tables.real_sizes(found).splitlines()[2] == "| 1M | float32 | 2 | 1 | – | 2.00 | – |"
    assert tables.real_gains(found) == ""


def test_what_was_not_measured_is_said():
    """A section that was skipped has its reason on the page."""
    assert "- transformers: transformers is not installed" in "\n".join(of_pair(report()))


def test_the_page_is_written_whole_or_not_at_all(tmp_path, capsys):
    """By one command; a report that is none ends in one line and leaves the old page."""
    good = tmp_path / "good.json"
    bad = tmp_path / "bad.json"
    out = tmp_path / "page.md"
    good.write_text(json.dumps(report()))
    bad.write_text("{}")
    assert main([str(out), str(good)]) == 0 and out.read_text().startswith("# Results\n")
    before = out.read_text()
    assert main([str(out), str(bad)]) == 2 and out.read_text() == before
    assert main([]) == 2 and "usage" in capsys.readouterr().err
    with pytest.raises(ValueError, match="no report"):
        page([])
