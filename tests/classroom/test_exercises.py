"""Exercises: stubs are blank, solutions pass, wrong answers are recognised, other right answers pass too."""

import inspect
import re
import signal
import sys
import time
from collections import Counter
from pathlib import Path

import pytest
import torch
from solution_code import expressions, shared_expressions, solutions

import minispec
from minispec.classroom import check, goal, hint, wrote
from minispec.classroom.exercise import is_degenerate
from minispec.classroom.exercises import EXERCISES, sampled_loop
from minispec.classroom.running import time_limit
from minispec.show.signs import STATES

sys.path.insert(0, str(Path(__file__).parent))
from typical_tests import TYPICAL  # noqa: E402
from variants import VARIANTS  # noqa: E402

FOLDER = Path(__file__).resolve().parents[2] / "notebooks"
BY_KEY = {exercise.key: exercise for exercise in EXERCISES}
KEYS = list(BY_KEY)
WRONG = [(exercise, name) for exercise in EXERCISES for name in exercise.wrong]
each = pytest.mark.parametrize("exercise", EXERCISES, ids=KEYS)


SOLUTIONS = solutions()


def defined(source, name):
    """Runs a source; returns what it calls so."""
    space = {**vars(minispec), "torch": torch}
    exec(compile(source, "cell", "exec"), space)
    return space[name]


def test_they_stand_in_the_order_of_the_notebooks():
    """Every notebook has at least one."""
    numbers = [exercise.notebook for exercise in EXERCISES]
    notebooks = {int(path.name[:2]) for path in (FOLDER / "text").glob("[0-9]*.py")}
    assert numbers == sorted(numbers) and set(numbers) == notebooks


@each
def test_each_is_complete(exercise):
    """Two different hints, a goal, at least three wrong answers with messages of their own."""
    assert exercise.difficulty in (1, 2, 3) and 1 <= exercise.minutes <= 30
    assert len(set(exercise.hints)) == 2 and exercise.praise and min(map(len, exercise.hints)) > 20
    assert exercise.goal.endswith((".", "count."))
    assert len({message for message, _ in exercise.wrong.values()}) == len(exercise.wrong) >= 3
    assert max(len(line) for line in exercise.stub.splitlines()) <= 100


@each
def test_the_stub_is_blank(exercise):
    """The stub runs as it stands, and strict raises what its card says: that nothing is there yet."""
    with pytest.raises(AssertionError, match="Still blank(.|\n)*nothing"):
        check(exercise.key, defined(exercise.stub, exercise.function), strict=True)


def test_every_exercise_has_a_solution_in_its_notebook():
    """One solution each, in the file of the notebook's number, under the stub's name and arguments."""
    assert Counter(key for key, _, _ in SOLUTIONS) == Counter(KEYS)
    for key, path, cell in SOLUTIONS:
        exercise = BY_KEY[key]
        assert int(path.name[:2]) == exercise.notebook
        definition = re.compile(r"^(?:def|class) .*:$", re.MULTILINE)
        assert definition.findall(cell) == definition.findall(exercise.stub)


@pytest.mark.parametrize("path", sorted({path for _, path, _ in SOLUTIONS}), ids=lambda path: path.stem)
def test_every_solution_passes(path):
    """The file of solutions runs to its end; every check in it is strict."""
    source = path.read_text(encoding="utf-8")
    assert len(re.findall(r"^check\(", source, re.MULTILINE)) == source.count(", strict=True)\n")
    exec(compile(source, str(path), "exec"), {})


@each
def test_another_right_answer_passes(exercise):
    """Judged is what it does, not how it is written or in which form it returns."""
    card = check(exercise.key, VARIANTS[exercise.key], strict=True)
    assert card.passed and card.kind == "right" and exercise.praise in card.text()


