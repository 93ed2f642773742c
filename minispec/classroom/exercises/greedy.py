"""Exercises at temperature 0: the serial loop, the mask of one pass, the greedy rule, the whole loop."""

from __future__ import annotations

from itertools import product
from typing import Any

import torch
from torch import Tensor

from minispec.classroom.exercise import Exercise
from minispec.classroom.parts import Parts
from minispec.classroom.running import Malformed, ids, nested, numbers
from minispec.classroom.trials import Trial, call
from minispec.core.model import LanguageModel


def continue_greedily(
    model: LanguageModel, prompt: list[int], n: int, read: slice = slice(None)
) -> list[int]:
    """Returns the n most probable tokens; a wrong answer reads only a part of the text each time."""
    text = list(prompt)
    for _ in range(n):
        text.append(int(model(torch.tensor([text[read]]))[0, -1].argmax()))
    return text[len(prompt) :]


CONTINUE = Exercise(
    key="continue-greedily",
    title="Continue a text, one token at a time",
    notebook=1,
    difficulty=1,
    minutes=5,
    stub='''def continue_greedily(model, prompt, n):
    """Returns the n token ids that the model finds most probable, one after another.

    model(torch.tensor([ids])) gives logits [1, len(ids), V]: row i is about what follows ids[i].
    """
    ...
''',
    hints=(
        "Keep a list of all ids so far. Each step: one forward over all of it, then one more id in the list.",
        "The model gives a row of logits for each token that it has read. Only one row is about a token that "
        "you do not have yet: which? Its largest entry stands at the id that you want.",
    ),
    goal="One forward for each new token; the next one cannot begin before this one has ended.",
    praise="n forwards for n tokens, each waiting for the one before. This is what speculation will shorten.",
    wrong={
        "prompt-included": (
            "Your list begins with the prompt. Return only what is new: text[len(prompt):].",
            lambda model, prompt, n: [*prompt, *continue_greedily(model, prompt, n)],
        ),
        "never-appended": (
            "You ask about the same text each time. Append each new token before the next forward.",
            lambda model, prompt, n: continue_greedily(model, prompt, n, slice(len(prompt))),
        ),
        "first-row": (
            "You read the logits of the first row. What follows the text is in the last one: logits[0, -1].",
            lambda model, prompt, n: continue_greedily(model, prompt, n, slice(1)),
        ),
        "last-token-alone": (
            "You read the newest token alone. Without a cache, the model must see the whole text each time.",
            lambda model, prompt, n: continue_greedily(model, prompt, n, slice(-1, None)),
        ),
    },
    right=continue_greedily,
    trials=tuple(
        Trial(f"continue_greedily(model, {prompt}, {n})", "continued", (prompt, n))
        for n in (0, 1, 2, 3, 6)
        for prompt in ([0], [1, 2], [3, 0, 2], [2, 2, 1, 0])
    ),
    read=ids,
    show=lambda value: str(list(value)),
)


def verify_greedily(drafted: list[int], best: list[int]) -> tuple[int, int]:
    """Keeps the leading agreement; the target's own choice follows."""
    accepted = 0
    while accepted < len(drafted) and drafted[accepted] == best[accepted]:
        accepted += 1
    return accepted, best[accepted]


# All drafts and choices over two ids up to K = 2, and some over three with K = 3.
DRAFTS = [(d, b) for k in range(3) for d in product((0, 1), repeat=k) for b in product((0, 1), repeat=k + 1)]
DRAFTS += [(d, b) for d in ((0, 1, 2), (2, 1, 0)) for b in product((0, 1, 2), repeat=4)]

