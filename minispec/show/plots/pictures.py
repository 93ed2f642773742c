"""Two pictures to begin with, drawn from a recorded run: one round of speculative decoding, and prefill.

A column is a position of the text in every row, so that what is compared stands in one column. Colours and
signs are those of `signs.py`. `docs/refresh_pictures.py` writes the files that pages show.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from textwrap import fill

import matplotlib

from minispec.io.recording import Recording
from minispec.io.trace import CacheLengths
from minispec.show.plots.paper import DARK, HIGH, LABELS, LIGHT, SMALL, STYLE, Drawing, Paper
from minispec.show.signs import SIGNS, State
from minispec.show.text import check_chain, count, shown

FORWARD = SIGNS["works"]["verify"]
DRAFT_FORWARD = SIGNS["works"]["draft"]
CHOICE = State("#FFFFFF")
UNUSED = State("#FFFFFF", ink="#595959")  # a choice after the first rejection, made for another text
EMPTY = State("none")


@dataclass(frozen=True)
class GreedyRound:
    """What the picture tells of a round: its words, and how many tokens the caches held."""

    text: list[str]  #: its last two tokens before the round; the second is pending
    drafted: list[str]
    choices: list[str]  #: what the target finds most probable after the pending and each drafted token
    state: str  #: of the text's two tokens after the round: `prompt`, or `committed` in a later one
    accepted: int
    target_cache: CacheLengths
    draft_cache: CacheLengths

    @property
    def emitted(self) -> list[str]:
        """What is appended to the text."""
        return self.choices[: self.accepted + 1]


def greedy_round(recording: Recording, index: int = 0) -> GreedyRound:
    """Returns what there is to tell of a round of a recording's first prompt.

    Raises:
        ValueError: if there is no such round, it is not greedy, has no draft model, or the text ends in it.
    """
    if not 0 <= index < len(recording.trace.rounds):
        raise ValueError(f"there is no round {index}; the run has {len(recording.trace.rounds)}")
    r = recording.trace.rounds[index]
    check_chain(r)
    drafted = r.draft.tokens[0, : r.drafted(0)].tolist()
    choices = r.target_probs[0, : len(drafted) + 1].argmax(-1).tolist()
    greedy = list(r.emitted[0]) == choices[: r.accepted(0) + 1]
    if not greedy or r.draft_cache is None or r.finish[0] is not None:
        raise ValueError(f"round {index} is not a greedy round of a draft model after which the text goes on")
    text = recording.trace.committed(0, index)[-2:]
    end, guesses, wanted = (
        [shown(recording.words[token]) for token in ids] for ids in (text, drafted, choices)
    )
    state = "committed" if index else "prompt"
    return GreedyRound(end, guesses, wanted, state, r.accepted(0), r.target_cache, r.draft_cache)


@matplotlib.rc_context(STYLE)
def draw_round(recording: Recording, index: int = 0, dark: bool = False) -> Drawing:
    """Draws a greedy round of a recording's first prompt, phase by phase from above to below.

    Raises:
        ValueError: as `greedy_round`.
    """
    r = greedy_round(recording, index)
    title = f"One call of the large model gives {count(len(r.emitted), 'new token')}"
    paper = Paper(len(r.drafted) + 3, 10.0, title, DARK if dark else LIGHT)
    draft_rows(paper, r)
    verify_rows(paper, r)
    accept_row(paper, r)
    commit_row(paper, r)
    paper.label(1.6, "6 Roll back", "target's cache")
    cache_row(paper, r, 1.6, r.target_cache)
    paper.label(0.8, "", "draft model's cache")
    cache_row(paper, r, 0.8, r.draft_cache)
    return Drawing(paper.figure, f"{title}. {told(r)}")


def draft_rows(paper: Paper, r: GreedyRound) -> None:
    """Rows 1 and 2: the text with its pending token, and the guesses, each made after the one before."""
    paper.label(8.8, "1 Text", "last token pending")
    paper.write(LABELS - 0.15, 8.8, "…")
    paper.token(0, 8.8, r.state, r.text[0])
    paper.token(1, 8.8, "pending", r.text[1])
    paper.label(7.65, "2 Draft", f"small model guesses {len(r.drafted)}")
    for column, word in enumerate(r.drafted, 2):
        paper.token(column, 7.65, "drafted", word)
    paper.arrow((1, 8.47), (1.5, 7.65), connectionstyle="angle3,angleA=0,angleB=90")
    for column in range(2, len(r.drafted) + 1):
        paper.arrow((column + 0.15, 7.98), (column + 0.85, 7.98), connectionstyle="arc3,rad=-0.5")


def verify_rows(paper: Paper, r: GreedyRound) -> None:
    """Row 3: one pass over the pending token and all guesses, and the target's own choice after each."""
    paper.label(6.4, "3 Verify", f"{len(r.choices)} tokens at once")
    paper.bar(range(1, 1 + len(r.choices)), 6.4, 0.94, FORWARD)
    middle = paper.centre((1 + len(r.choices)) / 2)
    paper.write(middle, 6.18, "large model, the target: one forward pass", SMALL, color=FORWARD.ink)
    paper.label(5.2, "", "its choice after each")
    for i, (word, choice) in enumerate(zip([r.text[1], *r.drafted], r.choices, strict=True)):
        used = i <= r.accepted
        paper.write(paper.centre(1 + i), 6.58, word, color=FORWARD.ink)
        paper.arrow((1 + i, 5.93), (2 + i, 5.53), alpha=1 if used else 0.5)
        paper.tile(2 + i, 5.2, CHOICE if used else UNUSED, choice, linewidth=2 if used else 1)


