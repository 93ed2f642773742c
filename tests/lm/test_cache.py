"""The cache: lengths are all that changes on rollback, and ragged rows are each as if alone."""

import pytest
import tiny
import torch
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from torch.utils._python_dispatch import TorchDispatchMode

from minispec import KVCache

CAPACITY = 12


@pytest.fixture(scope="module")
def model():
    return tiny.gpt(tiny.config(max_length=CAPACITY))


@pytest.fixture
def cache(model):
    """Three rows that hold 7 tokens each."""
    with torch.inference_mode():
        made = model.new_cache(3)
        model(torch.arange(21).view(3, 7) % 11, made)
        return made


class CountOps(TorchDispatchMode):
    """Counts every tensor operation."""

    count = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.count += 1
        return func(*args, **kwargs or {})


def test_lengths_come_as_a_tensor_and_as_integers(cache):
    """Lengths are [B] int64 on the CPU, and the same as plain integers."""
    cache.truncate([7, 0, 3])
    assert cache.lengths.dtype == torch.int64
    assert cache.lengths.shape == (3,)
    assert cache.lengths.tolist() == [7, 0, 3]
    assert cache.row_lengths == (7, 0, 3)
    assert not cache.is_level


def test_lengths_are_a_snapshot(cache):
    """Writing into the tensor that was handed out does not change the cache."""
    cache.lengths.zero_()
    assert cache.row_lengths == (7, 7, 7)


def test_truncate_touches_no_tensor(cache):
    """Truncation runs not one tensor operation: nothing is copied, moved, allocated or cleared."""
    with CountOps() as before:
        cache.lengths  # noqa: B018 (the counter does count)
    places = cache._keys.data_ptr(), cache._values.data_ptr()
    keys, values = cache._keys.clone(), cache._values.clone()
    with CountOps() as ops:
        cache.truncate([7, 0, 3])
    assert before.count > 0
    assert ops.count == 0
    assert (cache._keys.data_ptr(), cache._values.data_ptr()) == places
    assert torch.equal(cache._keys, keys) and torch.equal(cache._values, values)


def test_truncate_takes_a_tensor_too(cache):
    """Lengths may come as a tensor [B]."""
    cache.truncate(torch.tensor([1, 2, 3]))
    assert cache.row_lengths == (1, 2, 3)


@pytest.mark.parametrize(
    ("lengths", "message"),
    [
        ([8, 7, 7], "row 0 holds 7 tokens and cannot be truncated to 8"),
        ([7, 7, -1], "row 2 holds 7 tokens and cannot be truncated to -1"),
        ([7, 7], "truncate needs 3 lengths, one per row, not 2"),
        ([7, 7, 7, 7], "truncate needs 3 lengths, one per row, not 4"),
    ],
)
def test_lengths_that_cannot_be_are_refused(cache, lengths, message):
    """Truncation never grows a row, and an error changes nothing."""
    with pytest.raises(ValueError, match=message):
        cache.truncate(lengths)
    assert cache.row_lengths == (7, 7, 7)


def test_memory_is_taken_once(model, cache):
    """Bytes are 2 · layers · B · kv_heads · capacity · head_dim · 8, whatever is read and forgotten."""
    assert cache.bytes == 2 * 2 * 3 * 2 * CAPACITY * 4 * 8
    places = cache._keys.data_ptr(), cache._values.data_ptr()
    with torch.inference_mode():
        for _ in range(3):
            model(torch.zeros(3, 5, dtype=torch.long), cache)
            cache.truncate([7, 2, 5])
    assert cache.bytes == 2 * 2 * 3 * 2 * CAPACITY * 4 * 8
    assert (cache._keys.data_ptr(), cache._values.data_ptr()) == places


def test_a_cache_of_another_type_takes_other_room():
    """Storage follows the type that was asked for."""
    assert KVCache(1, 2, 3, 4, 5, torch.bfloat16).bytes * 2 == KVCache(1, 2, 3, 4, 5).bytes


