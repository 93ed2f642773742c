"""Every notebook in a real JupyterLab, as a student has it: a fresh copy, run from the menu, written into."""

import re

import pytest
from lab_page import PROMPTS, cell_with, edit_cell, errors, opened, run_all

from minispec.cli.lab import find_notebooks

pytestmark = pytest.mark.browser
NAMES = sorted(find_notebooks())

CACHE_BYTES = """def cache_bytes(config, tokens, bytes_per_number):
    return 2 * config.layers * {} * config.head_dim * tokens * bytes_per_number


check("cache-bytes", cache_bytes)"""
ALL_MATCHES = """def verify_greedily(drafted, best):
    accepted = sum(a == b for a, b in zip(drafted, best))
    return accepted, best[accepted]


check("verify-greedily", verify_greedily)"""
FROM_P = """def my_verifier(draft, target_probs, rng):
    verdict = minispec.verify_rejection(draft, target_probs, rng)
    p = target_probs.double().take_along_dim(verdict.accepted[:, None, None], 1)[:, 0]
    again = rng.categorical(p)
    return Verdict(verdict.accepted, again.where(verdict.accepted < draft.lengths, verdict.token))


check("write-the-verifier", my_verifier)"""
LOOP = """def my_loop(parts, prompt, k, n):
    parts.prefill(prompt)
    text = list(prompt)
    while len(text) < len(prompt) + n:
        draft = parts.draft(text[-1], k)
        accepted, token = parts.verify(draft, parts.score(text[-1], draft))
        text += [*draft.tokens[0, :accepted].tolist(), token]
        parts.rollback(len(text) - {pending})
    return text[len(prompt) :][:n]


check("write-the-loop", my_loop)"""
POSITIONS = 'predict("positions-without-cache"'
TOP_MATCH = 'predict("distribution-of-top-match"'

# For each notebook: a text of a cell, what is written into it and run (None: nothing), what it then shows.
STEPS = {
    "02_fill_a_kv_cache": [
        (POSITIONS, None, "Put your guess into the cell"),
        (
            POSITIONS,
            f"positions_without_cache = {POSITIONS}, guess=200)\npositions_without_cache",
            "You predicted 200 positions.",
            "not 10 each time",
        ),
        ("def cache_bytes", None, "Still blank"),
        ("def cache_bytes", CACHE_BYTES.format("config.heads"), "Not yet", "You counted the query heads"),
        ("def cache_bytes", CACHE_BYTES.format("config.kv_heads"), "Right"),
    ],
    "05_verify_greedily": [
        (
            'predict("change-one-token"',
            'predict("change-one-token", guess=6)',
            "You predicted 6 distributions.",
            "The causal mask hides",
        ),
        ("def verify_greedily", ALL_MATCHES, "Not yet", "after the first difference"),
    ],
    "06_verify_by_rejection": [
        (
            TOP_MATCH,
            f"top_match = {TOP_MATCH}, guess=(6, 4, 2))\ntop_match",
            "You predicted (6, 4, 2) twelfths.",
            "the rule emits a",
        ),
        (TOP_MATCH, f"top_match = {TOP_MATCH}, guess=(1, 0, 0))\ntop_match", "3 numbers that sum to 12"),
        (TOP_MATCH, f"top_match = {TOP_MATCH}, guess=(12, 0, 0))\ntop_match", "Right"),
        ("def my_verifier", FROM_P, "Not yet", "draw from the residual"),
    ],
    "08_run_the_whole_loop": [
        (
            'predict("target-calls"',
            'target_calls = predict("target-calls", guess=66)\ntarget_calls',
            "You predicted 66 target calls.",
        ),
        ("def my_loop", None, "Still blank"),
        (
            "def my_loop",
            LOOP.format(pending=0),
            "Not yet",
            "Its last token is pending, so the length is one less",
        ),
        ("def my_loop", LOOP.format(pending=1), "Right", "token for token"),
    ],
}


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


@pytest.mark.parametrize("name", STEPS)
def test_guesses_and_answers_get_their_replies(browser, address, name):
    """A typed guess its own reply, a typical mistake its message; then the whole notebook still runs."""
    with opened(browser, address, f"{name}.ipynb") as page:
        run_all(page)
        for text, source, *replies in STEPS[name]:
            cell = cell_with(page, text) if source is None else edit_cell(page, text, source, seconds=200)
            shown = " ".join(cell.inner_text().split())
            assert [reply for reply in replies if reply not in shown] == []
        run_all(page)
        assert errors(page) == []
        if name.startswith("08"):
            answer = cell_with(page, "target_calls.against(").inner_text()
            assert "You predicted 66" in answer and "the target alone" in answer
