"""One example of every figure that reads a trace, from the recorded walkthrough of the shipped pair."""

from __future__ import annotations

from collections.abc import Iterator

from minispec.io.checkpoint import SHIPPED
from minispec.io.files import read_json
from minispec.io.recording import Recording
from minispec.io.recording_file import load_recording
from minispec.show.plots.along import along_the_text, positions_of
from minispec.show.plots.cache_grid import cache_grid
from minispec.show.plots.coloured import coloured_text
from minispec.show.plots.drafts import draft_bars
from minispec.show.plots.mask import attention_mask
from minispec.show.plots.overlap import overlap
from minispec.show.plots.picture import Picture
from minispec.show.plots.recomputation import recomputation, steps_with_cache, steps_without_cache
from minispec.show.plots.timeline_figure import timeline
from minispec.show.plots.verification import verification_strip

WALKTHROUGH = SHIPPED / "stories" / "walkthrough-rejection.json"


def gallery() -> Iterator[Picture]:
    """Yields every figure of the decoding itself once."""
    recording = load_recording(WALKTHROUGH)
    trace, words = recording.trace, recording.words
    yield recomputation(steps_without_cache(10, 12), steps_with_cache(10, 12), guess=80)
    yield timeline(trace, words, guess=3)
    index = rejection(recording)
    r = trace.rounds[index]
    yield draft_bars(r, words)
    yield attention_mask(r.target_cache.before[0], r.drafted(0))
    draws = [recording.accept_draw(index, place) for place in range(r.drafted(0))]
    yield verification_strip(r, words, drawn=[draw.number if draw else None for draw in draws])
    place = r.accepted(0)
    yield overlap(r.target_probs[0, place], r.draft.probs[0, place], words, int(r.draft.tokens[0, place]))
    sizes = read_json(SHIPPED / "stories" / "pair.json")["recipe"]
    yield cache_grid(
        trace, words, index, layers={name: sizes[name]["layers"] for name in ("target", "draft")}
    )
    yield coloured_text(trace, words)
    yield along_the_text(positions_of(trace, words))


def rejection(recording: Recording) -> int:
    """Returns the first round that keeps part of its draft and corrects the next token; else the first."""
    rounds = recording.trace.rounds
    return next((r.index for r in rounds if 0 < r.accepted(0) < r.drafted(0)), 0)
