"""Nothing in notebooks 1 to 8 gives away what a later cell asks to predict or to write.

An answer may stand where it is asked for only after a cell has computed something. Looked at are the words,
the lines of code and the outputs of all cells before, also of earlier notebooks; and those that follow the
question up to the next result.
"""

import re
from dataclasses import dataclass
from functools import lru_cache
from itertools import takewhile

import pytest
from cell_trees import NOTEBOOKS
from notebook_rules import notebook_of, read_notebook, tags
from solution_code import pieces, shared_expressions, solutions

from minispec.classroom.exercises import EXERCISES
from minispec.classroom.questions import QUESTIONS

SHORT = range(1, 9)
ASKED = [question for question in QUESTIONS if question.notebook in SHORT]
ASKS = {"predict", "exercise"}  # tags of cells that show no result

# Expressions that any program may have, and those that a notebook teaches before it asks for more.
IDIOMS = ("range(len(x))", "x.append(y)", "x[:, i]")
TAUGHT = {"accept-one-row": ("u < p[x] / q[x]",)}
# This one asks for a whole that its notebook has shown in other parts: their expressions come again.
WHOLES = {"write-the-sampled-loop"}
STUBS = {e.key: e.stub for e in EXERCISES if e.notebook in SHORT and e.key not in WHOLES}
# The noun that an answer's number stands with, where it is another one than the unit's last word.
NOUNS = {"acceptance-by-hand": r"kept|accepted|keeps", "target-calls": r"call|pass|round"}
# Answers that no number shows: how a sentence would state them.
STATED = {
    "correction-again": r"never (said|emitted) after a rejection|cannot be (said|drawn|emitted) again",
}


@dataclass(frozen=True)
class Cell:
    """A cell, and all that a reader sees of it."""

    notebook: int
    number: int
    tags: frozenset[str]
    is_code: bool
    source: str
    outputs: str

    @property
    def shows_results(self):
        """Whether it computes something: it is no question, goal, hint or exercise."""
        return self.is_code and not self.tags & ASKS and not self.source.startswith(("goal(", "hint("))

    @property
    def sentences(self):
        """What stands in it: sentences of prose, lines of code and of outputs."""
        if self.is_code:
            lines = [*self.source.splitlines(), *self.outputs.splitlines()]
        else:
            lines = [" ".join(self.source.split())]
        return [sentence for line in lines for sentence in re.split(r"(?<=[.?!:])\s+", line)]

    def __str__(self):
        return f"notebook {self.notebook}, cell {self.number}"


@lru_cache
def cells(notebook):
    """Returns the cells of a notebook, as it was committed."""
    read_cells = []
    for number, cell in enumerate(read_notebook(notebook_of(NOTEBOOKS[notebook])).cells):
        outputs = [
            output.get("text", "") or output.get("data", {}).get("text/plain", "")
            for output in cell.get("outputs", [])
        ]
        is_code = cell.cell_type == "code"
        read_cells.append(
            Cell(notebook, number, frozenset(tags(cell)), is_code, cell.source, "\n".join(outputs))
        )
    return read_cells


def place_of(notebook, call):
    """Returns the number of the cell that holds a call, given as a pattern."""
    (place,) = (cell.number for cell in cells(notebook) if re.search(call, cell.source, re.MULTILINE))
    return place


def before(notebook, place):
    """Yields all cells before a place, those of earlier notebooks too."""
    for number in range(1, notebook):
        yield from cells(number)
    yield from cells(notebook)[:place]


def until_a_result(notebook, place):
    """Yields the cells after a place that come before the next result."""
    yield from takewhile(lambda cell: not cell.shows_results, cells(notebook)[place + 1 :])


def truth_of(question):
    """Returns the answer of a question for a number; one that the notebook computes, out of its output."""
    if question.answer is not None:
        return question.answer
    written = re.compile(rf"It is ([\d.]+) {re.escape(question.unit)}\.")
    matches = [written.search(cell.outputs) for cell in cells(question.notebook)]
    return next((float(match[1]) for match in matches if match), None)


