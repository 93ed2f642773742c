"""Exercises: stubs are blank, solutions pass, wrong answers are recognised, other right answers pass too."""

import inspect
import re
import sys
import time
from itertools import product
from pathlib import Path

import pytest
import torch
from solution_code import solutions

import minispec
from minispec.classroom import check, goal, hint
from minispec.classroom.exercise import is_degenerate
from minispec.classroom.exercises import EXERCISES, sampled_loop
from minispec.classroom.running import time_limit

sys.path.insert(0, str(Path(__file__).parent))
from typical_tests import TYPICAL  # noqa: E402
from variants import VARIANTS  # noqa: E402

FOLDER = Path(__file__).resolve().parents[2] / "notebooks"
BY_KEY = {exercise.key: exercise for exercise in EXERCISES}


def defined(source, name):
    """Runs a source; returns what it calls so."""
    space = {**vars(minispec), "torch": torch}
    exec(compile(source, "cell", "exec"), space)
    return space[name]


def broken():
    """Returns what a student may hand in that is no answer."""
    return {
        "raises": lambda *_: 1 / 0,
        "returns ...": lambda *_: ...,
        "returns a nested list": lambda *_: [[1, [2]], "x"],
        "returns a tensor of odd shape": lambda *_: torch.zeros(2, 3, 5, 7),
        "returns NaN": lambda *_: float("nan"),
        "takes no arguments": lambda: 1,
        "exits": lambda *_: sys.exit(3),
        "not callable": 7,
    }


@pytest.mark.parametrize("exercise", EXERCISES, ids=BY_KEY)
def test_an_exercise_tells_right_from_wrong(exercise):
    """Another right answer passes, a stub is blank, each typical wrong answer gets its own message.

    Whatever else is handed in, there is a card, and it is not ✓.
    """
    right = check(exercise.key, VARIANTS[exercise.key], strict=True)
    assert right.passed and right.kind == "right" and exercise.praise in right.text()
    assert check(exercise.key, defined(exercise.stub, exercise.function)).kind == "blank"
    assert len({message for message, _ in exercise.wrong.values()}) == len(exercise.wrong) >= 3
    for name, (message, answer) in exercise.wrong.items():
        card = check(exercise.key, answer or TYPICAL[name])
        assert (card.kind, card.paragraphs[0]) == ("wrong", message), name
        assert card.detail and f'hint("{exercise.key}", 1)' in card.text(), name
    for name, answer in broken().items():
        card = check(exercise.key, answer)
        assert not card.passed and card.paragraphs[0], name
        assert "could not be judged" not in card.text(), name


@pytest.mark.parametrize("path", sorted({path for _, path, _ in solutions()}), ids=lambda path: path.stem)
def test_every_solution_passes(path):
    """The file of solutions runs to its end; all checks are strict, those of its notebook."""
    source = path.read_text(encoding="utf-8")
    keys = re.findall(r'^check\("([\w-]+)", .*, strict=True\)$', source, re.MULTILINE)
    assert {*keys} == {key for key, one in BY_KEY.items() if one.notebook == int(path.name[:2])}
    exec(compile(source, str(path), "exec"), {})


def test_notebooks_start_from_the_stubs():
    """Each exercise stands in its notebook, stub and check, word by word."""
    for exercise in EXERCISES:
        (path,) = (FOLDER / "text").glob(f"{exercise.notebook:02d}_*.py")
        text = path.read_text(encoding="utf-8")
        assert exercise.stub in text and f'goal("{exercise.key}")' in text, exercise.key
        assert f'check("{exercise.key}", ' in text, exercise.key


# What many forms of one mistake have in common.


def excess_of(p, q):
    return (p - q).clamp(min=0)


def over_its_sum(weights):
    return weights / weights.sum()


