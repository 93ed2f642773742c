"""Exercises in a second form: a semester's tag draws names, order and conventions of what is asked for.

So the solutions beside the notebooks, and last year's answers, do not fit. What is right for a tag is written
down nowhere: it is computed here from what the tag has drawn, and only to be compared with.
"""

import hashlib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import permutations
from textwrap import fill, indent
from typing import Any

import torch
from torch import Tensor

from minispec.classroom.cards import Card, card_about, card_for
from minispec.classroom.exercise import Exercise
from minispec.classroom.exercises import counting, greedy, rejection
from minispec.classroom.running import call_answer
from minispec.io.files import read_table

TAG = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,39}")
NOTEBOOKS = "That is what the exercise in the notebook asks for. Here something else is: read the text again."
TEXTS = read_table(__file__, "semester.toml")
Pick = Callable[[str, Sequence[Any]], Any]  # draws one of several by the tag, the exercise and a name


def draw_option(tag: str, key: str, name: str, options: Sequence[Any]) -> Any:
    """Returns one of the options, the same one for the same words."""
    digest = hashlib.sha256(f"{tag}/{key}/{name}".encode()).digest()
    return options[int.from_bytes(digest[:8], "big") % len(options)]


def second_form(
    base: Exercise,
    pick: Pick,
    choices: Mapping[str, Any],
    right: Callable[..., Any],
    cases: Sequence[Sequence[Any]] = (),
) -> Exercise:
    """Returns an exercise's second form, with the words of semester.toml.

    The `choices` were drawn and stand in them; the order of arguments is drawn here. `cases` are arguments
    in the order of semester.toml, by default those of the notebook; tuples in them are tensors [V].
    """
    words = TEXTS[base.key]
    order = [*pick("order", tuple(permutations(words["shuffled"]))), *words["fixed"]]

    def in_order(*given: Any) -> Any:
        return right(**dict(zip(order, given, strict=True)))

    def shuffled(case: Sequence[Any]) -> list[Any]:
        named = dict(zip(words["shuffled"] + words["fixed"], case, strict=True))
        return [named[name] for name in order]

    def run(answer: Any, *case: Any) -> Any:
        return call_answer(answer, *(torch.tensor(x).double() if isinstance(x, tuple) else x for x in case))

    paragraphs = words["text"].format(**choices).split("\n\n")
    body = "\n\n".join(fill(" ".join(part.split()), 92) for part in paragraphs)
    head = f"def {words['name']}({', '.join(order)})"
    return replace(
        base,
        stub=f'{head}:\n    """{indent(body, "    ").lstrip()}\n    """\n    ...\n',
        hints=(),
        goal="The text of the stub says what is wanted.",
        picture="",
        praise="That is what was asked for.",
        wrong={"notebook": (NOTEBOOKS, base.right)},
        by_place="",
        right=in_order,
        cases=[*map(shuffled, cases or base.cases)],
        run=run,
        case="",
    )


def bytes_of(pick: Pick) -> Exercise:
    """A cache of quantised numbers, with windows in some layers."""
    keys = pick("keys", (2, 4, 8, 16))
    values = pick("values", (2, 4, 8))
    every = pick("every", (2, 3))
    window = pick("window", (4, 5, 6, 7, 8))

    def right(config: Any, tokens: int) -> int:
        kept = sum(min(tokens, window) if i % every == 0 else tokens for i in range(1, config.layers + 1))
        return kept * config.kv_heads * config.head_dim * (keys + values) // 8

    choices = {"keys": keys, "values": values, "every": every, "window": window}
    sizes = TEXTS[counting.BYTES.key]["cases"]
    cases = [(counting.small_config(*config), tokens) for *config, tokens in sizes]
    return second_form(counting.BYTES, pick, choices, right, cases)


