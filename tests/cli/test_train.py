"""`minispec train` on a small text of one's own."""

import json

import pytest

from minispec import load_pair
from minispec.cli.main import run
from minispec.train.publish import history_of


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    path = tmp_path_factory.mktemp("text") / "mine.txt"
    lines = [f"The {a} {b} sat on the {c}.\n\n" for a in "abcdefgh" for b in "ijklmnop" for c in "qrstuvwx"]
    path.write_text("".join(lines), encoding="utf-8")
    return path


def test_train_reports_and_saves(text, minispec_home, tmp_path, capsys):
    """The document has both sizes, the pair is in its folder with a loss curve, and it loads."""
    out = tmp_path / "pair"
    status = run(["train", "--text", str(text), "--scale", "0.02", "--out", str(out), "--json"])
    report = json.loads(capsys.readouterr().out)
    assert status == (3 if report["failed"] else 0)
    for model in ("target", "draft"):
        assert {"parameters", "seconds", "steps", "validation_loss"} <= report[model].keys()
    assert report["entropy_floor"] is None and 0 <= report["acceptance"] <= 1
    assert (out / "loss.png").read_bytes().startswith(b"\x89PNG")
    info = load_pair(out).info
    assert info["corpus"]["name"] == str(text)
    history = history_of(info)
    assert len(history) == len(info["history"]) > 3  # more than where each model ended
    assert {p.model for p in history} == {"target", "draft-plain", "draft"}
    assert all(p.validation is not None for p in history)


def test_a_failed_training_says_so(text, minispec_home, tmp_path, capsys):
    """One step of each: the target is no better than its draft, which is said, with exit status 3."""
    out = tmp_path / "pair"
    status = run(["train", "--text", str(text), "--scale", "0.0001", "--out", str(out), "--json"])
    document, err = capsys.readouterr()
    failed = json.loads(document)["failed"]
    losses = [json.loads(document)[m]["validation_loss"] for m in ("target", "draft")]
    assert (status == 3) == (losses[0] >= losses[1]) == (failed is not None)
    if failed:
        assert "the training failed" in err
