"""The stepper in a browser: to the end and back, and what it shows is what `generate --json` says."""

import json

import pytest
from pairs import build_pair

from minispec.cli.main import run

pytestmark = pytest.mark.browser
PROMPT = "The cat sat on"
VERIFIERS = ("greedy", "rejection")
SETTINGS = ["--prompt", PROMPT, "--k", "4", "--max-new-tokens", "10", "--seed", "3"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("browser")


@pytest.fixture(scope="module")
def pair(folder):
    return build_pair(folder / "tiny")


@pytest.fixture(scope="module")
def file(folder, pair):
    path = folder / "demo.html"
    assert run(["demo", "--pair", str(pair), "--no-train", "--html", str(path), *SETTINGS]) == 0
    return path


@pytest.fixture
def opened(browser, file):
    page = browser.new_page(viewport={"width": 1000, "height": 900})
    errors = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("request", lambda request: request.url == file.as_uri() or errors.append(request.url))
    page.goto(file.as_uri())
    yield page
    assert errors == []  # no script failed, and nothing else was requested
    page.close()


def steppers(page):
    found = page.locator(".minispec-stepper").all()
    assert len(found) == len(VERIFIERS)
    return found


def visible(stepper):
    """Returns the index of the one step that is to be seen."""
    shown = stepper.locator(".ms-step").evaluate_all(
        "steps => steps.map((s, i) => s.checkVisibility() ? i : -1).filter(i => i >= 0)"
    )
    assert len(shown) == 1
    return shown[0]


def states(stepper):
    """Returns id and state of each token in the text of the step that is shown."""
    return stepper.locator(".ms-step:not([hidden]) [data-part=text] [data-token]").evaluate_all(
        """tokens => tokens.filter(t => t.checkVisibility())
                          .map(t => [Number(t.dataset.token), t.dataset.state])"""
    )


def states_of_generate(pair, verifier, capsys):
    """Returns id and state of each token, from the rounds of `generate --json`."""
    capsys.readouterr()
    assert run(["generate", "--pair", str(pair), "--verifier", verifier, "--json", *SETTINGS]) == 0
    document = json.loads(capsys.readouterr().out)
    found = [[token, "prompt"] for token in document["prompt_tokens"]]
    for r in document["rounds"]:
        kinds = ["accepted"] * len(r["emitted"])
        if r["kind"] != "draft":
            kinds[-1] = r["kind"]
        found += [list(pair) for pair in zip(r["emitted"], kinds, strict=True)]
    return found, document["rounds"]


@pytest.mark.parametrize("which", range(len(VERIFIERS)))
def test_states_equal_those_of_generate(which, opened, pair, capsys):
    """At the end, and after each commit on the way, the page's tokens are those of `generate --json`."""
    stepper = steppers(opened)[which]
    expected, rounds = states_of_generate(pair, VERIFIERS[which], capsys)
    stepper.locator(".ms-slider").focus()
    opened.keyboard.press("End")
    assert states(stepper) == expected
    assert {"accepted", "correction", "bonus"} <= {state for _, state in states(stepper)} or which == 1
    prompt = sum(state == "prompt" for _, state in expected)
    done = prompt
    for number, r in enumerate(rounds):
        done += len(r["emitted"])
        at = stepper.locator(f'.ms-step[data-round="{number}"][data-phase=commit]').evaluate(
            "s => Array.from(s.parentNode.querySelectorAll('.ms-step')).indexOf(s)"
        )
        slide(stepper, at)
        new = [pair for pair in states(stepper) if pair[1] != "pending"]
        assert new == expected[prompt:done]


def slide(stepper, index):
    stepper.locator(".ms-slider").evaluate(
        "(e, v) => { e.value = v; e.dispatchEvent(new Event('input', {bubbles: true})); }", str(index + 1)
    )
    assert visible(stepper) == index


def test_to_the_end_and_back_with_keys(opened):
    """Arrow keys go through all steps and back, Home and End to the ends, page keys from round to round."""
    stepper, other = steppers(opened)
    last = stepper.locator(".ms-step").count() - 1
    stepper.locator(".ms-next").focus()
    for at in range(1, last + 1):
        opened.keyboard.press("ArrowRight")
        assert visible(stepper) == at
    opened.keyboard.press("ArrowRight")
    assert visible(stepper) == last
    for at in range(last - 1, -1, -1):
        opened.keyboard.press("ArrowLeft")
        assert visible(stepper) == at
    opened.keyboard.press("End")
    assert visible(stepper) == last
    opened.keyboard.press("Home")
    assert visible(stepper) == 0
    opened.keyboard.press("PageDown")
    first = stepper.locator('.ms-step:not([hidden])[data-round="0"][data-phase=draft]')
    assert first.count() == 1
    opened.keyboard.press("PageDown")
    assert stepper.locator('.ms-step:not([hidden])[data-round="1"]').count() == 1
    opened.keyboard.press("PageUp")
    assert first.count() == 1
    assert visible(other) == 0  # the other stepper has not moved


def test_to_the_end_and_back_with_buttons_and_slider(opened):
    """Buttons go step by step and stop at the ends; the slider follows them, and leads."""
    stepper = steppers(opened)[1]
    last = stepper.locator(".ms-step").count() - 1
    back, forth, slider = (stepper.locator(name) for name in (".ms-back", ".ms-next", ".ms-slider"))
    assert back.is_disabled() and visible(stepper) == 0
    for at in range(1, last + 1):
        forth.click()
        assert visible(stepper) == at and slider.input_value() == str(at + 1)
    assert forth.is_disabled()
    assert opened.evaluate("document.activeElement.className") == "ms-slider"  # the focus is not lost
    for at in (last // 2, last, 1, 0):
        slide(stepper, at)
    assert back.is_disabled() and forth.is_enabled()


def test_the_slider_can_be_dragged(opened):
    """A real mouse on the slider moves the steps."""
    stepper = steppers(opened)[0]
    box = stepper.locator(".ms-slider").bounding_box()
    opened.mouse.click(box["x"] + box["width"] - 3, box["y"] + box["height"] / 2)
    assert visible(stepper) == stepper.locator(".ms-step").count() - 1


def test_changes_are_announced(opened):
    """A live region says number, title and sentence of the step; nothing before the first move."""
    stepper = steppers(opened)[0]
    status = stepper.locator("[aria-live=polite]")
    assert status.text_content() == ""
    stepper.locator(".ms-next").click()
    shown = stepper.locator(".ms-step:not([hidden])")
    said = status.text_content()
    assert said.startswith("Step 2 of ")
    assert shown.locator(".ms-title").text_content() in said
    assert shown.locator(".ms-say").text_content() in said
    assert "step 2 of" in stepper.locator(".ms-slider").get_attribute("aria-valuetext")


def test_controls_have_names_and_a_visible_focus(opened):
    """Every control has a label, and the one that has the focus an outline."""
    controls = steppers(opened)[0].locator("button, input").all()
    assert len(controls) == 5
    for control in controls:
        name = control.get_attribute("aria-label")
        seen = control.text_content()
        assert name and seen.strip("‹› ").lower() in name.lower()  # speech input goes by the visible words
    opened.keyboard.press("Tab")
    width = opened.evaluate("getComputedStyle(document.activeElement).outlineWidth")
    assert opened.evaluate("document.activeElement.className") == "ms-next" and width == "3px"


@pytest.mark.parametrize("width", [1200, 500])
def test_nothing_is_wider_than_the_page(opened, width):
    """At desktop and at phone width, steps never make the page scroll sideways."""
    opened.set_viewport_size({"width": width, "height": 900})
    stepper = steppers(opened)[1]
    for at in range(0, stepper.locator(".ms-step").count(), 3):
        slide(stepper, at)
        assert opened.evaluate("document.documentElement.scrollWidth") <= width


def test_without_scripts_all_steps_can_be_read(browser, file):
    """With scripts off, every step stands open."""
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(file.as_uri())
    for stepper in steppers(page):
        said = stepper.locator(".ms-step .ms-say")
        assert said.count() == stepper.locator(".ms-step").count() > 20
        for i in (0, 7, said.count() - 1):
            assert said.nth(i).is_visible()
        assert stepper.locator("button, input").count() == 0
    context.close()
