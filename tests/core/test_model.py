"""The model: one protocol for all models, and a GPT that is what its formulas say."""

import math
from dataclasses import replace

import pytest
import tiny
import torch
from refusals import refused

from minispec import GPT
from minispec.core.model import RopeScaling, Tree
from minispec.native.model import NativeGPT
from minispec.verifiers.fixed_width import FixedWidth


def gpt(**changes):
    return tiny.gpt(tiny.config(max_length=24, **changes), seed=1)


MODELS = {
    "table": lambda: tiny.table(max_length=24),
    "grouped-query GPT": gpt,
    "multi-head tied GPT": lambda: gpt(kv_heads=4, layers=1, tied=True),
    "one-head GPT": lambda: gpt(heads=1, kv_heads=1),
    "GPT of fixed width": lambda: FixedWidth(gpt(), 5),
    "native GPT": lambda: NativeGPT(gpt()),
}


def gpt_of(model, **changes):
    """Returns a model of the same weights with another config."""
    other = GPT(replace(model.config, **changes)).to(model.dtype)
    other.load_state_dict(model.state_dict())
    return other


def close(found, wanted, tolerance=1e-11):
    """Asserts that logits differ by no more than rounding."""
    torch.testing.assert_close(found, wanted, rtol=0, atol=tolerance)


@pytest.fixture(params=MODELS)
def model(request):
    with torch.inference_mode():
        yield MODELS[request.param]()


def tokens(model, rows, length, seed=0):
    return torch.randint(model.vocab_size, (rows, length), generator=torch.Generator().manual_seed(seed))


# The protocol: it holds for every model.


def test_calling_a_model_is_head_of_hidden(model):
    """Logits are head(hidden(tokens)), [B, n, V], with a cache and without."""
    block = tokens(model, 2, 7)
    hidden = model.hidden(block)
    assert hidden.shape[:2] == (2, 7)
    assert model(block).shape == (2, 7, model.vocab_size)
    # the native backend leaves the head alone to torch, which adds up in an order of its own
    tolerance = 1e-12 if isinstance(model, NativeGPT) else 0
    close(model(block), model.head(hidden), tolerance)
    cached = model.head(model.hidden(block, model.new_cache(2)))
    close(model(block, model.new_cache(2)), cached, tolerance)


@pytest.mark.parametrize("widths", [[24], [1] * 24, [7, 1, 1, 9, 6], [23, 1]])
def test_pieces_through_a_cache_give_the_logits_of_the_whole(model, widths):
    """Reading a text in pieces equals reading it at once without a cache, up to the last slot."""
    block = tokens(model, 3, 24)
    cache = model.new_cache(3)
    pieces = [model(piece, cache) for piece in block.split(widths, dim=1)]
    close(torch.cat(pieces, 1), model(block))
    assert cache.row_lengths == (24, 24, 24)


def test_ragged_rows_give_the_logits_of_each_row_alone(model):
    """Right-padded and truncated rows go on as if each were alone: what was truncated leaves no trace."""
    block = tokens(model, 3, 9)
    more = tokens(model, 3, 4, seed=1)
    lengths = [9, 1, 5]
    cache = model.new_cache(3)
    model(block, cache)
    cache.truncate(lengths)
    got = model(more, cache)
    for row, length in enumerate(lengths):
        alone = model(torch.cat([block[row, :length], more[row]])[None])[0, length:]
        close(got[row], alone)


def test_a_text_beyond_the_context_is_a_clear_error(model):
    """Both without a cache and with a full one, the message names the context; the cache stays as it was."""
    block = tokens(model, 1, 25)
    cache = model.new_cache(1)
    assert (cache.rows, cache.capacity, cache.row_lengths) == (1, 24, (0,))
    for some in (None, cache):
        with refused(r"context.*24"):
            model(block, some)
    model(block[:, :-1], cache)
    with refused(r"context is full: 24 tokens and 1 more exceed 24"):
        model(block[:, -1:], cache)
    assert cache.row_lengths == (24,)


# The GPT.


