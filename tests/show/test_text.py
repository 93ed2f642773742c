"""Terminal text: each kind of token has its sign, its colour and its text; tables fit."""

from dataclasses import replace

import pytest
from figures import by_hand
from rich.console import Console

from minispec.io.tokenizer import train_tokenizer
from minispec.show.text import (
    FANCY,
    PLAIN,
    glyphs_for,
    kinds,
    losses_table,
    marked,
    readable,
    round_line,
    shown,
    signed,
)

TOKENIZER = train_tokenizer([], "characters")
END = TOKENIZER.end_of_text
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


def plain(rounds, glyphs=SIGNS):
    """Returns what a terminal without colours shows of rounds."""
    return "".join(piece.plain for piece in marked(rounds, TOKENIZER, glyphs))


@pytest.mark.parametrize(
    ("text", "shown"),
    [(" mat", " ✓mat"), ("mat", "✓mat"), ("\n mat ", "\n ✓mat "), (" ", "✓ "), ("\n", "✓\n"), (".", "✓.")],
)
def test_a_sign_stands_after_the_space(text, shown):
    """Directly before what is seen of its token; blanks alone follow their sign."""
    assert signed(text, ACCEPTED, FANCY).plain == shown


def words_of(text):
    """Returns a tokenizer that has learned these words, with the blank before each, and a way to encode."""
    tokenizer = train_tokenizer([text] * 9, "bpe", 400)
    return tokenizer, tokenizer.encode


def test_words_keep_their_spaces():
    """Without the signs, and without what was rejected, it is the text."""
    tokenizer, encode = words_of(" sat on the mat floor")
    ((mat,), (floor,), kept) = encode(" mat"), encode(" floor"), encode(" sat on the")
    r = by_hand([0], ([*kept, mat], 3, floor), ids=400).rounds
    assert "".join(piece.plain for piece in marked(r, tokenizer, FANCY)) == " ✓sat ✓on ✓the ✗mat ↳floor"


@pytest.mark.parametrize(
    ("stops", "shown"),
    [
        (["Y"], "✓a✓b✗c↳X✓a✓b✓c"),
        (["cY"], "✓a✓b✗c↳X✓a✓b"),
        (["X"], "✓a✓b"),  # what it replaces goes with it
        (["bXab"], "✓a"),
        (["Yz"], "✓a✓b✗c↳X✓a✓b✓c★Y"),
    ],
)
def test_nothing_is_shown_beyond_a_stop_text(stops, shown):
    """It counts what is in the text: a rejected token is not."""
    pieces = marked([CORRECTED, PRAISED], TOKENIZER, FANCY, stops=stops)
    assert "".join(piece.plain for piece in pieces) == shown


def test_a_token_that_holds_the_stop_text_has_no_sign():
    """What it has of the text before the stop is plain, because the token is none of the text's."""
    tokenizer, encode = words_of(" sat on the mat floor")
    (r,) = by_hand([0], (encode(" sat on"), 2, encode(" floor")[0]), ids=400).rounds
    assert "".join(piece.plain for piece in marked([r], tokenizer, FANCY, stops=["oor"])) == " ✓sat ✓on fl"


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
    kept = output.replace("+", "")
    assert kept.startswith(f"a{written}") and "b\n" in kept
    assert kept.count(written) >= 2
    assert readable(text) == f"a{written}\tb⏎" and shown(f" {control}") == written


def test_a_character_of_several_tokens_comes_whole():
    """Bytes of one character are held back until it is complete; what never is comes at the end."""
    cat = ids("🐱")
    assert len(cat) == 4
    whole = [a_round(cat[:2], 2, cat[:3]), a_round([], 0, cat[3:])]
    assert plain(whole) == "{bonus}🐱"
    assert plain([a_round(cat, 4, cat)]) == "{accepted}🐱"
    assert plain([a_round([], 0, cat[:1])]) == "{bonus}\ufffd"
    assert plain([a_round(cat[:2], 1, [cat[0], *ids("X")])]) == "{rejected}\ufffd{correction}\ufffdX"


@pytest.mark.parametrize(
    ("r", "glyphs", "line"),
    [
        (CUT, FANCY, "draft: abcd  →  ✓a✓b   2 tokens, 1 call"),
        (UNDRAFTED, FANCY, "draft: nothing  →  ★Z   1 token, 1 call"),
        (a_round(ids("a\n"), 2, ids("a\nX")), PLAIN, r"draft: a\n  ->  +a+\n*X   3 tokens, 1 call"),
        (a_round([END, *ids("a")], 2, [END]), FANCY, "draft: <end>a  →  ✓<end>   1 token, 1 call"),
    ],
)
def test_a_round_stays_on_one_line(r, glyphs, line):
    """Line ends are written out; what the end or a limit cut has no sign; ASCII has an arrow of its own."""
    assert round_line(r, 0, TOKENIZER, glyphs).plain == line


def test_glyphs_follow_the_encoding():
    """Glyphs where they can be printed, letters elsewhere."""
    assert glyphs_for("utf-8") == FANCY
    assert glyphs_for("cp1252") == glyphs_for(None) == glyphs_for("no such encoding") == PLAIN
