"""The results page: what the generator writes is what is committed, and every figure comes from a report."""

import json
from pathlib import Path

import pytest
from book import results_tables as tables
from book.draft_sizes import PLAIN_STEPS
from book.reports import FOLDER, SAVED, saved_drafters, saved_reports
from book.results import SECTIONS, fill, main, of_pair, page

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


def test_measured_and_predicted_stand_side_by_side():
    """A line per setting: measured, predicted, off by; a loss says so, and the reported one has a star."""
    widths = {"sweep": [row("K = 4", 2.0), row("K = 8", 0.9)], "settings": [row("K = 4", 2.4)]}
    said = {"settings": [{"setting": "K = 4", "speedup": 2.2, "simple": 3.0}]}
    batch = {"points": [{"setting": "8 rows", "gain": 0.7, "low": 0.6, "high": 0.8}]}
    found = report(prediction=said, widths=widths, batch=batch)
    lines = tables.compared(found, "widths").splitlines()
    assert lines[2] == "| K = 4 | 2.00x | 1.90–2.10 | 2.20x | +10% | 3.00x |"
    assert lines[4].startswith("| K = 4 ★ | 2.40x |") and len(lines) == 5
    assert tables.compared(found, "batch").splitlines()[0] == "| setting | measured | quartiles |"
    assert tables.losses(found).splitlines()[2:] == [
        "| 8 rows | 0.70x | 0.60–0.80 |  |",
        "| K = 8 | 0.90x | 0.80–1.00 |  |",
    ]


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


def test_the_spread_of_the_target_alone_is_said():
    """Over all tables with one text at a time; a larger batch is another target alone."""
    widths = {"sweep": [{"target_only_tokens_per_second": rate} for rate in (110, 130)]}
    batch = {"points": [{"rows": rows, "target_only": rate} for rows, rate in ((1, 120), (2, 500))]}
    assert tables.baseline(report(widths=widths, batch=batch)) == (110, 130)
    peers = {"tokens_per_second": {"ours alone": 90}}
    assert tables.baseline(report(widths=widths, batch=batch, transformers=peers)) == (90, 130)


def test_python_is_compared_with_python():
    """The torch backend over transformers, each over its own target alone; the fastest threads of each."""
    sides = [(100, 150, "torch"), (120, 240, "torch"), (900, 1800, "native")]
    rows = [{"path": p, "verifier": "greedy", "target_only": a, "speculative": b} for a, b, p in sides]
    rates = {"theirs plain": 60, "theirs assisted": 80}
    peers = {"tokens_per_second": rates, "assisted_over_plain": {"ratio": 1.3}}
    said = tables.same_language(report(transformers=peers, **{"target-only": {"k": 5, "rows": rows}}))
    assert "120 tokens a second alone and 240 with the draft at K = 5: 2.00x and 3.00x theirs" in said
    assert said.endswith("torch 2.00x, transformers 1.30x.")


def test_how_drafts_were_trained_is_said_where_there_are_such():
    """One caption for all sizes; none for a pair that has no sizes."""
    write = next(write for _, needs, write in SECTIONS if needs == "drafts")
    point = {"name": "1×32", "setting": "draft 1×32", "gain": 2.0, "low": 1.9, "high": 2.1}
    of_sizes = "".join(write(report(drafts={"points": [point]})))
    assert f"{PLAIN_STEPS} steps on the corpus" in " ".join(of_sizes.split())
    assert "steps" not in "".join(write(report(drafts={"points": [point | {"name": "the pair's"}]})))


def test_the_best_guess_is_held_against_the_best_measurement():
    """Of each verifier's K, and of the drafts: how much of the best speed-up the predicted one has."""
    rows = [
        {"section": section, "setting": setting, "prompts": prompts, "predicted": predicted, "measured": gain}
        for section, setting, prompts, predicted, gain in (
            ("widths", "greedy, K = 2", "choosing", 2.0, 1.5),
            ("widths", "greedy, K = 4", "choosing", 1.9, 2.0),
            ("widths", "greedy, K = 4", "reporting", 1.9, 9.0),
            ("drafts", "rejection, draft a", "reporting", 3.0, 3.0),
        )
    ]
    lines = tables.choices(report(prediction={"compared": {"rows": rows}})).splitlines()[2:]
    assert lines == [
        "| best K, greedy | greedy, K = 2 | greedy, K = 4 | 75.0% |",
        "| best draft | rejection, draft a | rejection, draft a | 100.0% |",
    ]


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


def test_real_sizes_stand_beside_each_other():
    """A line per shape, type, threads and n; ratios are over native, and a loss says so."""
    rows = [timed("1M", "native", 2.0), timed("1M", "llama.cpp", 1.0), timed("1M", "torch", 3.0)]
    rows += [timed("1M", "native", 1.0, "bfloat16"), timed("1M", "torch", 4.0, "bfloat16")]
    raw = {
        "parameters": {"1M": 1_000_000},
        "cached_tokens": 64,
        "unavailable": {"llama.cpp": "not installed"},
    }
    found = report(**{"real-sizes": raw}) | {"real_sizes": rows}
    head, _, one, five, half, _ = tables.real_sizes(found).splitlines()
    assert head == "| shape | weights | threads | n | native | llama.cpp | × | torch | × |"
    assert one == "| 1M | float32 | 2 | 1 | 2.00 | 1.00 | 0.50x (a loss) | 3.00 | 1.50x |"
    assert five == "| 1M | float32 | 2 | 5 | 4.00 | 2.00 | 0.50x (a loss) | 6.00 | 1.50x |"
    assert half == "| 1M | bfloat16 | 2 | 1 | 1.00 | – | – | 4.00 | 4.00x |"
    assert tables.real_gains(found).splitlines() == [
        "| shape | weights | threads | over float32 | t(5)/t(1) | c = 0.1, α = 0.6 |",
        "|---|---|---:|---:|---:|---:|",
        "| 1M | float32 | 2 |  | 2.00 | 1.50x, K = 3 |",
        "| 1M | bfloat16 | 2 | 2.00x | 2.00 | 1.50x, K = 3 |",
    ]
    text = "\n".join(of_pair(found))
    assert text.startswith("## Models of real sizes") and "The pair" not in text
    assert "Not measured, llama.cpp: not installed." in text and "1,000,000" in text


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
