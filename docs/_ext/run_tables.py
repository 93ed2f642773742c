"""Tables of the running example: round by round, and the same text in two rows."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import torch
from running_example import plain, run

from minispec.core.cache import KVCache
from minispec.core.draft import ModelDrafter
from minispec.core.records import Round
from minispec.core.rng import SeededRng
from minispec.core.verify import verify_greedy
from minispec.core.warp import Warp
from minispec.drafters.adaptive import best_width
from minispec.drafters.costs import Costs
from minispec.io.checkpoint import load_pair
from minispec.io.observe import record
from minispec.io.recording import Recording
from minispec.io.trace import CacheLengths, Trace
from minispec.io.walkthrough import K
from minispec.show.signs import STATES
from minispec.show.text import quoted


def rounds_table(recording: Recording, most: int) -> list[list[str]]:
    """Returns a table of the first rounds: a line of heads, then a line a round."""
    table = [["round", "pending", "drafted", "kept", "then", "target’s cache", "draft’s cache"]]
    for r in recording.trace.rounds[:most]:
        words = [quoted(recording.words[t]) for t in r.draft.tokens[0, : r.drafted(0)].tolist()]
        signs = [STATES[state].glyph for state in verdicts(r)]
        kind = r.kind(0)
        said = "the end"
        if kind != "draft":
            said = f"{STATES[kind].glyph} {kind} {quoted(recording.words[int(r.verdict.token[0])])}"
        table.append(
            [
                str(r.index),
                quoted(recording.words[int(r.pending[0])]),
                " ".join(f"{sign}{word}" for sign, word in zip(signs, words, strict=True)),
                f"{r.accepted(0)} of {r.drafted(0)}",
                said,
                moments(r.target_cache),
                moments(r.draft_cache),
            ]
        )
    return table


def verdicts(r: Round) -> list[str]:
    """Returns the state of each drafted token of the first row once the round has been verified."""
    accepted = r.accepted(0)
    tested = r.tested(0)
    drafted = r.drafted(0)
    return ["accepted"] * accepted + ["rejected"] * (tested - accepted) + ["untested"] * (drafted - tested)


def moments(lengths: CacheLengths | None, row: int = 0) -> str:
    """Returns how long a cache was before, verified and after, never broken over two lines."""
    if lengths is None:
        return "–"
    held = (lengths.before[row], lengths.verified[row], lengths.after[row])
    return "\u00a0›\u00a0".join(map(str, held))


@cache
def ragged_run() -> tuple[Trace, tuple[str, ...]]:
    """Decodes the walkthrough's prompt in two rows, the second four tokens further on, at temperature 0."""
    pair = load_pair("stories")
    recording = run("greedy")
    prompt = list(recording.trace.prompts[0])
    rows = [prompt, prompt + recording.trace.tokens()[: len(recording.trace.rounds[0].emitted[0])]]
    trace = record(
        pair.target,
        ModelDrafter(pair.draft),
        rows,
        k=K,
        verifier=verify_greedy,
        max_new_tokens=20,
        warp=Warp(0),
        rng=SeededRng(0),
        eos=pair.tokenizer.end_of_text,
    )
    return trace, recording.words


def ragged_table(most: int) -> list[list[str]]:
    """Returns a table of the two-row run: a line of heads, then a line for each round and row."""
    trace, words = ragged_run()
    table = [["round", "row", "drafted", "kept", "emitted", "target’s cache", "draft’s cache"]]
    for r in trace.rounds[:most]:
        for row in range(2):
            caches = [moments(r.target_cache, row), moments(r.draft_cache, row)]
            drafted = [words[t] for t in r.draft.tokens[row, : r.drafted(row)].tolist()]
            said = [words[t] for t in r.emitted[row]]
            kept = f"{r.accepted(row)} of {r.drafted(row)}"
            table.append([str(r.index), str(row), plain(drafted) or "–", kept, plain(said) or "–", *caches])
    return table


def ragged_mask(lengths: Sequence[int], new: int, capacity: int = 8) -> str:
    """Returns what each new token of ragged rows may look at, as characters: ■ it may, □ it may not.

    Args:
        lengths: how many tokens each row holds.
        new: how many come.
        capacity: slots of a row.
    """
    cache_ = KVCache(1, len(lengths), 1, capacity, 1)
    block = torch.zeros(len(lengths), 1, max(lengths), 1)
    cache_.begin(max(lengths))  # filled as the loop fills it: all rows at one width, then cut
    cache_.append(0, block, block)
    cache_.advance()
    cache_.truncate(lengths)
    positions, mask = cache_.begin(new)
    assert isinstance(positions, torch.Tensor) and mask is not None, "rows of different lengths have both"
    lines = []
    for row, length in enumerate(lengths):
        lines.append(f"row {row} holds {length}")
        for i in range(new):
            signs = " ".join("■" if x == 0 else "□" for x in mask[row, 0, i].tolist())
            lines.append(f"  new token at position {int(positions[row, i])}:  {signs}")
    return "\n".join(lines)


def widths_table(most: int = 16) -> list[list[str]]:
    """Returns the best K, as the package finds it, for acceptance rates (lines) and cost ratios (columns)."""
    ratios = (0.02, 0.05, 0.1, 0.2, 0.5)
    table = [["α", *(f"a draft step takes {c:g}" for c in ratios)]]
    for alpha in (0.1, 0.3, 0.5, 0.7, 0.8, 0.9, 0.95):
        every = [Costs(c, {n: 1.0 for n in range(1, most + 2)}) for c in ratios]
        table.append([f"{alpha:g}", *(str(best_width(costs, [alpha] * most)) for costs in every)])
    return table
