"""Dataset: what a recipe's models learn from, made before any of them is trained.

The corpus, a tokenizer, the sequences of every kind of curriculum stage, and held-out documents to measure
on. All of it depends on the recipe alone.

Every sequence begins where a document begins. One from the middle of a story could not show what the story's
beginning forces, and its loss would say nothing about recall.
"""

import hashlib
import math
import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import chain
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from minispec.io.tokenizer import Tokenizer, train_tokenizer
from minispec.train.corpus import Corpus, FilePassages, load_corpus
from minispec.train.evaluate import whole_documents
from minispec.train.recipes import CurriculumStage, Recipe
from minispec.train.stories import draw_roll_calls
from minispec.train.token_file import TokenFile, read_token_file, sequence_starts, write_token_file

HELD_OUT = 100  # documents; what is published is measured on more
IN_MEMORY = 2**24  # bytes of a text; the ids of a longer one stay in a file
TOKENIZER_TEXT = 2**25  # bytes of a text that its tokenizer learns from; of a longer one every n-th passage
Sequences = Tensor | TokenFile  # [N, W]
TextKey = tuple[int, tuple[tuple[str, float], ...]]  # a curriculum stage's friends and mix


@dataclass(frozen=True)
class Dataset:
    """What all models of a recipe are trained on, sequences [N, W], and measured on."""

    corpus: Corpus  #: with the full stories
    tokenizer: Tokenizer  #: trained on it
    sequences: Mapping[tuple[int, TextKey], Sequences]  #: of each kind of stage, by its window and its texts
    held_out: tuple[Tensor, Tensor]  #: whole validation documents, and a mask (see `whole_documents`)


def gather(
    recipe: Recipe,
    tokenizer: Tokenizer | None = None,
    held_out: int = HELD_OUT,
    folder: Path | None = None,
) -> Dataset:
    """Makes the corpus, the tokenizer, unless there is one, and the sequences of a recipe.

    Args:
        recipe: says of which texts.
        tokenizer: what to use instead of one that is trained on the corpus.
        held_out: on how many validation documents losses are measured while training.
        folder: where a token file goes, for a text that is too long for memory; None: it stays in memory.
    """
    corpus = load_corpus(recipe.corpus, recipe.seed, recipe.stories, recipe.friends)
    if tokenizer is None:
        sample = tokenizer_sample(corpus)
        tokenizer = train_tokenizer(sample, recipe.tokenizer, recipe.target.vocab_size)
    token_file = find_token_file(corpus, tokenizer, folder)
    sequences: dict[tuple[int, TextKey], Sequences] = {}
    for stage in (*recipe.target_stages, *recipe.draft_stages, *recipe.distill_stages):
        key = stage_key(stage)
        width = stage.window + 1
        if key in sequences:
            continue
        if token_file is not None:
            sequences[key] = read_token_file(token_file, tokenizer, width)
        else:
            rows = tokenizer.encode_batch(stage_texts(stage, recipe, corpus))
            sequences[key] = pack(rows, tokenizer.end_of_text, width)
    documents = whole_documents(tokenizer, corpus.validation, recipe.target.max_length, held_out)
    return Dataset(corpus, tokenizer, sequences, documents)


def tokenizer_sample(corpus: Corpus) -> Sequence[str]:
    """Returns what a corpus's tokenizer learns from."""
    if corpus.stories:
        return corpus.train[:4000]
    size = corpus.train.size if isinstance(corpus.train, FilePassages) else 0
    return corpus.train[:: 1 + size // TOKENIZER_TEXT]


def find_token_file(corpus: Corpus, tokenizer: Tokenizer, folder: Path | None) -> Path | None:
    """Returns the token file of a long text in a folder, written if it is not there; None for other texts."""
    if folder is None or not isinstance(corpus.train, FilePassages) or corpus.train.size <= IN_MEMORY:
        return None
    contents = corpus.sha256 + tokenizer.library.to_str()
    path = folder / f"{hashlib.sha256(contents.encode()).hexdigest()[:16]}.tokens"
    if not path.exists():
        write_token_file(path, corpus.train, tokenizer)
    return path


def extended(sequences: Sequences, more: Tensor) -> Sequences:
    """Returns sequences [N, W] with more, [M, W], after them."""
    if isinstance(sequences, TokenFile):
        return replace(sequences, more=more)
    return torch.cat([sequences, more])


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

    Each document is followed by end-of-text; `sequence_starts` says where sequences begin. The width is one
    more than the model reads at once: the last token is only predicted.
    """
    rows = [[*document, end_of_text] for document in documents]
    starts = list(sequence_starts(map(len, rows), width))
    if not starts:
        raise ValueError(
            f"the text is too short to train on: it does not fill one sequence of {width} tokens"
        )
    return torch.tensor(list(chain(*rows))).unfold(0, width, 1)[starts]


def batch(sequences: Sequences, size: int, step: int, seed: int) -> Tensor:
    """Returns the batch of one step, of sequences [N, width]: [size, width].

    It depends on the seed and the step, counted from 0, and on nothing else. That is what lets a run that was
    killed go on as if nothing had happened. Every epoch visits all sequences in an order of its own.
    """
    count = len(sequences)
    indices = range(step * size, (step + 1) * size)
    return sequences[[int(epoch_order(seed, i // count, count)[i % count]) for i in indices]]


@lru_cache(maxsize=2)
def epoch_order(seed: int, epoch: int, count: int) -> np.ndarray:
    """Returns the order in which an epoch visits sequences: [count]."""
    return np.random.default_rng([seed, epoch]).permutation(count)
