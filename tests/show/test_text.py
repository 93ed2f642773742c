"""Terminal text: each kind of token has its sign, its colour and its text; tables fit."""

from dataclasses import replace

import pytest
from figures import by_hand
from rich.console import Console

from minispec.io.tokenizer import train_tokenizer
from minispec.show.text import (
    COLOURS,
    FANCY,
    MEANINGS,
    PLAIN,
    glyphs_for,
    kinds,
    legend,
    losses_table,
    marked,
    printable,
    readable,
    shown,
)

TOKENIZER = train_tokenizer([], "characters")
SIGNS = {kind: f"{{{kind}}}" for kind in FANCY}


def ids(text):
    return TOKENIZER.encode(text)


def a_round(drafted, accepted, emitted):
    """Returns a round of one row that drafted, kept and emitted these tokens."""
    (r,) = by_hand(
        [0], (drafted, accepted, emitted[-1] if emitted else 0, len(emitted) or None), ids=257
    ).rounds
    return replace(r, emitted=(tuple(emitted),), live=(bool(emitted),))


CORRECTED = a_round(ids("abcd"), 2, ids("abX"))
REFUSED = a_round(ids("abcd"), 0, ids("X"))
PRAISED = a_round(ids("abc"), 3, ids("abcY"))
CUT = a_round(ids("abcd"), 3, ids("ab"))
UNDRAFTED = a_round([], 0, ids("Z"))
DONE = a_round(ids("ab"), 1, [])
ACCEPTED, REJECTED, CORRECTION, BONUS = FANCY


@pytest.mark.parametrize(
    ("played", "expected"),
    [
        (CORRECTED, [ACCEPTED, ACCEPTED, CORRECTION]),
        (REFUSED, [CORRECTION]),
        (PRAISED, [ACCEPTED, ACCEPTED, ACCEPTED, BONUS]),
        (CUT, [ACCEPTED, ACCEPTED]),
        (UNDRAFTED, [BONUS]),
        (DONE, []),
    ],
)
def test_each_token_has_a_kind(played, expected):
    """All emitted tokens but the last were drafted; the last is what the verdict made it."""
    assert kinds(played, 0) == expected


def test_stretches_begin_with_their_sign():
    """A sign stands where a kind or a round begins; the rejected token stands before its correction."""
    shown = "".join(
        piece.plain for piece in marked([CORRECTED, PRAISED, CUT, DONE, REFUSED], TOKENIZER, SIGNS)
    )
    assert shown == (
        "{accepted}ab{rejected}c{correction}X{accepted}abc{bonus}Y{accepted}ab{rejected}a{correction}X"
    )


def test_each_kind_has_its_colour():
    """A token is in the colour of its kind, its sign too, in bold; what was rejected is struck through."""
    styles = [(piece.plain, piece.style) for piece in marked([CORRECTED, PRAISED], TOKENIZER, FANCY)]
    stretches = [(ACCEPTED, "ab"), (REJECTED, "c"), (CORRECTION, "X"), (ACCEPTED, "abc"), (BONUS, "Y")]
    expected = []
    for kind, text in stretches:
        expected.append((FANCY[kind], f"bold {COLOURS[kind]}"))
        expected += [(each, f"{'strike ' * (kind == REJECTED)}{COLOURS[kind]}") for each in text]
    assert styles == expected


def test_a_rejected_token_stays_on_its_line():
    """A line end that was rejected ends no line, and an end of text is a word; ASCII signs touch no word."""
    end = TOKENIZER.end_of_text
    wrong = [a_round(ids("\n"), 0, ids("X")), a_round([end], 0, ids("Y"))]
    assert "".join(p.plain for p in marked(wrong, TOKENIZER, PLAIN)) == r" x\n>X x <end>>Y"


CONTROLS = ["\x1b[31m", "\x07", "\x08", "\r", "\x0b", "\x7f", "\x9b2J", "\u202e", "\u2028"]


@pytest.mark.parametrize("control", CONTROLS)
def test_what_controls_a_terminal_is_written_out(control):
    """In a token that is kept, one that is rejected, and a row's name; the rest stays."""
    text = f"a{control}\tb\n"
    rounds = [a_round(ids(text), len(ids(text)), [*ids(text), *ids("c")])]
    rounds += [a_round(ids(each), 0, ids("X")) for each in control if len(ids(each)) == 1]
    console = Console(width=160, color_system=None, markup=False, emoji=False)
    with console.capture() as capture:
        for piece in marked(rounds, TOKENIZER, PLAIN):
            console.print(piece, end="", soft_wrap=True)
        figures = {"parameters": 1, "steps": 1, "seconds": 1, "validation_loss": 1.0}
        console.print(losses_table({control: figures}, None))
    output = capture.get()
    written = ascii(control)[1:-1]
    assert not any(each in output for each in control if not each.isascii() or not each.isprintable())
    assert output.startswith(f"+a{written}") and "b\n" in output
    assert output.count(written) >= 2
    assert readable(text) == f"a{written}\tb⏎" and shown(f" {control}") == written


def test_ordinary_text_is_printed_as_it_is():
    """Letters of any script, signs, joined emoji, line ends and tabs."""
    text = "héllo wörld\t日本語\nשלום 👩‍🔬 �"
    assert printable(text) == text


def test_a_character_of_several_tokens_comes_whole():
    """Bytes of one character are held back until it is complete; what never is comes at the end."""
    cat = ids("🐱")
    assert len(cat) == 4
    whole = [a_round(cat[:2], 2, cat[:3]), a_round([], 0, cat[3:])]
    pieces = [piece.plain for piece in marked(whole, TOKENIZER, SIGNS)]
    assert pieces == ["{accepted}", "", "", "{bonus}", "", "{bonus}", "🐱"]
    cut = [piece.plain for piece in marked([a_round([], 0, cat[:1])], TOKENIZER, SIGNS)]
    assert cut[-1] == "\ufffd"


@pytest.mark.parametrize("glyphs", [FANCY, PLAIN])
def test_the_legend_explains_every_sign(glyphs):
    """Each sign stands in the legend, in order, with its meaning; no line is wider than 80 columns."""
    said = legend(glyphs).plain
    places = [said.index(f"{glyphs[kind]} {MEANINGS[kind]}") for kind in glyphs]
    assert places == sorted(places) and max(map(len, said.splitlines())) <= 80
    assert len(said.splitlines()) == 2


def lines_at(width, table):
    """Returns the lines of a table as a terminal of a width without colours shows it."""
    console = Console(width=width, color_system=None)
    with console.capture() as capture:
        console.print(table)
    return capture.get().splitlines()


def test_the_table_of_losses_ends_in_the_floor():
    """Every model with its size, steps, seconds and loss; the floor last, where there is one."""
    figures = {"parameters": 1234567, "steps": 70, "seconds": 8.4, "validation_loss": 0.51239}
    shown = "".join(lines_at(160, losses_table({"target": figures}, 0.4)))
    assert all(
        word in shown for word in ("1,234,567", "70", "8", "0.5124", "entropy of the grammar", "0.4000")
    )
    assert "entropy" not in "".join(lines_at(160, losses_table({"target": figures}, None)))


def test_glyphs_follow_the_encoding():
    """Glyphs where they can be printed, letters elsewhere."""
    assert glyphs_for("utf-8") == FANCY
    assert glyphs_for("cp1252") == glyphs_for(None) == glyphs_for("no such encoding") == PLAIN
