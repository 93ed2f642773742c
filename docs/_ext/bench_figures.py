"""Figures of the results page, drawn at build from reports: `` ```{bench-figure} latency stories ``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from book.bench_plots import every_prediction, speeds_of, tokens_per_second
from book.reports import measurement_of, saved_reports
from docutils import nodes
from figure_nodes import nodes_of
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from minispec.show.plots.speed import batch_sweep, draft_sweep, latency, speed_up_curves
from minispec.show.plots.style import Picture

ALPHAS = (0.6, 0.8, 0.9)


def points(report: dict[str, Any], kind: str) -> tuple[Any, ...]:
    """Returns the points of one kind."""
    return measurement_of(report, kind).points


def curves(report: dict[str, Any]) -> Picture:
    """Returns the predicted speed-up against K, and what was measured."""
    measured = points(report, "speed")
    return speed_up_curves(ALPHAS, measured[0].c, measured)


FIGURES: dict[str, Callable[[dict[str, Any]], Picture]] = {
    "speed-up-curves": curves,
    "tokens-per-second": lambda report: tokens_per_second(speeds_of(report)),
    "every-prediction": lambda report: every_prediction(report["sections"]["prediction"]["compared"]["rows"]),
    "latency": lambda report: latency(points(report, "latency")),
    "draft-sweep": lambda report: draft_sweep(points(report, "drafts")),
    "batch-sweep": lambda report: batch_sweep(points(report, "batches")),
}


class BenchFigure(SphinxDirective):
    """One figure of one report with its caption; the same in words under a line that opens."""

    required_arguments = 2

    def run(self) -> list[nodes.Node]:
        """Draws it."""
        name, pair = self.arguments
        if name not in FIGURES:
            raise self.error(f"there is no figure {name!r}; there is {', '.join(FIGURES)}")
        return nodes_of(FIGURES[name](*saved_reports([pair])))


def setup(app: Sphinx) -> dict[str, bool]:
    """Tells Sphinx of the directive."""
    app.add_directive("bench-figure", BenchFigure)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
