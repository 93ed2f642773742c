"""Notebook 1: the serial loop."""

from __future__ import annotations

import torch

from minispec.classroom.drawing import Drawing, line
from minispec.classroom.exercise import Exercise, Wrong
from minispec.classroom.judging import Bench, Trial, ids
from minispec.classroom.limited import Limited
from minispec.core.loop import generate
from minispec.core.model import LanguageModel
from minispec.core.rng import SeededRng
from minispec.core.warp import Warp
from minispec.evidence.proof.models import table_model

STUB = '''def continue_greedily(model, prompt, n):
    """Returns the n token ids that the model finds most probable, one after another.

    model(torch.tensor([ids])) gives logits [1, len(ids), V]: row i is about what follows ids[i].
    """
    ...
'''

GOAL = Drawing(
    (
        line("forward 1 reads", ("Once", "prompt"), ("there", "prompt")),
        line("and gives", "", ("were", "new")),
        line("forward 2 reads", ("Once", "prompt"), ("there", "prompt"), ("were", "committed")),
        line("and gives", "", "", ("two", "new")),
    ),
    "One forward for each new token; the next one cannot begin before this one has ended.",
)


def right(model: LanguageModel, prompt: list[int], n: int) -> list[int]:
    """Uses the shipped loop of the target alone."""
    steps = generate(model, [prompt], max_new_tokens=n, warp=Warp(temperature=0), rng=SeededRng(0))
    return [token for (token,) in steps if token is not None]


def step(model: LanguageModel, text: list[int], row: int = -1) -> int:
    """Returns the most probable token at one row of the logits."""
    return int(model(torch.tensor([text]))[0, row].argmax())


def prompt_included(model: LanguageModel, prompt: list[int], n: int) -> list[int]:
    """Returns prompt and continuation."""
    return [*prompt, *right(model, prompt, n)]


def never_appended(model: LanguageModel, prompt: list[int], n: int) -> list[int]:
    """Asks about the prompt each time."""
    return [step(model, prompt) for _ in range(n)]


def first_row(model: LanguageModel, prompt: list[int], n: int) -> list[int]:
    """Takes the logits behind the first token."""
    text = list(prompt)
    for _ in range(n):
        text.append(step(model, text, 0))
    return text[len(prompt) :]


def last_token_alone(model: LanguageModel, prompt: list[int], n: int) -> list[int]:
    """Reads the newest token, without what stands before it."""
    text = list(prompt)
    for _ in range(n):
        text.append(step(model, text[-1:]))
    return text[len(prompt) :]


def one_too_many(model: LanguageModel, prompt: list[int], n: int) -> list[int]:
    """Counts from 0 to n."""
    return right(model, prompt, n + 1)


WRONG = (
    Wrong(
        "prompt-included",
        "Your list begins with the prompt. Return only what is new: text[len(prompt):].",
        prompt_included,
    ),
    Wrong(
        "never-appended",
        "You ask about the same text each time. Each new token has to be appended before the next forward.",
        never_appended,
    ),
    Wrong(
        "first-row",
        "You read the logits of the first row. What follows the text stands in the last one: logits[0, -1].",
        first_row,
    ),
    Wrong(
        "last-token-alone",
        "You read the newest token alone. Without a cache, the model must see the whole text each time.",
        last_token_alone,
    ),
    Wrong("one-too-many", "One token too many: n forwards give n tokens.", one_too_many),
)

PRAISE = "n forwards for n tokens, each waiting for the one before. This is what speculation will shorten."


def trial(prompt: list[int], n: int) -> Trial:
    """Returns a call on a table model, whose next token depends on the last two."""
    return Trial(
        f"continue_greedily(model, {prompt}, {n})",
        lambda: (Limited(table_model(4, 3), 10 * n + 10), list(prompt), n),
    )


TRIALS = tuple(trial(p, n) for n in (0, 1, 2, 3, 6) for p in ([0], [1, 2], [3, 0, 2], [2, 2, 1, 0]))

EXERCISE = Exercise(
    key="continue-greedily",
    title="Continue a text, one token at a time",
    notebook=1,
    difficulty=1,
    minutes=5,
    stub=STUB,
    hints=(
        "Keep a list of all ids so far. Each turn: one forward over all of it, then one more id in the list.",
        "logits[0, -1] is about what follows the last token; .argmax() is the most probable id, int(…) a "
        "number.",
    ),
    goal=GOAL,
    judge=Bench(right, TRIALS, WRONG, ids, lambda value: str(list(value)), PRAISE).judge,
    wrong=WRONG,
    praise=PRAISE,
)
