"""Teacher: what it computes once is what the model computes; what the target writes is its own."""

from dataclasses import replace

import pytest
import torch
from pairs import tiny_config, tiny_recipe

from minispec.core.loop import generate
from minispec.core.model import GPT
from minispec.core.rng import SeededRng
from minispec.core.warp import Warp
from minispec.train import corpus, training
from minispec.train.dataset import gather, stage_key
from minispec.train.recipes import CurriculumStage
from minispec.train.teacher import STORED_BYTES, Teacher, write_sequences

RECIPE = tiny_recipe(
    distill_stages=(CurriculumStage(6, 3, 32),),
    written=((3, 1.0), (2, 0.0)),
)


@pytest.fixture
def model():
    torch.manual_seed(0)
    return GPT(tiny_config()).eval()


@pytest.fixture
def sequences(model):
    return torch.randint(model.vocab_size, (6, 12), generator=torch.Generator().manual_seed(1))


class Counted:
    """A model that notes how many sequences it reads at a time."""

    def __init__(self, model):
        self.model = model
        self.read = []

    def eval(self):
        return self

    def __call__(self, rows):
        self.read.append(len(rows))
        return self.model(rows)


def test_every_sequence_is_computed_once(model, sequences):
    teacher = Teacher(Counted(model))
    for rows in (sequences[[0, 1]], sequences[[1, 2]], sequences[[2, 0, 1]]):
        logits = teacher(rows)
        assert not logits.requires_grad
        torch.testing.assert_close(logits, model(rows).detach())
    assert teacher.model.read == [2, 1]


def test_the_target_goes_on_with_the_corpus(model, sequences):
    """At temperature 0 every token is the target's most probable one; at 1 it is drawn, by the seed."""
    cold = write_sequences(model, sequences, [(4, 0.0)], seed=3)
    assert cold.shape == (4, 12)
    assert all(any(torch.equal(row[:6], some[:6]) for some in sequences) for row in cold)
    assert torch.equal(model(cold[:, :-1]).argmax(-1)[:, 5:], cold[:, 6:])
    warm, again, other = (write_sequences(model, sequences, [(4, 1.0)], seed) for seed in (3, 3, 4))
    assert torch.equal(warm, again) and not torch.equal(warm, other)
    expected = list(generate(model, warm[:, :6].tolist(), max_new_tokens=6, warp=Warp(1.0), rng=SeededRng(3)))
    assert torch.equal(warm[:, 6:], torch.tensor(expected).T)


def test_a_sequence_may_be_one_longer_than_the_context(model):
    """Its last token is only predicted, and a distillation does not predict it."""
    long = torch.zeros(2, model.max_length + 1, dtype=torch.long)
    written = write_sequences(model, long, [(2, 1.0), (1, 0.0)], seed=0)
    assert written.shape == (3, model.max_length + 1)
    assert torch.equal(written[:, -1], written[:, -2])


def test_logits_are_kept_only_where_they_are_read_again(model, monkeypatch):
    """A draft learns from the corpus and from what the target writes; how often it reads each is known."""
    monkeypatch.setattr(corpus, "VALIDATION_STORIES", 4)
    dataset = gather(RECIPE)
    kind = stage_key(RECIPE.distill_stages[0])
    count = len(dataset.sequences[kind]) + 5
    for steps, stored_bytes in ((count // 3, 0), (count // 3 + 1, STORED_BYTES)):
        recipe = replace(RECIPE, distill_stages=(CurriculumStage(steps, 3, 32),))
        target = GPT(replace(recipe.target, vocab_size=dataset.tokenizer.vocab_size))
        teacher, data = training.prepare_distillation(recipe, target, dataset)
        assert teacher.remaining_bytes == stored_bytes and len(data.sequences[kind]) == count


def test_beyond_its_limit_it_computes_again(model, sequences):
    """Of three batches only the first fits."""
    teacher = Teacher(Counted(model), model(sequences[:2]).nbytes)
    for rows in (*sequences.split(2), *sequences.split(2)):
        torch.testing.assert_close(teacher(rows), model(rows).detach())
    assert teacher.model.read == [2, 2, 2, 2, 2]
