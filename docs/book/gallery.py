"""One example of every figure, from data that need no trained model."""

from __future__ import annotations

from collections.abc import Iterator

from book import gallery_bench, gallery_numbers, gallery_traces
from minispec.show.plots.picture import Picture


def gallery() -> Iterator[Picture]:
    """Yields every figure once: first those that read a trace, then those of numbers, then the bench."""
    yield from gallery_traces.gallery()
    yield from gallery_numbers.gallery()
    yield from gallery_bench.gallery()
