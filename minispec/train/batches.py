"""Batches: rows of equal length that a model trains on, cut from texts.

Every sequence begins where a document begins. One from the middle of a story could not show what the story's
beginning forces, and its loss would say nothing about recall.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import torch
from torch import Tensor


def pack(documents: Iterable[Sequence[int]], end_of_text: int, width: int) -> Tensor:
    """Packs documents into sequences of one length.

    A sequence holds whole documents, each followed by end-of-text, until it is full; what the last one has
    left over is dropped. A document longer than a sequence gives several: there is no other way to see its
    later parts.

    Args:
        documents: token ids, one list per document.
        end_of_text: the id that closes each.
        width: tokens per sequence, one more than the model reads at once (the last is only predicted).

    Returns:
        [N, width] int64.

    Raises:
        ValueError: if there is not enough text for a single sequence.
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
    """Returns the batch of one step: a function of the seed and the step, of nothing else.

    That is what lets a run that was killed go on as if nothing had happened. Every epoch visits all sequences
    in an order of its own.

    Args:
        sequences: [N, width].
        size: rows per batch.
        step: counted from 0.
        seed: of the order.

    Returns:
        [size, width].
    """
    count = len(sequences)
    wanted = range(step * size, (step + 1) * size)
    orders = {
        epoch: np.random.default_rng([seed, epoch]).permutation(count)
        for epoch in {w // count for w in wanted}
    }
    return sequences[[int(orders[w // count][w % count]) for w in wanted]]
