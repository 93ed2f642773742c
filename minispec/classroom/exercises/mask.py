"""Notebook 5: the mask that makes one pass enough."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from minispec.classroom.drawing import Drawing, line
from minispec.classroom.exercise import Exercise, Wrong
from minispec.classroom.judging import Bench, call, nested, numbers
from minispec.classroom.running import Malformed

STUB = '''def verification_mask(cached, k):
    """Returns [k + 1, cached + k + 1], bool: True where a new token may look.

    Rows are the pending token and the k drafted ones.
    Columns are the cached tokens, then the new ones.
    """
    ...
'''

GOAL = Drawing(
    (
        line("cached = 2, k = 2", "The", "cat", "sat", "on", "the"),
        line("sat (pending)", ("", "seen"), ("", "seen"), ("", "seen"), ("", "hidden"), ("", "hidden")),
        line("on (drafted)", ("", "seen"), ("", "seen"), ("", "seen"), ("", "seen"), ("", "hidden")),
        line("the (drafted)", ("", "seen"), ("", "seen"), ("", "seen"), ("", "seen"), ("", "seen")),
    ),
    "● may look, – may not. Each new token sees the whole cache, itself, and the new tokens before it.",
)


def verification_mask(cached: int, k: int) -> Tensor:
    """Returns a lower triangle, shifted by what is cached: [k+1, cached+k+1] bool."""
    return torch.ones(k + 1, cached + k + 1, dtype=torch.bool).tril(cached)


WRONG = (
    Wrong(
        "not-shifted",
        "The triangle starts in the wrong column: row 0 is not the first token of the text, it stands behind "
        "all cached ones. Shift by `cached`.",
        lambda cached, k: verification_mask(cached, k).tril(),
    ),
    Wrong(
        "blind-to-itself",
        "A token may look at itself: its own key is in the cache by then. Shift by one more.",
        lambda cached, k: torch.ones(k + 1, cached + k + 1).tril(cached - 1).bool(),
    ),
    Wrong(
        "sees-the-future",
        "Tokens see what comes after them. A draft must be judged as if what follows it were not there.",
        lambda cached, k: torch.ones(k + 1, cached + k + 1).bool(),
    ),
    Wrong(
        "cache-hidden",
        "The cached tokens are hidden. They are the text so far: all new tokens see them.",
        lambda cached, k: torch.cat([torch.zeros(k + 1, cached), torch.ones(k + 1, k + 1).tril()], 1).bool(),
    ),
    Wrong(
        "inverted",
        "It is the other way round: True is where a token may look.",
        lambda cached, k: ~verification_mask(cached, k),
    ),
    Wrong(
        "pending-left-out",
        "A row and a column are missing: the pending token goes through the target too, so there are k + "
        "1 new "
        "tokens.",
        lambda cached, k: torch.ones(k, cached + k).tril(cached).bool(),
    ),
)

PRAISE = "So K + 1 serial steps and one pass compute the same: no row sees what came after it."


def seen(value: Any) -> Any:
    """Reads a mask as rows of 0 and 1; one to be added to scores, with −∞, will do too."""
    additive = isinstance(value, Tensor) and value.is_floating_point() and not bool((value > 0).any())
    mask = numbers(value, name="a mask")
    if mask.dim() != 2:
        raise Malformed(f"a mask [k + 1, cached + k + 1] is wanted, and it has shape {list(mask.shape)}")
    if additive:
        mask = (~mask.isinf()).double()
    if not bool(((mask == 0) | (mask == 1)).all()):
        raise Malformed("a mask of True and False is wanted, and it has other numbers in it")
    return nested(mask.long().tolist())


def show_mask(value: Any) -> str:
    """Writes a mask in dots and dashes."""
    return " / ".join("".join("●" if cell else "–" for cell in row) for row in value) or "nothing"


EXERCISE = Exercise(
    key="shift-the-mask",
    title="Build the mask of a verification pass",
    notebook=5,
    difficulty=2,
    minutes=6,
    stub=STUB,
    hints=(
        "Row i is the token at place cached + i of the text. It sees places 0 to cached + i.",
        "torch.ones(rows, columns, dtype=torch.bool).tril(shift) keeps column j of row i where j ≤ i + "
        "shift.",
    ),
    goal=GOAL,
    judge=Bench(
        verification_mask,
        tuple(
            call("verification_mask", *sizes)
            for sizes in ((0, 0), (1, 0), (0, 1), (1, 1), (2, 1), (2, 3), (5, 4))
        ),
        WRONG,
        seen,
        show_mask,
        PRAISE,
    ).judge,
    wrong=WRONG,
    praise=PRAISE,
)
