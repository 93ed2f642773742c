"""Figures of the running example, drawn from the recorded runs at every build."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from book.gallery import numbers_drawn
from running_example import round_of, run

from minispec.core.records import Round
from minispec.io.recording import Recording
from minispec.show.plots.caches import (
    MOMENTS,
    cache_grid,
    recomputation,
    steps_with_cache,
    steps_without_cache,
)
from minispec.show.plots.coloured import coloured_text
from minispec.show.plots.drafts import draft_bars
from minispec.show.plots.masks import attention_mask, tree_mask
from minispec.show.plots.overlap import overlap
from minispec.show.plots.style import Picture
from minispec.show.plots.timeline import timeline
from minispec.show.plots.verification import verification_strip

Options = Mapping[str, str]


def picture(name: str, options: Options) -> Picture:
    """Draws a figure of the running example.

    Args:
        name: one of `FIGURES`.
        options: `run`, by default `greedy`; `round`, by default the first; `moments` of a cache figure.

    Raises:
        ValueError: if there is no such figure, run or round.
    """
    if name not in FIGURES:
        raise ValueError(f"there is no figure called {name!r}; choose one of {', '.join(FIGURES)}")
    recording = run(options.get("run", "greedy"))
    return FIGURES[name](recording, round_of(recording, options.get("round", "first")), options)


def _caches(recording: Recording, r: Round, options: Options) -> Picture:
    chosen = [m.strip() for m in options["moments"].split(",")] if "moments" in options else None
    moments = None if chosen is None else [m for m in MOMENTS if m in chosen]
    return cache_grid(recording.trace, recording.words, r.index, moments)


def _mask(recording: Recording, r: Round, options: Options) -> Picture:
    drafted = r.draft.tokens[0, : r.drafted(0)].tolist()
    words = [recording.words[token] for token in [int(r.pending[0]), *drafted]]
    return attention_mask(r.target_cache.before[0], r.drafted(0), words)


def _tree(recording: Recording, r: Round, options: Options) -> Picture:
    """The draft, and beside the token that was rejected the one that the target wants there."""
    drafted, kept = r.draft.tokens[0, : r.drafted(0)].tolist(), r.accepted(0)
    tokens = [int(r.pending[0]), *drafted[: kept + 1], int(r.verdict.token[0]), *drafted[kept + 1 :]]
    parents = [*range(kept + 1), kept, *([kept + 1, *range(kept + 3, len(tokens))][: len(tokens) - kept - 3])]
    return tree_mask(parents, [recording.words[token] for token in tokens], r.target_cache.before[0])


def _strip(recording: Recording, r: Round, options: Options) -> Picture:
    return verification_strip(r, recording.words, numbers_drawn(recording, r.index))


def _overlap(recording: Recording, r: Round, options: Options) -> Picture:
    last = r.tested(0) - 1
    number = numbers_drawn(recording, r.index)[last]
    drawn = int(r.draft.tokens[0, last])
    return overlap(r.target_probs[0, last], r.draft.probs[0, last], recording.words, drawn, number)


def _recomputation(recording: Recording, r: Round, options: Options) -> Picture:
    prompt = len(recording.trace.prompts[0])
    return recomputation(steps_without_cache(prompt, 12), steps_with_cache(prompt, 12))


FIGURES: Mapping[str, Callable[[Recording, Round, Options], Picture]] = {
    "caches": _caches,
    "mask": _mask,
    "tree": _tree,
    "draft": lambda recording, r, options: draft_bars(r, recording.words),
    "verification": _strip,
    "overlap": _overlap,
    "timeline": lambda recording, r, options: timeline(recording.trace, recording.words),
    "coloured": lambda recording, r, options: coloured_text(recording.trace, recording.words),
    "recomputation": _recomputation,
}