@pytest.mark.parametrize(("exercise", "name"), WRONG, ids=[f"{e.key}-{name}" for e, name in WRONG])
def test_a_wrong_answer_gets_its_message(exercise, name):
    """Each typical wrong answer is recognised, told what is wrong and where hints are, and shown a case."""
    message, answer = exercise.wrong[name]
    card = check(exercise.key, answer or TYPICAL[name])
    assert card.kind == "wrong" and card.text().startswith(f"✗ Not yet: {exercise.title}")
    assert card.paragraphs[0] == message and f'hint("{exercise.key}", 1)' in card.text()
    assert card.detail and all(line in card.text() for line in card.detail.splitlines())


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


@pytest.mark.parametrize("epsilon", [1e-6, 1e-8, 1e-10, 1e-12])
@pytest.mark.parametrize("form", EPSILONS)
def test_an_epsilon_in_the_residual_is_told(form, epsilon):
    """Wherever it stands, and however small it is, it has the same message."""
    for way_out in (False, True):

        def answer(p, q, way_out=way_out):
            return p if way_out and torch.equal(p, q) else EPSILONS[form](p, q, epsilon)

        card = check("residual", answer)
        assert card.kind == "wrong" and card.paragraphs[0] == BY_KEY["residual"].wrong["epsilon"][0]
        assert "should be: (1, 0)" in card.detail and "came out:  (1, 0)" not in card.detail


ORDERS = {  # forms of the residual that are right, with other roundings
    "1 - overlap": lambda p, q: excess_of(p, q) / (1 - torch.minimum(p, q).sum()),
    "half the distance": lambda p, q: excess_of(p, q) / ((p - q).abs().sum() / 2),
    "without the overlap": lambda p, q: over_its_sum(p - torch.minimum(p, q)),
    "a list": lambda p, q: over_its_sum(torch.tensor([max(0, a - b) for a, b in zip(p, q, strict=True)])),
}


@pytest.mark.parametrize("form", ORDERS)
def test_other_orders_of_operations_are_right(form):
    """In float64 the cases leave no rounding that could matter."""
    assert check("residual", lambda p, q: p if torch.equal(p, q) else ORDERS[form](p, q), strict=True)


def test_only_where_p_and_q_are_equal_is_no_epsilon():
    """A message by place is for the place where the planted answer fails first."""
    card = check("residual", lambda p, q: over_its_sum(excess_of(p, q)) if (p != q).any() else 7 * p)
    assert not card.passed and "epsilon" not in card.text()


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


def test_a_verifier_is_shown_a_case_that_fits_its_message():
    """It tests padding, and breaks where nothing is drafted."""

    def answer(draft, target_probs, rng):
        draft.tokens[:, 0]
        return BY_KEY["write-the-verifier"].wrong["padding-tested"][1].decide(draft, target_probs, rng)

    card = check("write-the-verifier", answer)
    assert card.paragraphs[0] == BY_KEY["write-the-verifier"].wrong["padding-tested"][0]
    assert "IndexError" not in card.detail


# A hint leads, and leaves the decisive expression to the student.


@pytest.mark.parametrize(("key", "path", "source"), SOLUTIONS, ids=[key for key, _, _ in SOLUTIONS])
def test_no_hint_holds_an_expression_of_the_solution(key, path, source):
    """No call, no index, no operation of the solution stands in a hint; other names do not hide it."""
    exercise = BY_KEY[key]
    assert len(list(expressions(source))) > 1
    assert [shared_expressions(text, source) for text in exercise.hints] == [[], []]


# Pictures follow the table of signs.


@each
def test_pictures_follow_the_table_of_signs(exercise):
    """No sign of former pictures; what is rejected is not emitted; a correction stands under a rejection."""
    text = exercise.picture + exercise.goal
    states = {state.glyph for state in STATES.values()}
    lines = [line for line in exercise.picture.splitlines() if line]
    marks = set(re.findall(r"(?<!\S)([^\w\s.…/,(){}+*−|'-])(?=\w)", exercise.picture))
    apart = states - {"="}  # a sign of its own: no blank after it
    assert not re.search(rf"(?<!\S)[{re.escape(''.join(apart))}] \w", exercise.picture)
    assert marks <= states | {"●", "▲"}, marks
    assert "–" not in text or exercise.key == "shift-the-mask"
    for i, line in enumerate(lines):
        assert not ("✗" in line and line.startswith(("emitted", "commit", "residual", "best"))), line
        for correction in re.finditer("↳", "" if line.startswith("residual") else line):
            above = [other[correction.start() : correction.end()] for other in lines[:i]]
            assert "✗" in above, (exercise.key, line)