EPSILONS = {  # forms of a residual with an epsilon
    "added to the sum": lambda p, q, e: excess_of(p, q) / (excess_of(p, q).sum() + e),
    "the least sum": lambda p, q, e: excess_of(p, q) / excess_of(p, q).sum().clamp(min=e),
    "normalize": lambda p, q, e: torch.nn.functional.normalize(excess_of(p, q), p=1, dim=0, eps=e),
    "added to all": lambda p, q, e: over_its_sum(excess_of(p, q) + e),
    "the least excess": lambda p, q, e: over_its_sum((p - q).clamp(min=e)),
    "a tolerance": lambda p, q, e: over_its_sum(excess_of(p, q)) if excess_of(p, q).sum() > e else p,
    "allclose": lambda p, q, e: p if torch.allclose(p, q, atol=e) else over_its_sum(excess_of(p, q)),
}


def test_an_epsilon_in_the_residual_is_told():
    """Wherever it stands, and however small it is, it has the same message."""
    for form, epsilon, way_out in product(EPSILONS.values(), (1e-6, 1e-12), (False, True)):

        def answer(p, q, form=form, epsilon=epsilon, way_out=way_out):
            return p if way_out and torch.equal(p, q) else form(p, q, epsilon)

        card = check("residual", answer)
        assert card.kind == "wrong" and card.paragraphs[0] == BY_KEY["residual"].wrong["epsilon"][0]
        assert "should be: (1, 0)" in card.detail and "came out:  (1, 0)" not in card.detail


ORDERS = {  # forms of the residual that are right, with other roundings
    "1 - overlap": lambda p, q: excess_of(p, q) / (1 - torch.minimum(p, q).sum()),
    "half the distance": lambda p, q: excess_of(p, q) / ((p - q).abs().sum() / 2),
    "without the overlap": lambda p, q: over_its_sum(p - torch.minimum(p, q)),
    "a list": lambda p, q: over_its_sum(torch.tensor([max(0, a - b) for a, b in zip(p, q, strict=True)])),
}


def test_other_orders_of_operations_are_right():
    """In float64 the cases leave no rounding that could matter."""
    for form in ORDERS.values():
        check("residual", lambda p, q, form=form: p if torch.equal(p, q) else form(p, q), strict=True)


@pytest.mark.parametrize("mask", [torch.Tensor.double, lambda mask: mask.log()])
def test_a_mask_to_be_added_is_refused(mask):
    """Zeros and ones, and −∞ where a token may not look: the message says what becomes of floats."""
    card = check("shift-the-mask", lambda *case: mask(BY_KEY["shift-the-mask"].right(*case)))
    assert card.paragraphs[0] == BY_KEY["shift-the-mask"].wrong["floats"][0]


def test_a_draft_that_is_cut_is_surplus_too():
    """The draft model is asked for k guesses, of which the target reads those that have room."""
    right = inspect.getsource(BY_KEY["write-the-sampled-loop"].right)
    drafts = "for _ in range(min(k, room - 1)):"
    cut = "        del block[room:], dists[room - 1 :]\n        p = probabilities(target"
    source = right.replace(drafts, "for _ in range(k):").replace("        p = probabilities(target", cut)
    space = dict(vars(sampled_loop))
    exec(source, space)
    card = check("write-the-sampled-loop", space["my_sampled_loop"])
    assert card.paragraphs[0] == BY_KEY["write-the-sampled-loop"].wrong["surplus-drafted"][0]


# Which case is shown.


@pytest.mark.parametrize(
    ("key", "name"), [("continue-greedily", "one-forward-for-all"), ("verify-greedily", "no-bonus")]
)
def test_a_degenerate_case_is_shown_only_where_no_other_fails(key, name):
    """No token asked for, or nothing drafted, is the smallest case and the worst explanation."""
    exercise = BY_KEY[key]
    assert is_degenerate(exercise.cases[0])
    shown = check(key, exercise.wrong[name][1]).detail.splitlines()[0]
    assert shown in [exercise._text_of(case) for case in exercise.cases if not is_degenerate(case)]

    def wrong_there(*given):
        return [9, 9] if given[-1] == 0 or given[0] == [] else exercise.right(*given)

    assert check(key, wrong_there).detail.splitlines()[0] == exercise._text_of(exercise.cases[0])