def verify_of(pick: Pick) -> Exercise:
    """The greedy rule with rows before the draft, an end, and another result."""
    ahead = pick("ahead", (1, 2, 3))
    end = pick("end", (0, 1, 2))
    dropped = pick("count", (False, True))

    def right(drafted: list[int], best: list[int]) -> tuple[int, int]:
        best = best[ahead:]
        n = 0
        while n < len(drafted) and drafted[n] == best[n] and end not in drafted[:n]:
            n += 1
        return len(drafted) - n if dropped else n, -1 if end in drafted[:n] else best[n]

    cases = [(list(d), [0, 1, 2][:ahead] + list(b)) for d, b in greedy.DRAFTS]
    choices = {"ahead": ahead, "end": end, "counted": "dropped" if dropped else "kept"}
    return second_form(greedy.VERIFY, pick, choices, right, cases)


def mask_of(pick: Pick) -> Exercise:
    """The mask with a window, turned round, or with other columns."""
    window = pick("window", (2, 3, 4))
    hidden = pick("hidden", (False, True))
    new_first = pick("new", (False, True))

    def right(cached: int, k: int) -> Tensor:
        sees = torch.ones(k + 1, cached + k + 1, dtype=torch.bool).tril(cached).triu(cached + 1 - window)
        if new_first:
            sees = sees.roll(-cached, 1)
        return ~sees if hidden else sees

    order = ("the new tokens, then the cached ones", "the cached tokens, then the new ones")
    choices = {"not_": "not " * hidden, "before": window - 1, "columns": order[not new_first]}
    return second_form(greedy.MASK, pick, choices, right)


def residual_of(pick: Pick) -> Exercise:
    """What one distribution has more than another, of counts, scaled to a sum."""
    names = pick("order", tuple(permutations(("target", "draft"))))
    more = pick("more", names)
    total = pick("total", (2, 3, 4, 5, 8, 10, 12, 20))
    (less,) = set(names) - {more}

    def right(**given: Tensor) -> Tensor:
        gap = (given[more] / given[more].sum() - given[less] / given[less].sum()).clamp(min=0)
        return total * gap / gap.sum() if gap.sum() > 0 else gap

    choices = {"more": more, "less": less, "total": total}
    cases = [tuple(map(tuple, case)) for case in TEXTS[rejection.RESIDUAL.key]["cases"]]
    return second_form(rejection.RESIDUAL, pick, choices, right, cases)


FORMS = (bytes_of, verify_of, mask_of, residual_of)


@dataclass(frozen=True)
class Semester:
    """The exercises of one semester."""

    tag: str  #: draws what is asked for
    exercises: tuple[Exercise, ...]  #: in the order of the notebooks, under the names that they have there

    def check(self, key: str, answer: Any = None) -> Card:
        """Looks at an answer and shows a card; make it the last line of a cell."""
        return card_about(key, partial(card_for, answer=answer), self.exercises)

    def notebook(self) -> str:
        """Returns a notebook of stubs, as JSON."""
        title = f"# Exercises, {self.tag}\n\nEach is a relative of one in the notebooks. Read closely."
        start = "import torch\n\nfrom minispec.classroom.exercises.semester import semester\n\n"
        cells = [cell("markdown", title), cell("code", f'{start}check = semester("{self.tag}").check')]
        for exercise in self.exercises:
            about = f"## {exercise.title}\n\nLike `{exercise.key}` of notebook {exercise.notebook}."
            blank = f'{exercise.stub}\n\ncheck("{exercise.key}", {exercise.function})'
            cells += [cell("markdown", about), cell("code", blank)]
        kernel = {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}}
        notebook = {"cells": cells, "metadata": kernel, "nbformat": 4, "nbformat_minor": 4}
        return json.dumps(notebook, indent=1, ensure_ascii=False) + "\n"


def cell(kind: str, text: str) -> dict[str, Any]:
    """Returns a cell of a notebook; one of code has not run."""
    run: dict[str, Any] = {"execution_count": None, "outputs": []} if kind == "code" else {}
    return {"cell_type": kind, "metadata": {}, "source": text.splitlines(True), **run}


def semester(tag: str) -> Semester:
    """Returns the exercises of a semester; capitals in its tag do not count.

    Raises:
        ValueError: if it is no tag.
    """
    if not TAG.fullmatch(tag):
        raise ValueError(f"a semester's tag has 1 to 40 letters, digits, dots and dashes, not {tag[:40]!r}")
    tag = tag.upper()
    return Semester(tag, tuple(of(partial(draw_option, tag, of.__name__)) for of in FORMS))
