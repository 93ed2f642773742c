"""Every notebook in a real JupyterLab, as a student has it: a fresh copy, run from the menu."""

import re

import pytest
from lab_page import PROMPTS, cell_with, edit_cell, errors, opened, run_all

from minispec.cli.lab import find_notebooks

pytestmark = pytest.mark.browser
NAMES = sorted(find_notebooks())


@pytest.mark.parametrize("name", NAMES)
def test_run_all_runs_all(browser, address, name):
    """Each cell gets its number, no prompt is left with a star, none shows an error or a warning, and figures
    have alternative text."""
    with opened(browser, address, name) as page:
        assert run_all(page) == len(page.evaluate(PROMPTS)) > 0
        assert [prompt for prompt in page.evaluate(PROMPTS) if not re.fullmatch(r"\[\d+\]:", prompt)] == []
        assert errors(page) == []
        images = page.locator(".jp-Notebook .jp-OutputArea-output img")
        assert all(len(image.get_attribute("alt") or "") >= 40 for image in images.all())


def test_a_guess_is_answered(browser, address):
    """In notebook 2 a typed guess gets its own reply, and the figure draws it."""
    with opened(browser, address, "02_fill_a_kv_cache.ipynb") as page:
        run_all(page)
        asked = cell_with(page, 'predict("positions-without-cache"')
        assert "Put your guess into the cell" in asked.inner_text()
        source = (
            'positions_without_cache = predict("positions-without-cache", guess=200)\npositions_without_cache'
        )
        answered = edit_cell(page, 'predict("positions-without-cache"', source)
        assert "You predicted 200 positions." in answered.inner_text()
        assert "not 10 each time" in answered.inner_text()
        run_all(page)
        assert errors(page) == []


def test_a_wrong_answer_gets_its_card(browser, address):
    """In notebook 2 a blank exercise says so, a typical mistake gets its message, the right answer passes."""
    stub = "def cache_bytes(config, tokens, bytes_per_number):"
    answer = stub + "\n    return {}\n\n\ncheck('cache-bytes', cache_bytes)"
    product = "2 * config.layers * {} * config.head_dim * tokens * bytes_per_number"
    with opened(browser, address, "02_fill_a_kv_cache.ipynb") as page:
        run_all(page)
        assert "Still blank" in cell_with(page, "def cache_bytes").inner_text()
        wrong = edit_cell(page, "def cache_bytes", answer.format(product.format("config.heads")))
        assert "Not yet" in wrong.inner_text() and "You counted the query heads" in wrong.inner_text()
        right = edit_cell(page, "def cache_bytes", answer.format(product.format("config.kv_heads")))
        assert "Right" in right.inner_text()
