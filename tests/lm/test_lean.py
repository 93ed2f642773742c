"""The lean forward computes what the readable one does, in every type, for level and for ragged rows."""

import pytest
import tiny
import torch

from minispec import load_pair
from minispec.native.pack import LeanGPT

SIZES = {
    "grouped": {},
    "multi-head, tied": {"kv_heads": 4, "tied": True, "layers": 1},
    "one head": {"heads": 1, "kv_heads": 1},
    "one key head": {"kv_heads": 1},
}
CLOSE = {torch.float64: 1e-11, torch.float32: 1e-4, torch.bfloat16: 0.5}


def block(model, rows, length, seed=0):
    return torch.randint(model.vocab_size, (rows, length), generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("sizes", SIZES.values(), ids=SIZES)
@pytest.mark.parametrize("dtype", CLOSE, ids=str)
def test_logits_equal_the_readable_models(sizes, dtype):
    """Whole texts, then ragged rows through the cache, at widths 1 and 5; weights far from their start."""
    with torch.inference_mode():
        model = tiny.gpt(tiny.config(**sizes), seed=3, dtype=dtype)
        lean = LeanGPT(model)
        text, more = block(model, 3, 12), block(model, 3, 5, seed=1)
        ours, theirs = lean.new_cache(3), model.new_cache(3)
        for tokens, lengths in ((text, [12, 4, 7]), (more[:, :1], [13, 5, 8]), (more, [18, 10, 13])):
            found, wanted = lean(tokens, ours), model(tokens, theirs)
            assert found.dtype == dtype
            torch.testing.assert_close(found, wanted, rtol=0, atol=CLOSE[dtype])
            assert ours.row_lengths == theirs.row_lengths
            ours.truncate(lengths), theirs.truncate(lengths)


def test_the_norms_epsilon_counts():
    """Weights so small that the epsilon is as large as the mean square."""
    with torch.inference_mode():
        model = tiny.gpt(tiny.config(norm_eps=0.1), seed=1)
        model.embed_tokens.weight.mul_(0.1)
        text = block(model, 2, 9)
        torch.testing.assert_close(LeanGPT(model)(text), model(text), rtol=0, atol=1e-11)


def test_the_shipped_pair_on_its_own_prompts():
    """Float32 logits of both models differ by rounding only."""
    pair = load_pair("stories")
    text = torch.tensor(pair.info["prompts"][:4])
    with torch.inference_mode():
        for model in (pair.target, pair.draft):
            torch.testing.assert_close(LeanGPT(model)(text), model(text), rtol=0, atol=1e-4)


def test_another_models_cache_and_a_full_context_are_refused():
    """One line each."""
    model = tiny.gpt(tiny.config(max_length=8))
    lean = LeanGPT(model)
    with pytest.raises(ValueError, match="cache of its own"):
        lean(block(model, 1, 2), model.new_cache(1))
    with pytest.raises(ValueError, match="9 tokens do not fit a context of 8"):
        lean(block(model, 1, 9))
    cache = lean.new_cache(1)
    lean(block(model, 1, 8), cache)
    with pytest.raises(ValueError, match="the context is full"):
        lean(block(model, 1, 1), cache)