@torch.inference_mode()
def test_a_nearly_full_row_may_be_padded_past_its_end(model):
    """A block that fits one row only serves that row, and what the full row held stays intact."""
    cache = model.new_cache(2)
    first = torch.arange(24).view(2, 12) % 11
    model(first, cache)
    cache.truncate([11, 4])
    block = torch.tensor([[3, 0, 0, 0, 0], [1, 2, 3, 4, 5]])
    got = model(block, cache)
    assert cache.row_lengths == (12, 9)
    long = model(torch.cat([first[0, :11], block[0, :1]])[None])[0]
    torch.testing.assert_close(got[0, 0], long[-1], rtol=0, atol=1e-11)
    short = model(torch.cat([first[1, :4], block[1]])[None])[0]
    torch.testing.assert_close(got[1], short[4:], rtol=0, atol=1e-11)
    assert torch.isfinite(got).all()
    cache.truncate([11, 9])  # the full row's old tokens are still its own
    again = model(torch.tensor([[3], [6]]), cache)
    torch.testing.assert_close(again[0, 0], long[-1], rtol=0, atol=1e-11)


@torch.inference_mode()
def test_a_block_that_fits_no_row_is_refused_and_changes_nothing(model):
    """If even the shortest row has no room, the error says so and the cache can be used as before."""
    cache = model.new_cache(2)
    first = torch.arange(24).view(2, 12) % 11
    model(first, cache)
    cache.truncate([11, 10])
    with pytest.raises(ValueError, match="the context is full: 10 tokens and 3 more exceed 12"):
        model(torch.zeros(2, 3, dtype=torch.long), cache)
    assert cache.row_lengths == (11, 10)
    got = model(first[:, 11:], cache)
    torch.testing.assert_close(got[0, 0], model(first[:1])[0, 11], rtol=0, atol=1e-11)


class CacheMachine(RuleBasedStateMachine):
    """Reads and truncates ragged rows at random; after each read, logits equal those from scratch."""

    def __init__(self):
        super().__init__()
        self.model = tiny.gpt(tiny.config(max_length=CAPACITY), seed=5)
        with torch.inference_mode():
            self.cache = self.model.new_cache(3)
        self.rows = [[], [], []]  # what the cache should hold

    @rule(data=st.data(), width=st.integers(1, 6))
    def read(self, data, width):
        """All rows read a block; rows past their end keep what fits."""
        ids = st.lists(st.integers(0, 10), min_size=width, max_size=width)
        block = data.draw(st.lists(ids, min_size=3, max_size=3))
        if min(map(len, self.rows)) + width > CAPACITY:
            with pytest.raises(ValueError, match="the context is full"), torch.inference_mode():
                self.model(torch.tensor(block), self.cache)
            return
        with torch.inference_mode():
            logits = self.model(torch.tensor(block), self.cache)
            for row, more in enumerate(block):
                start = len(self.rows[row])
                self.rows[row] = (self.rows[row] + more)[:CAPACITY]
                fresh = self.model(torch.tensor([self.rows[row]]))[0, start:]
                torch.testing.assert_close(logits[row, : len(fresh)], fresh, rtol=0, atol=1e-11)

    @precondition(lambda self: any(self.rows))
    @rule(data=st.data())
    def truncate(self, data):
        """Each row forgets an end of its own, or nothing."""
        lengths = [data.draw(st.integers(0, len(row))) for row in self.rows]
        self.cache.truncate(lengths)
        self.rows = [row[:n] for row, n in zip(self.rows, lengths, strict=True)]

    @precondition(lambda self: any(self.rows))
    @rule(cut=st.integers(0, 4))
    def level(self, cut):
        """All rows are cut to one length, so that plain slices serve again."""
        length = max(0, min(map(len, self.rows)) - cut)
        self.cache.truncate([length] * 3)
        self.rows = [row[:length] for row in self.rows]

    @rule(row=st.integers(0, 2), more=st.integers(1, 3))
    def refuse(self, row, more):
        """Growing by truncation is an error that changes nothing."""
        lengths = [len(r) + (more if i == row else 0) for i, r in enumerate(self.rows)]
        with pytest.raises(ValueError, match="cannot be truncated"):
            self.cache.truncate(lengths)

    @invariant()
    def lengths_are_those_of_the_texts(self):
        """The cache counts exactly what was read and not forgotten."""
        assert self.cache.row_lengths == tuple(map(len, self.rows))
        assert self.cache.is_level == (len(set(map(len, self.rows))) == 1)


TestCacheMachine = CacheMachine.TestCase
TestCacheMachine.settings = settings(stateful_step_count=20)
