"""The results page: what the generator writes is what is committed, and every figure comes from a report."""

import json
from pathlib import Path

import pytest
from book import results_tables as tables
from book.results import SECTIONS, fill, main, of_pair, page, recorded_reports

PAGE = Path(__file__).resolve().parents[2] / "docs" / "results.md"


def row(setting, predicted, measured, section="widths", prompts="choosing"):
    return {
        "section": section,
        "setting": setting,
        "prompts": prompts,
        "predicted": predicted,
        "simple": 3.0,
        "measured": measured,
        "low": measured - 0.1,
        "high": measured + 0.1,
        "error": predicted / measured - 1,
    }


def goal(pair, value, reached, what="speed-up, greedy", at_least=2.0, better="higher"):
    limits = {"at_least": at_least, "aim": 2.7, "better": better}
    return {"what": what, "pair": pair, "value": value, "reached": reached} | limits


def report(pair="stories", **sections):
    return {
        "kind": "bench",
        "pair": pair,
        "date": "2026-01-02",
        "machine": {"processor": "a processor", "cores": 2, "threads": 2, "torch": "2.13", "gpu": None},
        "conditions": {"dtype": "float32", "prompt_tokens": 32, "plan": {"new_tokens": 160}},
        "settings": [],
        "sections": sections,
        "skipped": {"transformers": "transformers is not installed"},
        "reach": [
            goal("stories", 2.5, True),
            goal("english", None, None) | {"reason": "measured with --pair english"},
            goal(pair, 0.3, False, "errors", 0.1, "lower"),
        ],
    }


def test_the_committed_page_is_what_the_generator_makes():
    """From the reports that come with the package, to the letter."""
    assert PAGE.read_text(encoding="utf-8") == page(recorded_reports())


def test_predicted_and_measured_stand_side_by_side():
    """A line per setting: predicted, measured, off by; a loss says so, and the reported one has a star."""
    sweep, chosen = row("K = 4", 2.2, 2.0), row("K = 4", 2.2, 2.4, prompts="reporting")
    rows = [sweep, chosen, row("8 rows", 1.1, 0.9, "batch")]
    found = report(prediction={"compared": {"rows": rows, "choices": []}})
    lines = tables.compared(found, "widths").splitlines()
    assert lines[2] == "| K = 4 | 2.20x | 2.00x | 1.90 to 2.10 | +10% | 3.00x |"
    assert lines[3].startswith("| K = 4 ★ | 2.20x | 2.40x |") and len(lines) == 4
    assert "| 0.90x (a loss) |" in tables.compared(found, "batch")
    assert tables.losses(found).splitlines()[2:] == ["| 8 rows | 0.90x | 1.10x |"]


def test_a_report_without_predictions_hides_no_loss():
    """Every K stands on the page, and each loss among the losses, the draft in int8 too."""
    sweep = [
        {
            "setting": f"greedy, T = 0, K = {k}",
            "speedup": gain,
            "speedup_quartiles": [gain - 0.1, gain + 0.1],
            "acceptance": 0.6,
            "tokens_per_target_call": 2.0,
        }
        for k, gain in ((1, 0.8), (2, 1.2), (8, 0.46))
    ]
    small = {"setting": "rejection, T = 1, K = 6, draft int8", "gain": 0.43}
    batch = {"points": [{"setting": "8 rows", "gain": 0.7}]}
    found = report(widths={"sweep": sweep}, quantized={"rows": [small]}, batch=batch)
    found["settings"] = [{"setting": "greedy, T = 0, K = 2", "speedup": 0.9}]
    assert len(tables.sweep(found).splitlines()) == 2 + 3 and "| 0.46x (a loss) |" in tables.sweep(found)
    assert tables.losses(found).splitlines()[2:] == [
        "| rejection, T = 1, K = 6, draft int8, torch backend | 0.43x |  |",
        "| greedy, T = 0, K = 8 | 0.46x |  |",
        "| 8 rows | 0.70x |  |",
        "| greedy, T = 0, K = 1 | 0.80x |  |",
        "| greedy, T = 0, K = 2, reported | 0.90x |  |",
    ]
    assert "Where it loses" in [title for title, needs, _ in SECTIONS if needs == "widths"]


def test_the_reach_takes_each_row_from_the_report_it_is_about():
    """English rows come from the English report; what failed is marked, the right way round."""
    english = report("english")
    english["reach"][1] |= {"value": 1.9, "reached": True}
    lines = tables.reach([report(), english]).splitlines()[2:]
    assert lines[0] == "| speed-up, greedy | stories | 2.5 | 2 | 2.7 | ✓ |"
    assert "| errors | stories | 0.3 | at most 0.1 | 2.7 | ✗ |" in lines
    assert "| speed-up, greedy | english | 1.9 | 2 | 2.7 | ✓ |" in lines
    assert not any("measured with" in line for line in lines)


def test_what_was_not_measured_is_said():
    """A section that was skipped has its reason on the page."""
    assert "- transformers: transformers is not installed" in "\n".join(of_pair(report()))


def test_the_page_is_written_whole_or_not_at_all(tmp_path, capsys):
    """By one command; a report that is none ends in one line and leaves the old page."""
    good, bad, out = tmp_path / "good.json", tmp_path / "bad.json", tmp_path / "page.md"
    good.write_text(json.dumps(report()))
    bad.write_text("{}")
    assert main([str(out), str(good)]) == 0 and out.read_text().startswith("# Results\n")
    before = out.read_text()
    assert main([str(out), str(bad)]) == 2 and out.read_text() == before
    assert main([]) == 2 and "usage" in capsys.readouterr().err
    with pytest.raises(ValueError, match="no report"):
        page([])


def test_prose_is_broken_into_lines():
    """At 96 characters, and no word is lost."""
    text = "word " * 60
    assert max(map(len, fill(text).splitlines())) <= 96 and fill(text).split() == text.split()
