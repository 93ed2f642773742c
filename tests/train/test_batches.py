"""Sequences begin where documents begin, and a step's batch depends on nothing but seed and step."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from minispec.train.dataset import batch, pack

END = 0
DOCUMENTS = st.lists(st.lists(st.integers(1, 9), max_size=12), max_size=12)


def packed(documents, width):
    """Packs, and gives no sequence where the text is too short for one."""
    try:
        return pack(documents, END, width).tolist()
    except ValueError:
        return []


@given(documents=DOCUMENTS, width=st.integers(13, 30))
def test_every_sequence_is_whole_documents_from_a_beginning(documents, width):
    """Where no document is longer than a sequence, each holds the next documents from the first on."""
    rest = [[*document, END] for document in documents]
    for sequence in packed(documents, width):
        expected = []
        while len(expected) < width:
            expected += rest.pop(0)
        assert sequence == expected[:width]
    assert sum(map(len, rest)) < width  # what is left over fills no sequence


@given(length=st.integers(0, 60), width=st.integers(2, 20))
def test_a_long_document_gives_all_its_sequences(length, width):
    """A document longer than a sequence is cut into sequences end to end."""
    ids = list(range(1, length + 1))
    whole = [*ids, END]
    expected = [whole[i : i + width] for i in range(0, len(whole) - width + 1, width)]
    assert packed([ids], width) == expected


def test_too_short_a_text_is_refused():
    """Not a single sequence: that cannot be trained on, and the message says how much is needed."""
    with pytest.raises(ValueError, match="too short to train on.*one sequence of 9 tokens"):
        pack([[1, 2, 3]], END, 9)
    with pytest.raises(ValueError, match="too short"):
        pack([], END, 9)


@given(count=st.integers(1, 20), size=st.integers(1, 25), seed=st.integers(0, 9), step=st.integers(0, 50))
def test_a_batch_is_a_function_of_seed_and_step(count, size, seed, step):
    """The same seed and step give the same rows, whatever was asked before or elsewhere drawn."""
    sequences = torch.arange(count)[:, None].expand(count, 3)
    first = batch(sequences, size, step, seed)
    batch(sequences, size, step + 1, seed)
    torch.rand(3)
    assert first.shape == (size, 3)
    assert torch.equal(first, batch(sequences, size, step, seed))


@given(count=st.integers(1, 20), size=st.integers(1, 25), seed=st.integers(0, 9))
def test_every_epoch_visits_every_sequence(count, size, seed):
    """Any `count` rows in a row that begin at an epoch hold each sequence once."""
    sequences = torch.arange(count)[:, None]
    epochs = 3
    rows = torch.cat([batch(sequences, size, step, seed) for step in range(-(-epochs * count // size))])
    for epoch in rows[: epochs * count, 0].view(epochs, count):
        assert epoch.sort().values.tolist() == list(range(count))


@given(seed=st.integers(0, 99))
def test_the_order_differs_by_epoch_and_by_seed(seed):
    """Neither two epochs nor two seeds share an order of 30 sequences."""
    sequences = torch.arange(30)[:, None]
    orders = [batch(sequences, 30, step, s)[:, 0].tolist() for s in (seed, seed + 1) for step in (0, 1)]
    assert len({tuple(order) for order in orders}) == 4
