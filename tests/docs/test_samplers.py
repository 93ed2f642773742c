"""The page of real samplers: what the generator writes from the record is what is committed."""

from pathlib import Path

from book.samplers import main, page

from minispec.evidence.atlas.samplers import recorded_samplers

PAGE = Path(__file__).resolve().parents[2] / "docs" / "samplers.md"


def test_the_committed_page_is_what_the_generator_makes(tmp_path):
    assert main([str(tmp_path / "samplers.md")]) == 0 and main([]) == 2
    assert (tmp_path / "samplers.md").read_text(encoding="utf-8") == PAGE.read_text(encoding="utf-8")


def test_it_has_each_row_and_each_counterexample():
    rows = recorded_samplers()
    text = page(rows)
    for one in rows:
        assert f"`{one.rule}`" in text and (one.lossless is not False or one.report in text)