def accept_row(paper: Paper, r: GreedyRound) -> None:
    """Row 4: accepted are the guesses that equal the target's choice; the first other one is corrected."""
    paper.label(4.25, "4 Accept", "until one differs")
    for i, word in enumerate(r.drafted):
        state = "accepted" if i < r.accepted else "rejected" if i == r.accepted else "untested"
        paper.token(2 + i, 4.25, state, word)
    if r.accepted < len(r.drafted):
        paper.token(2 + r.accepted, 4.25 - HIGH, "correction", r.emitted[-1])
    else:
        paper.token(2 + r.accepted, 4.25, "bonus", r.emitted[-1])


def commit_row(paper: Paper, r: GreedyRound) -> None:
    """Row 5: the text now; its last token is pending."""
    paper.label(2.6, "5 Commit", count(len(r.emitted), "new token"))
    paper.write(LABELS - 0.15, 2.6, "…")
    states = [r.state] * 2 + ["accepted"] * r.accepted + ["pending"]
    for column, (state, word) in enumerate(zip(states, [*r.text, *r.emitted], strict=True)):
        paper.token(column, 2.6, state, word)


def cache_row(paper: Paper, r: GreedyRound, y: float, cache: CacheLengths) -> None:
    """Row 6: what a cache keeps, and what is cut from its end."""
    paper.write(LABELS - 0.15, y, "…")
    first = cache.before[0] - 1  # the position of the first word; after it, the cache ended
    for column, word in enumerate([*r.text, *r.drafted]):
        if first + column < cache.after[0]:
            paper.token(column, y, r.state if column < 2 else "accepted", word)
        elif first + column < cache.verified[0]:
            paper.token(column, y, "rolled back", word)
    paper.write(paper.centre(len(r.drafted) + 1.6), y, fill(kept(cache), 9), SMALL, ha="left", linespacing=1)


def kept(cache: CacheLengths) -> str:
    """Returns what rollback does to a cache; after a bonus, a draft model reads its last guess instead."""
    after, full = cache.after[0], cache.verified[0]
    return f"keeps {after} of {full}" if after <= full else f"reads {after - full} more"


