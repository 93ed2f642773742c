"""Exercises in the page: right and wrong answers get the notebooks' words, and are kept in the browser."""

import pytest
from browser_pages import blanks_html, exercises_data, read_table
from pages_in_browser import opened, write_page

from minispec.classroom.exercises import CODE

RIGHT = {
    "verify-greedily": ("len(drafted)", "drafted[accepted] == best[accepted]", "accepted", "best[accepted]"),
    "residual": ("max(0, p - q)", "excess / mass", "p"),
    "accept-one-row": ("u < p[x] / q[x]", "i", "residual(p, q)", "target_dists[-1]"),
    "cache-lengths": ("cached + k + 1", "cached + k", "cached + accepted + 1", "accepted == k"),
}
# Typical wrong answers: the number of a blank, and what is put there.
WRONG = {
    "verify-greedily": {
        "shifted": (2, "drafted[accepted] == best[accepted + 1]"),
        "no-bonus": (1, "len(drafted) - 1"),
        "bonus-for-a-correction": (4, "best[-1]"),
        "counts-the-correction": (3, "accepted + 1"),
    },
    "residual": {
        "not-scaled": (2, "excess"),
        "absolute": (1, "max(p - q, q - p)"),
        "p-itself": (2, "p"),
        "no-way-out": (3, "excess / mass"),
        "epsilon": (2, "excess / (mass + 0.00000001)"),
    },
    "accept-one-row": {
        "correction-from-p": (3, "p"),
        "ratio-inverted": (1, "u < q[x] / p[x]"),
        "q-forgotten": (1, "u < p[x]"),
        "keeps-the-rejected": (2, "i + 1"),
        "bonus-one-early": (4, "target_dists[-2]"),
        "bonus-for-a-correction": (3, "target_dists[-1]"),
    },
    "cache-lengths": {
        "pending-forgotten": (1, "cached + k"),
        "draft-reads-its-last": (2, "cached + k + 1"),
        "correction-cached": (3, "cached + accepted + 2"),
        "never-catches-up": (4, "0"),
        "always-catches-up": (4, "1"),
    },
}
ANSWERS = [(key, name) for key, answers in WRONG.items() for name in answers]


def test_data_says_what_notebooks_say():
    """Titles, praise and messages are those of minispec/classroom; every blank has its names."""
    for data in exercises_data()["exercises"]:
        exercise = CODE[data["key"]]
        assert data["praise"] == exercise.praise and len(data["cases"]) == len(exercise.cases)
        assert [wrong["message"] for wrong in data["wrong"]] == [
            message for message, _ in exercise.wrong.values()
        ]
        assert all(wrong["outcomes"] != data["expected"] for wrong in data["wrong"])
        program = read_table("exercises")[data["key"]]["program"]
        assert program.count("____") == len(data["names"]) == len(RIGHT[data["key"]])
    assert [data["key"] for data in exercises_data()["exercises"]] == list(RIGHT)


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    body = "".join(map(blanks_html, RIGHT))
    folder = tmp_path_factory.mktemp("exercises")
    return write_page(folder, body, {"EXERCISES": exercises_data()}, ("expression.js", "exercises.js"))


@pytest.fixture
def page(browser, path):
    with opened(browser, path) as page:
        yield page


def answer(page, key, blanks):
    """Fills in blanks, and returns what is said and the detail under it."""
    for number, text in enumerate(blanks, 1):
        page.fill(f"#{key}-{number}", text)
    page.click(f"#blanks-{key} button")
    return page.locator(f"#blanks-{key} output > *").all_text_contents()


@pytest.mark.browser
@pytest.mark.parametrize("key", RIGHT)
def test_a_right_answer_is_praised(page, key):
    assert answer(page, key, RIGHT[key]) == [f"✓ Right: {CODE[key].title}. {CODE[key].praise}", ""]


@pytest.mark.browser
@pytest.mark.parametrize(("key", "name"), ANSWERS)
def test_a_typical_wrong_answer_gets_its_message(page, key, name):
    number, text = WRONG[key][name]
    blanks = [text if i == number else right for i, right in enumerate(RIGHT[key], 1)]
    said, detail = answer(page, key, blanks)
    assert said == f"✗ Not yet: {CODE[key].title}. {CODE[key].wrong[name][0]}"
    assert "should be:" in detail and "came out:" in detail


@pytest.mark.browser
def test_answers_are_kept_in_the_browser(page):
    answer(page, "residual", RIGHT["residual"])
    page.reload()
    assert page.input_value("#residual-1") == RIGHT["residual"][0]
    assert page.input_value("#accept-one-row-1") == ""
    page.evaluate("localStorage.setItem('residual-1', '<img src=x onerror=alert(1)>'.repeat(9999))")
    page.reload()
    page.click("#blanks-residual button")
    said = page.locator("#blanks-residual output > p").text_content()
    assert "Blank 1: " in said and "\n" not in said


@pytest.mark.browser
def test_all_works_with_keys_at_telephone_width(browser, path):
    """Every blank has a label; Enter checks; what is said is announced."""
    with opened(browser, path, viewport={"width": 390, "height": 800}) as page:
        for box in page.locator("input").all():
            assert box.evaluate("(b) => b.labels.length") == 1
        page.focus("#residual-1")
        for text in RIGHT["residual"]:
            page.keyboard.type(text)
            page.keyboard.press("Tab")
        page.focus("#residual-3")
        page.keyboard.press("Enter")
        assert page.locator("#blanks-residual output").text_content().startswith("✓ Right")
        assert page.locator("#blanks-residual output").evaluate("(o) => o.tagName") == "OUTPUT"
