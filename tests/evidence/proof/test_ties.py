"""Near ties: a certificate carries what was measured, and excuses rounding only."""

import math

import pytest
import tiny
import torch

from minispec.evidence.proof.ties import first_flip, limit_of, logits_both_ways
from minispec.verifiers.fixed_width import FixedWidth


class Leaning(tiny.TableModel):
    """A table model of three tokens whose logits are the same everywhere, and move when a cache is used.

    With gap g, tokens 0 and 1 have the logits 3 and 3 − g, and token 2 has 1; through a cache, token 2's is
    higher by `shift`.
    """

    def __init__(self, dtype, gap, shift):
        super().__init__(torch.tensor([3.0, 3.0 - gap, 1.0], dtype=torch.float64).repeat(12, 1))
        self.shift = torch.tensor([0.0, 0.0, shift], dtype=torch.float64)
        self.dtype = dtype

    def hidden(self, tokens, cache=None, tree=None):
        self.added = 0 if cache is None else self.shift
        return super().hidden(tokens, cache, tree)

    def head(self, hidden):
        return (super().head(hidden) + self.added).to(self.dtype)


@pytest.mark.parametrize(
    ("dtype", "gap", "shift", "excused"),
    [
        (torch.float64, 0.0, 0.0, True),
        (torch.float64, 1e-9, 1e-6, False),
        (torch.float32, 5e-5, 0.0, True),
        (torch.float32, 2e-4, 1e-3, False),
        (torch.bfloat16, 0.125, 0.0625, True),
        (torch.bfloat16, 0.25, 0.0625, False),
        (torch.bfloat16, 0.5, 2.0, True),
        (torch.bfloat16, 0.75, 2.0, False),  # whatever was measured, there is a cap
        (torch.bfloat16, 0.125, -0.0625, True),  # the sign of the difference does not matter
        (torch.float16, 0.125, 0.0625, True),
    ],
)
def test_only_rounding_is_an_excuse(dtype, gap, shift, excused):
    """A flip carries both logits, their gap and the measured difference; the type sets the limit."""
    flip = first_flip(Leaning(dtype, gap, shift), [1, 2], [2, 0, 1], [2, 1, 1])
    assert flip.position == 1 and flip.tokens == (0, 1)
    assert flip.logits == pytest.approx((3.0, 3.0 - gap), abs=1e-6)
    assert flip.gap == pytest.approx(gap, abs=1e-6)
    assert flip.difference == pytest.approx(abs(shift), abs=1e-6)
    assert flip.limit == limit_of(dtype, flip.difference)
    assert flip.is_near_tie is excused


def test_a_text_that_merely_ends_is_no_near_tie():
    """Where one text goes on and the other does not, no rounding is to blame; equal texts have no flip."""
    model = Leaning(torch.float64, 0.0, 0.0)
    assert first_flip(model, [1], [2, 0], [2, 0]) is None
    for first, second, tokens in (([2, 0], [2], (0, None)), ([], [2], (None, 2))):
        flip = first_flip(model, [1], first, second)
        assert flip.tokens == tokens and flip.position == min(len(first), len(second))
        assert flip.gap == math.inf and not flip.is_near_tie


@torch.inference_mode()
@pytest.mark.parametrize("prompt", [[3], [3, 1, 4, 1]])
def test_the_difference_is_that_of_one_forward_and_of_steps(prompt):
    """The two ways are a forward over all, and prefill with one-token steps; bfloat16 keeps them close."""
    model = tiny.gpt(tiny.config(width=64), dtype=torch.bfloat16)
    new_tokens = [5, 9, 2, 6, 5, 3, 5]
    at_once, one_by_one = logits_both_ways(model, prompt, new_tokens)
    assert torch.equal(at_once, model(torch.tensor([prompt + new_tokens]))[0, -1])
    cache = model.new_cache(1)
    if prompt[:-1]:
        model(torch.tensor([prompt[:-1]]), cache)
    for token in prompt[-1:] + new_tokens:
        last = model(torch.tensor([[token]]), cache)[0, -1]
    assert torch.equal(one_by_one, last)
    assert float((at_once - one_by_one).abs().max()) < 0.3


def test_exact_mode_leaves_no_difference():
    """At a fixed width both ways give the same bits."""
    model = FixedWidth(tiny.gpt(tiny.config(), dtype=torch.bfloat16))
    assert torch.equal(*logits_both_ways(model, [3, 1, 4], [5, 9, 2, 6]))