# Logits are up to about 5. A rounding is 6e-8 of that in float32, 4e-3 in bfloat16; there are some tens.
@pytest.mark.parametrize(
    ("dtype", "tolerance"), [(torch.float64, 1e-12), (torch.float32, 2e-5), (torch.bfloat16, 0.3)]
)
def test_cached_and_uncached_logits_agree_in_every_type(dtype, tolerance):
    """One token at a time through a cache equals one forward, within the type's rounding."""
    model = tiny.gpt(tiny.config(), dtype=dtype)
    block = tokens(model, 2, 20)
    with torch.inference_mode():
        cache = model.new_cache(2)
        cached = torch.cat([model(block[:, i : i + 1], cache) for i in range(20)], 1)
        whole = model(block)
        exact = tiny.gpt(tiny.config())(block)
    assert cached.dtype == dtype
    assert exact.std() > 0.5  # far from uniform, so that agreement means something
    close(cached.double(), whole.double(), tolerance)
    close(whole.double(), exact, tolerance)


def slowed(frequencies, scaling):
    """What Llama 3.1 makes of frequencies, pair by pair."""
    result = []
    for frequency in frequencies.tolist():
        factor = scaling.factor if scaling else 1
        wavelength = 2 * math.pi / frequency
        if not scaling or wavelength < scaling.original_length / scaling.high_freq_factor:
            result.append(frequency)
        elif wavelength > scaling.original_length / scaling.low_freq_factor:
            result.append(frequency / factor)
        else:
            smooth = scaling.original_length / wavelength - scaling.low_freq_factor
            smooth /= scaling.high_freq_factor - scaling.low_freq_factor
            result.append((1 - smooth) * frequency / factor + smooth * frequency)
    return torch.tensor(result, dtype=torch.float64)


def by_the_formulas(model, ids):  # [n] -> [n, V]
    """The forward of one row, from the papers' formulas, with loops where the model has fused calls."""
    c = model.config
    x = model.embed_tokens.weight[ids]

    def norm(layer, x):
        return x / (x.pow(2).mean(-1, keepdim=True) + c.norm_eps).sqrt() * layer.weight

    def turned(x, position):  # [heads, head_dim]: pairs as complex numbers, times exp(i · angle)
        half = c.head_dim // 2
        angle = position * slowed(
            c.rope_theta ** (-2 * torch.arange(half).double() / c.head_dim), c.rope_scaling
        )
        z = torch.complex(x[:, :half], x[:, half:]) * torch.polar(torch.ones_like(angle), angle)
        return torch.cat([z.real, z.imag], -1)

    for block in model.layers:
        a = block.self_attn
        h = norm(block.input_layernorm, x)
        q, k, v = (proj(h).view(len(ids), -1, c.head_dim) for proj in (a.q_proj, a.k_proj, a.v_proj))
        q = torch.stack([turned(norm(a.q_norm, one) if c.qk_norm else one, i) for i, one in enumerate(q)])
        k = torch.stack([turned(norm(a.k_norm, one) if c.qk_norm else one, i) for i, one in enumerate(k)])
        out = torch.zeros_like(q)
        for i in range(len(ids)):
            for head in range(c.heads):
                group = head // (c.heads // c.kv_heads)
                scores = k[: i + 1, group] @ q[i, head] / math.sqrt(c.head_dim)
                out[i, head] = scores.softmax(-1) @ v[: i + 1, group]
        x = x + a.o_proj(out.flatten(1))
        m = block.mlp
        h = norm(block.post_attention_layernorm, x)
        gate = m.gate_proj(h)
        x = x + m.down_proj(gate * gate.sigmoid() * m.up_proj(h))
    return norm(model.norm, x) @ model.lm_head.weight.T


@pytest.mark.parametrize(
    "sizes",
    [
        {"kv_heads": 1},
        {"kv_heads": 2},
        {"kv_heads": 4},
        {"qkv_bias": True, "norm_eps": 0.1},
        {"qk_norm": True, "norm_eps": 0.1},
        {"rope_theta": 100.0, "head_size": 16, "rope_scaling": RopeScaling(8.0, 1.0, 4.0, 60)},
    ],
    ids=str,
)
def test_the_forward_is_what_the_formulas_say(sizes):
    """Norms, rotary positions, grouped attention and SwiGLU, written out once more, give the same logits.

    So do forwards with gradients, and their slope is that of differences.
    """
    model = tiny.gpt(tiny.config(**sizes), seed=4)
    block = tokens(model, 1, 9)
    trained = model(block)
    weight = model.layers[0].self_attn.k_proj.weight
    step = 1e-5
    (slope,) = torch.autograd.grad(trained.logsumexp(-1).sum(), weight)
    values = []
    with torch.inference_mode():
        close(model(block)[0], by_the_formulas(model, block[0]))
        close(model(block), trained, 1e-12)
        for sign in (1, -1):
            weight[0, 0] += sign * step
            values.append(float(model(block).logsumexp(-1).sum()))
            weight[0, 0] -= sign * step
    assert float(slope[0, 0]) == pytest.approx((values[0] - values[1]) / (2 * step), rel=1e-5)


