"""Notebooks 5 and 6 with guesses and wrong answers typed into a real JupyterLab."""

import pytest
from lab_page import cell_with, edit_cell, errors, opened, run_all

pytestmark = pytest.mark.browser
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


def test_notebook_5_answers(browser, address):
    """A guess that forgets the mask, and a verifier that counts all agreements, get their own replies."""
    with opened(browser, address, "05_verify_greedily.ipynb") as page:
        run_all(page)
        guess = edit_cell(page, 'predict("change-one-token"', 'predict("change-one-token", guess=6)')
        assert (
            "You predicted 6 distributions." in guess.inner_text()
            and "The causal mask hides" in guess.inner_text()
        )
        wrong = edit_cell(page, "def verify_greedily", ALL_MATCHES)
        assert "Not yet" in wrong.inner_text() and "after the first difference" in wrong.inner_text()
        run_all(page)
        assert errors(page) == []


def test_notebook_6_answers(browser, address):
    """A guessed distribution gets its reply; drawing the correction from p gets its own message."""
    asked = 'predict("law-of-top-match"'
    ask = f"top_match = {asked}, guess={{}})\ntop_match"
    with opened(browser, address, "06_verify_by_rejection.ipynb") as page:
        run_all(page)
        guess = edit_cell(page, asked, ask.format("(6, 4, 2)"))
        assert "You predicted (6, 4, 2) twelfths." in guess.inner_text()
        assert "the rule says a" in guess.inner_text()
        odd = edit_cell(page, asked, ask.format("(1, 0, 0)"))
        assert "3 numbers that sum to 12" in odd.inner_text()
        edit_cell(page, asked, ask.format("(12, 0, 0)"))
        wrong = edit_cell(page, "def my_verifier", FROM_P, seconds=200)
        assert "Not yet" in wrong.inner_text() and "draw from the residual" in wrong.inner_text().replace(
            "\n", " "
        )
        run_all(page)
        assert errors(page) == []
        assert "Right" in cell_with(page, asked).inner_text()
