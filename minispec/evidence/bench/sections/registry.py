"""All sections, in the order in which they run: what others need comes first."""

from __future__ import annotations

from collections.abc import Sequence

from minispec.evidence.bench.sections import (
    auto,
    bandwidth,
    batch,
    bookkeeping,
    draft_training,
    drafts,
    latency,
    memory,
    paths,
    peers,
    prediction,
    prefill,
    quantized,
    target_only,
    temperature,
    widths,
)
from minispec.evidence.bench.sections.section import Section

START = ("target-only",)
CHOSEN = ("target-only", "widths")

SECTIONS: tuple[Section, ...] = (
    Section("latency", "a forward over 1 to 17 tokens, t(n)", latency.measure, weight=15),
    Section("target-only", "the target alone, on every path", target_only.measure, weight=25),
    Section("prefill", "reading the prompt, and the first token", prefill.measure, START, weight=5),
    Section("memory", "weights and caches in bytes", memory.measure, weight=0.1),
    Section("bandwidth", "the share of reading weights", bandwidth.measure, core=False, weight=40),
    Section("draft-sizes", "training drafts of several sizes", draft_training.measure, core=False, weight=60),
    Section("prediction", "what should come out", prediction.measure, START, weight=40),
    Section("widths", "the speed-up at every K", widths.measure, START, weight=120),
    Section("paths", "speculative decoding on every path", paths.measure, CHOSEN, weight=30),
    Section("auto", "a K that chooses itself", auto.measure, CHOSEN, weight=30),
    Section("bookkeeping", "what a round takes beside its forwards", bookkeeping.measure, CHOSEN, weight=10),
    Section("temperature", "the speed-up at every temperature", temperature.measure, START, False, 120),
    Section("drafts", "the speed-up with every draft", drafts.measure, START, False, 200),
    Section("batch", "the speed-up of batches", batch.measure, START, False, 60),
    Section("quantized", "a draft in int8", quantized.measure, CHOSEN, False, 30),
    Section("transformers", "beside transformers", peers.measure, CHOSEN, False, 90),
)
NAMES = tuple(section.name for section in SECTIONS)


def choose(names: Sequence[str] = (), full: bool = False, skip: Sequence[str] = ()) -> tuple[str, ...]:
    """Returns the sections to run: those that are named with what they need, or the core, or all.

    Args:
        names: of sections; none: the core, or with `full` all.
        full: whether all.
        skip: leave these out; what needs them is skipped and says so.

    Raises:
        ValueError: if a name is unknown.
    """
    for name in (*names, *skip):
        if name not in NAMES:
            raise ValueError(f"there is no section {name!r}; there is {', '.join(NAMES)}")
    wanted = set(names) or {section.name for section in SECTIONS if full or section.core}
    for section in reversed(SECTIONS):  # what one needs stands before it
        if section.name in wanted:
            wanted |= set(section.needs)
    return tuple(name for name in NAMES if name in wanted and name not in skip)
