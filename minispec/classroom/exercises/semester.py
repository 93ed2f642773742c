"""Exercises in a second form: a semester's tag draws names, order and conventions of what is asked for.

So the solutions beside the notebooks, and last year's answers, do not fit. What is right for a tag is written
down nowhere: it is computed here from what the tag has drawn, and only to be compared with.
"""

import ast
import hashlib
import json
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import permutations, product
from textwrap import fill
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
Pick = Callable[[str, Sequence[Any]], Any]  # draws one of several by the tag, the exercise and a name


def drawn(tag: str, key: str, name: str, options: Sequence[Any]) -> Any:
    """Returns one of the options, the same one for the same words."""
    digest = hashlib.sha256(f"{tag}/{key}/{name}".encode()).digest()
    return options[int.from_bytes(digest[:8], "big") % len(options)]


def form(base: Exercise, head: str, text: str, right: Any, trials: Sequence[Trial], **more: Any) -> Exercise:
    """Returns an exercise's second form, with a stub of this head and text."""
    body = "\n\n".join(fill(" ".join(part.split()), 92) for part in text.split("\n\n"))
    stub = f'def {head}:\n    """{body}\n    """\n    ...\n'.replace("\n\n", "\n<>\n")
    lines = [line if line.startswith(("def", " ")) else "    " + line for line in stub.splitlines()]
    stub = "\n".join(lines).replace("    <>", "") + "\n"
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

    text = f"""Returns what {more} has more than {less}, token by token, scaled to the sum {total}: [V].

        target and draft are counts, tensors [V]; divided by its own sum, each is a distribution. Where {more}
        has less, the result is 0. If the two distributions are equal, it is 0 everywhere."""
    trials = [counted("surplus", *pair) for pair in (((1, 1), (2, 2)), *COUNTS)]
    return form(distributions.RESIDUAL, f"surplus({', '.join(names)})", text, right, trials)


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

    text = f"""Returns (count, token) for one row, verified greedily: how many drafted ids are
        {"dropped" if dropped else "kept"}, and the id that comes after those that are kept.

        drafted has K ids, best has {ahead} + K + 1: best[{ahead}] is the target's choice at the position of
        drafted[0]. Id {end} ends the text: if it is kept, nothing after it is, and token is -1."""
    cases = [
        (d, b) for k in (0, 1, 2) for d in product(range(3), repeat=k) for b in product((0, 2), repeat=k + 1)
    ]
    cases += [(d, b) for d in ((1, 0, 2), (0, 1, 2), (2, 1, 0)) for b in product(range(3), repeat=4)]
    given = [{"drafted": list(d), "best": [0, 1, 2][:ahead] + list(b)} for d, b in cases]
    trials = [call("verify_row", *(one[name] for name in order)) for one in given]
    return form(greedy.VERIFY, f"verify_row({', '.join(order)})", text, right, trials)


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
    text = f"""Returns [k + 1, cached + k + 1], bool: True where a new token may {"not " * hidden}look.

        A token sees itself and the {window - 1} before it, no others. Rows are the pending token and the k
        drafted ones. Columns are {order[not new_first]}."""
    sizes = ((0, 0), (1, 0), (0, 1), (1, 1), (2, 1), (2, 3), (5, 4))
    trials = [call("window_mask", *size) for size in sizes]
    return form(greedy.MASK, "window_mask(cached, k)", text, right, trials)


def bytes_of(pick: Pick) -> Exercise:
    """A cache of quantised numbers, with windows in some layers."""
    keys, values = pick("keys", (2, 4, 8, 16)), pick("values", (2, 4, 8))
    every, window = pick("every", (2, 3)), pick("window", (4, 5, 6, 7, 8))

    def right(config: Any, tokens: int) -> int:
        kept = sum(min(tokens, window) if i % every == 0 else tokens for i in range(1, config.layers + 1))
        return kept * config.kv_heads * config.head_dim * (keys + values) // 8

    text = f"""Returns how many bytes the keys and values of one row of `tokens` tokens take.

        A number of a key takes {keys} bits, one of a value {values} bits. Layers are counted from 1; those
        whose number is a multiple of {every} keep the last {window} tokens only. config has layers, width,
        heads, kv_heads and head_dim."""
    sizes = ((1, 1, 1, 4, 1), (2, 1, 1, 4, 3), (3, 4, 2, 4, 9), (6, 6, 2, 8, 50))
    trials = [call("packed_bytes", counting.config(*size[:4]), size[4]) for size in sizes]
    return form(counting.BYTES, "packed_bytes(config, tokens)", text, right, trials)


