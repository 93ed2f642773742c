"""What a terminal shows: text with its tokens told apart, and tables.

Each kind of token has the colour and the glyph of `signs`. A rejected token stands struck through before its
correction. Terminals that cannot print the glyphs get ASCII characters.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from rich.table import Table
from rich.text import Text

from minispec.core.records import Round
from minispec.io.stream import StopSearch, TextStream
from minispec.io.tokenizer import Tokenizer
from minispec.io.trace import ObservedRound, Trace, row_of
from minispec.show.signs import STATES

Glyphs = Mapping[str, str]  # one sign per kind of token
PLAIN = {"accepted": "+", "rejected": "-", "correction": ">", "bonus": "*"}
FANCY = {kind: STATES[kind].glyph for kind in PLAIN}
COLOURS = {kind: STATES[kind].colour for kind in (*PLAIN, "drafted")} | {"target": "#888888"}
SPACE = "␣"
# Control characters, what turns the direction of a line, ends of lines and paragraphs, halves of characters.
CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
MEANINGS = {
    "accepted": "drafted and accepted",
    "rejected": "drafted and rejected: not in the text",
    "correction": "the target's correction",
    "bonus": "the target's bonus after full acceptance",
}


def printable(text: str) -> str:
    r"""Returns a text that controls no terminal: what would do so is written out, such as `\x1b`.

    Line ends and tabs stay.
    """
    return CONTROLS.sub(lambda match: ascii(match[0])[1:-1], text)


def readable(text: str) -> str:
    """Returns a text with line ends to be seen, and end-of-text, a sign that few fonts have, as a word."""
    return printable(text).replace("\n", "⏎").replace("⏹", " <end>")


def shown(word: str) -> str:
    """Returns a token's text by itself: without the space that begins a word, other blanks as signs."""
    text = readable(word).replace(" ", SPACE)
    return text.removeprefix(SPACE) or text or "(nothing)"


def quoted(word: str) -> str:
    """Returns a token's text for a sentence: in quotes, without the blanks around it."""
    return f'"{shown(word)}"'


def probability(value: float, digits: int = 2) -> str:
    """Writes a probability; what only rounds to 0 or 1 is told from what is 0 or 1."""
    if value in (0, 1):
        return f"{value:.0f}"
    least = 10**-digits
    if value < least / 2:
        return f"<{least:g}"
    return f">{1 - least:g}" if value >= 1 - least / 2 else f"{value:.{digits}f}"