VERIFY = Exercise(
    key="verify-greedily",
    title="Write the greedy verifier",
    notebook=5,
    difficulty=2,
    minutes=8,
    stub='''def verify_greedily(drafted, best):
    """Returns (accepted, token): how many drafted ids to keep, and the id that follows them.

    drafted has K ids. best has K + 1: best[i] is the target's own choice at the position of
    drafted[i], and best[K] is its choice after them all.
    """
    ...
''',
    hints=(
        "Go from left to right, and stop at the first position where draft and target differ.",
        "Count the positions that you pass. Where you stop, the count also says which entry of `best` comes "
        "next; no second case is needed for a draft that agrees everywhere.",
    ),
    goal="accepted = 2, token = floor. The agreement after the difference does not count.",
    picture="""
drafted  ✓ sat  ✓ on  ✗ mat    ○ and
best     sat    on    ↳ floor  and    he
gained   ✓ sat  ✓ on  ↳ floor
""",
    praise="Whatever the draft says, what comes out is what the target alone would have said.",
    wrong={
        "all-matches": (
            "You count agreements after the first difference. They belong to a text that is gone: stop.",
            lambda drafted, best: (n := sum(map(int.__eq__, drafted, best)), best[n]),
        ),
        "shifted": (
            "You compare with the wrong row: best[i] belongs to drafted[i], not to the one before it.",
            lambda drafted, best: (n := verify_greedily(drafted, best[1:])[0], best[n]),
        ),
        "no-bonus": (
            "If all K agree, keep all K: best[K] then comes on top, as a bonus.",
            lambda drafted, best: verify_greedily(drafted[:-1], best),
        ),
        "keeps-the-rejected": (
            "You return the drafted token that was just rejected. The target's own choice replaces it.",
            lambda drafted, best: (n := verify_greedily(drafted, best)[0], [*drafted, best[-1]][n]),
        ),
        "counts-the-correction": (
            "accepted counts drafted tokens only. The correction or bonus is not one of them.",
            lambda drafted, best: (n := verify_greedily(drafted, best)[0] + 1, best[n - 1]),
        ),
    },
    right=verify_greedily,
    trials=tuple(call("verify_greedily", list(drafted), list(best)) for drafted, best in DRAFTS),
    read=lambda value: ids(value, "a pair (accepted, token)", count=2),
)


def verification_mask(cached: int, k: int) -> Tensor:
    """Returns a lower triangle, shifted by what is cached: [k+1, cached+k+1] bool."""
    return torch.ones(k + 1, cached + k + 1, dtype=torch.bool).tril(cached)


def mask(value: Any) -> Any:
    """Reads a mask as rows of 0 and 1; one to be added to scores, with −∞, will do too."""
    additive = isinstance(value, Tensor) and value.is_floating_point() and not bool((value > 0).any())
    tensor = numbers(value, name="a mask")
    if tensor.dim() != 2:
        raise Malformed(f"a mask [k + 1, cached + k + 1] is wanted, and it has shape {list(tensor.shape)}")
    if additive:
        tensor = (~tensor.isinf()).double()
    if not bool(((tensor == 0) | (tensor == 1)).all()):
        raise Malformed("a mask of True and False is wanted, and it has other numbers in it")
    return nested(tensor.long().tolist())


MASK = Exercise(
    key="shift-the-mask",
    title="Build the mask of a verification pass",
    notebook=5,
    difficulty=2,
    minutes=6,
    stub='''def verification_mask(cached, k):
    """Returns [k + 1, cached + k + 1], bool: True where a new token may look.

    Rows are the pending token and the k drafted ones.
    Columns are the cached tokens, then the new ones.
    """
    ...
''',
    hints=(
        "Which token of the text is row 0? How many tokens does it see, itself included? And row 1?",
        "Each row sees one token more than the row above it, so the True part is a triangle with a rectangle "
        "before it. `tril` makes one; by its argument the diagonal moves to the right. By how much?",
    ),
    goal="● may look, – may not. Each new token sees the whole cache, itself, and the new tokens before it.",
    picture="""
cached = 2, k = 2  The  cat  sat  on  the
sat (pending)      ●    ●    ●    –   –
on (drafted)       ●    ●    ●    ●   –
the (drafted)      ●    ●    ●    ●   ●
""",
    praise="So K + 1 serial steps and one pass compute the same: no row sees what came after it.",
    wrong={
        "not-shifted": (
            "The triangle starts in the wrong column: row 0 comes after all cached tokens. Shift it.",
            lambda cached, k: verification_mask(cached, k).tril(),
        ),
        "blind-to-itself": (
            "A token may look at itself: its own key is in the cache by then. Shift by one more.",
            lambda cached, k: torch.ones(k + 1, cached + k + 1).tril(cached - 1).bool(),
        ),
        "sees-the-future": (
            "Tokens see what comes after them. A draft must be judged as if what follows it were not there.",
            lambda cached, k: torch.ones(k + 1, cached + k + 1).bool(),
        ),
        "pending-left-out": (
            "A row and a column are missing: the pending token is read too, so there are k + 1 new tokens.",
            lambda cached, k: torch.ones(k, cached + k).tril(cached).bool(),
        ),
    },
    right=verification_mask,
    trials=tuple(
        call("verification_mask", *sizes)
        for sizes in ((0, 0), (1, 0), (0, 1), (1, 1), (2, 1), (2, 3), (5, 4))
    ),
    read=mask,
    show=lambda value: " / ".join("".join("–●"[cell] for cell in row) for row in value) or "nothing",
)


