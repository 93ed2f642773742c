"""The stepper of notebook 8 in a real JupyterLab: to its end and back."""

import pytest
from lab_page import opened, run_all

pytestmark = pytest.mark.browser
NAME = "08_run_the_whole_loop.ipynb"


def test_the_stepper_to_its_end_and_back(browser, address):
    """Buttons lead to the end and arrow keys back; meanwhile no key reaches JupyterLab's own commands."""
    with opened(browser, address, NAME) as page:
        run_all(page)
        cells = page.locator(".jp-Notebook .jp-Cell").count()
        stepper = page.locator(".jp-OutputArea-output .minispec-stepper")
        assert stepper.count() == 1
        last = stepper.locator(".ms-step").count() - 1
        forth = stepper.locator(".ms-next")
        back = stepper.locator(".ms-back")
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
