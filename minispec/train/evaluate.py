"""Evaluation: losses on whole held-out documents, and what a story forces.

Whole documents, from their first token: a loss over parts from the middle could not show recall.
"""

from collections.abc import Sequence
from itertools import accumulate

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from minispec.core.model import GPT
from minispec.io.tokenizer import Tokenizer
from minispec.train.corpus import Corpus

ROWS = 32  # documents per forward


def whole_documents(
    tokenizer: Tokenizer, documents: Sequence[str], max_length: int, limit: int = 400
) -> tuple[Tensor, Tensor]:
    """Lays documents out in rows, from their beginnings: the first `limit`, cut where the context ends.

    Returns:
        Ids [N, W], each document followed by end-of-text, padded with it, and a mask [N, W], true where a
        token counts: it belongs to the document or closes it, and something stands before it.
    """
    rows = [
        [*ids, tokenizer.end_of_text][: max_length + 1] for ids in tokenizer.encode_batch(documents[:limit])
    ]
    tokens = pad_sequence([*map(torch.tensor, rows)], batch_first=True, padding_value=tokenizer.end_of_text)
    positions = torch.arange(tokens.shape[1])
    lengths = torch.tensor([*map(len, rows)])[:, None]
    return tokens, (positions > 0) & (positions < lengths)


@torch.inference_mode()
def token_losses(model: GPT, tokens: Tensor) -> tuple[Tensor, Tensor]:
    """Scores every token of [N, W] after the first, given all before it; the model stays in its mode.

    In the type that the caller's autocast says. Returns the losses [N, W−1] in nats, and the most probable
    id at each position [N, W−1].
    """
    was_training = model.training
    model.eval()
    losses = []
    predictions = []
    for rows in tokens.to(model.device).split(ROWS):
        log_probs = model(rows[:, :-1]).float().log_softmax(-1)
        losses.append(-log_probs.gather(-1, rows[:, 1:, None])[..., 0].cpu())
        predictions.append(log_probs.argmax(-1).cpu())
    model.train(was_training)
    return torch.cat(losses), torch.cat(predictions)


def mean_loss(model: GPT, tokens: Tensor, mask: Tensor) -> float:
    """Returns the mean loss over the tokens [N, W] that count by a mask [N, W], in nats per token."""
    losses, _ = token_losses(model, tokens)
    return float(losses[mask[:, 1:]].mean())


def entropy_floor(corpus: Corpus, tokenizer: Tokenizer, max_length: int) -> float | None:
    """Returns the loss that the true distribution has on the validation stories, in nats per token.

    It counts exactly the tokens that `mean_loss` counts, and conditions on the first token as that does: the
    first token is decided by the choices made before any text is written. None if the corpus has no known
    distribution, or a story is longer than the context: the entropy of half a story is not known.
    """
    tokens, mask = whole_documents(tokenizer, corpus.validation, max_length)
    stories = corpus.stories[: len(tokens)]
    if not stories or tokens.shape[1] > max_length:
        return None
    return sum(s.opening_log_prob - s.log_prob for s in stories) / int(mask.sum())


def forced_positions(corpus: Corpus, tokenizer: Tokenizer) -> list[tuple[int, int, str]]:
    """Returns (story, token, fact) for every token that begins a word which an earlier sentence forces."""
    positions = []
    for number, story in enumerate(corpus.stories):
        facts = {forced.start: forced.fact for forced in story.forced}
        sizes = map(len, map(tokenizer.bytes_of, tokenizer.encode(story.text)))  # stories are ASCII
        starts = enumerate(accumulate(sizes, initial=0))
        positions += [(number, i, facts[start]) for i, start in starts if start in facts]
    return positions


def forced_accuracy(model: GPT, corpus: Corpus, tokenizer: Tokenizer) -> dict[str, float]:
    """Returns how often the most probable token is the one that an earlier sentence forces.

    Shares by fact, and over all of them as `all`; the corpus must be `stories`.
    """
    tokens, _ = whole_documents(tokenizer, corpus.validation, model.max_length, len(corpus.stories))
    correct = token_losses(model, tokens)[1] == tokens[:, 1:]  # [N, W−1]
    hits: dict[str, list[bool]] = {}
    for number, token, fact in forced_positions(corpus, tokenizer):
        for name in (fact, "all"):
            hits.setdefault(name, []).append(bool(correct[number, token - 1]))
    return {name: sum(outcomes) / len(outcomes) for name, outcomes in sorted(hits.items())}
