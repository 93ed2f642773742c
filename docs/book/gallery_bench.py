"""One example of every figure of a bench's report, from made-up numbers of about the right size."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from book.bench_plots import Writer, bandwidth_shares, every_prediction, tokens_per_second
from minispec.show.plots.picture import Picture

WRITERS = [
    Writer("torch, alone", 380, False),
    Writer("native, alone", 820, False),
    Writer("torch, K = 8", 900, True),
    Writer("native, K = 8", 1900, True),
    Writer("transformers, plain", 210, False),
    Writer("transformers, assisted", 390, True),
]
SETTINGS = (
    ("widths", "every K", 1.4, 1.45),
    ("widths", "K = 4", 2.1, 2.02),
    ("widths", "K = 8", 2.4, 2.5),
    ("temperature", "T = 0.5", 2.3, 2.2),
    ("drafts", "untrained", 0.6, 0.62),
    ("drafts", "1×64", 2.2, 2.3),
    ("batch", "16 rows", 1.3, 1.2),
    ("batch", "64 rows", 0.9, 0.95),
)
PREDICTIONS: list[dict[str, Any]] = [
    {
        "section": section,
        "setting": setting,
        "predicted": predicted,
        "measured": measured,
        "low": measured - 0.1,
        "high": measured + 0.12,
    }
    for section, setting, predicted, measured in SETTINGS
]
MODELS: list[dict[str, Any]] = [
    {"path": path, "parameters": int(size), "share": share * factor}
    for path, factor in (("torch", 0.4), ("native", 1.0))
    for size, share in ((9e5, 0.3), (4.4e6, 0.6), (2.5e7, 0.8), (4.8e7, 0.9))
]


def gallery() -> Iterator[Picture]:
    """Yields every figure of a report once."""
    yield tokens_per_second(WRITERS)
    yield every_prediction(PREDICTIONS)
    yield bandwidth_shares(MODELS)
