"""Recipes: everything that decides a training, in one record.

A recipe counts steps, never seconds, so the same recipe gives the same weights on the same machine.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from minispec.core.model import GPTConfig
from minispec.train.roll_calls import KINDS

# The curricula of a recipe, and their names in `pair.json`, which older pairs have too.
CURRICULA = {
    "target_stages": "target_lessons",
    "draft_stages": "draft_lessons",
    "distill_stages": "distill_lessons",
}


@dataclass(frozen=True)
class CurriculumStage:
    """A stretch of training on sequences of one length; a curriculum is several of them in a row.

    Attributes:
        steps: how many optimizer steps.
        rows: sequences per step.
        window: tokens per sequence.
        friends: for stories, how many friends they have. Who belongs to whom is learned much sooner
            when there are few to tell apart, so the first stages have one and two.
        mix: for stories, what the texts are, as (kind, parts): `story`, or a kind of roll call.
    """

    steps: int
    rows: int
    window: int
    friends: int = 3
    mix: tuple[tuple[str, float], ...] = (("story", 1.0),)

    def __post_init__(self) -> None:
        known = ("story", *KINDS)
        if not self.mix or any(kind not in known or parts <= 0 for kind, parts in self.mix):
            raise ValueError(f"the mix of a curriculum stage has parts above 0 of {', '.join(known)}: {self}")
        if min(self.steps, self.rows, self.friends) < 1 or self.window < 2:
            raise ValueError(
                f"a curriculum stage needs steps, rows and friends of at least 1 and a window of at least 2: "
                f"{self}"
            )


@dataclass(frozen=True)
class Recipe:
    """How to make a pair.

    Attributes:
        name: what the pair will be called.
        corpus: `stories`, `english`, or the path of a text file.
        seed: of the corpus, the initialisation, and the order of sequences.
        tokenizer: `bpe` or `characters`.
        target: sizes of the target; its vocab_size is an upper limit, the tokenizer decides.
        draft: sizes of the draft.
        target_stages: the target's curriculum, by cross-entropy.
        draft_stages: the draft's curriculum, by cross-entropy.
        distill_stages: what the draft then learns from the target.
        stories: how many stories to draw for each kind of curriculum stage.
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
    target_stages: Sequence[CurriculumStage]
    draft_stages: Sequence[CurriculumStage]
    distill_stages: Sequence[CurriculumStage]
    stories: int = 20_000
    friends: int = 3
    learning_rate: float = 0.004
    other_rate: float = 0.004

    def scaled(self, factor: float) -> Recipe:
        """Returns the recipe with the steps of every curriculum stage multiplied, at least one each."""

        def stretch(stages: Sequence[CurriculumStage]) -> tuple[CurriculumStage, ...]:
            return tuple(replace(stage, steps=max(1, round(stage.steps * factor))) for stage in stages)

        return replace(
            self,
            target_stages=stretch(self.target_stages),
            draft_stages=stretch(self.draft_stages),
            distill_stages=stretch(self.distill_stages),
        )

    def to_json(self) -> dict[str, Any]:
        """Returns the recipe as `pair.json` has it."""
        return {CURRICULA.get(name, name): value for name, value in asdict(self).items()}

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> Recipe:
        """Reads what `to_json` returns, also after it was written to a file.

        Raises:
            KeyError: if something is missing.
            TypeError: if something is unknown or of another kind.
        """
        fields = dict(data)
        for name in ("target", "draft"):
            fields[name] = GPTConfig(**fields[name])
        for name, written in CURRICULA.items():
            fields[name] = tuple(
                CurriculumStage(**{**stage, "mix": tuple((kind, parts) for kind, parts in stage["mix"])})
                for stage in fields.pop(written)
            )
        return Recipe(**fields)

    def fingerprint(self) -> str:
        """Returns a hash of everything in the recipe: a run is resumed by the same recipe only."""
        return hashlib.sha256(json.dumps(self.to_json(), sort_keys=True).encode()).hexdigest()[:16]


def gpt(layers: int, width: int, heads: int, kv_heads: int, ffn: int, vocab_size: int) -> GPTConfig:
    """Returns the sizes of a GPT with a context of 256 tokens and one matrix for embedding and head.

    In so short a context slow rotary pairs would hardly turn, so the base is lower than usual.
    """
    sizes = GPTConfig(vocab_size, layers, width, heads, kv_heads, ffn, max_length=256, tied=True)
    return replace(sizes, rope_theta=1000.0)
