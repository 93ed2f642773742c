"""Exercises in a second form: a semester's tag draws names, order and conventions of what is asked for.

So the solutions beside the notebooks, and last year's answers, do not fit. What is right for a tag is written
down nowhere: it is computed here from what the tag has drawn, and only to be compared with.
"""

import ast
import hashlib
import json
import math
import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import permutations, product
from pathlib import Path
from textwrap import fill, indent
from typing import Any

import torch
from torch import Tensor

from minispec.classroom.cards import Card
from minispec.classroom.exercise import Exercise
from minispec.classroom.exercises import counting, distributions, greedy, one_row
from minispec.classroom.running import ids, whole
from minispec.classroom.trials import Trial, call
from minispec.core.verify import residual

TAG = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,39}")
NOTEBOOKS = "That is what the exercise in the notebook asks for. Here something else is: read the text again."
TEXTS = tomllib.loads(Path(__file__).with_name("semester.toml").read_text(encoding="utf-8"))
Pick = Callable[[str, Sequence[Any]], Any]  # draws one of several by the tag, the exercise and a name


def drawn(tag: str, key: str, name: str, options: Sequence[Any]) -> Any:
    """Returns one of the options, the same one for the same words."""
    digest = hashlib.sha256(f"{tag}/{key}/{name}".encode()).digest()
    return options[int.from_bytes(digest[:8], "big") % len(options)]


def form(
    base: Exercise, drawn: Mapping[str, Any], right: Any, trials: Sequence[Trial], **more: Any
) -> Exercise:
    """Returns an exercise's second form; its stub has the words of semester.toml, and what was drawn."""
    head, text = (TEXTS[base.key][part].format(**drawn) for part in ("head", "text"))
    body = "\n\n".join(fill(" ".join(part.split()), 92) for part in text.split("\n\n"))
    stub = f'def {head}:\n    """{indent(body, "    ").lstrip()}\n    """\n    ...\n'
    fresh = {"goal": "The text of the stub says what is wanted.", "picture": "", "judged_by": None}
    said = {"praise": "That is what was asked for.", "wrong": {"notebook": (NOTEBOOKS, base.right)}}
    return replace(base, stub=stub, right=right, trials=tuple(trials), **(fresh | said | more))


def counted(name: str, *weights: tuple[int, ...]) -> Trial:
    """Returns a call on counts, [V] each."""
    text = f"{name}({', '.join(str(list(counts)) for counts in weights)})"
    return Trial(text, "called", tuple(torch.tensor(counts).double() for counts in weights))


COUNTS = (((1, 3), (6, 2)), ((3, 2, 1), (1, 1, 4)), ((2, 6, 4), (2, 2, 2)), ((8, 6, 4, 2), (1, 1, 5, 3)))


def residual_of(pick: Pick) -> Exercise:
    """What one distribution has more than another, of counts, scaled to a sum."""
    names = pick("order", (("target", "draft"), ("draft", "target")))
    more, total = pick("more", names), pick("total", (2, 3, 4, 5, 8, 10, 12, 20))
    (less,) = set(names) - {more}

    def right(*given: Tensor) -> Tensor:
        shares = {name: counts / counts.sum() for name, counts in zip(names, given, strict=True)}
        gap = (shares[more] - shares[less]).clamp(min=0)
        return total * gap / gap.sum() if gap.sum() > 0 else gap

    trials = [counted("surplus", *pair) for pair in (((1, 1), (2, 2)), *COUNTS)]
    said = {"order": ", ".join(names), "more": more, "less": less, "total": total}
    return form(distributions.RESIDUAL, said, right, trials)


def verify_of(pick: Pick) -> Exercise:
    """The greedy rule with rows before the draft, an end, and another result."""
    ahead, end, dropped = pick("ahead", (1, 2, 3)), pick("end", (0, 1, 2)), pick("count", (False, True))
    order = pick("order", (("drafted", "best"), ("best", "drafted")))

    def right(*given: list[int]) -> tuple[int, int]:
        lists = dict(zip(order, given, strict=True))
        drafted, best, n = lists["drafted"], lists["best"][ahead:], 0
        while n < len(drafted) and drafted[n] == best[n] and end not in drafted[:n]:
            n += 1
        return len(drafted) - n if dropped else n, -1 if end in drafted[:n] else best[n]

    cases = [
        (d, b) for k in (0, 1, 2) for d in product(range(3), repeat=k) for b in product((0, 2), repeat=k + 1)
    ]
    cases += [(d, b) for d in ((1, 0, 2), (0, 1, 2), (2, 1, 0)) for b in product(range(3), repeat=4)]
    given = [{"drafted": list(d), "best": [0, 1, 2][:ahead] + list(b)} for d, b in cases]
    trials = [call("verify_row", *(one[name] for name in order)) for one in given]
    said: dict[str, Any] = {"order": ", ".join(order), "ahead": ahead, "end": end}
    said["counted"] = "dropped" if dropped else "kept"
    return form(greedy.VERIFY, said, right, trials)


