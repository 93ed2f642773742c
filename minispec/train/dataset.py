"""Dataset: what a recipe's models learn from, made before any of them is trained.

The corpus, a tokenizer, the sequences of every kind of curriculum stage, and held-out documents to measure
on. All of it depends on the recipe alone.
"""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from torch import Tensor

from minispec.io.tokenizer import Tokenizer, train_tokenizer
from minispec.train.batches import pack
from minispec.train.corpus import Corpus, load_corpus
from minispec.train.evaluate import whole_documents
from minispec.train.recipes import CurriculumStage, Recipe
from minispec.train.roll_calls import draw_roll_calls

HELD_OUT = 400  # documents
Texts = tuple[int, tuple[tuple[str, float], ...]]  # a curriculum stage's friends and mix


@dataclass(frozen=True)
class Dataset:
    """What all models of a recipe are trained on and measured on.

    Attributes:
        corpus: with the full stories.
        tokenizer: trained on it.
        sequences: the sequences [N, W] of each kind of curriculum stage, by its window and its texts.
        held_out: whole validation documents as rows [N, W] and a mask [N, W] (see `whole_documents`).
    """

    corpus: Corpus
    tokenizer: Tokenizer
    sequences: Mapping[tuple[int, Texts], Tensor]
    held_out: tuple[Tensor, Tensor]


def gather(recipe: Recipe, tokenizer: Tokenizer | None = None, held_out: int = HELD_OUT) -> Dataset:
    """Makes the corpus, the tokenizer and the sequences of a recipe.

    Args:
        recipe: says which.
        tokenizer: one to use; by default one is trained on the corpus.
        held_out: on how many validation documents losses are measured while training.
    """
    corpus = load_corpus(recipe.corpus, recipe.seed, recipe.stories, recipe.friends)
    if tokenizer is None:
        sample = corpus.train[:4000] if corpus.stories else corpus.train
        tokenizer = train_tokenizer(sample, recipe.tokenizer, recipe.target.vocab_size)
    sequences: dict[tuple[int, Texts], Tensor] = {}
    for stage in (*recipe.target_stages, *recipe.draft_stages, *recipe.distill_stages):
        key = kind_of(stage)
        if key not in sequences:
            rows = tokenizer.encode_batch(texts_of(stage, recipe, corpus))
            sequences[key] = pack(rows, tokenizer.end_of_text, stage.window + 1)
    documents = whole_documents(tokenizer, corpus.validation, recipe.target.max_length, held_out)
    return Dataset(corpus, tokenizer, sequences, documents)


def kind_of(stage: CurriculumStage) -> tuple[int, Texts]:
    """Returns what tells a curriculum stage's sequences from those of others."""
    return stage.window, (stage.friends, stage.mix)


def texts_of(stage: CurriculumStage, recipe: Recipe, corpus: Corpus) -> Sequence[str]:
    """Returns the texts of a curriculum stage: the corpus itself, easier stories, roll calls, or a mix.

    Args:
        stage: says which.
        recipe: its seed and number of stories.
        corpus: of the recipe.

    Returns:
        Documents, in an order that the seed decides.
    """
    if not corpus.stories:
        return corpus.train
    stories = corpus.train
    if stage.friends != recipe.friends:
        stories = load_corpus("stories", recipe.seed, recipe.stories, stage.friends).train
    if stage.mix == (("story", 1.0),):
        return stories
    whole = sum(parts for _, parts in stage.mix)
    texts: list[str] = []
    for kind, parts in stage.mix:
        count = math.ceil(recipe.stories * parts / whole)
        texts += stories[:count] if kind == "story" else draw_roll_calls(kind, count, recipe.seed)
    # The wording of the seed decides the order: another one would train other weights.
    random.Random(f"minispec lesson {recipe.seed}").shuffle(texts)
    return texts
