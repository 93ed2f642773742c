"""The figure of a live training: its data are what was measured, and it can be read."""

import pytest
from book.gallery import shipped_losses
from figures import readable

from minispec.io.checkpoint import SHIPPED
from minispec.io.files import read_json
from minispec.show.plots.learning import learning, loss_lines
from minispec.train.training import Progress

LIVE = [
    Progress("target", 10, 30, 4.0, 1.0, 3.9),
    Progress("target", 20, 30, 3.0, 2.0),
    Progress("target", 30, 30, 2.0, 3.0, 0.7),
    Progress("draft-plain", 20, 20, 2.0, 3.0, 0.9),
    Progress("draft", 10, 10, 0.1, 3.0, 0.8),
]
RECORDED = [Progress("target", 900, 900, 0.4, 60.0, 0.4), Progress("draft", 500, 500, 0.1, 9.0, 0.5)]


def test_the_lines_are_the_measured_losses_and_distilling_counts_on():
    """Steps without a held-out loss are left out; a distilled draft goes on where the plain one ended."""
    assert loss_lines(LIVE) == {
        "target": [(10, 3.9), (30, 0.7)],
        "draft-plain": [(20, 0.9)],
        "draft": [(30, 0.8)],
    }


def test_live_and_recorded_losses_are_drawn_and_the_floor_under_both():
    """Every line is there under its own name, where its losses are; the guess stands at its height."""
    picture = learning(LIVE, RECORDED, 0.37, guess=0.0)
    (axes,) = picture.figure.axes
    lines = {line.get_label(): line.get_xydata().tolist() for line in axes.lines}
    assert lines["target, live"] == [[10, 3.9], [30, 0.7]]
    assert lines["target, recorded"] == [[900, 0.4]]
    assert lines["draft, distilled, recorded"] == [[500, 0.5]]
    assert lines["entropy, 0.370"][0][1] == 0.37
    assert lines["your guess"][0][1] == 0
    assert "0.70 nats" in picture.caption and "0.33 above" in picture.caption
    assert "30: 0.700" in picture.twin and "your guess: 0" in picture.twin
    readable(picture)


def test_the_recorded_losses_alone_are_those_of_the_shipped_pair():
    """In the gallery every held-out loss in pair.json is a point, and no line goes through the entropy."""
    info = read_json(SHIPPED / "stories" / "pair.json")
    picture = shipped_losses()
    (axes,) = picture.figure.axes
    lines = {line.get_label(): line.get_xydata().tolist() for line in axes.lines}
    labels = {"target": "target", "draft-plain": "draft", "draft": "draft, distilled"}
    assert set(lines) == {f"{word}, recorded" for word in labels.values()} | {
        f"entropy, {info['entropy_floor']:.3f}",
        "your guess",
    }
    plain = info["models"]["draft-plain"]["steps"]
    for stage, word in labels.items():
        points = [[p["step"], p["validation"]] for p in info["history"] if p["stage"] == stage]
        assert len(points) >= 10
        shift = plain if stage == "draft" else 0
        assert lines[f"{word}, recorded"] == [[step + shift, loss] for step, loss in points]
        assert points[-1][1] == pytest.approx(info["models"][stage]["validation_loss"], abs=1e-3)
        assert min(loss for _, loss in points) > info["entropy_floor"]
    best = info["models"]["target"]["validation_loss"]
    assert f"Of the recorded models the target is the best with {best:.2f} nats" in picture.caption
    assert f"entropy of {info['entropy_floor']:.3f}" in picture.alt
    assert "target, recorded, by step: 230: " in picture.twin
    readable(picture)


def test_nothing_measured_is_refused():
    """Without a held-out loss, live or recorded, there is nothing to show."""
    unmeasured = [Progress("target", 10, 30, 4.0, 1.0)]
    with pytest.raises(ValueError, match="no held-out loss"):
        learning(unmeasured, [], 0.37)
    assert "recorded" in learning(unmeasured, RECORDED, 0.37).caption
