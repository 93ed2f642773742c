"""The native cache: it grows with what is read, and nothing that is computed shows when it did."""

import pytest
import tiny
import torch
from native_models import block, needs_compiler

from minispec.core.model import Tree
from minispec.native.cache import NativeCache
from minispec.native.model import READ_AT_ONCE, NativeGPT

pytestmark = needs_compiler
CONTEXT = 1300
LAYERS = 2


def gpt(dtype=torch.float32, **sizes):
    """Returns a tiny GPT with a long context."""
    return tiny.gpt(tiny.config(max_length=CONTEXT, **sizes), seed=3, dtype=dtype)


def read_all(model, cache):
    """Reads ragged rows, trees and further blocks, forgets, gathers and takes over; yields what comes out."""
    one = model.new_cache(1)
    model.hidden(block(model, 1, 500, seed=9), one)
    yield model.hidden(block(model, 3, 250), cache)
    cache.truncate([250, 3, 90])
    for width in (1, 9, 30, 250):
        yield model.hidden(block(model, 3, width, seed=width), cache)
    tree = Tree.after(cache.lengths, torch.tensor([[0, 0, 1, 1, 2, 2]] * 3))
    yield model.hidden(block(model, 3, 7), cache, tree)
    cache.gather([[*range(n - 7), n - 6, n - 4] for n in cache.row_lengths])
    yield model.hidden(block(model, 3, 2), cache)
    cache.place(1, one, 0)
    yield model.hidden(block(model, 3, 640), cache)
    cache.truncate([0, 700, 5])
    yield model.hidden(block(model, 3, 600), cache)


@torch.inference_mode()
@pytest.mark.parametrize("kept", [torch.float64, torch.float32, torch.bfloat16, torch.int8], ids=str)
def test_a_cache_that_grows_gives_the_bits_of_one_that_was_there_at_once(kept):
    """Through every step that its memory takes, up to the whole context."""
    model = NativeGPT(gpt(), kept=kept)
    cache = model.new_cache(3)
    whole = model.new_cache(3)
    whole.reserve(CONTEXT)
    slots = set()
    for found, wanted in zip(read_all(model, cache), read_all(model, whole), strict=True):
        assert torch.equal(found, wanted) and cache.row_lengths == whole.row_lengths
        assert max(cache.row_lengths) <= cache.slots <= whole.slots
        slots.add(cache.slots)
    assert len(slots) > 2 and whole.slots == cache.slots >= CONTEXT


@torch.inference_mode()
def test_a_cache_takes_memory_in_proportion_to_what_is_used():
    """Of 32,768 tokens: at most 2.2 times what they take, and 300 more; it is there when it is needed."""
    model = NativeGPT(tiny.gpt(tiny.config(max_length=32_768), dtype=torch.float32))
    c = model.config
    token = LAYERS * c.kv_heads * (4 + 16) * 4  # bytes: a key of 4 numbers, a value that is padded to 16
    assert model.new_cache(2).bytes <= 2 * 300 * token
    for used in (1, 1000, 4000, 20_000, 32_768):
        cache = model.new_cache(2)
        for end in range(0, used, 200):
            cache.reserve(end + 200 if end + 200 < used else used)
        assert cache.slots >= used
        assert cache.bytes <= 2 * token * (2.2 * used + 300)
        cache.hold([used - 1, 0])
        assert model.hidden(block(model, 2, 1), cache).isfinite().all()
    assert cache.row_lengths == (32_768, 1)


@torch.inference_mode()
def test_a_long_text_is_read_in_parts():
    """The same bits as token by token; what is refused in the last part leaves the cache as it was."""
    model = NativeGPT(gpt())
    text = block(model, 2, 3 * READ_AT_ONCE + 5)
    found = model.hidden(text)
    for row in (0, 1):
        cache = model.new_cache(1)
        tokens = text[row : row + 1].split(1, dim=1)
        assert torch.equal(torch.cat([model.hidden(token, cache) for token in tokens], 1)[0], found[row])
    states = torch.randn(2, 300, 16, generator=torch.Generator().manual_seed(1))
    halves = model.cache_of(1, 2), model.cache_of(1, 2)
    ids = torch.zeros(2, 300, dtype=torch.long)
    at_once = model.read(ids, halves[0], (1, 2), states=states, normed=False)
    parts = zip(ids.split(1, dim=1), states.split(1, dim=1), strict=True)
    alone = [model.read(part, halves[1], (1, 2), states=given, normed=False) for part, given in parts]
    assert torch.equal(at_once, torch.cat(alone, dim=1))
    cache = model.new_cache(2)
    model.hidden(text, cache)
    wrong = text.clone()
    wrong[1, -1] = model.vocab_size
    with pytest.raises(ValueError, match="a token id outside"):
        model.hidden(wrong, cache)
    assert cache.row_lengths == (text.shape[1],) * 2
    with pytest.raises(ValueError, match="the context is full"):
        model.hidden(block(model, 2, CONTEXT - text.shape[1] + 1), cache)


@torch.inference_mode()
def test_positions_far_in_a_text_are_those_of_torch():
    """The library adds the angles of two tables; another step between rows would show past the first."""
    model = gpt(torch.float64)
    text = block(model, 1, CONTEXT)
    torch.testing.assert_close(NativeGPT(model)(text), model(text), rtol=0, atol=1e-9)


def test_more_than_the_machine_has_is_refused_before_it_is_taken(monkeypatch):
    """In one line, when a cache is made and when it grows; what it held is there."""
    model = NativeGPT(gpt())
    cache = model.new_cache(1)
    bytes_before = cache.bytes
    monkeypatch.setattr("minispec.native.checks.machine_memory", lambda: 2 * bytes_before)
    with pytest.raises(ValueError, match="a cache of 1,000,000 rows would take"):
        NativeCache(model, 10**6, 2)
    with pytest.raises(ValueError, match="a cache of 1 rows would take"):
        cache.make_space(1000)
    assert cache.bytes == bytes_before and model.new_cache(1).bytes == bytes_before
