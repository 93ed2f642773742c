"""Exact mode: logits are equal to the last bit, whatever was asked for at once."""

from dataclasses import replace
from functools import cache

import pytest
import tiny
import torch
from refusals import refused

import minispec
from minispec.core.model import GPT, Tree
from minispec.verifiers.fixed_width import FixedWidth

DTYPES = [torch.float32, torch.bfloat16, torch.float64]
CAPACITY = 24


def plain(dtype=torch.float64, seed=1):
    """A GPT of sizes that no vector of a processor divides, so that kernels have ends to treat."""
    return tiny.gpt(tiny.config(max_length=CAPACITY, ffn=27), seed, dtype)


@cache
def exact(dtype=torch.float64, width=5):
    return FixedWidth(plain(dtype), width)


def tokens(rows, length, seed=0):
    return torch.randint(11, (rows, length), generator=torch.Generator().manual_seed(seed))


@torch.inference_mode()
@pytest.mark.parametrize("splits", [[24], [1] * 24, [2] * 12, [7, 1, 1, 9, 6], [5, 5, 4, 5, 5]])
@pytest.mark.parametrize("width", [1, 5, 17, 40])
@pytest.mark.parametrize("dtype", DTYPES)
def test_pieces_and_the_whole_are_equal_to_the_last_bit(dtype, width, splits):
    """A text read in any pieces has the logits, keys and values of the text read without a cache."""
    model = exact(dtype, width)
    block = tokens(3, 24)
    cache, at_once = (model.new_cache(3) for _ in range(2))
    pieces = torch.cat([model(piece, cache) for piece in block.split(splits, dim=1)], 1)
    assert pieces.dtype == dtype
    assert torch.equal(pieces, model(block))
    assert torch.equal(pieces, model(block, at_once))
    assert torch.equal(cache._keys, at_once._keys) and torch.equal(cache._values, at_once._values)


@torch.inference_mode()
@pytest.mark.parametrize("dtype", DTYPES)
def test_it_is_the_model_that_was_given(dtype):
    """Logits are those of the plain model, but for the type's rounding."""
    got = exact(dtype)(tokens(2, 24))
    wanted = plain(dtype)(tokens(2, 24))
    tolerance = {torch.float64: 1e-12, torch.float32: 2e-5, torch.bfloat16: 0.3}[dtype]
    torch.testing.assert_close(got.double(), wanted.double(), rtol=0, atol=tolerance)
    assert (got[:, 1:] - got[:, :-1]).abs().max() > 1


@torch.inference_mode()
@pytest.mark.parametrize("dtype", DTYPES)
def test_a_row_does_not_notice_the_lengths_of_the_others(dtype):
    """The middle row of a ragged batch has the bits that it has in a level one."""
    model = exact(dtype)
    block = tokens(3, 12)
    more = tokens(3, 4, seed=1)
    found = []
    for lengths in ([7, 7, 7], [12, 7, 0], [3, 7, 9]):
        cache = model.new_cache(3)
        model(block, cache)
        cache.truncate(lengths)
        found.append(model(more, cache)[1])
    assert torch.equal(found[0], found[1]) and torch.equal(found[0], found[2])


def test_a_token_stands_where_its_position_says():
    """In a block of 5, the token at position p of a text stands in column p mod 5, whatever comes with it."""
    cache = exact().new_cache(3)
    with torch.inference_mode():
        exact()(tokens(3, 14), cache)
    cache.truncate([0, 7, 14])
    order = cache.arrange(3)
    for row, length in enumerate(cache.row_lengths):
        columns = [(length + new) % 5 for new in range(3)]
        assert order[row, columns].tolist() == [0, 1, 2]
        assert sorted(order[row].tolist()) == [0, 1, 2, 3, 4]


@torch.inference_mode()
@pytest.mark.parametrize("width", [5, 17, 40])
def test_padding_is_not_stored(width):
    """A read changes the slots of its own tokens only, also where the block ends past the context."""
    model = exact(width=width)
    cache = model.new_cache(3)
    model(tokens(3, 24), cache)
    cache.truncate([22, 10, 24])
    before = cache._keys.clone()
    got = model(tokens(3, 3, seed=1), cache)
    changed = (cache._keys != before).any(dim=4).any(dim=2).any(dim=0)  # [B, capacity]
    assert changed.nonzero().tolist() == [[0, 22], [0, 23], [1, 10], [1, 11], [1, 12]]
    assert cache.row_lengths == (24, 13, 24)
    assert torch.isfinite(got).all()


@pytest.mark.parametrize("new", [0, 1, 4, 5, 6, 13])
def test_logits_of_what_was_asked_for_come_back(new):
    """[B, n] in, [B, n, D] and [B, n, V] out, below, at and above the width; and no graph is kept."""
    cache = exact().new_cache(2)
    hidden = exact().hidden(tokens(2, new), cache)
    assert hidden.shape == (2, new, 16)
    assert exact().head(hidden).shape == (2, new, 11)
    assert cache.row_lengths == (new, new)
    assert not hidden.requires_grad and not cache._keys.requires_grad


# Greedy texts.


