"""The native model: the logits of the torch backend in every type, and draws from what it reports."""

import pytest
import tiny
import torch
from native_models import CLOSE, ODD, WIDE, assert_same_logits, block, drawn, needs_compiler, small_pair

from minispec import Warp, load_pair
from minispec.core.model import RopeScaling, Tree
from minispec.native import library
from minispec.native.model import MOST_THREADS, NativeGPT
from minispec.native.pack import as_kept

pytestmark = needs_compiler
SIZES = {
    "grouped": {},
    "multi-head, tied": {"kv_heads": 4, "tied": True, "layers": 1},
    "one head": {"heads": 1, "kv_heads": 1},
    "one key head": {"kv_heads": 1},
    "odd numbers": ODD | {"max_length": 43},
    "wider than a panel": WIDE,
    "an epsilon that counts": {"norm_eps": 0.1},
    "biases": {"qkv_bias": True, "rope_scaling": RopeScaling(4.0, 0.5, 2.0, 32)},
    "norms of heads": {"qk_norm": True, "head_size": 10, "norm_eps": 0.1},
    "biases and norms of large heads": {"qkv_bias": True, "qk_norm": True, "head_size": 72},
}


@torch.inference_mode()
@pytest.mark.parametrize("sizes", SIZES.values(), ids=SIZES)
@pytest.mark.parametrize("dtype", [*CLOSE, torch.bfloat16], ids=str)
def test_logits_equal_the_torch_backends(sizes, dtype):
    """In many shapes, equal and ragged lengths, to the end of the context; hidden and head give the same.

    Weights of 16 bits stay what they are: logits are those of the same weights written as float32.
    """
    model = tiny.gpt(tiny.config(**sizes), seed=3, dtype=dtype)
    ours = NativeGPT(model)
    if dtype == torch.bfloat16:
        model = model.float()
    assert_same_logits(model, ours)
    assert ours.new_cache(3).bytes >= model.new_cache(3).bytes  # rows are padded to whole vectors
    text = block(model, 2, 9)
    torch.testing.assert_close(ours.head(ours.hidden(text)), ours(text), rtol=0, atol=CLOSE[ours.dtype])


def every_result(ours, seed):
    """Returns the hidden states, logits and draft of one block of 1 to 11 tokens in three rows."""
    text = block(ours, 3, 1 + seed % 11, seed)
    cache = ours.new_cache(3)
    numbers = torch.rand(6, generator=torch.Generator().manual_seed(seed)).double()
    return [ours.hidden(text, cache), ours(text, cache), *drawn(ours, text[:, 0], cache, 2, 1.0, numbers)[:2]]


@torch.inference_mode()
@pytest.mark.parametrize("threads", [2, 3])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_threads_that_share_a_forward_give_the_same_bits(threads, dtype, two_threads):
    """Hidden states, logits and drafts of 60 blocks: a thread that sleeps comes too late for the first."""
    torch.set_num_threads(threads)
    model = tiny.gpt(tiny.config(**WIDE), seed=3, dtype=dtype)
    alone, shared = (NativeGPT(model, threads=n) for n in (1, threads))
    for seed in range(60):
        assert all(map(torch.equal, every_result(alone, seed), every_result(shared, seed))), seed


@torch.inference_mode()
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("kept", [torch.float32, torch.int8], ids=str)
def test_one_token_and_many_give_the_same_bits(kept, threads, two_threads):
    """However many rows a tile has, and whoever computes it, each sum is added up in the same order."""
    ours = NativeGPT(tiny.gpt(tiny.config(**WIDE), seed=3, dtype=torch.float32), threads, kept)
    text = block(ours, 1, 30)
    cache = ours.new_cache(1)
    one_by_one = torch.cat([ours(token, cache) for token in text.split(1, dim=1)], dim=1)
    for length in range(1, 31):
        assert torch.equal(ours(text[:, :length]), one_by_one[:, :length]), length


def test_a_model_computes_with_any_number_of_threads():
    """Also where the number is changed later."""
    model, _ = small_pair()
    assert NativeGPT(model, threads=2**63).threads == MOST_THREADS
    ours = NativeGPT(model)
    text = block(model, 1, 5)
    wanted = ours(text)
    ours.threads = 0
    assert torch.equal(ours(text), wanted)


