"""The cache: lengths are all that changes on rollback, and ragged rows are each as if alone."""

import numpy as np
import pytest
import tiny
import torch
from refusals import refused
from torch.utils._python_dispatch import TorchDispatchMode

from minispec import KVCache
from minispec.core.cache import STEP
from minispec.core.prefill import prefill

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
    """Lengths are [B] int64 on the CPU, a snapshot, and the same as plain integers; so they are taken too."""
    for lengths in ([7, 0, 3], torch.tensor([5, 0, 2])):
        cache.truncate(lengths)
        assert cache.lengths.dtype == torch.int64
        assert cache.row_lengths == tuple(cache.lengths.tolist()) == tuple(map(int, lengths))
    cache.lengths.zero_()
    assert cache.row_lengths == (5, 0, 2)


def test_truncate_touches_no_tensor(cache):
    """Truncation runs not one tensor operation: nothing is copied, moved, allocated or cleared."""
    with CountOps() as before:
        cache.lengths  # noqa: B018 (the counter does count)
    with CountOps() as ops:
        cache.truncate([7, 0, 3])
    assert before.count > 0
    assert ops.count == 0


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
    with refused(message):
        cache.truncate(lengths)
    assert cache.row_lengths == (7, 7, 7)


@pytest.mark.parametrize("number", [2.5, 2.0, torch.tensor(2.5), "2", None], ids=repr)
def test_lengths_and_slots_that_are_no_integers_are_refused(cache, number):
    """2.5 tokens are not 2; and an error changes nothing."""
    with pytest.raises(TypeError):
        cache.truncate([number, 1, 7])
    with pytest.raises(TypeError):
        cache.gather([[0, 1, number], [0, 1], [0]])
    assert cache.row_lengths == (7, 7, 7)


@pytest.mark.parametrize("integers", [np.array, torch.tensor, list])
def test_lengths_and_slots_may_be_integers_of_any_kind(cache, integers):
    cache.gather([integers([0, 2]), integers([0, 1, 4]), integers([1])])
    assert cache.row_lengths == (2, 3, 1)
    cache.truncate(integers([2, 0, 1]))
    assert cache.row_lengths == (2, 0, 1) and {type(n) for n in cache.row_lengths} == {int}


def test_memory_is_taken_once(model, cache):
    """Bytes are 2 · layers · B · kv_heads · capacity · head_dim · 8, whatever is read and forgotten."""
    assert cache.bytes == 2 * 2 * 3 * 2 * CAPACITY * 4 * 8
    addresses = cache._keys.data_ptr(), cache._values.data_ptr()
    with torch.inference_mode():
        for _ in range(3):
            model(torch.zeros(3, 5, dtype=torch.long), cache)
            cache.truncate([7, 2, 5])
    assert (cache._keys.data_ptr(), cache._values.data_ptr()) == addresses
    assert KVCache(1, 2, 3, 4, 5, torch.bfloat16).bytes * 2 == KVCache(1, 2, 3, 4, 5).bytes


def test_more_rows_than_memory_allows_are_refused():
    """One line that says how many rows, not the allocator's error."""
    cache = KVCache(2, 10**6, 4, 4096, 64)
    with refused("no memory for a cache of 1,000,000 rows; take fewer"):
        cache.begin(4096)


@torch.inference_mode()
@torch.inference_mode()
def test_a_long_prompt_is_read_in_blocks():
    """Masks are as wide as a block; hidden states and caches are those of a single forward."""
    model = tiny.gpt(tiny.config(max_length=1200), seed=3)
    text = torch.arange(1200) * 7 % 11
    prompts = [text[:1100].tolist(), text[:3].tolist(), text[5:700].tolist()]
    cache, hidden = prefill(model, prompts)
    assert cache.row_lengths == (1099, 2, 694) and hidden.shape == (3, 1099, 16)
    for row, prompt in enumerate(prompts):
        alone = model.hidden(torch.tensor([prompt]))[0]
        tiny.same(hidden[row, : len(prompt) - 1], alone[:-1])
        tiny.same(model.hidden(torch.tensor([[p[-1]] for p in prompts]), cache)[row, 0], alone[-1])
        cache.truncate([1099, 2, 694])


def test_memory_grows_with_what_is_held():
    """Over three steps of memory, by blocks, single tokens and rows taken over: logits of a plain forward.

    Memory is never more than twice what the longest row holds, but for the first step, and never more than
    the context; what was truncated is read again without taking more.
    """
    long = tiny.gpt(tiny.config(max_length=4 * STEP - 7), seed=3)
    text = torch.arange(2 * (long.max_length)).view(2, -1) * 7 % 11
    whole = long(text)
    held = long.new_cache(2)
    assert held.bytes == 0
    each = 2 * 2 * 2 * 2 * 4 * 8  # bytes of a slot: keys and values, layers, rows, heads, head size; float64
    start = 0
    for width in (STEP - 3, 2, 1, 1, 1, STEP, STEP, long.max_length - 3 * STEP - 2):
        tiny.same(long(text[:, start : start + width], held), whole[:, start : start + width])
        start += width
        assert held.bytes <= each * min(max(2 * start, STEP), long.max_length)
    most = held.bytes
    assert start == long.max_length and most == each * long.max_length
    held.truncate([5, STEP + 9])
    ragged = long(torch.stack([text[0, 5:9], text[1, STEP + 9 : STEP + 13]]), held)
    tiny.same(ragged, torch.stack([whole[0, 5:9], whole[1, STEP + 9 : STEP + 13]]))
    assert held.bytes == most
    other = long.new_cache(2)
    long(text[:, :3], other)
    other.place(0, held, 1)
    tiny.same(long(text.roll(1, 0)[:, STEP + 13 :][:, :1], other)[0], whole[1, STEP + 13 : STEP + 14])