def wide_pair(seed):
    """A target in bfloat16, wide enough for roundings to show, and a draft of its first layer."""
    sizes = tiny.config(width=64, ffn=96)
    target = tiny.gpt(sizes, seed, torch.bfloat16)
    draft = tiny.gpt(replace(sizes, layers=1), seed, torch.bfloat16)
    draft.load_state_dict({name: target.state_dict()[name] for name in draft.state_dict()})
    return target, draft


@pytest.mark.parametrize(("seed", "k"), [(1, 4), (3, 16)])
def test_greedy_texts_are_equal_in_bfloat16(seed, k):
    """16 ragged rows: speculative and target-only texts agree; the draft is a plain model."""
    prompts = [tokens(1, 1 + row % 7, seed=row)[0].tolist() for row in range(16)]
    target, draft = wide_pair(seed)
    drafter = minispec.ModelDrafter(draft)
    tiny.targets_own_text(FixedWidth(target), drafter, prompts, k=k, max_new_tokens=33)


# The self-test.


def drift():
    """Returns a function that adds a little more on every call, as if kernels did not repeat themselves."""
    calls = iter(range(10_000))
    return lambda result: result + 1e-9 * next(calls)


def mix():
    """Returns a function that lets a block's columns influence each other."""
    return lambda result: result + 1e-9 * result.mean(1, keepdim=True)


@pytest.mark.parametrize(
    ("part", "fault"),
    [
        ("embed_tokens", drift),
        ("embed_tokens", mix),
        ("layers.1.mlp", drift),
        ("layers.1.mlp", mix),
        ("lm_head", drift),
    ],
)
def test_kernels_that_are_not_exact_are_refused(part, fault):
    """Whatever part of the forward is at fault, by however little, the self-test fails."""
    model = FixedWidth(plain(), 5)
    faulty = fault()
    model.get_submodule(part).register_forward_hook(lambda module, given, result: faulty(result))
    with refused(r"exact mode does not work .* width of 5 in float64 .* differ by"):
        model.check()


def test_the_self_test_is_part_of_making_it(monkeypatch):
    """No model in exact mode is made where logits are not exact."""
    faulty = drift()
    forward = GPT.forward
    monkeypatch.setattr(GPT, "forward", lambda *given: faulty(forward(*given)))
    with refused("exact mode does not work"):
        FixedWidth(plain(), 5)


@pytest.mark.parametrize("tied", [True, False])
def test_weights_are_shared_and_the_model_is_left_alone(tied):
    """No weight is copied, a tied head stays tied, and nothing of it is changed in the model."""
    model = tiny.gpt(tiny.config(max_length=CAPACITY, tied=tied), 1, torch.float64).train()
    model.requires_grad_(True)
    made = FixedWidth(model, 5)
    theirs = {name: weight.data_ptr() for name, weight in model.state_dict().items()}
    assert {name: weight.data_ptr() for name, weight in made.state_dict().items()} == theirs
    assert (made.lm_head.weight is made.embed_tokens.weight) == tied
    assert not made.training and not any(weight.requires_grad for weight in made.parameters())
    assert model.training and all(weight.requires_grad for weight in model.parameters())
    made.to(torch.float32).check()
    assert made.dtype == torch.float32 and model.dtype == torch.float64


@torch.inference_mode()
def test_it_can_be_made_while_decoding():
    """Inside of inference mode it can be made as well."""
    assert torch.equal(FixedWidth(plain(), 5)(tokens(2, 7)), exact()(tokens(2, 7)))


def test_a_damaged_model_is_not_blamed_on_the_machine():
    """NaN among the weights is reported where distributions are computed, as without exact mode."""
    model = plain()
    with torch.no_grad():
        model.norm.weight[0] = float("nan")
    with refused("logits are not finite"):
        tiny.alone(FixedWidth(model))


# Bad input, and the cost.

TREE = Tree(torch.tensor([[0, 1]]), torch.ones(1, 2, 2, dtype=torch.bool).tril())


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: FixedWidth(plain(), 0), "width must be at least 1, not 0"),
        (lambda: exact()(tokens(2, 3), plain().new_cache(2)), "take it from its new_cache"),
        (lambda: exact()(tokens(2, 3), exact(width=17).new_cache(2)), "take it from its new_cache"),
        (lambda: plain()(tokens(2, 5), exact().new_cache(2)), "by its fixed-width model only"),
        (lambda: exact().hidden(tokens(1, 2), exact().new_cache(1), TREE), "FixedWidth reads no trees"),
    ],
)
@torch.inference_mode()
def test_what_would_not_be_exact_is_refused(call, words):
    """No column, a cache of another kind or width, a model that arranges tokens otherwise, a tree."""
    with refused(words):
        call()


@torch.inference_mode()
def test_a_block_that_does_not_fit_changes_nothing():
    """A long block is refused before its first part is read."""
    cache = exact().new_cache(2)
    exact()(tokens(2, 10), cache)
    before = cache._keys.clone()
    with refused("the context is full: 10 tokens and 15 more exceed 24"):
        exact()(tokens(2, 15), cache)
    assert cache.row_lengths == (10, 10)
    assert torch.equal(cache._keys, before)