# A hint leads, and leaves the decisive expression to the student.


# Pictures follow the table of signs.


def test_a_card_says_where_an_answer_raised():
    """The exception, the line's number, and the line."""
    source = "def best_k(alpha, c, most):\n    rows = [1]\n    return rows[most + 1]\n"
    card = check("choose-k", defined(source, "best_k"))
    assert "IndexError" in card.text() and "line 3 of your function" in card.text()
    assert "best_k(0.9, 0.05, 1)" in card.detail
    helper = "def row(n):\n    return [1][n]\n\n\ndef best_k(alpha, c, most):\n    return row(most)\n"
    assert "line 2 of your function" in check("choose-k", defined(helper, "best_k")).text()


def test_an_answer_that_changes_its_input_is_told():
    """A list, a tensor and a draft: what is changed in them is spoilt for the caller."""

    def appends(model, prompt, n):
        prompt.append(0)
        return []

    def subtracts(p, q):
        p -= q
        return p

    def overwrites(draft, target_probs, rng):
        draft.tokens[:] = 0
        return minispec.verify_rejection.decide(draft, target_probs, rng)

    changes = {"continue-greedily": appends, "residual": subtracts, "write-the-verifier": overwrites}
    for key, answer in changes.items():
        assert "changed the input" in check(key, answer).text()


def test_a_loop_without_an_end_is_stopped(monkeypatch):
    """Where models count their calls they stop it; else the time is over."""

    def for_ever(alpha, c, most):
        while True:
            try:
                time.sleep(0.01)
            except Exception:
                pass

    def drafts_for_ever(parts, prompt, k, n):
        parts.prefill(prompt)
        while True:
            parts.score(prompt[-1], parts.draft(prompt[-1], k))
            parts.rollback(len(prompt) - 1)

    with monkeypatch.context() as patch:
        patch.setattr("minispec.classroom.exercise.time_limit", lambda: time_limit(0.2))
        assert "had not come to an end" in check("choose-k", for_ever).text()
    assert "does the loop end?" in check("write-the-loop", drafts_for_ever).text()


def test_wrong_in_a_way_that_nobody_foresaw():
    """The smallest counterexample is shown, with what should be and what came out."""
    card = check("verify-greedily", lambda drafted, best: (0, 0))
    assert "smallest case" in card.text() and "came out" in card.html()
    assert "verify_greedily([0], [0, 0])\n  should be: (1, 0)\n  came out:  (0, 0)" in card.detail


def test_a_test_is_scored_bug_by_bug():
    """The card lists all bugs, found and missed, and false alarms at right rules."""
    card = check("write-a-test", VARIANTS["write-a-test"])
    assert re.search(r"bugs found: [678] of 8, false alarms: 0 of 3", card.detail)
    assert card.detail.count("✓ found") + card.detail.count("– missed") == 8
    alarm = check("write-a-test", lambda verifier: verifier is minispec.verify_rejection)
    assert "alarm at a right rule: the coupled rule" in alarm.detail and not alarm.passed


def test_looking_at_bugs_leaves_the_shipped_code_alone():
    """The rules with bugs are copies: nothing that the loop uses is one of them."""
    check("write-a-test", lambda verifier: True)
    live = minispec.verify_rejection.decide.__globals__
    assert live["accept_rejection"] is minispec.verify_rejection.decide
    for name in ("accept_rejection", "next_distribution", "residual"):
        assert live[name].__globals__ is live and live[name].__code__.co_filename.endswith("verify.py")


def test_an_unknown_exercise_lists_the_known_ones():
    """A typing error in a key stops nothing."""
    for card in (check("no-such"), hint("no-such"), goal("no-such")):
        assert "cache-bytes" in card.text()
    with pytest.raises(AssertionError, match="no exercise"):
        check("no-such", strict=True)
