"""Marked text: every kind of token has its glyph."""

from pairs import build_pair

import minispec
from minispec.show.text import FANCY, PLAIN, Outcome, cells, glyphs_for, kinds, marked


def test_glyphs_follow_the_encoding():
    """Glyphs where they can be printed, letters elsewhere."""
    assert glyphs_for("utf-8") == FANCY
    assert glyphs_for("cp1252") == glyphs_for(None) == glyphs_for("no such encoding") == PLAIN


def test_marks_spell_the_text(tmp_path):
    """Without its glyphs the marked text is the text, and each stretch begins with the sign of its kind."""
    pair = minispec.load_pair(build_pair(tmp_path / "tiny"))
    trace = minispec.record(
        pair.target,
        minispec.ModelDrafter(pair.draft),
        [pair.tokenizer.encode("The cat")],
        k=4,
        verifier=minispec.verify_rejection,
        max_new_tokens=60,
        warp=minispec.Warp(1.0),
        rng=minispec.SeededRng(0),
    )
    pieces = [piece.plain for piece in marked(trace.rounds, pair.tokenizer, FANCY)]
    signs = []
    for r in trace.rounds:
        for kind in dict.fromkeys(kinds(r, 0)):
            signs.append(FANCY[kind])
    assert [p for p in pieces if p in ("✓", "✗", "★")] == signs
    assert "★" in signs and "✗" in signs
    assert sum(len(kinds(r, 0)) for r in trace.rounds) == 60


def test_table_cells():
    """Tokens a second and the speed-up are per token; texts are the same, or not, or sampled."""
    alone = Outcome("target-only", 100, 100, 2.0)
    assert cells(Outcome("greedy", 50, 10, 0.5, None, True), alone)[5:] == ["100", "2.00x", "yes"]
    assert cells(Outcome("rejection", 100, 25, 1.0, None, None), alone)[3] == "4.00"
    assert cells(Outcome("rejection", 100, 25, 1.0, None, None), alone)[-1] == "sampled"
    assert cells(Outcome("greedy", 100, 25, 1.0, None, False, "native"), alone)[1] == "native"
    assert cells(Outcome("greedy", 100, 25, 1.0, None, False), alone)[-1] == "no"
