"""Tables of the running example: round by round, and the same text in two rows. Heads stand first."""

from functools import cache

import torch
from running_example import plain, run

from minispec import ModelDrafter, SeededRng, Warp, record, verify_greedy
from minispec.core.cache import KVCache
from minispec.drafters.adaptive import best_width
from minispec.drafters.costs import Costs
from minispec.io.checkpoint import load_pair
from minispec.io.walkthrough import K
from minispec.show.signs import STATES
from minispec.show.text import quoted, verdicts


def rounds_table(recording, most):
    """Returns a line for each of the first rounds."""
    table = [["round", "pending", "drafted", "kept", "then", "target’s cache", "draft’s cache"]]
    words = [quoted(word) for word in recording.words]
    for r in recording.trace.rounds[:most]:
        drafted = zip(verdicts(r, 0), r.draft.tokens[0].tolist(), strict=False)
        last = "the end"
        if (kind := r.kind(0)) != "draft":
            last = f"{kind} {STATES[kind].glyph}{words[int(r.verdict.token[0])]}"
        table.append(
            [
                str(r.index),
                words[int(r.pending[0])],
                " ".join(f"{STATES[state].glyph}{words[token]}" for state, token in drafted),
                f"{r.accepted(0)} of {r.drafted(0)}",
                last,
                *caches(r),
            ]
        )
    return table


def caches(r, row=0):
    """Returns how long each cache was before, verified and after, never broken over two lines."""
    both = (r.target_cache, r.draft_cache)
    moments = [(held.before[row], held.verified[row], held.after[row]) for held in both]
    return ["\u00a0›\u00a0".join(map(str, lengths)) for lengths in moments]


@cache
def ragged_run():
    """Decodes the walkthrough's prompt in two rows, the second four tokens further on, at temperature 0."""
    pair = load_pair("stories")
    trace = run("greedy").trace
    prompt = [*trace.prompts[0]]
    return record(
        pair.target,
        ModelDrafter(pair.draft),
        [prompt, prompt + trace.tokens()[: len(trace.rounds[0].emitted[0])]],
        k=K,
        verifier=verify_greedy,
        max_new_tokens=20,
        warp=Warp(0),
        rng=SeededRng(0),
        eos=pair.tokenizer.end_of_text,
    )


def ragged_table(most):
    """Returns a line for each of the first rounds of the two-row run, and each row."""
    table = [["round", "row", "drafted", "kept", "emitted", "target’s cache", "draft’s cache"]]
    words = run("greedy").words
    for r in ragged_run().rounds[:most]:
        for row in range(2):
            drafted = plain(words[token] for token in r.draft.tokens[row, : r.drafted(row)].tolist())
            emitted = plain(words[token] for token in r.emitted[row])
            kept = f"{r.accepted(row)} of {r.drafted(row)}"
            table.append([str(r.index), str(row), drafted or "–", kept, emitted or "–", *caches(r, row)])
    return table


def ragged_mask(lengths, new, capacity=8):
    """Returns what each new token of ragged rows may look at, as characters: ■ it may, □ it may not.

    Args:
        lengths: how many tokens each row holds.
        new: how many come.
        capacity: slots of a row.
    """
    held = KVCache(1, len(lengths), 1, capacity, 1)
    block = torch.zeros(len(lengths), 1, max(lengths), 1)
    held.begin(max(lengths))  # filled as the loop fills it: all rows at one width, then cut
    held.append(0, block, block)
    held.advance()
    held.truncate(lengths)
    positions, mask = held.begin(new)
    lines = []
    for row, length in enumerate(lengths):
        lines.append(f"row {row} holds {length}")
        for position, slots in zip(positions[row].tolist(), mask[row, 0].tolist(), strict=True):
            signs = " ".join("■" if slot == 0 else "□" for slot in slots)
            lines.append(f"  new token at position {position}:  {signs}")
    return "\n".join(lines)


def widths_table(most=16):
    """Returns the best K, as the package finds it, for acceptance rates (lines) and cost ratios (columns)."""
    ratios = (0.02, 0.05, 0.1, 0.2, 0.5)
    costs = [Costs(c, dict.fromkeys(range(1, most + 2), 1.0)) for c in ratios]
    table = [["α", *(f"a draft step takes {c:g}" for c in ratios)]]
    for alpha in (0.1, 0.3, 0.5, 0.7, 0.8, 0.9, 0.95):
        table.append([f"{alpha:g}", *(str(best_width(each, [alpha] * most)) for each in costs)])
    return table
