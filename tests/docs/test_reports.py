"""Reports: what is taken out of one, and what a person may do wrong."""

import pytest
from book import reports
from book.__main__ import main

from minispec.evidence.bench.measurements import load_measurement
from minispec.io.files import write_json

PATH = reports.FOLDER / "bench-stories.json"


def test_a_report_becomes_a_file_for_each_kind(tmp_path):
    """The saved measurements that pages and notebooks quote are those of the saved report, to the letter."""
    with pytest.raises(SystemExit, match="^0$"):
        main(["measurements", str(PATH), "--folder", str(tmp_path)])
    for path in tmp_path.iterdir():
        assert path.read_text() == (reports.FOLDER / path.name).read_text()
    assert {path.stem for path in tmp_path.iterdir()} == set(reports.MAKERS)
    latencies = load_measurement(tmp_path / "latency.json").points  # of one backend and number of threads
    assert len({(point.model, point.width) for point in latencies}) == len(latencies) == 2 * 7


def test_a_report_that_lacks_a_section(tmp_path, capsys):
    """One line says which, and how to get it; nothing is written."""
    short = reports.load_report(PATH)
    del short["sections"]["batch"]
    assert len(reports.measurement_of(short, "drafts").points) > 1
    write_json(tmp_path / "report.json", short)
    with pytest.raises(SystemExit, match="^2$"):
        main(["measurements", str(tmp_path / "report.json"), "--folder", str(tmp_path)])
    error = capsys.readouterr().err
    assert "'batch'" in error and "--full" in error and error.count("\n") == 1
    assert [path.name for path in tmp_path.iterdir()] == ["report.json"]