def mask_of(pick: Pick) -> Exercise:
    """The mask with a window, turned round, or with other columns."""
    window, hidden, new_first = (
        pick("window", (2, 3, 4)),
        pick("hidden", (False, True)),
        pick("new", (False, True)),
    )

    def right(cached: int, k: int) -> Tensor:
        here, there = torch.arange(cached, cached + k + 1)[:, None], torch.arange(cached + k + 1)
        sees = (there <= here) & (there > here - window)
        sees = torch.cat([sees[:, cached:], sees[:, :cached]], 1) if new_first else sees
        return ~sees if hidden else sees

    order = ("the new tokens, then the cached ones", "the cached tokens, then the new ones")
    said = {"not_": "not " * hidden, "before": window - 1, "columns": order[not new_first]}
    sizes = ((0, 0), (1, 0), (0, 1), (1, 1), (2, 1), (2, 3), (5, 4))
    trials = [call("window_mask", *size) for size in sizes]
    return form(greedy.MASK, said, right, trials)


def bytes_of(pick: Pick) -> Exercise:
    """A cache of quantised numbers, with windows in some layers."""
    keys, values = pick("keys", (2, 4, 8, 16)), pick("values", (2, 4, 8))
    every, window = pick("every", (2, 3)), pick("window", (4, 5, 6, 7, 8))

    def right(config: Any, tokens: int) -> int:
        kept = sum(min(tokens, window) if i % every == 0 else tokens for i in range(1, config.layers + 1))
        return kept * config.kv_heads * config.head_dim * (keys + values) // 8

    said = {"keys": keys, "values": values, "every": every, "window": window}
    sizes = ((1, 1, 1, 4, 1), (2, 1, 1, 4, 3), (3, 4, 2, 4, 9), (6, 6, 2, 8, 50))
    trials = [call("packed_bytes", counting.config(*size[:4]), size[4]) for size in sizes]
    return form(counting.BYTES, said, right, trials)


def positions_of(pick: Pick) -> Exercise:
    """Positions with a shared beginning in the cache, and a model that reads only the end of the text."""
    shared, window = pick("shared", (1, 2, 3, 4)), pick("window", (5, 6, 7, 8, 9, 10, 11))

    def right(prompt: int, new: int, cached: bool) -> int:
        return (
            max(prompt - 1 - shared, 0) + new if cached else sum(min(prompt + i, window) for i in range(new))
        )

    sizes = ((1, 1), (1, 3), (2, 1), (4, 3), (5, 6), (10, 20))
    trials = [call("positions_read", *size, cached) for size in sizes for cached in (True, False)]
    return form(counting.POSITIONS, {"shared": shared, "window": window}, right, trials)


def lengths_of(pick: Pick) -> Exercise:
    """Cache lengths with several pending tokens, and a draft that may read its last guess."""
    pending, reads_last = pick("pending", (1, 2, 3)), pick("reads", (True, False))
    names = ("target_verified", "draft_drafted", "after", "catch_up")
    order = pick("order", tuple(permutations(names))[1:])  # not the notebook's

    def right(cached: int, k: int, accepted: int) -> tuple[int, ...]:
        drafted, after = cached + pending + k - (not reads_last), cached + accepted + 1
        found = (cached + pending + k, drafted, after, max(0, after - drafted))
        return tuple(found[names.index(name)] for name in order)

    reads = "reads" if reads_last else "does not read"
    said = {"order": ", ".join(order), "pending": pending, "reads": reads}
    sizes = [(cached, k, accepted) for cached in (0, 1, 7) for k in (1, 2, 4) for accepted in range(k + 1)]
    trials = [call("round_lengths", *size) for size in sizes]
    more = {"read": partial(ids, name="four whole numbers", count=4)}
    return form(counting.LENGTHS, said, right, trials, **more)


def choose_of(pick: Pick) -> Exercise:
    """The best K where the draft proposes blocks, verifying costs by the token, and there may be no bonus."""
    block, slope = pick("block", (2, 3, 4)), pick("slope", (0.02, 0.03, 0.04, 0.05, 0.06, 0.08))
    bonus, order = pick("bonus", (True, False)), pick("order", (("alpha", "c"), ("c", "alpha")))

    def right(first: float, second: float, most: int) -> int:
        alpha, c = (first, second) if order[0] == "alpha" else (second, first)

        def gain(k: int) -> float:
            tokens = sum(alpha**i for i in range(k + 1)) - (alpha**k if k and not bonus else 0)
            return tokens / (math.ceil(k / block) * c + 1 + slope * k)

        return max(range(most + 1), key=lambda k: (gain(k), -k))

    but = "" if bonus else ", but not if K >= 1 and all were accepted"
    said = {"order": ", ".join(order), "block": block, "slope": slope, "but": but}
    settings = [
        (*s, 12) for s in product((0.31, 0.52, 0.63, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95), (0.05, 0.1, 0.2, 0.4))
    ]
    ordered = [dict(zip(("alpha", "c", "most"), setting, strict=True)) for setting in settings]
    trials = [call("best_block_k", *(one[name] for name in (*order, "most"))) for one in ordered]
    return form(counting.CHOOSE_K, said, right, trials, read=whole)


