"""Recipes: everything that decides a training, in one record.

A recipe counts steps, never seconds, so the same recipe gives the same weights on the same machine.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace

from minispec.core.model import GPTConfig
from minispec.train.roll_calls import KINDS


@dataclass(frozen=True)
class Lesson:
    """A stretch of training on windows of one width.

    Attributes:
        steps: how many optimizer steps.
        rows: windows per step.
        window: tokens per window.
        friends: for stories, how many friends they have. Who belongs to whom is learned much sooner
            when there are few to tell apart, so the first lessons have one and two.
        mix: for stories, what the lesson is made of, as (kind, parts): `story`, or a kind of roll call.
    """

    steps: int
    rows: int
    window: int
    friends: int = 3
    mix: tuple[tuple[str, float], ...] = (("story", 1.0),)

    def __post_init__(self) -> None:
        known = ("story", *KINDS)
        if not self.mix or any(kind not in known or parts <= 0 for kind, parts in self.mix):
            raise ValueError(f"a lesson's mix has parts above 0 of {', '.join(known)}: {self}")
        if min(self.steps, self.rows, self.friends) < 1 or self.window < 2:
            raise ValueError(
                f"a lesson needs steps, rows and friends of at least 1 and a window of at least 2: {self}"
            )


@dataclass(frozen=True)
class Recipe:
    """How to make a pair.

    Attributes:
        name: what the pair will be called.
        corpus: `stories`, `english`, or the path of a text file.
        seed: of the corpus, the first weights, and the order of windows.
        tokenizer: `bpe` or `characters`.
        target: sizes of the target; its vocab_size is an upper limit, the tokenizer decides.
        draft: sizes of the draft.
        target_lessons: what the target learns, by cross-entropy.
        draft_lessons: what the draft learns, by cross-entropy.
        distill_lessons: what the draft then learns from the target.
        stories: how many stories to draw for each kind of lesson.
        friends: how many friends the stories have that the pair is for, and is measured on.
        learning_rate: of the matrices (Muon), at its highest.
        other_rate: of embeddings, head and norms (AdamW), at its highest.
    """

    name: str
    corpus: str
    seed: int
    tokenizer: str
    target: GPTConfig
    draft: GPTConfig
    target_lessons: Sequence[Lesson]
    draft_lessons: Sequence[Lesson]
    distill_lessons: Sequence[Lesson]
    stories: int = 20_000
    friends: int = 3
    learning_rate: float = 0.004
    other_rate: float = 0.004

    def scaled(self, factor: float) -> Recipe:
        """Returns the recipe with every lesson's steps multiplied, at least one each."""

        def stretch(lessons: Sequence[Lesson]) -> tuple[Lesson, ...]:
            return tuple(replace(lesson, steps=max(1, round(lesson.steps * factor))) for lesson in lessons)

        return replace(
            self,
            target_lessons=stretch(self.target_lessons),
            draft_lessons=stretch(self.draft_lessons),
            distill_lessons=stretch(self.distill_lessons),
        )

    def fingerprint(self) -> str:
        """Returns a hash of everything in the recipe: a run is resumed by the same recipe only."""
        return hashlib.sha256(json.dumps(asdict(self), sort_keys=True).encode()).hexdigest()[:16]


def gpt(layers: int, width: int, heads: int, kv_heads: int, ffn: int, vocab_size: int) -> GPTConfig:
    """Returns the sizes of a GPT with a context of 256 tokens and one matrix for embedding and head.

    In so short a context slow rotary pairs would hardly turn, so the base is lower than usual.
    """
    sizes = GPTConfig(vocab_size, layers, width, heads, kv_heads, ffn, max_length=256, tied=True)
    return replace(sizes, rope_theta=1000.0)
