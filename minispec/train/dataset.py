"""Material: what a recipe's models learn from, gathered before any of them is trained.

The corpus, a tokenizer, the windows of every kind of lesson, and held-out documents to measure on. All of it
depends on the recipe alone.
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
from minispec.train.recipes import Lesson, Recipe
from minispec.train.roll_calls import draw_roll_calls

HELD_OUT = 400  # documents
Texts = tuple[int, tuple[tuple[str, float], ...]]  # a lesson's friends and mix


@dataclass(frozen=True)
class Material:
    """What all stages of a run share.

    Attributes:
        corpus: with the full stories.
        tokenizer: trained on it.
        windows: the windows [N, W] of each kind of lesson, by its width and its texts.
        held_out: whole validation documents as windows [N, W] and a mask [N, W] (see `whole_documents`).
    """

    corpus: Corpus
    tokenizer: Tokenizer
    windows: Mapping[tuple[int, Texts], Tensor]
    held_out: tuple[Tensor, Tensor]


def gather(recipe: Recipe, tokenizer: Tokenizer | None = None, held_out: int = HELD_OUT) -> Material:
    """Makes the corpus, the tokenizer and the windows of a recipe.

    Args:
        recipe: says which.
        tokenizer: one to use; by default one is trained on the corpus.
        held_out: on how many validation documents losses are measured while training.
    """
    corpus = load_corpus(recipe.corpus, recipe.seed, recipe.stories, recipe.friends)
    if tokenizer is None:
        sample = corpus.train[:4000] if corpus.stories else corpus.train
        tokenizer = train_tokenizer(sample, recipe.tokenizer, recipe.target.vocab_size)
    windows: dict[tuple[int, Texts], Tensor] = {}
    for lesson in (*recipe.target_lessons, *recipe.draft_lessons, *recipe.distill_lessons):
        key = kind_of(lesson)
        if key not in windows:
            rows = tokenizer.encode_batch(texts_of(lesson, recipe, corpus))
            windows[key] = pack(rows, tokenizer.end_of_text, lesson.window + 1)
    documents = whole_documents(tokenizer, corpus.validation, recipe.target.max_length, held_out)
    return Material(corpus, tokenizer, windows, documents)


def kind_of(lesson: Lesson) -> tuple[int, Texts]:
    """Returns what tells a lesson's windows from those of others."""
    return lesson.window, (lesson.friends, lesson.mix)


def texts_of(lesson: Lesson, recipe: Recipe, corpus: Corpus) -> Sequence[str]:
    """Returns what a lesson is made of: the corpus itself, easier stories, roll calls, or a mix.

    Args:
        lesson: says which.
        recipe: its seed and number of stories.
        corpus: of the recipe.

    Returns:
        Documents, in an order that the seed decides.
    """
    if not corpus.stories:
        return corpus.train
    stories = corpus.train
    if lesson.friends != recipe.friends:
        stories = load_corpus("stories", recipe.seed, recipe.stories, lesson.friends).train
    if lesson.mix == (("story", 1.0),):
        return stories
    whole = sum(parts for _, parts in lesson.mix)
    texts: list[str] = []
    for kind, parts in lesson.mix:
        count = math.ceil(recipe.stories * parts / whole)
        texts += stories[:count] if kind == "story" else draw_roll_calls(kind, count, recipe.seed)
    random.Random(f"minispec lesson {recipe.seed}").shuffle(texts)
    return texts
