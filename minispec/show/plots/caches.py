"""What a cache saves, and what both caches hold at the moments of a round, position by position.

A cache has a slot per position of the text, in each of its layers. The text and the caches do not end at the
same position: the pending token is in the text but in no cache, and during a round the caches run ahead.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from operator import attrgetter
from typing import Literal, get_args

from minispec.io.trace import ObservedRound, Trace
from minispec.show.plots import charts
from minispec.show.plots.board import WORDS, Cell, Line, in_order, tile, tiled, twin_of, worded
from minispec.show.plots.style import Picture
from minispec.show.signs import GUESS, SIGNS, STATES
from minispec.show.text import check_chain, count, needs_catch_up, shown

Moment = Literal["before", "drafted", "verified", "rolled back", "caught up"]
MOMENTS: tuple[Moment, ...] = get_args(Moment)
TITLES: Mapping[Moment, str] = WORDS["caches"]["moments"]
OWNERS = WORDS["caches"]["owners"]
TAIL = 3  # tokens before the pending one that are drawn; those further left share one column
GONE = replace(STATES["rolled back"], word="rolled back: the token in it no longer counts")
READ, COMPUTED = SIGNS["recomputation"].values()
Steps = Sequence[tuple[int, int]]  # per step: positions found in a cache, and positions computed after them
LOOKS = STATES | SIGNS["caches"] | {"rolled back": GONE}


@dataclass(frozen=True)
class Slot:
    """One slot of a cache, or one token of the text."""

    owner: str  #: `text`, `target` or `draft`
    position: int  #: in the text, counted from 0
    token: int | None  #: the id that stands there or, after rollback, stood there; None in an empty slot
    state: str  #: a name of `STATES`, or `empty`
    held: bool  #: whether the cache holds it now; for the text, whether it is committed


def cache_slots(trace: Trace, index: int, moment: Moment, row: int = 0) -> list[Slot]:
    """Returns the text, the target's slots and, if it has a cache, the draft's at a moment of a round.

    Each of the `MOMENTS` sees what those before it have done.

    Raises:
        ValueError: if there is no such round or moment, the row was done before it, or a tree was drafted.
    """
    if not 0 <= index < len(trace.rounds):
        raise ValueError(f"there is no round {index}; the trace has {len(trace.rounds)}")
    if moment not in MOMENTS:
        raise ValueError(f"moment {moment!r} is unknown; choose one of {', '.join(MOMENTS)}")
    r = trace.rounds[index]
    stage = MOMENTS.index(moment)
    check_chain(r, row)
    prompt = r.prompt_ids[row]
    text = trace.committed(prompt, index)
    drafted = r.draft.tokens[row, : r.drafted(row)].tolist()
    rolled_back = moment in ("rolled back", "caught up")
    emitted = list(r.emitted[row]) if rolled_back else []
    end = len(text) + len(emitted)  # of what is committed

    def committed(position: int) -> str:
        if position < len(trace.prompts[prompt]):
            return "prompt"
        return "committed" if position < len(text) else "accepted"

    slots = []
    for i, token in enumerate([*text, *(emitted if rolled_back else drafted if stage else [])]):
        state = "drafted" if i >= end else "pending" if i == end - 1 else committed(i)
        slots.append(Slot("text", i, token, state, i < end))
    for owner, lengths in (("target", r.target_cache), ("draft", r.draft_cache)):
        if lengths is None:
            continue
        before = lengths.before[row]
        verified = lengths.verified[row]
        after = lengths.after[row]
        full = verified if stage >= (1 if owner == "draft" else 2) else before
        # Rollback first, then the catch-up: the code does the second first, which comes to the same.
        held_tokens = [before, full, full, min(verified, after), after][stage]
        for i, token in enumerate([*text, *drafted]):
            if i < held_tokens:
                state = "drafted" if i >= len(text) and not rolled_back else committed(i)
            else:
                state = "rolled back" if i < full else "empty"
            slots.append(
                Slot(owner, i, token if i < max(held_tokens, full) else None, state, i < held_tokens)
            )
    return slots


def cache_grid(
    trace: Trace, words: Sequence[str], index: int = 0, moments: Sequence[Moment] | None = None
) -> Picture:
    """Draws both caches of a trace's first row at some moments of a round, one under the other.

    By default these are all moments, without `caught up` where nothing was lacking; `words` has the text of
    every token id.

    Raises:
        ValueError: as `cache_slots`.
    """
    cache_slots(trace, index, "before")  # refuses a round that is not there
    r = trace.rounds[index]
    if moments is None:
        moments = [m for m in MOMENTS if m != "caught up" or needs_catch_up(r)]
    scenes = {moment: cache_slots(trace, index, moment) for moment in moments}
    first = r.target_cache.before[0] - TAIL
    first = first if first > 1 else 0
    end = 1 + max(s.position for slots in scenes.values() for s in slots if s.token is not None)
    lines = []
    for number, (moment, slots) in enumerate(scenes.items(), 1):
        lines.append(Line(f"{number}  {TITLES[moment]}" if len(scenes) > 1 else TITLES[moment]))
        lines += [
            _line(owner, list(group), words, first, end)
            for owner, group in groupby(slots, attrgetter("owner"))
        ]
    states = {slot.state for slots in scenes.values() for slot in slots}
    cache = r.target_cache
    return worded(
        "caches",
        tiled(lines, key=in_order(states, LOOKS)),
        twin_of(lines),
        _case(r, moments[-1]),
        round=r,
        cache=cache,
        read=cache.verified[0] - cache.before[0],
        drafted=r.drafted(0),
        moments=count(len(scenes), "moment"),
        gone=count(cache.verified[0] - cache.after[0], "token"),
        titles=", ".join(TITLES[moment].lower() for moment in scenes),
        caches="both caches" if r.draft_cache else "the cache",
        holder="Both caches hold" if r.draft_cache else "The cache holds",
    )


def _line(owner: str, slots: Sequence[Slot], words: Sequence[str], first: int, end: int) -> Line:
    """Returns the line of the text or of a cache: those before the first position share a tile."""
    count = sum(slot.held for slot in slots)
    cells = [Cell(f"{first} tokens", STATES["prompt"], 2)] if first else []
    for slot in slots[first:end]:
        word = "" if slot.token is None else shown(words[slot.token])
        cells.append(tile(LOOKS[slot.state], word))
    return Line(OWNERS[owner], cells, f"{count} tokens" if owner == "text" else f"holds {count}")


def _case(r: ObservedRound, last: Moment) -> str:
    """Returns which of the words' cases the last moment that is drawn is, of both caches or of one."""
    if last == "drafted":
        return "drafted" if r.draft_cache else "drafted-alone"
    if last == "caught up":
        return "caught-up" if needs_catch_up(r) else "nothing-lacking"
    if last == "rolled back" and r.target_cache.verified[0] == r.target_cache.after[0]:
        return "nothing-rejected"
    return last


