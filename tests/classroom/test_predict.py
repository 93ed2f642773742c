"""Predictions: they never stop a notebook, and each wrong belief gets its own reply."""

import ast
import re
from pathlib import Path

import pytest

from minispec.classroom.questions import QUESTIONS, predict

NOTEBOOKS = Path(__file__).resolve().parents[2] / "notebooks" / "text"
WITH_CHOICES = [q for q in QUESTIONS if not q.numeric]
WITH_SEVERAL = [q for q in QUESTIONS if isinstance(q.answer, tuple)]
WITH_NUMBERS = [q for q in QUESTIONS if q.numeric and q not in WITH_SEVERAL]

# What many people believe of speculative decoding, and is not so. Each is the belief of some choice.


def each(questions):
    return pytest.mark.parametrize("question", questions, ids=lambda question: question.key)


@each(WITH_CHOICES)
def test_each_choice_has_its_reply(question):
    """Each choice is answered with its own reply, the right one with ✓ and all others with ✗."""
    replies = [choice.reply for choice in question.choices.values()]
    assert len(set(replies)) == len(replies)
    for letter, choice in question.choices.items():
        prediction = predict(question.key, guess=f" {letter.upper()} ")
        assert prediction.guess == letter and prediction.right is choice.right
        assert str(prediction).startswith("✓ Right" if choice.right else "≠ Compare")
        assert choice.reply in str(prediction)


@each(WITH_NUMBERS)
def test_each_slip_has_its_reply(question):
    """A typical wrong number gets its own reply; the right one gets ✓; any other is told the answer."""
    truth = question.answer if question.answer is not None else 7.0
    replies = [slip.reply for slip in question.slips]
    assert len(set(replies)) >= len({slip.belief for slip in question.slips})
    for slip in question.slips:
        prediction = predict(question.key, guess=slip.number).against(truth)
        assert prediction.right is False and slip.reply in str(prediction)
    exact = predict(question.key, guess=str(truth)).against(truth)
    assert exact.right and exact.value == truth and str(exact).startswith("✓ Right")
    far = predict(question.key, guess=1000 * truth + 1).against(truth)
    assert far.right is False and f"{truth:.4g}" in str(far) and "your number is more" in str(far)


@each(WITH_SEVERAL)
def test_a_distribution_is_guessed_part_by_part(question):
    """The right distribution gets ✓ and can be drawn, a slip its own reply, any other is told the answer."""
    right = predict(question.key, guess=list(question.answer))
    assert right.right and str(right).startswith("✓ Right")
    assert right.distribution == tuple(x / 12 for x in question.answer) and right.value is None
    for slip in question.slips:
        wrong = predict(question.key, guess=slip.number)
        assert wrong.right is False and slip.reply in str(wrong)
    other = predict(question.key, guess=(0, 0, 12))
    assert other.right is False and "It is (" in str(other) and str(other).startswith("≠ Compare")
    assert "guess=(…, …, …)" in str(predict(question.key))


@pytest.mark.parametrize(
    ("key", "guess", "words"),
    [
        *(("bad-draft", guess, '"b"') for guess in ("z", "", True, ["a"], object)),
        *(("draft-forwards", guess, "a number") for guess in ("z", True, float("nan"), ["a"])),
        *(
            ("distribution-of-fresh-draw", guess, "sum to 12")
            for guess in ((6, 6), (6, 4, 3), (14, -2, 0), "abc")
        ),
    ],
)
def test_what_is_no_guess_is_told_what_would_be_one(key, guess, words):
    """Nothing that a student types raises: no choice, no number, no distribution of the same sum."""
    prediction = predict(key, guess=guess)
    assert prediction.guess is prediction.right is prediction.distribution is prediction.value is None
    assert str(prediction).startswith("? Predict")
    assert "no possible guess" in str(prediction) and words in str(prediction)


def test_a_measured_number_is_compared_later():
    """A question without an answer of its own notes the guess, and compares when the number is there."""
    prediction = predict("target-calls", guess=30)
    assert "Noted" in str(prediction) and prediction.right is None and prediction.value == 30
    assert "as many as tokens" in str(prediction.against(12, {30: "as many as tokens"}))
    assert prediction.against(31).right  # within a tenth
    assert "It is 12 target calls" in str(predict("target-calls").against(12))


def test_html_is_escaped_and_needs_no_style_sheet():
    """What is typed cannot become HTML, and the card has its own ink and background."""
    html = predict("bad-draft", guess="<b>&")._repr_mimebundle_()["text/html"]
    assert "<b>&" not in html and "&lt;b&gt;&amp;" in html
    assert "background:#ffffff;color:#1a1a1a" in html and "<style" not in html and "<script" not in html


def test_an_unknown_key_is_an_authors_error():
    """The message lists the keys."""
    with pytest.raises(ValueError, match="bad-draft"):
        predict("no-such-question")


def calls_in(text):
    """Yields the questions of the `predict(…)` calls in a notebook's text."""
    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.Call(func=ast.Name(id="predict"), args=[key]):
                yield key.value


@pytest.mark.parametrize("path", sorted(NOTEBOOKS.glob("*.py")), ids=lambda path: path.stem)
def test_notebooks_ask_what_is_asked_here(path):
    """A notebook asks its own questions, at least two, with the choices of the data, and no answer."""
    text = path.read_text(encoding="utf-8")
    keys = list(calls_in(text))
    assert {*keys} == {q.key for q in QUESTIONS if q.notebook == int(path.name[:2])}
    assert len(re.findall(r"guess=None", text)) >= len(keys)
