"""What a cache saves, and what both caches hold at the moments of a round, position by position.

A cache has a slot per position of the text, in each of its layers. The text and the caches do not end at the
same position: the pending token is in the text but in no cache, and during a round the caches run ahead.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Literal, get_args

from matplotlib.patches import Patch

from minispec.io.trace import ObservedRound, Trace
from minispec.show.plots import charts
from minispec.show.plots.board import GREY, MARGIN, Board, in_order, text_width, widest, worded
from minispec.show.plots.style import TEXT, Picture, sheet
from minispec.show.signs import GUESS, STATES, TARGET, State
from minispec.show.text import check_chain, count, needs_catch_up, shown

Moment = Literal["before", "drafted", "verified", "rolled back", "caught up"]
MOMENTS: tuple[Moment, ...] = get_args(Moment)
TITLES: Mapping[Moment, str] = {
    "before": "Before the round",
    "drafted": "After drafting",
    "verified": "After the target's one pass",
    "rolled back": "After rollback",
    "caught up": "After the draft has caught up",
}
OWNERS = {"text": "text", "target": "target's cache", "draft": "draft's cache"}
LINE = 0.44  # height of a line of tiles, in inches
TAIL = 3  # tokens before the pending one that are drawn; those further left share one column
EMPTY = State("#FFFFFF", "")
GONE = replace(STATES["rolled back"], word="rolled back: the token in it no longer counts")
READ, COMPUTED = STATES["prompt"].colour, TARGET.colour
Steps = Sequence[tuple[int, int]]  # per step: positions found in a cache, and positions computed after them
LOOKS = STATES | {"rolled back": GONE}
BOTH = {"caches": "both caches", "holder": "Both caches hold"}
ALONE = {"caches": "the cache", "holder": "The cache holds"}


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
    r, stage = trace.rounds[index], MOMENTS.index(moment)
    check_chain(r, row)
    prompt = r.names[row] if r.names else row
    text = trace.committed(prompt, index)
    drafted = r.draft.tokens[row, : r.drafted(row)].tolist()
    rolled_back = stage >= MOMENTS.index("rolled back")
    emitted = r.emitted[row] if rolled_back else ()
    end = len(text) + len(emitted)  # of what is committed

    def committed(position: int) -> str:
        if position < len(trace.prompts[prompt]):
            return "prompt"
        return "committed" if position < len(text) else "accepted"

    slots = []
    for i, token in enumerate([*text, *(emitted if rolled_back else drafted if stage else ())]):
        state = "drafted" if i >= end else "pending" if i == end - 1 else committed(i)
        slots.append(Slot("text", i, token, state, i < end))
    for owner, lengths in (("target", r.target_cache), ("draft", r.draft_cache)):
        if lengths is None:
            continue
        before, verified, after = lengths.before[row], lengths.verified[row], lengths.after[row]
        full = verified if stage >= (1 if owner == "draft" else 2) else before
        # Rollback first, then the catch-up: the code does the second first, which comes to the same.
        held = [before, full, full, min(verified, after), after][stage]
        for i, token in enumerate([*text, *drafted]):
            if i < held:
                state = "drafted" if i >= len(text) and not rolled_back else committed(i)
            else:
                state = "rolled back" if i < full else "empty"
            slots.append(Slot(owner, i, token if i < max(held, full) else None, state, i < held))
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
    scenes = {TITLES[moment]: cache_slots(trace, index, moment) for moment in moments}
    slots = [slot for scene in scenes.values() for slot in scene]
    grid, y = _Grid(slots, words), 0.0
    for number, (title, scene) in enumerate(scenes.items(), 1):
        y = grid.draw(y, number if len(scenes) > 1 else None, title, scene)
    figure = grid.page.end(y, in_order({slot.state for slot in slots}, LOOKS))
    before, verified, after = (lengths[0] for lengths in vars(r.target_cache).values())
    values = {"before": before, "verified": verified, "after": after, "read": verified - before}
    values |= {"round": r.index, "drafted": r.drafted(0)}
    said = {"moments": count(len(scenes), "moment"), "gone": count(verified - after, "token")}
    said["titles"] = ", ".join(title.lower() for title in scenes)
    said |= BOTH if r.draft_cache else ALONE
    return worded("caches", figure, "\n".join(grid.twin), _case(r, moments[-1]), **values, **said)


class _Grid:
    """A page, and where things stand on it, in inches."""

    def __init__(self, slots: Sequence[Slot], words: Sequence[str]) -> None:
        pending = min(slot.position for slot in slots if slot.state == "pending")
        self.words = words
        self.first = pending - TAIL if pending - TAIL > 1 else 0
        self.column = 0.16 + widest((self.token(s) for s in slots if s.position >= self.first), 0.4)
        self.before = f"{self.first} tokens" if self.first else ""
        self.start = MARGIN + widest(OWNERS[slot.owner] for slot in slots) + 0.15
        self.rest = text_width(self.before) + 0.2 if self.first else 0.0
        last = max(slot.position for slot in slots if slot.token is not None)
        self.last = last  # what comes after it stays empty at all moments
        self.end = self.start + self.rest + self.column * (last - self.first + 1)
        self.page = Board(self.end + 0.15 + text_width("00 tokens") + MARGIN)
        self.twin: list[str] = []

    def token(self, slot: Slot) -> str:
        """What stands in a tile: the word; in a cache, and if it is pending, after its state's glyph."""
        if slot.token is None:
            return ""
        signed = slot.owner != "text" or slot.state == "pending"
        glyph = STATES[slot.state].glyph if signed else ""
        return f"{glyph} {shown(self.words[slot.token])}".strip()

    def draw(self, y: float, number: int | None, title: str, slots: Sequence[Slot]) -> float:
        """Draws one moment downwards from a height, and says it in the twin; returns where it ends."""
        page, dots = self.page, "… " if self.first else ""
        page.write(MARGIN, y - 0.25, f"{number}  {title}" if number else title, weight="bold")
        self.twin.append(title)
        y -= 0.5
        for owner, group in groupby(slots, key=lambda slot: slot.owner):
            mine = list(group)
            held = sum(slot.held for slot in mine)
            y -= LINE
            page.write(self.start - 0.15, y + LINE / 2, OWNERS[owner], ha="right")
            if self.first:
                page.tile((self.start, y), (self.rest, LINE), STATES["prompt"], self.before)
            signs = [self.draw_slot(y, slot) for slot in mine[self.first : self.last + 1]]
            said = f"{held} tokens" if owner == "text" else f"holds {held}"
            page.write(self.end + 0.15, y + LINE / 2, said)
            self.twin.append(f"  {owner:<7}{dots}{' '.join(signs)}   ({held} held)")
            y -= 0.12
        return y - MARGIN

    def draw_slot(self, y: float, slot: Slot) -> str:
        """Draws a tile; returns what the twin says of it."""
        x = self.start + self.rest + (slot.position - self.first) * self.column
        if slot.token is None:
            self.page.tile((x, y), (self.column, LINE), EMPTY, edgecolor=GREY, linestyle=":")
            return "_"
        self.page.tile((x, y), (self.column, LINE), LOOKS[slot.state], self.token(slot))
        return STATES[slot.state].glyph + shown(self.words[slot.token])


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
    figure, twin = sheet(12, 6.2), []
    sides = {"without a cache": without, "with a cache": cached}
    for axes, (name, steps) in zip(figure.subplots(1, 2), sides.items(), strict=True):
        title, end = f"{name}: {positions(steps)} positions", max(map(sum, steps))
        charts.prepare(axes, "position in the text", "step", grid="").set_title(title, fontsize=TEXT)
        for n, (kept, computed) in enumerate(steps, 1):
            colours = [READ] * kept + [COMPUTED] * computed
            axes.bar(range(1, len(colours) + 1), 0.9, 0.9, n - 0.45, color=colours)
        axes.set(xlim=(0.5, end + 0.5), ylim=(len(steps) + 0.5, 0.5), xticks=[1, end], yticks=[1, len(steps)])
        twin.append(f"{title} (# computed in this step, . from the cache)")
        twin += [f"  {n:3} {'.' * kept}{'#' * computed}" for n, (kept, computed) in enumerate(steps, 1)]
    looks = {"from the cache": READ, "computed in this step": COMPUTED}
    patches = [Patch(facecolor=look, edgecolor="black", label=label) for label, look in looks.items()]
    if guess is not None:
        patches.append(Patch(facecolor=GUESS.colour, label=f"{GUESS.glyph} {GUESS.word}: {guess:g}"))
    charts.keys_below(figure, patches, columns=3)
    values = {"without": positions(without), "cached": positions(cached), "steps": len(without)}
    saved = values["without"] - values["cached"]
    return worded("recomputation", figure, "\n".join(twin), saved=saved, **values)