def steps_without_cache(prompt: int, new: int) -> list[tuple[int, int]]:
    """Returns (kept, computed) per step that makes `new` tokens after a prompt, if each reads all again."""
    return [(0, prompt + n) for n in range(new)]


def steps_with_cache(prompt: int, new: int) -> list[tuple[int, int]]:
    """Returns the same with a cache: the prompt once, then one token a step."""
    return [(0, prompt), *((prompt + n, 1) for n in range(new - 1))]


def positions(steps: Steps) -> int:
    """Returns how many positions were computed in all."""
    return sum(computed for _, computed in steps)


def recomputation(without: Steps, cached: Steps, guess: float | None = None) -> Picture:
    """Draws what each step computes, without a cache and with one, side by side.

    guess: how many positions a reader expected without a cache, or None.
    """
    figure, panels = charts.panels(2, 2, 12, 6.2)
    twin = []
    for axes, name, steps in zip(panels, ("without a cache", "with a cache"), (without, cached), strict=True):
        title = f"{name}: {positions(steps)} positions"
        charts.prepare(axes, "position in the text", "step", "", title, loc="center")
        twin.append(f"{title} (# computed in this step, . from the cache)")
        for n, (reused, computed) in enumerate(steps, 1):
            colours = [READ.colour] * reused + [COMPUTED.colour] * computed
            axes.bar(range(1, len(colours) + 1), 0.9, 0.9, n - 0.45, color=colours)
            twin.append(f"  {n:3} {'.' * reused}{'#' * computed}")
        end = max(map(sum, steps))
        axes.set(xlim=(0.5, end + 0.5), ylim=(len(steps) + 0.5, 0.5), xticks=[1, end], yticks=[1, len(steps)])
    patches = [charts.patch(READ), charts.patch(COMPUTED)]
    if guess is not None:
        patches.append(charts.patch(GUESS, f"{GUESS.glyph} {GUESS.word}: {guess:g}"))
    charts.keys_below(figure, patches, columns=3)
    whole = positions(without)
    kept = positions(cached)
    values = {"without": whole, "cached": kept, "saved": whole - kept}
    return worded("recomputation", figure, twin, steps=len(without), **values)