@pytest.mark.evidence
@torch.inference_mode()
@pytest.mark.parametrize("less", ["-mno-avx512f", "-mno-avx"])
def test_processors_with_shorter_vectors_compute_the_same(less, tmp_path, monkeypatch):
    """The same source for 32 and for 16 bytes at once, where this processor has been told to be older."""
    if library.platform.machine() != "x86_64":
        pytest.skip("these switches are for x86")
    monkeypatch.setattr(library, "FLAGS", (*library.FLAGS, less, "-O1"))  # built sooner
    monkeypatch.setenv("MINISPEC_HOME", str(tmp_path))
    for dtype in CLOSE:
        model = tiny.gpt(tiny.config(**SIZES["odd numbers"]), seed=3, dtype=dtype)
        assert_same_logits(model, NativeGPT(model))
    for sizes in (ODD, {"width": 72, "heads": 6, "kv_heads": 3, "ffn": 97}):
        model = tiny.gpt(tiny.config(**sizes), seed=3, dtype=torch.float32)
        assert_same_logits(as_kept(model, torch.int8), NativeGPT(model, kept=torch.int8))


@torch.inference_mode()
def test_the_shipped_pair_on_its_own_prompts():
    """Float32 logits of both models differ by rounding only, and an extreme logit does no harm."""
    pair = load_pair("stories")
    text = torch.tensor(pair.info["prompts"][:4])
    for model in (pair.target, pair.draft):
        torch.testing.assert_close(NativeGPT(model)(text), model(text), rtol=0, atol=1e-4)
    pair.target.layers[0].self_attn.q_proj.weight.mul_(1000)  # all attention on one slot
    torch.testing.assert_close(NativeGPT(pair.target)(text), pair.target(text), rtol=0, atol=1e-2)


@torch.inference_mode()
@pytest.mark.parametrize("temperature", [0.0, 0.5, 1.0])
def test_a_draft_draws_from_the_distribution_that_it_reports(temperature):
    """2,000 numbers from 0 to 1: each draws the first id whose cumulative sum exceeds it."""
    _, model = small_pair()
    draft = NativeGPT(model)
    text = torch.tensor([[0, 2, 1]])
    wanted = Warp(temperature)(model(text))[0, -1]
    numbers = torch.linspace(0, 1 - 1e-12, 2_000, dtype=torch.float64)
    cache = draft.new_cache(2_000)
    draft.hidden(text[:, :2].expand(2_000, 2), cache)
    ids, probs, used = drawn(draft, text[:, 2].expand(2_000), cache, 1, temperature, numbers)
    torch.testing.assert_close(probs[:, 0], wanted.expand(2_000, -1), rtol=0, atol=1e-5)
    assert used == (2_000 if temperature else 0) and set(cache.row_lengths) == {3}
    cumulative = probs[:, 0].double().cumsum(-1)
    if temperature:
        below = (cumulative <= numbers[:, None] * cumulative[:, -1:]).sum(-1)
        assert torch.equal(ids[:, 0], below)
    assert set(ids[:, 0].tolist()) == ({0, 1, 2} if temperature else {int(wanted.argmax())})


@torch.inference_mode()
@pytest.mark.parametrize("dtype", CLOSE, ids=str)
@pytest.mark.parametrize("temperature", [5e-324, 1e-300, 1e-40, 1e-6, 1e30, 1e300])
def test_every_temperature_makes_a_distribution(dtype, temperature):
    """Where one over it, or it, is beyond the type: the distribution is the warp's all the same."""
    _, model = small_pair(dtype)
    draft = NativeGPT(model)
    number = torch.full((1,), 0.5, dtype=torch.float64)
    _, probs, _ = drawn(draft, torch.tensor([1]), draft.new_cache(1), 1, temperature, number)
    wanted = Warp(temperature)(model(torch.tensor([[1]])))
    torch.testing.assert_close(probs, wanted, rtol=0, atol=1e-6)


@torch.inference_mode()
def test_a_draft_may_go_past_the_end_of_a_longer_row():
    """The core asks for space in the shortest row; what another draws past its end means nothing."""
    model = tiny.gpt(tiny.config(max_length=8))
    numbers = torch.linspace(0, 0.9, 10, dtype=torch.float64)
    drafts = []
    for seed in (0, 1):
        ours = NativeGPT(model)
        cache = ours.new_cache(2)
        ours(block(model, 2, 7, seed), cache)
        cache.truncate([3, 7])
        same = block(model, 1, 7)[0, :4]
        cache.place(0, read_alone(ours, same), 0)
        ids, probs, used = drawn(ours, same[:2], cache, 4, 1.0, numbers, [4, seed])
        assert used == 4 + seed and cache.row_lengths == (8, 8)
        drafts.append((ids[0, 0], probs[0, 0]))
        with pytest.raises(ValueError, match="the context is full"):
            drawn(ours, same[:2], cache, 1, 1.0, numbers)
    assert all(map(torch.equal, *drafts))