def forms(number):
    """Returns how a number may be written, as a pattern."""
    if isinstance(number, tuple):
        return re.escape(f"({', '.join(f'{x:g}' for x in number)})")
    written = [f"{number:g}"]
    if number < 1:
        written += [f"{number:.2f}", f"{number:.3f}", f"{number:.0%}"]
        written += ["half", "1/2"] if number == 0.5 else []
    return "|".join(map(re.escape, written))


def gives_away(question):
    """Returns a test for lines: whether one states the answer of a question; None if nothing can tell."""
    if question.key in STATED:
        return re.compile(STATED[question.key]).search
    if not question.numeric or (truth := truth_of(question)) is None:
        return None
    noun = NOUNS.get(question.key) or question.unit.split()[-1].rstrip("s")
    number = re.compile(rf"(?<![\w.,/(])(?:{forms(truth)})(?![\w/]|\.\d)", re.IGNORECASE)
    beside = re.compile(noun, re.IGNORECASE)
    return lambda line: number.search(line) and beside.search(line)


# The others are choices between sentences, which no pattern tells.
TELLING = [question for question in ASKED if gives_away(question) is not None]


@pytest.mark.parametrize("question", TELLING, ids=[question.key for question in TELLING])
def test_no_earlier_cell_states_what_is_to_be_predicted(question):
    tells = gives_away(question)
    place = place_of(question.notebook, rf'predict\(\s*"{question.key}"')
    earlier = [*before(question.notebook, place), *until_a_result(question.notebook, place)]
    spoilers = [f"{cell}: {line[:140]}" for cell in earlier for line in cell.sentences if tells(line)]
    assert spoilers == []


@pytest.mark.parametrize(
    ("key", "path", "source"),
    [solution for solution in solutions() if solution[0] in STUBS],
    ids=[key for key, _, _ in solutions() if key in STUBS],
)
def test_no_earlier_cell_holds_an_expression_of_what_is_to_be_written(key, path, source):
    """Calls, indices and operations of the solution, whatever their names: in the exercise's own notebook.

    What its stub has, what every program has, and the rule that an exercise applies to more tokens may stand.
    """
    notebook = int(path.name[:2])
    place = place_of(notebook, rf'^check\("{key}"')
    allowed = " ".join(pieces("\n".join([STUBS[key], *IDIOMS, *TAUGHT.get(key, ())])))
    spoilers = []
    for cell in cells(notebook)[:place]:
        if cell.is_code and "exercise" not in cell.tags:
            spoilers += [
                f"{cell}: {e}"
                for e in shared_expressions(cell.source, source)
                if is_long(e) and not in_text(e, allowed)
            ]
    assert spoilers == []


def is_long(expression):
    """Whether an expression has six pieces or more: shorter ones stand everywhere."""
    return len(expression.split()) >= 6


def in_text(expression, plain):
    """Whether an expression stands in a text that is split into pieces."""
    return re.search(rf"(?<!\S){expression}(?!\S)", plain, re.IGNORECASE)


def test_planted_spoilers_are_found():
    """A number beside its noun, in digits or in words; a distribution; a sentence over two lines."""
    by_key = {question.key: gives_away(question) for question in ASKED}
    for key, line in (
        ("target-calls", "66 tokens: target alone 66 calls, with the draft 18"),
        ("acceptance-by-hand", "Half of the draft is kept, two twelfths of each token."),
        ("distribution-of-rejection", "So (6, 4, 2) twelfths come out."),
        ("correction-again", "Look at c: it is never said after a rejection."),
        ("positions-without-cache", "That makes 390 positions in all."),
    ):
        assert by_key[key](line), key
    assert not by_key["target-calls"]("218 calls") and not by_key["target-calls"]("18 tokens")
    (solution,) = (source for key, _, source in solutions() if key == "continue-greedily")
    assert any(is_long(e) for e in shared_expressions("distribution = softmax(scores[0, -1])", solution))