def told(r: GreedyRound) -> str:
    """Returns a round in words, row by row."""
    if r.accepted < len(r.drafted):
        rest = f'"{r.drafted[r.accepted]}" is rejected, and "{r.emitted[-1]}" replaces it'
    else:
        rest = f'"{r.emitted[-1]}" is the bonus'
    rows = (
        f'the text ends in "{" ".join(r.text)}", and "{r.text[1]}" is pending',
        f'the draft model guesses {count(len(r.drafted), "token")} one by one, "{" ".join(r.drafted)}"',
        "one forward pass of the target reads the pending token and all guesses at once; "
        f'its own choices after each are "{" ".join(r.choices)}"',
        f"of the guesses, {r.accepted} are accepted; {rest}",
        f'"{" ".join(r.emitted)}" is appended to the text, and its last token is pending',
        f"the target's cache {kept(r.target_cache)} tokens, the draft model's {kept(r.draft_cache)}: "
        "all of the text but the pending token",
    )
    return " ".join(f"{number}: {row}." for number, row in enumerate(rows, 1))


@matplotlib.rc_context(STYLE)
def draw_prefill(recording: Recording, dark: bool = False) -> Drawing:
    """Draws how both models read a recording's first prompt, and what their caches hold then.

    Raises:
        ValueError: if the prompt has fewer than seven tokens, or there is no draft model.
    """
    first = recording.trace.rounds[0]
    words = [shown(recording.words[token]) for token in recording.trace.prompts[0]]
    if len(words) < 7 or first.draft_cache is None:
        raise ValueError("this picture is of a draft model, and of a prompt of at least seven tokens")
    held = (first.target_cache.before[0], first.draft_cache.before[0])
    title = "Prefill reads all of the prompt but its last token"
    paper = Paper(8, 6.5, title, DARK if dark else LIGHT)
    paper.label(2.75, "Prompt", f"{len(words)} tokens")
    read = [*words[:3], "…", *words[-4:-1]]
    prompt_row(paper, 2.75, read)
    paper.token(7, 2.75, "pending", words[-1])
    reading_rows(paper, 1, read, "Target", FORWARD, held[0])
    reading_rows(paper, -1, read, "Draft model", DRAFT_FORWARD, held[1])
    told = (
        f'The prompt has {len(words)} tokens and ends in "{" ".join(words[-2:])}". '
        f"One forward pass of the target reads {held[0]} of them into its cache, and one "
        f"of the draft model reads {held[1]} into a cache of its own. "
        f'"{words[-1]}" is pending: it is in the text, and in neither cache.'
    )
    return Drawing(paper.figure, f"{title}. {told}")


def prompt_row(paper: Paper, y: float, words: Sequence[str]) -> None:
    """Draws what is read of a prompt."""
    for column, word in enumerate(words):
        paper.token(column, y, "prompt", word)


def reading_rows(paper: Paper, up: int, words: Sequence[str], name: str, look: State, length: int) -> None:
    """Draws a model's forward pass over the prompt, above it (1) or below (-1), and its cache."""
    high = 0.94 if up > 0 else 0.62  # the target is the larger model
    bar = 2.75 + up * (0.75 + high / 2)
    cache = bar + up * (0.75 + high / 2)
    paper.label(bar, name, f"reads {length} at once")
    paper.bar(range(len(words)), bar, high, look)
    paper.write(paper.centre(3), bar, "one forward pass", color=look.ink)
    paper.label(cache, "", f"its cache: {length} tokens")
    prompt_row(paper, cache, words)
    for column in range(len(words)):
        paper.arrow((column, 2.75 + up * HIGH / 2), (column, bar - up * high / 2))
        paper.arrow((column, bar + up * high / 2), (column, cache - up * HIGH / 2))
    paper.write(paper.centre(7), bar, "not read\nyet", SMALL, color=paper.theme.quiet, linespacing=1)
    paper.tile(7, cache, EMPTY, edgecolor=paper.theme.quiet, linestyle=(0, (2, 2)), linewidth=1.5)
