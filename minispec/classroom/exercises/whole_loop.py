"""Notebook 8: put the parts together."""

from __future__ import annotations

from functools import wraps
from typing import Any

from minispec.classroom.drawing import Drawing, line
from minispec.classroom.exercise import Exercise, Wrong
from minispec.classroom.judging import Bench, Trial, ids
from minispec.classroom.limited import Limited
from minispec.classroom.parts import Parts
from minispec.classroom.running import Malformed
from minispec.core.model import LanguageModel
from minispec.evidence.proof.models import table_pair, tiny_gpt_pair

STUB = '''def my_loop(parts, prompt, k, n):
    """Returns the n token ids that follow the prompt, k of them drafted at a time.

    parts.prefill(prompt)                      both models read the prompt but its last token
    parts.draft(pending, k) -> draft           k guesses: draft.tokens [1, k]
    parts.score(pending, draft) -> probs       one target call: [1, k + 1, V]
    parts.verify(draft, probs)                 -> (accepted, token): a number, a correction or bonus
    parts.rollback(length)                     both caches keep their first `length` tokens
    """
    ...
'''

GOAL = Drawing(
    (
        line("pending", ("cat", "pending")),
        line("draft", ("sat", "drafted"), ("on", "drafted"), ("the", "drafted"), ("mat", "drafted")),
        line("score, verify", ("sat", "draft"), ("on", "draft"), ("the", "draft"), ("mat", "rejected")),
        line("commit", ("sat", "draft"), ("on", "draft"), ("the", "draft"), ("floor", "correction")),
        line(
            "roll back to",
            ("… cat", "committed"),
            ("sat", "committed"),
            ("on", "committed"),
            ("the", "committed"),
        ),
        line("pending", "", "", "", ("floor", "pending")),
    ),
    "One round with k = 4. The next one begins with 'floor'.",
)


def my_loop(parts: Parts, prompt: list[int], k: int, n: int) -> list[int]:
    """Drafts, scores, verifies, commits, rolls back; cuts at n."""
    return rounds(parts, prompt, k, n)[:n]


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

    Args:
        parts: to put together.
        prompt: token ids.
        k: K.
        n: how many tokens are wanted.
        keep: so many tokens are left out of the caches after a round; right is 1. None: no rollback.
        drop: drop the target's token where a drafted one was accepted.
        trust: commit the whole draft.
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


WRONG = (
    Wrong(
        "prompt-included",
        "Your list begins with the prompt. Return only what is new.",
        lambda parts, prompt, k, n: [*prompt, *rounds(parts, prompt, k, n)[:n]],
    ),
    Wrong(
        "overshoots",
        "Too many tokens: the last round may gain more than there is room for. Cut at n.",
        rounds,
    ),
    Wrong(
        "never-rolls-back",
        "Rejected tokens stay in both caches, and the models go on from a text that was never written. Roll "
        "back after each round.",
        lambda parts, prompt, k, n: rounds(parts, prompt, k, n, keep=None)[:n],
    ),
    Wrong(
        "keeps-the-draft",
        "You commit the whole draft. Only its first `accepted` tokens stay, and then comes `token`.",
        lambda parts, prompt, k, n: rounds(parts, prompt, k, n, trust=True)[:n],
    ),
    Wrong(
        "rollback-one-short",
        "You roll back to the length of the text. The last token is pending: committed, but read only in the "
        "next round. So the length is one less.",
        lambda parts, prompt, k, n: rounds(parts, prompt, k, n, keep=0)[:n],
    ),
    Wrong(
        "rollback-one-too-far",
        "You roll back one token too far: the caches lose a token that nobody reads again.",
        lambda parts, prompt, k, n: rounds(parts, prompt, k, n, keep=2)[:n],
    ),
    Wrong(
        "drops-the-correction",
        "The text is right, but it takes more target calls than it needs: you drop the token that the target "
        "has just given you. Commit it behind the accepted ones.",
        lambda parts, prompt, k, n: rounds(parts, prompt, k, n, drop=True)[:n],
    ),
)

PRAISE = "The text is the target's own, token for token, in fewer target calls."


def explored(answer: Any) -> Any:
    """Returns the function that a trial calls: it hands an answer fresh parts, and counts target calls."""

    @wraps(answer, assigned=(), updated=())
    def ran(
        target: LanguageModel, draft: LanguageModel, prompt: list[int], k: int, n: int
    ) -> tuple[Any, int, int]:
        parts = Parts(Limited(target, 10 * n + 50), draft)
        text = answer(parts, prompt, k, n)
        if text is None:
            raise Malformed("it returned None: is the `return` missing?")
        if text is ...:
            raise NotImplementedError
        own = Parts(target, draft)
        my_loop(own, list(prompt), k, n)
        return text, parts.target_calls, own.target_calls

    return ran


def text_and_surplus(value: Any) -> Any:
    """Returns the tokens, and how many target calls more than needed were made."""
    text, calls, needed = value
    return ids(text), max(0, calls - needed)


def show(value: Any) -> str:
    """Writes tokens, and a surplus of target calls."""
    tokens, surplus = value
    return f"{list(tokens)}" + (f", with {surplus} target calls too many" if surplus else "")


PAIRS = {"a table model": table_pair(4, 1), "a tiny GPT": tiny_gpt_pair(2, 5)}


def trial(name: str, prompt: list[int], k: int, n: int) -> Trial:
    """Returns a call on one pair of models."""
    return Trial(
        f"my_loop(parts of {name}, {prompt}, k={k}, n={n})", lambda: (*PAIRS[name], list(prompt), k, n)
    )


EXERCISE = Exercise(
    key="write-the-loop",
    title="Write the loop",
    notebook=8,
    difficulty=3,
    minutes=15,
    stub=STUB,
    hints=(
        "A round has four lines: draft, score, verify, roll back. The last token of the text is pending.",
        "text += the first `accepted` of draft.tokens[0].tolist(), and `token`; then roll back to "
        "len(text) - 1. Return text[len(prompt):][:n].",
    ),
    goal=GOAL,
    judge=Bench(
        my_loop,
        tuple(
            trial(name, prompt, k, n)
            for n in (1, 3, 8)
            for k in (1, 3)
            for name, prompt in (("a table model", [1]), ("a table model", [2, 0, 1]), ("a tiny GPT", [0, 1]))
        ),
        WRONG,
        text_and_surplus,
        show,
        PRAISE,
        explored,
    ).judge,
    wrong=WRONG,
    praise=PRAISE,
)
