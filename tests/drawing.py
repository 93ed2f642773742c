"""What tests of models that draw share: a small pair, and the check that draws have the reported law."""

import tiny
import torch


def small_pair(dtype=torch.float32):
    """Returns a target and a smaller draft with a vocabulary of three tokens."""
    sizes = {"vocab_size": 3, "max_length": 24}
    less = {"layers": 1, "width": 8, "heads": 2, "kv_heads": 1, "ffn": 8}
    return tiny.gpt(tiny.config(**sizes), 0, dtype), tiny.gpt(tiny.config(**sizes, **less), 1, dtype)


@torch.inference_mode()
def assert_draws_as_reported(draft, model, warp):
    """2,000 numbers from 0 to 1: each picks the first id whose cumulative sum exceeds it; laws as warped."""
    text = torch.tensor([[0, 2, 1]])
    wanted = warp(model(text))[0, -1]
    for number in torch.linspace(0, 1 - 1e-12, 2_000, dtype=torch.float64).split(1):
        cache = draft.new_cache(1)
        draft.hidden(text[:, :2], cache)
        (token,), (law,) = draft.draw(text[:, 2], cache, warp.temperature, number[None])
        torch.testing.assert_close(law[0], wanted, rtol=0, atol=1e-5)
        cumulative = law[0].double().cumsum(-1)
        assert int(token[0]) == int((cumulative <= number * cumulative[-1]).sum())
        assert cache.row_lengths == (3,)