def positions_of(pick: Pick) -> Exercise:
    """Positions with a shared beginning in the cache, and a model that reads only the end of the text."""
    shared, window = pick("shared", (1, 2, 3, 4)), pick("window", (5, 6, 7, 8, 9, 10, 11))

    def right(prompt: int, new: int, cached: bool) -> int:
        return (
            max(prompt - 1 - shared, 0) + new if cached else sum(min(prompt + i, window) for i in range(new))
        )

    text = f"""Returns how many positions go through the model to make `new` tokens after `prompt` tokens.

        prompt and new are numbers, at least 1. cached: there is a key-value cache, which begins with the
        prompt's first tokens, {shared} or all but the last, whichever is less. Not cached: each step reads
        the last {window} tokens of the text, or all of it while it is shorter."""
    sizes = ((1, 1), (1, 3), (2, 1), (4, 3), (5, 6), (10, 20))
    trials = [call("positions_read", *size, cached) for size in sizes for cached in (True, False)]
    return form(counting.POSITIONS, "positions_read(prompt, new, cached)", text, right, trials)


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
    text = f"""Returns ({", ".join(order)}) for one round.

        Both caches hold `cached` tokens when the round begins. Before and after it, the last {pending} of the
        text are pending. k tokens are drafted, k >= 1. The draft model {reads} its last guess.

        target_verified: the target's length after the verification pass, before rollback. draft_drafted: the
        draft's length after drafting. after: the length of both caches when the round has ended. catch_up:
        how many tokens the draft must read to have that length."""
    sizes = [(cached, k, accepted) for cached in (0, 1, 7) for k in (1, 2, 4) for accepted in range(k + 1)]
    trials = [call("round_lengths", *size) for size in sizes]
    more = {"read": partial(ids, name="four whole numbers", count=4)}
    return form(counting.LENGTHS, "round_lengths(cached, k, accepted)", text, right, trials, **more)


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
    text = f"""Returns the K from 0 to most with the largest gain, tokens over time.

        alpha: the probability that a tested token is accepted. A draft pass takes c target steps and proposes
        up to {block} tokens; K tokens take as few passes as possible. Verifying K tokens takes
        1 + {slope} * K target steps. A round gains the accepted tokens and one more{but}. K = 0 gains
        one token."""
    settings = [
        (*s, 12) for s in product((0.31, 0.52, 0.63, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95), (0.05, 0.1, 0.2, 0.4))
    ]
    ordered = [dict(zip(("alpha", "c", "most"), setting, strict=True)) for setting in settings]
    trials = [call("best_block_k", *(one[name] for name in (*order, "most"))) for one in ordered]
    return form(counting.CHOOSE_K, f"best_block_k({', '.join(order)}, most)", text, right, trials, read=whole)


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
        gained = {
            "accepted": [n, token],
            "dropped": [len(tokens) - n, token],
            "reversed": [*tokens[:n], token][::-1],
        }
        return gained[result]

    says = {
        "accepted": "(accepted, id): how many drafted ids are accepted, and the correction or the bonus",
        "dropped": "(dropped, id): how many drafted ids are not accepted, and the correction or the bonus",
        "reversed": "the ids that a round gains, the last one first",
    }
    text = f"""Returns {says[result]}.

        tokens: K drafted ids. draft_counts: K tensors [V], target_counts: K + 1; divided by its own sum, each
        is a distribution, q or p. Accepted is by the rejection rule. rng.uniform() is a new number between
        0 and 1, to be compared: u < 0.3. rng.draw(distribution [V]) draws an id."""
    trials = []
    for tokens, q, p in (
        ([2], [(1, 1, 4)], [(6, 4, 2), (1, 1, 2)]),
        ([0], [(1, 1, 4)], [(6, 4, 2), (1, 1, 2)]),
        ([2, 0], [(2, 2, 8), (3, 2, 1)], [(3, 2, 1), (1, 1, 4), (2, 3, 1)]),
    ):
        weights = {"draft_counts": q, "target_counts": p}
        said = ", ".join(f"{name} = {weights.get(name, tokens)}" for name in order)
        tensors = {name: [torch.tensor(x).double() for x in rows] for name, rows in weights.items()}
        given = tuple(tensors.get(name, tokens) for name in order)
        trials.append(Trial(f"{said}, every branch", "gained", given))
    return form(one_row.ACCEPT, f"accept_counts({', '.join(order)}, rng)", text, right, trials)


FORMS = (
    *(bytes_of, positions_of, verify_of, mask_of),
    *(residual_of, accept_of, lengths_of, choose_of),
)


@dataclass(frozen=True)
class Semester:
    """The exercises of one semester.

    Attributes:
        tag: draws what is asked for.
        exercises: in the order of the notebooks, under the names that they have there.
    """

    tag: str
    exercises: tuple[Exercise, ...]

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
        cells = [
            (
                "markdown",
                f"# Exercises, {self.tag}\n\nEach is a relative of one in the notebooks. Read closely.",
            )
        ]
        cells.append(("code", f'{start}check = semester("{self.tag}").check'))
        for one in self.exercises:
            (stub,) = ast.parse(one.stub).body
            cells.append(("markdown", f"## {one.title}\n\nLike `{one.key}` of notebook {one.notebook}."))
            cells.append(("code", f'{one.stub}\n\ncheck("{one.key}", {stub.name})'))  # type: ignore[attr-defined]
        made: list[dict[str, Any]] = []
        for number, (kind, text) in enumerate(cells):
            cell = {
                "cell_type": kind,
                "id": f"cell-{number}",
                "metadata": {},
                "source": text.splitlines(True),
            }
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
