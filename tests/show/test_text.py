"""Terminal text: each kind of token has its sign, its colour and its text; tables fit."""

from collections import Counter
from dataclasses import replace

import pytest
import torch
from rich.console import Console

from minispec.core.records import Draft, Round, Verdict
from minispec.io.tokenizer import train_tokenizer
from minispec.io.trace import Statistics
from minispec.show.text import (
    COLOURS,
    FANCY,
    PLAIN,
    Outcome,
    cells,
    glyphs_for,
    kinds,
    legend,
    losses_table,
    marked,
    outcome_table,
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
    draft = Draft(
        torch.tensor([drafted], dtype=torch.long).view(1, -1), torch.ones(1, len(drafted), 257) / 257
    )
    return Round(
        index=0,
        pending=torch.tensor([0]),
        draft=draft,
        target_probs=torch.zeros(1, len(drafted) + 1, 257),
        target_logits=torch.zeros(1, len(drafted) + 1, 257),
        verdict=Verdict(torch.tensor([accepted]), torch.tensor([emitted[-1] if emitted else 0])),
        emitted=(tuple(emitted),),
        live=(bool(emitted),),
        finish=(None,),
        lengths=(0,),
    )


CORRECTED = a_round(ids("abcd"), 2, ids("abX"))
REFUSED = a_round(ids("abcd"), 0, ids("X"))
PRAISED = a_round(ids("abc"), 3, ids("abcY"))
CUT = a_round(ids("abcd"), 3, ids("ab"))
ALONE = a_round([], 0, ids("Z"))
DONE = a_round(ids("ab"), 1, [])
ACCEPTED, REJECTED, CORRECTION, BONUS = FANCY


@pytest.mark.parametrize(
    ("played", "expected"),
    [
        (CORRECTED, [ACCEPTED, ACCEPTED, CORRECTION]),
        (REFUSED, [CORRECTION]),
        (PRAISED, [ACCEPTED, ACCEPTED, ACCEPTED, BONUS]),
        (CUT, [ACCEPTED, ACCEPTED]),
        (ALONE, [BONUS]),
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
    assert styles[:7] == [
        (FANCY[ACCEPTED], f"bold {COLOURS[ACCEPTED]}"),
        ("a", COLOURS[ACCEPTED]),
        ("b", COLOURS[ACCEPTED]),
        (FANCY[REJECTED], f"bold {COLOURS[REJECTED]}"),
        ("c", f"strike {COLOURS[REJECTED]}"),
        (FANCY[CORRECTION], f"bold {COLOURS[CORRECTION]}"),
        ("X", COLOURS[CORRECTION]),
    ]
    assert styles[-2:] == [(FANCY[BONUS], f"bold {COLOURS[BONUS]}"), ("Y", COLOURS[BONUS])]
    assert len(set(COLOURS.values())) == len(COLOURS)


def test_what_is_not_struck_through_is_the_text():
    """Without signs and without what was rejected, the pieces are the emitted tokens; half characters too."""
    cat = ids("🐱")
    rounds = [CORRECTED, PRAISED, a_round([*cat[:2], *ids("b")], 2, cat[:3]), a_round([], 0, cat[3:])]
    kept = [
        p.plain
        for p in marked(rounds, TOKENIZER, FANCY)
        if "strike" not in str(p.style) and "bold" not in str(p.style)
    ]
    assert "".join(kept) == TOKENIZER.decode([token for r in rounds for token in r.emitted[0]]) == "abXabcY🐱"


def test_a_rejected_token_stays_on_its_line():
    """A line end that was rejected ends no line, and an end of text is a word; ASCII signs touch no word."""
    end = TOKENIZER.end_of_text
    wrong = [a_round(ids("\n"), 0, ids("X")), a_round([end], 0, ids("Y"))]
    assert "".join(p.plain for p in marked(wrong, TOKENIZER, PLAIN)) == r" x\n>X x <end>>Y"


CONTROLS = ["\x1b[31m", "\x07", "\x08", "\r", "\x0b", "\x7f", "\x9b2J", "\u202e", "\u2028"]


@pytest.mark.parametrize("control", CONTROLS)
def test_what_controls_a_terminal_is_written_out(control):
    """In a token that is kept, one that is rejected, a table's title and a row's name; the rest stays."""
    text = f"a{control}\tb\n"
    rounds = [a_round(ids(text), len(ids(text)), [*ids(text), *ids("c")])]
    rounds += [a_round(ids(each), 0, ids("X")) for each in control if len(ids(each)) == 1]
    alone, fast = Outcome("target-only", 100, 100, 2.0), Outcome("greedy", 100, 25, 1.0)
    console = Console(width=160, color_system=None, markup=False, emoji=False)
    with console.capture() as capture:
        for piece in marked(rounds, TOKENIZER, PLAIN):
            console.print(piece, end="", soft_wrap=True)
        console.print(outcome_table([(alone, fast)], control))
        figures = {"parameters": 1, "steps": 1, "seconds": 1, "validation_loss": 1.0}
        console.print(losses_table({control: figures}, None))
    output = capture.get()
    written = ascii(control)[1:-1]
    assert not any(each in output for each in control if not each.isascii() or not each.isprintable())
    assert output.startswith(f"+a{written}") and "b\n" in output
    assert output.count(written) >= 3
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


def test_the_end_is_shown():
    """End-of-text has no text; it is shown as a word."""
    end = TOKENIZER.end_of_text
    shown = "".join(p.plain for p in marked([a_round([], 0, [end])], TOKENIZER, PLAIN))
    assert shown == "* <end>"


@pytest.mark.parametrize("glyphs", [FANCY, PLAIN])
def test_the_legend_explains_every_sign(glyphs):
    """Each sign stands in the legend, in order, with its meaning; no line is wider than 80 columns."""
    said = legend(glyphs).plain
    assert [said.index(f"{glyphs[kind]} ") for kind in glyphs] == sorted(
        said.index(f"{g} ") for g in glyphs.values()
    )
    for meaning in ("accepted", "rejected", "the target's correction", "the target's bonus"):
        assert meaning in said
    assert max(map(len, said.splitlines())) <= 80


def test_plain_signs_can_be_printed_anywhere():
    """The plain signs are ASCII, different from each other, one character each."""
    signs = list(PLAIN.values())
    assert "".join(signs).isascii() and len(set(signs)) == len(FANCY) and {len(sign) for sign in signs} == {1}


def lines_at(width, table):
    """Returns the lines of a table as a terminal of a width without colours shows it."""
    console = Console(width=width, color_system=None)
    with console.capture() as capture:
        console.print(table)
    return capture.get().splitlines()


def test_the_table_sets_each_run_beside_target_only():
    """A row for the target alone and one for the run, with the speed-up per token and whether texts agree."""
    alone, fast = Outcome("target-only", 100, 100, 2.0), Outcome("greedy", 100, 25, 1.0, None, False, k=4)
    lines = lines_at(160, outcome_table([(alone, fast)], "A run"))
    assert lines[0].strip() == "A run"
    rows = [line.split() for line in lines if line.lstrip().startswith(("target-only ", "greedy "))]
    assert rows[0] == ["target-only", "torch", "100", "1.00", "50", "1.00x"]
    assert rows[1] == ["greedy", "torch", "4", "25", "4.00", "100", "2.00x", "no"]


def both_backends():
    """Returns what the demo's table shows: two rules on two backends, numbers as large as they get."""
    alone = Outcome("target-only", 1000, 1000, 1.0)
    counts = Statistics(1000, 250, 250, 900, 900, 1000, {})
    fast = Outcome("rejection", 1000, 1000, 0.123, counts, None, k=16)
    greedy = replace(fast, label="greedy", same=True)
    return [
        (replace(alone, backend=backend), replace(run, backend=backend))
        for run in (greedy, fast)
        for backend in ("torch", "native")
    ]


def test_the_table_fits_a_terminal_of_80_columns():
    """Every row on one line, both backends in it, and nothing is cut."""
    lines = lines_at(80, outcome_table(both_backends(), "stories, K = 5"))
    assert max(map(len, lines)) <= 80 and "…" not in "".join(lines)
    rows = [
        line.split() for line in lines if line.lstrip().startswith(("target-only ", "greedy ", "rejection "))
    ]
    assert [row[:2] for row in rows] == [
        [label, backend]
        for rule in ("greedy", "rejection")
        for backend in ("torch", "native")
        for label in ("target-only", rule)
    ]
    assert rows[1] == ["greedy", "torch", "16", "1000", "1.00", "100%", "8,130", "8.13x", "yes"]
    assert rows[-1][-1] == "sampled"


@pytest.mark.parametrize("width", range(40, 80, 4))
def test_a_narrower_terminal_takes_more_lines_and_loses_nothing(width):
    """Down to 40 columns every column still has all of its text, in as many lines as it needs."""
    outcomes = both_backends()
    lines = lines_at(width, outcome_table(outcomes, "stories"))
    assert max(map(len, lines)) <= width and "…" not in "".join(lines)
    shown = Counter("".join(lines).replace(" ", ""))
    wide = Counter("".join(lines_at(200, outcome_table(outcomes, "stories"))).replace(" ", ""))
    for sign in set(shown) | set(wide):
        if sign.isalnum() or sign in ".,%/-":
            assert shown[sign] == wide[sign], sign


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


def test_table_cells():
    """Tokens a second and the speed-up are per token; texts are the same, or not, or sampled."""
    alone = Outcome("target-only", 100, 100, 2.0)
    assert cells(Outcome("greedy", 50, 10, 0.5, None, True), alone)[6:] == ["100", "2.00x", "yes"]
    assert cells(Outcome("rejection", 100, 25, 1.0, None, None), alone)[4] == "4.00"
    assert [cells(Outcome("greedy", 9, 3, 1.0, k=k), alone)[2] for k in (None, 0, 5)] == ["", "0", "5"]
    assert cells(Outcome("rejection", 100, 25, 1.0, None, None), alone)[-1] == "sampled"
    assert cells(Outcome("greedy", 100, 25, 1.0, None, False, "native"), alone)[1] == "native"
    assert cells(Outcome("greedy", 100, 25, 1.0, None, False), alone)[-1] == "no"


def test_below_what_is_counted_here_stands_what_engines_print():
    """30 of 40 tested and of 60 drafted tokens in 20 rounds; a run without drafts has no second line."""
    alone = Outcome("target-only", 49, 49, 2.0)
    shown = cells(Outcome("greedy", 49, 20, 1.0, Statistics(49, 20, 20, 30, 40, 60, {})), alone)
    assert [shown[i] for i in (0, 4, 5)] == ["greedy\n in engines", "2.45\n2.50", "75%\n50%"]
    none = cells(Outcome("greedy", 49, 49, 1.0, Statistics(49, 49, 49, 0, 0, 0, {}), k=0), alone)
    assert [none[i] for i in (0, 4, 5)] == ["greedy", "1.00", ""]
