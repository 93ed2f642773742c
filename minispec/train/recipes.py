"""Recipes: all that decides a training, in one record, and those that come with minispec.

A recipe counts steps, never seconds, so the same recipe gives the same weights on the same machine.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from minispec.core.model import GPTConfig
from minispec.train.grammar import KINDS

# The curricula of a recipe, and their names in `pair.json`.
CURRICULA = {
    "target_stages": "target_lessons",
    "draft_stages": "draft_lessons",
    "distill_stages": "distill_lessons",
}


@dataclass(frozen=True)
class CurriculumStage:
    """A stretch of training on sequences of one length; a curriculum is several of them in a row."""

    steps: int  #: how many optimizer steps
    rows: int  #: sequences per step
    window: int  #: tokens per sequence
    #: for stories, how many friends they have. Who belongs to whom is learned much sooner when there are few
    #: to tell apart, so the first stages have one and two.
    friends: int = 3
    mix: tuple[tuple[str, float], ...] = (("story", 1.0),)  #: for stories: kinds and their parts

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
    """How to make a pair."""

    name: str  #: what the pair will be called
    corpus: str  #: `stories`, `english`, `python`, or the path of a text file
    seed: int  #: of the corpus, the initialisation, and the order of sequences
    tokenizer: str  #: `bpe` or `characters`
    target: GPTConfig  #: sizes of the target; its vocab_size is an upper limit, the tokenizer decides
    draft: GPTConfig  #: sizes of the draft
    target_stages: Sequence[CurriculumStage]  #: the target's curriculum, by cross-entropy
    draft_stages: Sequence[CurriculumStage]  #: the draft's curriculum, by cross-entropy
    distill_stages: Sequence[CurriculumStage]  #: what the draft then learns from the target
    written: Sequence[tuple[int, float]] = ()  #: by the target for it: how many, at which temperature
    stories: int = 20_000  #: how many stories to draw for each kind of curriculum stage
    friends: int = 3  #: how many friends the stories have that the pair is for, and is measured on
    learning_rate: float = 0.004  #: of the matrices (Muon), at its highest
    other_rate: float = 0.004  #: of embeddings, head and norms (AdamW), at its highest

    def scaled(self, factor: float) -> "Recipe":
        """Returns the recipe with all steps, and what the target writes, multiplied; at least one each."""
        stretched: dict[str, Any] = {
            name: tuple(replace(s, steps=max(1, round(s.steps * factor))) for s in getattr(self, name))
            for name in CURRICULA
        }
        written = tuple((max(1, round(count * factor)), temperature) for count, temperature in self.written)
        return replace(self, **stretched, written=written)

    def to_json(self) -> dict[str, Any]:
        """Returns the recipe as `pair.json` has it."""
        return {CURRICULA.get(name, name): value for name, value in asdict(self).items()}

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> "Recipe":
        """Reads what `to_json` returns.

        Raises:
            ValueError: if it is no recipe.
        """
        fields = dict(data)
        try:
            for name, theirs in CURRICULA.items():
                stages = [
                    {**stage, "mix": tuple((kind, parts) for kind, parts in stage["mix"])}
                    for stage in fields.pop(theirs)
                ]
                fields[name] = tuple(CurriculumStage(**stage) for stage in stages)
            fields |= {name: GPTConfig(**fields[name]) for name in ("target", "draft")}
            fields["written"] = tuple((count, degree) for count, degree in fields.get("written", ()))
            return Recipe(**fields)
        except (KeyError, TypeError) as error:
            raise ValueError(f"this is no recipe of a training: {error}") from error

    def fingerprint(self) -> str:
        """Returns a hash of the whole recipe: a run is resumed by the same recipe only."""
        return hashlib.sha256(json.dumps(self.to_json(), sort_keys=True).encode()).hexdigest()[:16]


def gpt(layers: int, width: int, heads: int, kv_heads: int, ffn: int, vocab_size: int) -> GPTConfig:
    """Returns the sizes of a GPT with a context of 256 tokens and one matrix for embedding and head.

    In so short a context slow rotary pairs would hardly turn, so the base is lower than usual.
    """
    sizes = GPTConfig(vocab_size, layers, width, heads, kv_heads, ffn, max_length=256, tied=True)
    return replace(sizes, rope_theta=1000.0)


# The pair that is shipped. Eight layers make the target many times as dear to call as its one-layer draft,
# and so narrow a model reads six tokens nearly as fast as one. The target learns whose fact is whose from
# roll calls, one kind of fact after the other, and only then from stories.
ROLL_CALLS = (("animal", 0.3), ("thing", 0.3), ("place", 0.3), ("seat", 0.5), ("animal's seat", 0.5))
REVIEW = (("animal", 0.1), ("thing", 0.15), ("place", 0.2), ("seat", 0.15), ("animal's seat", 0.15))
STORIES = Recipe(
    name="stories",
    corpus="stories",
    seed=0,
    tokenizer="bpe",
    target=gpt(layers=8, width=128, heads=8, kv_heads=4, ffn=352, vocab_size=512),
    draft=gpt(layers=1, width=32, heads=2, kv_heads=1, ffn=64, vocab_size=512),
    target_stages=(
        CurriculumStage(100, 32, 64, friends=1),
        CurriculumStage(250, 16, 128, friends=2, mix=(("animal", 1),)),
        CurriculumStage(200, 16, 128, friends=2, mix=(("animal", 0.5), ("thing", 1))),
        CurriculumStage(200, 16, 128, friends=2, mix=(("animal", 0.3), ("thing", 0.5), ("place", 1))),
        CurriculumStage(250, 16, 128, friends=2, mix=ROLL_CALLS),
        CurriculumStage(900, 16, 128, friends=2, mix=(("story", 1), *REVIEW)),
        CurriculumStage(400, 8, 256, friends=2),
    ),
    draft_stages=(CurriculumStage(200, 32, 64, friends=1), CurriculumStage(2400, 8, 256, friends=2)),
    distill_stages=(CurriculumStage(1200, 8, 256, friends=2),),
    stories=30_000,
    friends=2,
)

# Trained live in the demo: stories with two friends, which a small target learns to tell apart in a minute.
QUICK = Recipe(
    name="quick",
    corpus="stories",
    seed=0,
    tokenizer="bpe",
    target=gpt(layers=3, width=128, heads=8, kv_heads=4, ffn=352, vocab_size=512),
    draft=gpt(layers=1, width=64, heads=2, kv_heads=1, ffn=176, vocab_size=512),
    target_stages=(CurriculumStage(100, 32, 64, friends=1), CurriculumStage(280, 16, 128, friends=2)),
    draft_stages=(CurriculumStage(240, 16, 128, friends=2),),
    distill_stages=(CurriculumStage(130, 16, 128, friends=2),),
    stories=5_000,
    friends=2,
)

# Its target's weights take 40 MB, more than the caches of most processors hold. So they come from memory for
# every forward, and while they come there is time to check several tokens.
ENGLISH = Recipe(
    name="english",
    corpus="english",
    seed=0,
    tokenizer="bpe",
    target=gpt(layers=6, width=384, heads=6, kv_heads=3, ffn=1024, vocab_size=1024),
    draft=gpt(layers=1, width=128, heads=4, kv_heads=2, ffn=352, vocab_size=1024),
    target_stages=(CurriculumStage(340, 8, 256),),
    draft_stages=(CurriculumStage(350, 8, 256),),
    distill_stages=(CurriculumStage(1500, 8, 256),),
    written=((256, 1.0), (128, 0.0)),
)

# For a text of one's own, about a megabyte of anything. The target's weights take 20 MB, more than the fast
# caches of most processors hold: they are fetched for every forward, so that to read six tokens takes little
# longer than to read one. The draft has two layers because a single one cannot copy what stood after an
# earlier occurrence of a token (see `initialise`): with one of 128, about as quick to call, fewer of its
# tokens were accepted. Most of its steps are distillation, for a megabyte of text
# more than a quarter of it on what the target writes.
OWN_TEXT = Recipe(
    name="own-text",
    corpus="",  # `minispec train --text FILE` says which
    seed=0,
    tokenizer="bpe",
    target=gpt(layers=3, width=384, heads=8, kv_heads=4, ffn=1024, vocab_size=512),
    draft=gpt(layers=2, width=96, heads=3, kv_heads=1, ffn=256, vocab_size=512),
    target_stages=(CurriculumStage(170, 16, 128), CurriculumStage(200, 8, 256)),
    draft_stages=(CurriculumStage(350, 16, 128),),
    distill_stages=(CurriculumStage(1400, 8, 256),),
    written=((384, 1.0), (128, 0.0)),
    learning_rate=0.006,
    other_rate=0.006,
)
PYTHON = replace(OWN_TEXT, name="python", corpus="python")
PRESETS = {recipe.name: recipe for recipe in (QUICK, STORIES, ENGLISH, PYTHON)}

# A short story that says where the cat slept, and ends where one must remember it.
WALKTHROUGHS = {
    "stories": "Once there were two friends. "
    "Rue the cat had a kite. She lived by the hill and slept on the floor. "
    "Pip the cow had a bell. She lived by the wood and slept on the mat. The cat",
}
