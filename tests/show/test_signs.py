"""One visual language: a sign stands for its state, wherever a run is shown, and for nothing else."""

import re

import pytest

from minispec.io.walkthrough import load_walkthrough
from minispec.show.signs import STATES
from minispec.show.step_html import LEGEND
from minispec.show.stepper import Stepper

# `?` and `=` are signs as well, but stand in every source.
SIGNS = "".join(state.glyph for state in STATES.values() if not state.glyph.isascii())
RUNS = ("greedy", "rejection")


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
