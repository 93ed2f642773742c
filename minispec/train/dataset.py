"""Dataset: what a recipe's models learn from, made before any of them is trained.

The corpus, a tokenizer, the sequences of every kind of curriculum stage, and held-out documents to measure
on. All of it depends on the recipe alone.

Every sequence begins where a document begins. One from the middle of a story could not show what the story's
beginning forces, and its loss would say nothing about recall.
"""

import math
import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from minispec.io.tokenizer import Tokenizer, train_tokenizer
from minispec.train.corpus import Corpus, load_corpus
from minispec.train.evaluate import whole_documents
from minispec.train.recipes import CurriculumStage, Recipe
from minispec.train.stories import draw_roll_calls

HELD_OUT = 100  # documents; what is published is measured on more
TextKey = tuple[int, tuple[tuple[str, float], ...]]  # a curriculum stage's friends and mix


@dataclass(frozen=True)
class Dataset:
    """What all models of a recipe are trained on, sequences [N, W], and measured on."""

    corpus: Corpus  #: with the full stories
    tokenizer: Tokenizer  #: trained on it
    sequences: Mapping[tuple[int, TextKey], Tensor]  #: of each kind of stage, by its window and its texts
    held_out: tuple[Tensor, Tensor]  #: whole validation documents, and a mask (see `whole_documents`)


def gather(recipe: Recipe, tokenizer: Tokenizer | None = None, held_out: int = HELD_OUT) -> Dataset:
    """Makes the corpus, the tokenizer, unless there is one, and the sequences of a recipe.

    held_out: on how many validation documents losses are measured while training.
    """
    corpus = load_corpus(recipe.corpus, recipe.seed, recipe.stories, recipe.friends)
    if tokenizer is None:
        sample = corpus.train[:4000] if corpus.stories else corpus.train
        tokenizer = train_tokenizer(sample, recipe.tokenizer, recipe.target.vocab_size)
    sequences: dict[tuple[int, TextKey], Tensor] = {}
    for stage in (*recipe.target_stages, *recipe.draft_stages, *recipe.distill_stages):
        key = stage_key(stage)
        if key not in sequences:
            rows = tokenizer.encode_batch(stage_texts(stage, recipe, corpus))
            sequences[key] = pack(rows, tokenizer.end_of_text, stage.window + 1)
    documents = whole_documents(tokenizer, corpus.validation, recipe.target.max_length, held_out)
    return Dataset(corpus, tokenizer, sequences, documents)


def stage_key(stage: CurriculumStage) -> tuple[int, TextKey]:
    """Returns what tells a curriculum stage's sequences from those of others."""
    return stage.window, (stage.friends, stage.mix)


def stage_texts(stage: CurriculumStage, recipe: Recipe, corpus: Corpus) -> Sequence[str]:
    """Returns a curriculum stage's documents: the corpus itself, easier stories, roll calls, or a mix."""
    if not corpus.stories:
        return corpus.train
    stories = corpus.train
    if stage.friends != recipe.friends:
        stories = load_corpus("stories", recipe.seed, recipe.stories, stage.friends).train
    if stage.mix == (("story", 1.0),):
        return stories
    total_parts = sum(parts for _, parts in stage.mix)
    texts: list[str] = []
    for kind, parts in stage.mix:
        count = math.ceil(recipe.stories * parts / total_parts)
        texts += stories[:count] if kind == "story" else draw_roll_calls(kind, count, recipe.seed)
    # The wording of the seed decides the order: another one would train other weights.
    random.Random(f"minispec lesson {recipe.seed}").shuffle(texts)
    return texts


def pack(documents: Iterable[Sequence[int]], end_of_text: int, width: int) -> Tensor:
    """Packs documents of token ids into sequences, [N, width]; ValueError if they do not fill one.

    A sequence holds whole documents, each followed by end-of-text, until it is full; what the last one has
    left over is dropped. A document longer than a sequence gives several: there is no other way to see its
    later parts. The width is one more than the model reads at once: the last token is only predicted.
    """
    sequences: list[list[int]] = []
    row: list[int] = []
    for document in documents:
        row.extend([*document, end_of_text])
        while len(row) >= width:
            sequences.append(row[:width])
            # A long document goes on in the next sequence; the tail of one that began inside is dropped.
            row = row[width:] if len(document) + 1 - (len(row) - width) >= width else []
    if not sequences:
        raise ValueError(
            f"the text is too short to train on: it does not fill one sequence of {width} tokens"
        )
    return torch.tensor(sequences)


def batch(sequences: Tensor, size: int, step: int, seed: int) -> Tensor:
    """Returns the batch of one step, of sequences [N, width]: [size, width].

    It depends on the seed and the step, counted from 0, and on nothing else. That is what lets a run that was
    killed go on as if nothing had happened. Every epoch visits all sequences in an order of its own.
    """
    count = len(sequences)
    indices = range(step * size, (step + 1) * size)
    orders = {
        epoch: np.random.default_rng([seed, epoch]).permutation(count)
        for epoch in {i // count for i in indices}
    }
    return sequences[[int(orders[i // count][i % count]) for i in indices]]