def accept_of(pick: Pick) -> Exercise:
    """The rejection rule on counts, with another order and another result."""
    order = pick("order", tuple(permutations(("tokens", "draft_counts", "target_counts"))))
    result = pick("result", ("accepted", "dropped", "reversed"))

    def right(*given: Any) -> list[int]:
        named, rng = dict(zip(order, given[:3], strict=True)), given[3]
        tokens, (q, p) = (
            named["tokens"],
            ([x / x.sum() for x in named[f"{who}_counts"]] for who in ("draft", "target")),
        )
        n = next((i for i, x in enumerate(tokens) if not rng.uniform() < p[i][x] / q[i][x]), len(tokens))
        token = rng.draw(p[n] if n == len(tokens) else residual(p[n], q[n]))
        if result == "reversed":
            return [*tokens[:n], token][::-1]
        return [n if result == "accepted" else len(tokens) - n, token]

    trials = []
    for tokens, q, p in (
        ([2], [(1, 1, 4)], [(6, 4, 2), (1, 1, 2)]),
        ([0], [(1, 1, 4)], [(6, 4, 2), (1, 1, 2)]),
        ([2, 0], [(2, 2, 8), (3, 2, 1)], [(3, 2, 1), (1, 1, 4), (2, 3, 1)]),
    ):
        weights = {"draft_counts": q, "target_counts": p}
        text = ", ".join(f"{name} = {weights.get(name, tokens)}" for name in order)
        tensors = {name: [torch.tensor(x).double() for x in rows] for name, rows in weights.items()}
        given = tuple(tensors.get(name, tokens) for name in order)
        trials.append(Trial(f"{text}, every branch", "gained", given))
    said = {"order": ", ".join(order), "result": TEXTS[one_row.ACCEPT.key][result]}
    return form(one_row.ACCEPT, said, right, trials)


FORMS = (bytes_of, positions_of, verify_of, mask_of, residual_of, accept_of, lengths_of, choose_of)


@dataclass(frozen=True)
class Semester:
    """The exercises of one semester."""

    tag: str  #: draws what is asked for
    exercises: tuple[Exercise, ...]  #: in the order of the notebooks, under the names that they have there

    def check(self, key: str, answer: Any = None) -> Card:
        """Looks at an answer and shows a card; make it the last line of a cell."""
        exercise = next((one for one in self.exercises if one.key == key), None)
        if exercise is None:
            names = ", ".join(one.key for one in self.exercises)
            return Card("wrong", "which exercise?", (f"There is no exercise {key!s:.40}. There is {names}.",))
        judgement = exercise.judge(answer)
        return Card(judgement.verdict, exercise.title, (judgement.message,), detail=judgement.detail)

    def notebook(self) -> str:
        """Returns a notebook of stubs, as JSON."""
        start = "import torch\n\nfrom minispec.classroom.exercises.semester import semester\n\n"
        title = f"# Exercises, {self.tag}\n\nEach is a relative of one in the notebooks. Read closely."
        cells = [("markdown", title), ("code", f'{start}check = semester("{self.tag}").check')]
        for one in self.exercises:
            (stub,) = ast.parse(one.stub).body
            cells.append(("markdown", f"## {one.title}\n\nLike `{one.key}` of notebook {one.notebook}."))
            cells.append(("code", f'{one.stub}\n\ncheck("{one.key}", {stub.name})'))  # type: ignore[attr-defined]
        made: list[dict[str, Any]] = []
        for number, (kind, text) in enumerate(cells):
            cell: dict[str, Any] = {"cell_type": kind, "id": f"cell-{number}", "metadata": {}}
            cell["source"] = text.splitlines(True)
            made.append(cell | ({"execution_count": None, "outputs": []} if kind == "code" else {}))
        kernel = {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}}
        notebook = {"cells": made, "metadata": kernel, "nbformat": 4, "nbformat_minor": 5}
        return json.dumps(notebook, indent=1, ensure_ascii=False) + "\n"


def semester(tag: str) -> Semester:
    """Returns the exercises of a semester; capitals in its tag do not count.

    Raises:
        ValueError: if it is no tag.
    """
    if not TAG.fullmatch(tag):
        raise ValueError(f"a semester's tag has 1 to 40 letters, digits, dots and dashes, not {tag[:40]!r}")
    tag = tag.upper()
    keys = [of.__name__ for of in FORMS]
    return Semester(tag, tuple(of(partial(drawn, tag, key)) for of, key in zip(FORMS, keys, strict=True)))
