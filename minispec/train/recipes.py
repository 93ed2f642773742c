"""Recipes: all that decides a training, in one record, and those that come with minispec.

A recipe counts steps, never seconds, so the same recipe gives the same weights on the same machine.
"""

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from minispec.core.model import GPTConfig
from minispec.io.files import read_table
from minispec.train.grammar import KINDS

CURRICULA = ("target_stages", "draft_stages", "distill_stages")  # in `pair.json` they are called lessons


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
        object.__setattr__(self, "mix", tuple(map(tuple, self.mix)))  # JSON and TOML have lists
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
        return {name.replace("_stages", "_lessons"): value for name, value in asdict(self).items()}

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> "Recipe":
        """Reads what `to_json` returns; ValueError if it is no recipe."""
        try:
            fields = {name.replace("_lessons", "_stages"): value for name, value in data.items()}
            return recipe_of(fields, GPTConfig)
        except (KeyError, TypeError) as error:
            raise ValueError(f"this is no recipe of a training: {error}") from error

    def fingerprint(self) -> str:
        """Returns a hash of the whole recipe: a run is resumed by the same recipe only."""
        return hashlib.sha256(json.dumps(self.to_json(), sort_keys=True).encode()).hexdigest()[:16]


def gpt(layers: int, width: int, heads: int, kv_heads: int, ffn: int, vocab_size: int) -> GPTConfig:
    """Returns the sizes of a GPT with a context of 256 tokens and one matrix for embedding and head.

    In so short a context slow rotary pairs would hardly turn, so the base is lower than usual.
    """
    sizes = (vocab_size, layers, width, heads, kv_heads, ffn)
    return GPTConfig(*sizes, max_length=256, tied=True, rope_theta=1000.0)


def recipe_of(data: Mapping[str, Any], config: Callable[..., GPTConfig]) -> Recipe:
    """Makes a recipe of plain data: sizes by `config`."""
    fields = dict(data)
    for name in ("target", "draft"):
        fields[name] = config(**fields[name])
    for name in CURRICULA:
        fields[name] = tuple(CurriculumStage(**stage) for stage in fields[name])
    fields["written"] = tuple(map(tuple, fields.get("written", ())))
    return Recipe(**fields)


RECIPES = {
    name: recipe_of({"name": name, "seed": 0, "tokenizer": "bpe"} | table, gpt)
    for name, table in read_table(__file__, "recipes.toml").items()
}
QUICK, STORIES, OWN_TEXT = (RECIPES[name] for name in ("quick", "stories", "own-text"))
PYTHON = replace(OWN_TEXT, name="python", corpus="python")
PRESETS = {recipe.name: recipe for recipe in (QUICK, STORIES, RECIPES["english"], PYTHON)}

# A short story that says where the cat slept, and ends where one must remember it.
WALKTHROUGHS = {
    "stories": "Once there were two friends. "
    "Rue the cat had a kite. She lived by the hill and slept on the floor. "
    "Pip the cow had a bell. She lived by the wood and slept on the mat. The cat"
}
