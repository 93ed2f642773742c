"""`demo --html` writes a page whole or not at all, and says in one line what is wrong with a path."""

import re

import pytest

from minispec.cli.main import run

SHORT = ["--no-train", "--prompt", "The cat", "--k", "2", "--max-new-tokens", "4"]


def test_writes_both_runs_and_the_same_each_time(pair, tmp_path, capsys):
    """The page has a stepper for each verifier, says where it lies, and does not depend on the clock."""
    for name in ("a.html", "b.html"):
        assert run(["demo", "--pair", str(pair), *SHORT, "--html", str(tmp_path / name)]) == 0
        assert name in capsys.readouterr().out.replace("\n", "")
    page = (tmp_path / "a.html").read_text(encoding="utf-8")
    assert re.findall(r'aria-label="Pair tiny, (\w+) verifier', page) == ["greedy", "rejection"]
    assert page == (tmp_path / "b.html").read_text(encoding="utf-8")


@pytest.mark.parametrize(("name", "words"), [("", "is a folder"), ("no/a.html", "there is no folder")])
@pytest.mark.parametrize("option", ["--html"])
def test_a_bad_path_is_one_line_before_anything_runs(pair, tmp_path, capsys, option, name, words):
    """Exit status 2, one line, and nothing decoded."""
    assert run(["demo", "--pair", str(pair), *SHORT, option, str(tmp_path / name)]) == 2
    out, err = capsys.readouterr()
    assert out == "" and err.count("\n") == 1 and err.startswith("minispec: cannot write") and words in err


def test_a_page_that_cannot_be_written_leaves_the_old_one(pair, tmp_path, capsys, monkeypatch):
    """A full disk costs nobody the page that was there."""
    path = tmp_path / "a.html"
    path.write_text("old", encoding="utf-8")

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.replace", full)
    assert run(["demo", "--pair", str(pair), *SHORT, "--html", str(path)]) == 2
    assert "No space left" in capsys.readouterr().err
    assert path.read_text(encoding="utf-8") == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["a.html"]
