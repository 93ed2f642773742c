"""Figures: their data are what they were given."""

from minispec.show.plots.training import loss_curve
from minispec.train.training import Progress


def test_loss_curve_draws_what_was_measured():
    """One line per model, through the held-out losses only, and the floor."""
    history = [
        Progress("target", 10, 30, 4.0, 1.0, 3.9),
        Progress("target", 20, 30, 3.0, 2.0),
        Progress("target", 30, 30, 2.0, 3.0, 2.1),
        Progress("draft", 30, 30, 2.0, 3.0, 2.5),
    ]
    (axes,) = loss_curve(history, 1.5).axes
    lines = {line.get_label(): line.get_xydata().tolist() for line in axes.lines}
    assert lines["target"] == [[10, 3.9], [30, 2.1]]
    assert lines["draft, distilled"] == [[30, 2.5]]
    assert "entropy of the grammar, 1.500" in lines
    assert len({line.get_marker() for line in axes.lines}) == len(axes.lines)
