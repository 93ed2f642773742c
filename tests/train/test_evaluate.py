"""Evaluation: losses over whole documents, the floor that no model beats, and what stories force."""

import math

import pytest
import torch
from pairs import random_models, tiny_tokenizer

from minispec.io.tokenizer import train_tokenizer
from minispec.train.corpus import Corpus, load_corpus
from minispec.train.evaluate import (
    entropy_floor,
    forced_accuracy,
    forced_positions,
    mean_loss,
    whole_documents,
)
from minispec.train.stories import Forced, Story

CHARACTERS = train_tokenizer([], "characters")
END = CHARACTERS.end_of_text


class Constant(torch.nn.Module):
    """A model whose next-token distribution is always the same."""

    def __init__(self, dist, max_length=256):
        super().__init__()
        self.logits = dist.log()
        self.max_length = max_length
        self.device = torch.device("cpu")

    def forward(self, tokens):
        return self.logits.expand(*tokens.shape, -1)


@pytest.fixture(scope="module")
def corpus():
    return load_corpus("stories", seed=0, stories=300)


def test_documents_stand_in_rows_from_their_beginnings():
    """Each row is a document and end-of-text, and at most one token more than the context: that is predicted.

    What counts is everything after the first token.
    """
    tokens, mask = whole_documents(CHARACTERS, ["abcdef", "d", "ef", "a"], max_length=3, limit=3)
    a, b, c, d, e, f = (CHARACTERS.encode(letter)[0] for letter in "abcdef")
    assert tokens.tolist() == [[a, b, c, d], [d, END, END, END], [e, f, END, END]]
    assert mask.int().tolist() == [[0, 1, 1, 1], [0, 1, 0, 0], [0, 1, 1, 0]]


@torch.no_grad()
def test_the_mean_loss_is_that_of_a_slow_loop():
    """One token at a time, each from its whole prefix, gives the same mean; the model stays in its mode."""
    model, _ = random_models()
    documents = ["The cat sat.", "A", "And a longer one of them."] * 14  # more rows than one forward takes
    tokens, mask = whole_documents(tiny_tokenizer(), documents, model.max_length)
    losses = []
    for text in documents[:3]:
        ids = [*tiny_tokenizer().encode(text), tiny_tokenizer().end_of_text]
        for i in range(1, len(ids)):
            dist = model(torch.tensor([ids[:i]]))[0, -1].double().softmax(-1)
            losses.append(-math.log(dist[ids[i]]))
    for training in (True, False):
        found = mean_loss(model.train(training), tokens, mask)
        assert found == pytest.approx(sum(losses) / len(losses), rel=1e-5) and model.training is training


def test_the_floor_by_hand():
    """The floor is the stories' bits after the first word, over the tokens that the loss counts."""
    stories = [Story("ab.", math.log(0.5) + math.log(0.1), math.log(0.5), ()), Story("c.", -3.0, -1.0, ())]
    corpus = Corpus("stories", [], [story.text for story in stories], stories)
    counted = 3 + 2  # "b", ".", end; ".", end
    assert entropy_floor(corpus, CHARACTERS, 4) == pytest.approx((math.log(10) + 2.0) / counted)
    assert entropy_floor(corpus, CHARACTERS, 3) is None  # the context cuts one
    assert entropy_floor(Corpus("english", [], ["ab."]), CHARACTERS, 8) is None  # nothing is known


def test_forced_positions_are_where_the_words_begin(corpus):
    """Each position is the token that begins the forced word, in words as in characters."""
    for tokenizer in (train_tokenizer(corpus.train), CHARACTERS):
        positions = forced_positions(corpus, tokenizer)
        assert len(positions) == sum(len(story.forced) for story in corpus.stories)
        for number, token, fact in positions[:200]:
            story = corpus.stories[number]
            start = len(tokenizer.decode(tokenizer.encode(story.text)[:token]))
            assert (start, fact) in {(forced.start, forced.fact) for forced in story.forced}


def test_forced_accuracy_counts_hits():
    """A model that always says the same is right where just that is forced: in one story, once in three."""
    text = "x cat x dog x cow"
    other = "dog in dog"
    forced = [Forced(text.index(word) - 1, text.index(word) + 3, "animal") for word in ("cat", "dog", "cow")]
    stories = [
        Story(text, -1.0, 0.0, tuple(forced)),
        Story(other, -1.0, 0.0, (Forced(6, 10, "thing"),)),
    ]
    corpus = Corpus("stories", [], [text, other], stories)
    tokenizer = train_tokenizer([text, other] * 9)
    dist = torch.full((tokenizer.vocab_size,), 0.01)
    dist[tokenizer.encode(" dog")[0]] = 1.0
    found = forced_accuracy(Constant(dist), corpus, tokenizer)
    assert found == {"all": 2 / 4, "animal": pytest.approx(1 / 3), "thing": 1.0}