def test_a_cache_made_while_decoding_does_not_spoil_training():
    """The rotary tables that a first forward without gradients makes still serve one with gradients."""
    model = tiny.gpt(tiny.config())
    block = tokens(model, 1, 5)
    with torch.inference_mode():
        model(block)
    model(block).sum().backward()
    assert all(weight.grad is not None for weight in model.parameters())


@torch.inference_mode()
def test_a_tree_may_end_in_the_contexts_last_slot():
    """A branch up to there has the logits that its tokens have one after the other."""
    model = tiny.gpt(tiny.config(max_length=8))
    tokens = torch.arange(8)[None]
    cache = model.new_cache(1)
    model(tokens[:, :4], cache)
    logits = model.head(model.hidden(tokens[:, 4:], cache, Tree.after(cache.lengths, torch.arange(3)[None])))
    torch.testing.assert_close(logits, model(tokens)[:, 4:], rtol=0, atol=1e-12)


@torch.inference_mode()
def test_positions_are_those_of_the_text_however_long_the_context_may_be():
    """A context of 2^20 tokens takes no memory before it is used; a tree's tokens may stand anywhere."""
    model = tiny.gpt(tiny.config(max_length=2**20))
    block = tokens(model, 1, 300)
    cache = model.new_cache(1)
    for piece in block.split([3, 1, 250, 2, 44], 1):
        wide = model(piece, cache)
    close(wide, gpt_of(model, max_length=300)(block)[:, -44:])
    assert cache.bytes == 2 * 2 * 2 * 4 * 8 * 512  # keys and values, layers, heads, their size; slots
    far = Tree(torch.tensor([[10**6]]), torch.ones(1, 1, 1, dtype=torch.bool))
    assert model.view(44, None).cos.untyped_storage().nbytes() <= 64 * 4 * 8
    assert float(model.view(1, cache, far).cos[0, 0, 0, 0]) == pytest.approx(math.cos(10**6), abs=1e-12)


def test_changing_the_type_changes_the_rotary_tables_too():
    """A float32 model made float64 gives float64's logits, with nothing left over from before."""
    model = tiny.gpt(tiny.config(), dtype=torch.float32)
    block = tokens(model, 1, 9)
    with torch.inference_mode():
        assert model(block).dtype == torch.float32
        close(model.double()(block)[0], by_the_formulas(model, block[0]))


def test_a_tied_head_is_the_embedding_and_counts_once():
    """Tying shares one matrix, and saves V·D numbers."""
    tied = GPT(tiny.config(tied=True))
    free = GPT(tiny.config())
    assert tied.lm_head.weight is tied.embed_tokens.weight
    assert free.parameters_count - tied.parameters_count == 11 * 16


SIZES = ["vocab_size", "layers", "width", "heads", "kv_heads", "ffn", "max_length"]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        *(({name: 0}, f"{name} must be at least 1, not 0") for name in SIZES),
        ({"width": 18}, "width 18 must be an even multiple of heads 4"),
        ({"width": 12}, "width 12 must be an even multiple of heads 4"),  # heads of 3: no pairs to turn
        ({"head_size": 3}, "head_size 3 must be even"),
        ({"kv_heads": 3}, "heads 4 must be a multiple of kv_heads 3"),
        ({"kv_heads": 8}, "heads 4 must be a multiple of kv_heads 8"),
    ],
)
def test_sizes_that_do_not_fit_together_are_refused(changes, words):
    """Each at least 1; heads divide the width into even parts, and key heads divide the heads."""
    with refused(words):
        tiny.config(**changes)
