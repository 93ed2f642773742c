"""Figures in pages, drawn at build from what was recorded: `` ```{recorded-figure} latency `` and so on.

They are the package's own figures (`minispec.show.plots`), with their alternative texts and captions. What a
figure shows is said again in words, under a line that opens.
"""

from __future__ import annotations

from collections.abc import Callable

from book.atlas import RECORDED
from book.atlas_plots import atlas_figure
from book.gallery import P, Q, matrix, seven_billion
from docutils import nodes
from figure_nodes import nodes_of
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from minispec.core.verify import verify_rejection
from minispec.evidence.bench.measurements import saved
from minispec.evidence.proof.first_token import first_token
from minispec.evidence.zoo.mutants import mutant_named
from minispec.evidence.zoo.mutation import planted
from minispec.io.files import read_json
from minispec.io.walkthrough import load_walkthrough
from minispec.show.plots.caches import cache_grid
from minispec.show.plots.distributions import rule_distribution
from minispec.show.plots.overlap import overlap
from minispec.show.plots.speed import batch_sweep, draft_sweep, latency, predicted_measured, speed_up_curves
from minispec.show.plots.style import Picture

ALPHAS = (0.3, 0.6, 0.8, 0.9)


def rejection() -> Picture:
    """Returns what the rejection rule makes of {a, b, c}."""
    return rule_distribution(first_token(verify_rejection, P, Q), P, "abc", q=Q)


def sampled_again() -> Picture:
    """Returns what comes out if the correction is drawn from p itself."""
    with planted(mutant_named("correction-from-p")):
        found = first_token(verify_rejection, P, Q)
    return rule_distribution(found, P, "abc", q=Q)


def curves() -> Picture:
    """Returns the promised speed-up against K, and what was measured."""
    points = saved("speed").points
    return speed_up_curves(ALPHAS, points[0].c, points, most=16)


def caches(kind: str, moments: tuple[str, ...]) -> Picture:
    """Returns both caches at some moments of the walkthrough's first round of a kind."""
    run = load_walkthrough("greedy")
    found = next(r for r in run.trace.rounds if r.kind(0) == kind)
    return cache_grid(run.trace, run.words, found.index, list(moments))


FIGURES: dict[str, Callable[[], Picture]] = {
    "overlap": lambda: overlap(P, Q, "abc"),
    "rejection-distribution": rejection,
    "sampled-again-distribution": sampled_again,
    "seven-billion": seven_billion,
    "latency": lambda: latency(saved("latency").points),
    "speed-up-curves": curves,
    "predicted-measured": lambda: predicted_measured(saved("speed").points),
    "draft-sweep": lambda: draft_sweep(saved("drafts").points),
    "batch-sweep": lambda: batch_sweep(saved("batches").points),
    "atlas": lambda: atlas_figure(read_json(RECORDED)["rules"]),
    "kill-matrix": matrix,
    "caches-correction": lambda: caches("correction", ("before", "drafted", "verified", "rolled back")),
    "caches-bonus": lambda: caches("bonus", ("verified", "rolled back", "caught up")),
}


class RecordedFigure(SphinxDirective):
    """One figure with its caption; the same in words under a line that opens."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """Draws it."""
        name = self.arguments[0]
        if name not in FIGURES:
            raise self.error(f"there is no figure {name!r}; there is {', '.join(FIGURES)}")
        return nodes_of(FIGURES[name]())


def setup(app: Sphinx) -> dict[str, bool]:
    """Tells Sphinx of the directive."""
    app.add_directive("recorded-figure", RecordedFigure)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
