"""One visual language: a sign stands for its state, wherever a run is shown, and for nothing else."""

import importlib
import re
from pathlib import Path

import pytest

from minispec.io.walkthrough import load_walkthrough
from minispec.show.signs import STATES
from minispec.show.step_html import LEGEND
from minispec.show.stepper import Stepper
from minispec.show.text import FANCY, PLAIN, kinds

ROOT = Path(__file__).resolve().parents[2]
BOOK = ("bench_plots", "draft_sizes", "forms", "handouts")
SOURCES = [
    *sorted((ROOT / "minispec" / "show").rglob("*.py")),
    *sorted((ROOT / "docs" / "_ext").rglob("*.py")),
    *sorted((ROOT / "docs" / "_static").rglob("*.css")),
    *(ROOT / "docs" / "book" / f"{name}.py" for name in BOOK),
]
# `?` and `=` are signs as well, but stand in every source.
SIGNS = "".join(state.glyph for state in STATES.values() if not state.glyph.isascii())
RUNS = ("greedy", "rejection")


def misused(source):
    """Returns the signs that stand in a source, as they are or as an escape, and not from the table."""
    return [sign for sign in SIGNS if sign in source or rf"\u{ord(sign):04x}" in source.lower()]


@pytest.fixture
def module(monkeypatch):
    """Imports a module of the book."""
    pytest.importorskip("sphinx")
    for folder in ("docs", "docs/_ext"):
        monkeypatch.syspath_prepend(ROOT / folder)
    return importlib.import_module


def verdicts(r):
    """Returns for each drafted token of a round what became of it, by the counts of the trace."""
    states = ["accepted", "rejected", "untested"]
    numbers = [r.accepted(0), r.tested(0) - r.accepted(0), r.drafted(0) - r.tested(0)]
    return [state for state, number in zip(states, numbers, strict=True) for _ in range(number)]


def test_each_state_has_its_own_sign_and_colour():
    """No two states share a sign, none a colour; only the prompt has no sign; ASCII signs differ too."""
    signs = [state.glyph for state in STATES.values()]
    assert len(set(signs)) == len(signs) and [name for name in STATES if not STATES[name].glyph] == ["prompt"]
    assert len({state.colour for state in STATES.values()}) == len(STATES)
    assert set(PLAIN) == set(FANCY) == {"accepted", "rejected", "correction", "bonus"}
    assert len(set(PLAIN.values())) == len(PLAIN)


def test_signs_come_from_the_table():
    """A sign is written down once, in `signs.toml`: so it cannot stand for something else elsewhere."""
    found = {path.name: misused(path.read_text(encoding="utf-8")) for path in SOURCES}
    assert {name: signs for name, signs in found.items() if signs} == {}
    table = (ROOT / "minispec" / "show" / "signs.toml").read_text(encoding="utf-8")
    assert [sign for sign in SIGNS if table.count(sign) != 1] == []


@pytest.mark.parametrize("name", RUNS)
def test_stepper(name):
    """Each token, or its run, has the sign of its state before it, and the key explains it."""
    page = Stepper(load_walkthrough(name)).html()
    sign = r'<i class="ms-sign"[^>]*>(.)</i>'
    chips = re.findall(rf'<b data-state="([\w ]+)"[^>]*>{sign}', page)
    runs = re.findall(rf'<span class="ms-run"[^>]*>{sign}<b data-state="([\w ]+)"', page)
    verdicts = re.findall(r'class="ms-verdict" title="(\w+)">(.)<', page)
    pairs = {*chips, *((state, glyph) for glyph, state in runs), *verdicts}
    assert pairs == {(state, STATES[state].glyph) for state, _ in pairs}
    assert {state for state, _ in chips} == set(STATES) - {"prompt", "committed"}
    explained = re.findall(rf"<span [^>]*>{sign} ([^<]+)</span>", page[page.index('class="ms-legend"') :])
    assert explained == [(STATES[state].glyph, STATES[state].word) for state in LEGEND]
    rest = re.sub(r'<([ib]) class="ms-(sign|verdict|pending)"[^>]*>.</\1>', "", page)
    assert not set(rest) & set(SIGNS)


@pytest.mark.parametrize("name", RUNS)
def test_walk_through(name, module):
    """The table of rounds has a sign for each drafted token and the target's own; other cells have none."""
    tables = module("run_tables")
    recording = load_walkthrough(name)
    rounds = recording.trace.rounds
    for r, line in zip(rounds, tables.rounds_table(recording, len(rounds))[1:], strict=True):
        states = [*verdicts(r), *(() if r.kind(0) == "draft" else (r.kind(0),))]
        assert [c for c in "".join(line) if c in SIGNS] == [STATES[state].glyph for state in states]


def test_handouts(module):
    """A verdict that is filled in has the signs of the round; no other form has any."""
    forms = module("book.forms")
    recording = load_walkthrough("rejection")
    r = recording.trace.rounds[module("book.handouts").telling(recording)]
    *_, verdict, comes_out = forms.verdict_form(r, recording.words, (), True).twin.splitlines()
    filled_in = [c for c in verdict if c in SIGNS][-r.drafted(0) :]  # the line explains the signs first
    assert filled_in == [STATES[state].glyph for state in verdicts(r)]
    assert [c for c in comes_out if c in SIGNS] == [STATES[kind].glyph for kind in kinds(r, 0)]
    rest = [forms.mask_form(3, 3, True), forms.rules_form(True), forms.caches_form(recording, r.index, True)]
    assert not set("".join(picture.alt for picture in rest)) & set(SIGNS)


def test_the_key_is_the_table(module):
    """The page's table has each state with its sign and name; both rounds show what their names promise."""
    key = module("sign_key")
    example = module("running_example")
    lines = key.states_table()[1:]
    assert [(sign, cell) for sign, cell, *_ in lines] == [
        (state.glyph or "none", (name, state.word)) for name, state in STATES.items()
    ]
    assert {cell[0]: plain for _, cell, _, plain in lines if plain} == PLAIN
    recording = example.run("greedy")
    for name, lacks in (
        ("corrected", {"bonus"}),
        ("full", {"correction", "rejected", "untested", "rolled back"}),
    ):
        r = example.round_of(recording, name)
        rows = {line[0]: line[1:] for line in key.round_table(r, recording.words)}
        assert [cell[0] for cell in rows["verified"] if cell] == verdicts(r)
        assert [cell[0] for cell in rows["committed"] if cell] == kinds(r, 0)
        shown = {cell[0] for row in rows.values() for cell in row if isinstance(cell, tuple)}
        assert shown == set(STATES) - {"prompt", "committed"} - lacks
    for signs, glyphs in (("terminal", FANCY), ("ascii", PLAIN)):
        assert all(glyph in key.in_terminal(signs) for glyph in glyphs.values())