def read_alone(model, text):
    """Returns a cache in which one row has been read."""
    cache = model.new_cache(1)
    model(text[None], cache)
    return cache


@torch.inference_mode()
def test_a_native_cache_takes_rows_over():
    """One row gets another prompt, and goes on as if alone."""
    model = tiny.gpt(tiny.config(max_length=16))
    ours = NativeGPT(model)
    first = block(model, 2, 6)
    second = block(model, 3, 4, seed=2)
    more = block(model, 2, 5, seed=1)
    cache = ours.new_cache(2)
    other = ours.new_cache(3)
    ours(first, cache)
    ours(second, other)
    cache.place(0, other, 2)
    assert cache.row_lengths == (4, 6)
    found = ours(more, cache)
    for row, before in enumerate((second[2], first[1])):
        alone = model(torch.cat([before, more[row]])[None])[0, len(before) :]
        torch.testing.assert_close(found[row], alone, rtol=0, atol=1e-11)


# Trees.


def tree_of(rows, parents, before):
    """Returns a tree of tokens with these parents after rows of these lengths."""
    return Tree.after(torch.tensor(before), torch.tensor(parents).expand(rows, -1))


@torch.inference_mode()
@pytest.mark.parametrize("sizes", SIZES.values(), ids=SIZES)
@pytest.mark.parametrize("dtype", [*CLOSE, torch.bfloat16], ids=str)
def test_trees_equal_the_torch_backends(sizes, dtype):
    """Trees after ragged rows, at once and level by level; a path is kept, and the text goes on."""
    model = tiny.gpt(tiny.config(**sizes), seed=3, dtype=dtype)
    ours = NativeGPT(model)
    if dtype == torch.bfloat16:
        model = model.float()
    caches = ours.new_cache(3), model.new_cache(3)
    before = [9, 3, 1]
    for side, cache in zip((ours, model), caches, strict=True):
        side.hidden(block(model, 3, 9), cache)
        cache.truncate(before)
    parents = [0, 0, 0, 1, 1, 2, 4, 4]
    whole = tree_of(3, parents, before)
    for parts in ([range(9)], [[0], [1, 2, 3], [4, 5, 6], [7, 8]]):
        seen = []
        for part in parts:
            seen += part
            tree = Tree(whole.positions[:, part], whole.mask[:, part][:, :, seen])
            tokens = block(model, 3, 9, seed=5)[:, part]
            found, wanted = (
                side.hidden(tokens, cache, tree) for side, cache in zip((ours, model), caches, strict=True)
            )
            torch.testing.assert_close(found, wanted, rtol=0, atol=CLOSE[model.dtype])
        assert caches[0].row_lengths == caches[1].row_lengths == tuple(n + 9 for n in before)
        slots = [[*range(9), 9, 10, 13, 16], [*range(3), 3, 5], [1]]  # paths; a first token is forgotten
        for cache in caches:
            cache.gather(slots)
        assert caches[0].row_lengths == caches[1].row_lengths == (13, 5, 1)
        more = block(model, 3, 2, seed=6)
        found, wanted = (side.hidden(more, cache) for side, cache in zip((ours, model), caches, strict=True))
        torch.testing.assert_close(found, wanted, rtol=0, atol=CLOSE[model.dtype])
        for cache in caches:
            cache.truncate([9, 3, 1])


@torch.inference_mode()
def test_trees_at_the_contexts_end_equal_the_torch_backends():
    """What stands past the end of a row means nothing, and harms no other row."""
    model = tiny.gpt(tiny.config(max_length=12))
    ours = NativeGPT(model)
    before = [4, 11, 12]
    caches = ours.new_cache(3), model.new_cache(3)
    tree = tree_of(3, [0, 0, 1, 1, 2], before)
    results = []
    for side, cache in zip((ours, model), caches, strict=True):
        side.hidden(block(model, 3, 12), cache)
        cache.truncate(before)
        results.append(side.hidden(block(model, 3, 6, seed=1), cache, tree))
        cache.gather([[*range(5), 6, 8], range(12), range(11)])
        results.append(side.hidden(block(model, 3, 1), cache))
    for found, wanted in zip(results[:2], results[2:], strict=True):
        torch.testing.assert_close(found[0], wanted[0], rtol=0, atol=1e-11)
    torch.testing.assert_close(results[1][2], results[3][2], rtol=0, atol=1e-11)
    assert caches[0].row_lengths == caches[1].row_lengths == (8, 12, 12)
