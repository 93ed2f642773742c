"""All questions, in the order of the notebooks, and the misconceptions that they must bring up."""

from __future__ import annotations

from minispec.classroom.question import Question
from minispec.classroom.questions_models import MODELS
from minispec.classroom.questions_proof import PROOF
from minispec.classroom.questions_rounds import DRAFTING, ROUNDS
from minispec.classroom.questions_verify import VERIFY

QUESTIONS: tuple[Question, ...] = (*MODELS, *DRAFTING, *VERIFY, *ROUNDS, *PROOF)

# What many people believe of speculative decoding, and is not so. Each is the belief behind some choice.
MISCONCEPTIONS = (
    "a bad draft spoils the text",
    "the same seed gives the same text",
    "tokens after a rejection can be kept",
    "the correction can equal the rejected token",
    "higher acceptance means more correct",
    "on a rejection one may simply sample again from the target",
    "a larger draft is better",
    "speculation always pays",
)


def question_named(key: str) -> Question:
    """Returns the question of a name.

    Raises:
        ValueError: if there is none; the message lists them.
    """
    for question in QUESTIONS:
        if question.key == key:
            return question
    raise ValueError(f"there is no question {key!r}; there is {', '.join(q.key for q in QUESTIONS)}")


def questions_of(notebook: int) -> list[Question]:
    """Returns the questions of a notebook."""
    return [question for question in QUESTIONS if question.notebook == notebook]