def glyphs_for(encoding: str | None) -> Glyphs:
    """Returns the glyphs that an output of this encoding can print."""
    try:
        "".join(FANCY.values()).encode(encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return PLAIN
    return FANCY


def count(n: int, noun: str) -> str:
    """Returns `1 token`, `2 tokens`, …."""
    return f"{n} {noun}" if n == 1 else f"{n} {noun}s"


def kinds(r: Round, row: int) -> list[str]:
    """Returns for each emitted token of a row whether it is `accepted`, a `correction` or a `bonus`."""
    count = len(r.emitted[row])
    last = r.kind(row)
    return ["accepted"] * (count - 1) + ["accepted" if last == "draft" else last] if count else []


def verdicts(r: Round, row: int) -> list[str]:
    """Returns for each drafted token of a row whether it was `accepted`, `rejected`, or `untested`.

    What was drafted after the end of the text counts as untested, whatever the verifier made of it.
    """
    drafted = r.drafted(row)
    if r.kind(row) == "draft":
        return (["accepted"] * len(r.emitted[row]) + ["untested"] * drafted)[:drafted]
    after = "untested" if r.stops_at_first_rejection else "rejected"
    return (["accepted"] * r.accepted(row) + ["rejected"] + [after] * drafted)[:drafted]


def decided(r: Round, row: int) -> int:
    """Returns how many tests of a row's draft decided anything: those up to the end of the text."""
    tested = r.tested(row) or 0
    return min(tested, len(r.emitted[row])) if r.kind(row) == "draft" else tested


def with_rejected(r: Round, row: int) -> list[tuple[int, str]]:
    """Returns the tokens that a row emits with their kinds; before a correction the one that it replaces."""
    tokens = []
    for token, kind in zip(r.emitted[row], kinds(r, row), strict=True):
        if kind == "correction":
            tokens.append((int(r.draft.tokens[row, r.rejected(row)[0]]), "rejected"))
        tokens.append((token, kind))
    return tokens


def live_rounds(trace: Trace, prompt: int) -> list[tuple[ObservedRound, int]]:
    """Returns the rounds that a prompt takes part in, each with its row there, until its text ends."""
    return [(r, row) for r, row in trace.rounds_of(prompt) if r.live[row]]


def check_chain(r: Round, row: int = 0) -> None:
    """Refuses, by ValueError, a round in whose row there is no chain of tokens to show one after another."""
    if r.draft.parents is not None:
        raise ValueError(f"round {r.index} drafted a tree; this shows chains alone")
    if not r.live[row]:
        raise ValueError(f"row {row} was done before round {r.index}")


def needs_catch_up(r: ObservedRound, row: int = 0) -> bool:
    """Whether the draft's cache lacked a token after the rollback: the last drafted one, never read."""
    lengths = r.draft_cache
    return lengths is not None and lengths.verified[row] < lengths.after[row]


class Piece(NamedTuple):
    """What is shown of a token."""

    text: str
    kind: str  #: of the token; empty where it has no sign
    start: int  #: where it begins in the decoded text
    size: int  #: how many characters of that text it is, 0 for what is no part of it


def spelled(tokens: Iterable[tuple[int, str]], tokenizer: Tokenizer) -> Iterator[Piece]:
    """Yields what is shown of tokens, given with their kinds.

    A character of several tokens appears with the last of them. A token that was rejected ends no line.
    """
    pieces = TextStream(tokenizer)
    last = ""
    length = 0
    for token, kind in tokens:
        if token in tokenizer.ends:
            yield Piece(" <end>", kind, length, 0)
        elif kind == "rejected":
            yield Piece(tokenizer.piece(token).replace("\n", "\\n"), kind, length, 0)
        else:
            last = kind
            if text := pieces.push(token):
                yield Piece(text, kind, length, len(text))
                length += len(text)
    if text := pieces.flush():
        yield Piece(text, last, length, len(text))


def up_to_stop(pieces: Iterable[Piece], stops: Sequence[str]) -> Iterator[Piece]:
    """Yields pieces that end before the first stop text, as soon as none can begin in them.

    Of a piece in which the stop text begins the text before it is yielded, without a sign, because that token
    is not wholly before it. A piece that is no part of the text goes with the one after it.
    """
    search = StopSearch(stops)
    waiting: list[Piece] = []
    certain = 0  # how much of the text is before any stop text
    for piece in pieces:
        waiting.append(piece)
        certain += len(search.push(piece.text)) if piece.size else 0
        complete = [i for i, each in enumerate(waiting, 1) if each.size and each.start + each.size <= certain]
        if complete:
            yield from waiting[: complete[-1]]
            del waiting[: complete[-1]]
        if search.found:
            break
    if search.found:
        cut = [piece for piece in waiting if piece.start < certain and piece.size]
        yield from (piece._replace(text=piece.text[: certain - piece.start], kind="") for piece in cut)
    else:
        yield from waiting


def signed(text: str, kind: str, glyphs: Glyphs) -> Text:
    """Returns a token's text with its sign directly before it, after the blanks that the token begins with.

    A token of blanks alone has its sign before them, because after them it would belong to the next token.
    """
    text = printable(text)
    if not kind:
        return Text(text)
    word = text.lstrip() or text
    blanks = text.removesuffix(word)
    style = COLOURS[kind]
    struck = f"strike {style}" if kind == "rejected" else style
    return Text.assemble(blanks, (glyphs[kind], f"bold {style}"), (word, struck))


def marked(
    rounds: Iterable[Round], tokenizer: Tokenizer, glyphs: Glyphs, prompt: int = 0, stops: Sequence[str] = ()
) -> Iterator[Text]:
    """Yields a prompt's decoded text as it comes, token by token, each with its sign and in its colour.

    Before a correction stands the drafted token that it replaces: struck through, and not part of the text.
    Nothing is yielded beyond the first of some stop texts. The pieces are to be printed one after another,
    without line ends of their own.
    """
    rows = ((r, row_of(r, prompt)) for r in rounds)
    tokens = (token for r, row in rows if row is not None for token in with_rejected(r, row))
    for piece in up_to_stop(spelled(tokens, tokenizer), stops):
        yield signed(piece.text, piece.kind, glyphs)


def round_line(r: Round, row: int, tokenizer: Tokenizer, glyphs: Glyphs) -> Text:
    """Returns one line about a row's round: what was drafted, what was emitted, and how many tokens that is.

    Drafted tokens that the end of the text or a limit cut off appear on the left only.
    """
    drafted = [(token, "drafted") for token in r.draft.tokens[row, : r.drafted(row)].tolist()]
    guesses = "".join(piece.text for piece in spelled(drafted, tokenizer)) or "nothing"
    if r.draft.parents is not None:
        guesses = f"a tree of {count(len(drafted), 'token')}"
    emitted = Text()
    for piece in spelled(with_rejected(r, row), tokenizer):
        emitted.append_text(signed(piece.text.replace("\n", "\\n"), piece.kind, glyphs))
    first = len(emitted.plain) - len(emitted.plain.lstrip())  # the blank that the first token begins with
    return Text.assemble(
        "draft: ",
        (printable(guesses).replace("\n", "\\n").removeprefix(" "), COLOURS["drafted"]),
        "  ->  " if glyphs is PLAIN else f"  {STATES['pending'].glyph}  ",
        emitted[first:],
        f"   {count(len(r.emitted[row]), 'token')}, 1 call",
    )


def legend(glyphs: Glyphs) -> Text:
    """Returns two short lines that explain the marks."""
    line = Text()
    for number, (kind, meaning) in enumerate(MEANINGS.items()):
        line.append("\n  " if number == 2 else "  ")
        line.append(f"{glyphs[kind]} {meaning}", style=COLOURS[kind])
    return line


def losses_table(info: Mapping[str, Mapping[str, float]], floor: float | None) -> Table:
    """Lays out what a training reached, stage by stage.

    floor: the true entropy in nats per token, where it is known.
    """
    table = Table(title="Training", title_justify="left")
    for column in ("model", "parameters", "steps", "seconds", "loss, nats/token"):
        table.add_column(column, justify="left" if column == "model" else "right")
    for stage, measures in info.items():
        table.add_row(
            Text(printable(stage)),
            f"{measures['parameters']:,.0f}",
            f"{measures['steps']:.0f}",
            f"{measures['seconds']:.0f}",
            f"{measures['validation_loss']:.4f}",
        )
    if floor is not None:
        table.add_row("entropy of the grammar", "", "", "", f"{floor:.4f}")
    return table
