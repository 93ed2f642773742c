"""Notebook 8 in a real JupyterLab: a guess, a wrong answer, and the stepper to its end and back."""

import pytest
from lab_page import cell_with, edit_cell, errors, opened, run_all

pytestmark = pytest.mark.browser
NAME = "08_run_the_whole_loop.ipynb"
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


def test_a_guess_and_a_wrong_loop(browser, address):
    """A guess gets its reply; a loop that rolls back too little gets its message; the right one passes."""
    with opened(browser, address, NAME) as page:
        run_all(page)
        ask = 'target_calls = predict("target-calls", guess={})\ntarget_calls'
        guess = edit_cell(page, 'predict("target-calls"', ask.format(66))
        assert "You predicted 66 target calls." in guess.inner_text()
        assert "Still blank" in cell_with(page, "def my_loop").inner_text()
        wrong = edit_cell(page, "def my_loop", LOOP.format(pending=0))
        said = " ".join(wrong.inner_text().split())
        assert "Not yet" in said and "Its last token is pending, so the length is one less" in said
        right = edit_cell(page, "def my_loop", LOOP.format(pending=1))
        assert "Right" in right.inner_text() and "token for token" in right.inner_text()
        run_all(page)
        assert errors(page) == []
        answer = cell_with(page, "target_calls.against(").inner_text()
        assert "You predicted 66" in answer and "the target alone" in answer


def test_the_stepper_to_its_end_and_back(browser, address):
    """Buttons lead to the end and arrow keys back; meanwhile no key reaches JupyterLab's own commands."""
    with opened(browser, address, NAME) as page:
        run_all(page)
        cells = page.locator(".jp-Notebook .jp-Cell").count()
        stepper = page.locator(".jp-OutputArea-output .minispec-stepper")
        assert stepper.count() == 1
        last = stepper.locator(".ms-step").count() - 1
        forth, back = stepper.locator(".ms-next"), stepper.locator(".ms-back")
        seen = {phase_of(stepper, 0)}
        for at in range(1, last + 1):
            forth.click()
            seen.add(phase_of(stepper, at))
        assert forth.is_disabled() and not back.is_disabled()
        assert {"prefill", "draft", "verify", "test", "commit", "rollback", "catch up"} <= seen
        page.keyboard.press("d")  # twice would delete a cell, were it JupyterLab's
        page.keyboard.press("d")
        for at in range(last - 1, -1, -1):
            page.keyboard.press("ArrowLeft")
            phase_of(stepper, at)
        assert back.is_disabled() and not forth.is_disabled()
        assert page.locator(".jp-Notebook .jp-Cell").count() == cells


def phase_of(stepper, at):
    """Returns the phase of the one step that is to be seen, which must be number `at`, from 0."""
    shown = stepper.locator(".ms-step").evaluate_all(
        "steps => steps.map((s, i) => [i, s]).filter(([i, s]) => s.checkVisibility())"
        ".map(([i, s]) => [i, s.dataset.phase])"
    )
    assert [number for number, _ in shown] == [at]
    return shown[0][1]