def rounds(
    parts: Parts,
    prompt: list[int],
    k: int,
    n: int,
    keep: int | None = 1,
    drop: bool = False,
    trust: bool = False,
) -> list[int]:
    """Returns what is gained until there are n tokens, or a few more.

    Wrong answers leave another number of tokens than 1 out of the caches after a round (`keep`; None: they do
    not roll back), `drop` the target's token where a drafted one was accepted, or `trust` the whole draft.
    """
    parts.prefill(prompt)
    text = list(prompt)
    while len(text) < len(prompt) + n:
        draft = parts.draft(text[-1], k)
        accepted, token = parts.verify(draft, parts.score(text[-1], draft))
        accepted = k if trust else accepted
        text += draft.tokens[0, :accepted].tolist()
        text += [] if drop and accepted else [token]
        if keep is not None:
            parts.rollback(len(text) - keep)
    return text[len(prompt) :]


LOOP = Exercise(
    key="write-the-loop",
    title="Write the loop",
    notebook=8,
    difficulty=3,
    minutes=15,
    stub='''def my_loop(parts, prompt, k, n):
    """Returns the n token ids that follow the prompt, k of them drafted at a time.

    parts.prefill(prompt)                      both models read the prompt but its last token
    parts.draft(pending, k) -> draft           k guesses: draft.tokens [1, k]
    parts.score(pending, draft) -> probs       one target call: [1, k + 1, V]
    parts.verify(draft, probs)                 -> (accepted, token): a number, a correction or bonus
    parts.rollback(length)                     both caches keep their first `length` tokens
    """
    ...
''',
    hints=(
        "A round has four lines: draft, score, verify, roll back. The last token of the text is pending.",
        "The text grows by the drafted tokens that were accepted, and by one more. Then both caches are to "
        "hold all of it but the pending token. The last round may go beyond n.",
    ),
    goal="One round with k = 4. The next one begins with 'floor'.",
    picture="""
pending        → cat
draft          ? sat    ? on   ? the  ? mat
score, verify  ✓ sat    ✓ on   ✓ the  ✗ mat
commit         ✓ sat    ✓ on   ✓ the  ↳ floor
roll back to   = … cat  = sat  = on   = the
pending                               → floor
""",
    praise="The text is the target's own, token for token, in fewer target calls.",
    wrong={
        "overshoots": (
            "Too many tokens: the last round may gain more than the remaining budget. Cut at n.",
            rounds,
        ),
        "never-rolls-back": (
            "Rejected tokens stay in both caches, so the models continue another text. Roll back each round.",
            lambda parts, prompt, k, n: rounds(parts, prompt, k, n, keep=None)[:n],
        ),
        "keeps-the-draft": (
            "You commit the whole draft. Only its first `accepted` tokens stay, and then comes `token`.",
            lambda parts, prompt, k, n: rounds(parts, prompt, k, n, trust=True)[:n],
        ),
        "rollback-one-short": (
            "You roll back to the length of the text. Its last token is pending, so the length is one less.",
            lambda parts, prompt, k, n: rounds(parts, prompt, k, n, keep=0)[:n],
        ),
        "drops-the-correction": (
            "The text is right, but in too many target calls: you drop the token that the target gives.",
            lambda parts, prompt, k, n: rounds(parts, prompt, k, n, drop=True)[:n],
        ),
    },
    right=lambda parts, prompt, k, n: rounds(parts, prompt, k, n)[:n],
    trials=tuple(
        Trial(f"my_loop(parts of {models}, {prompt}, k={k}, n={n})", "looped", (models, prompt, k, n))
        for n in (1, 3, 8)
        for k in (1, 3)
        for models, prompt in (("a table model", [1]), ("a table model", [2, 0, 1]), ("a tiny GPT", [0, 1]))
    ),
    read=lambda value: (ids(value[0]), value[1]),
    show=lambda value: f"{list(value[0])} in {value[1]} target calls",
)