BROKEN = {
    "raises": lambda *_: 1 / 0,
    "returns None": lambda *_: [None][0],
    "returns ...": lambda *_: ...,
    "returns a nested list": lambda *_: [[1, [2]], "x"],
    "returns a tensor of odd shape": lambda *_: torch.zeros(2, 3, 5, 7),
    "returns NaN": lambda *_: float("nan"),
    "returns a type": lambda *_: int,
    "takes no arguments": lambda: 1,
    "exits": lambda *_: sys.exit(3),
    "not callable": 7,
    "nothing": None,
}


@each
@pytest.mark.parametrize("name", BROKEN)
def test_no_answer_whatever_raises(exercise, name):
    """Whatever a student hands in, there is a card, and it is not ✓."""
    card = check(exercise.key, BROKEN[name])
    assert not card.passed and card.paragraphs and card.paragraphs[0]
    assert "could not be judged" not in card.text()
    assert "<" not in re.sub(r"</?(div|b|pre|table|tr|td|th)( [^<>]*)?>", "", card.html())


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


def test_without_an_alarm_clock_there_is_no_limit(monkeypatch):
    """Windows has none: what a notebook checks is run all the same."""
    monkeypatch.delattr(signal, "setitimer", raising=False)
    with time_limit(0.001):
        time.sleep(0.01)


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


@each
def test_hints_and_goal(exercise):
    """Two hints, and a goal in HTML and text, with difficulty and minutes."""
    assert exercise.hints[0] in hint(exercise.key).text()
    assert exercise.hints[1] in hint(exercise.key, 2).text() and "2 of 2" in hint(exercise.key, 2).text()
    assert "two hints" in hint(exercise.key, 3).text()
    bundle = goal(exercise.key)._repr_mimebundle_()
    assert ("<pre" in bundle["text/html"]) is bool(exercise.picture)
    lines = bundle["text/plain"].splitlines()
    assert exercise.goal in lines and f"about {exercise.minutes} minutes" in lines[1]
    assert [line.strip() for line in lines[3:]] == [s.strip() for s in exercise.picture.strip().splitlines()]


def test_an_unknown_exercise_lists_the_known_ones():
    """A typing error in a key stops nothing."""
    for card in (check("no-such"), hint("no-such"), goal("no-such")):
        assert "cache-bytes" in card.text()
    with pytest.raises(AssertionError, match="no exercise"):
        check("no-such", strict=True)


@pytest.mark.parametrize("path", sorted((FOLDER / "text").glob("*.py")), ids=lambda path: path.stem)
def test_notebooks_start_from_the_stubs(path):
    """Each exercise of a notebook stands in it, stub and check, word by word."""
    text = path.read_text(encoding="utf-8")
    for exercise in EXERCISES:
        if exercise.notebook == int(path.name[:2]):
            assert exercise.stub in text, exercise.key
            assert f'check("{exercise.key}", ' in text and f'goal("{exercise.key}")' in text


def test_lines_are_shown_without_a_claim_about_who_wrote_them():
    """Most of them stood in the notebook already."""
    text = wrote(defined, measured="3 of 4.").text()
    assert text.startswith("✎ The lines: defined") and "Measured: 3 of 4." in text
    assert "You wrote" not in text and "def defined(source, name):" in text


def test_the_goal_of_the_residual_is_not_its_solution():
    """The rows that are asked for are blank; what the rows above them hold is given."""
    exercise = BY_KEY["residual"]
    *given, missing, residual = exercise.picture.strip().splitlines()
    assert "1/6" in given[-1] and not re.search(r"\d", missing)
    assert re.findall(r"\d\S*", residual) == ["1"]  # its sum
