"""The model: one protocol for all models, and a GPT that is what its formulas say."""

import math

import pytest
import tiny
import torch
from native_models import native

from minispec import GPT
from minispec.core.model import rotary_tables, rotate
from minispec.native.model import NativeGPT
from minispec.rules.fixed_width import FixedWidth

MODELS = {
    "table": lambda: tiny.table(max_length=24),
    "grouped-query GPT": lambda: tiny.gpt(tiny.config(max_length=24), seed=1),
    "multi-head tied GPT": lambda: tiny.gpt(
        tiny.config(max_length=24, kv_heads=4, layers=1, tied=True), seed=2
    ),
    "one-head GPT": lambda: tiny.gpt(tiny.config(max_length=24, heads=1, kv_heads=1), seed=3),
    "GPT of fixed width": lambda: FixedWidth(tiny.gpt(tiny.config(max_length=24), seed=1), 5),
    "native GPT": lambda: native(tiny.gpt(tiny.config(max_length=24), seed=1)),
}


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
    equal = dict(rtol=0, atol=1e-12 if isinstance(model, NativeGPT) else 0)
    torch.testing.assert_close(model(block), model.head(hidden), **equal)
    cached = model.head(model.hidden(block, model.new_cache(2)))
    torch.testing.assert_close(model(block, model.new_cache(2)), cached, **equal)


@pytest.mark.parametrize("widths", [[24], [1] * 24, [7, 1, 1, 9, 6], [23, 1]])
def test_pieces_through_a_cache_give_the_logits_of_the_whole(model, widths):
    """Reading a text in pieces equals reading it at once without a cache, up to the last slot."""
    block = tokens(model, 3, 24)
    cache = model.new_cache(3)
    pieces = [model(piece, cache) for piece in block.split(widths, dim=1)]
    torch.testing.assert_close(torch.cat(pieces, 1), model(block), rtol=0, atol=1e-11)
    assert cache.row_lengths == (24, 24, 24)


def test_ragged_rows_give_the_logits_of_each_row_alone(model):
    """Right-padded and truncated rows go on as if each were alone."""
    block, more = tokens(model, 3, 9), tokens(model, 3, 4, seed=1)
    cache, lengths = model.new_cache(3), [9, 1, 5]
    model(block, cache)
    cache.truncate(lengths)
    got = model(more, cache)
    for row, length in enumerate(lengths):
        alone = model(torch.cat([block[row, :length], more[row]])[None])[0, length:]
        torch.testing.assert_close(got[row], alone, rtol=0, atol=1e-11)


def test_rolling_back_and_reading_other_tokens_leaves_no_trace(model):
    """What was truncated away has no influence on what is read afterwards."""
    block, other = tokens(model, 2, 10), tokens(model, 2, 6, seed=1)
    cache = model.new_cache(2)
    model(block, cache)
    cache.truncate([4, 4])
    whole = torch.cat([block[:, :4], other], 1)
    torch.testing.assert_close(model(other, cache), model(whole)[:, 4:], rtol=0, atol=1e-11)


def test_a_later_token_does_not_change_earlier_logits(model):
    """Attention is causal: changing token i leaves logits before it as they were, and moves some after."""
    block = tokens(model, 2, 12)
    changed = block.clone()
    changed[:, 8] = (changed[:, 8] + 1) % model.vocab_size
    before, after = model(block), model(changed)
    torch.testing.assert_close(after[:, :8], before[:, :8], rtol=0, atol=1e-12)
    assert (after[:, 8:] - before[:, 8:]).abs().max() > 0.1


def test_a_text_beyond_the_context_is_a_clear_error(model):
    """Both without a cache and with a full one, the message names the context; the cache stays as it was."""
    block = tokens(model, 1, model.max_length + 1)
    with pytest.raises(ValueError, match=r"context.*24"):
        model(block)
    cache = model.new_cache(1)
    with pytest.raises(ValueError, match=r"context is full.*24"):
        model(block, cache)
    model(block[:, :-1], cache)
    with pytest.raises(ValueError, match=r"context is full: 24 tokens and 1 more exceed 24"):
        model(block[:, -1:], cache)
    assert cache.row_lengths == (24,)


def test_a_cache_holds_the_whole_context(model):
    """new_cache(rows) is empty, and as long as the model's context."""
    cache = model.new_cache(3)
    assert (cache.rows, cache.capacity, cache.row_lengths) == (3, model.max_length, (0, 0, 0))


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
    torch.testing.assert_close(cached.double(), whole.double(), rtol=0, atol=tolerance)
    torch.testing.assert_close(whole.double(), exact, rtol=0, atol=tolerance)


def by_the_formulas(model, ids):  # [n] -> [n, V]
    """The forward of one row, from the papers' formulas, with loops where the model has fused calls."""
    c, x = model.config, model.embed_tokens.weight[ids]

    def norm(layer, x):
        return x / (x.pow(2).mean(-1, keepdim=True) + c.norm_eps).sqrt() * layer.weight

    def turned(x, position):  # [heads, head_dim]: pairs as complex numbers, times exp(i · angle)
        half = c.head_dim // 2
        angle = position * c.rope_theta ** (-2 * torch.arange(half).double() / c.head_dim)
        z = torch.complex(x[:, :half], x[:, half:]) * torch.polar(torch.ones_like(angle), angle)
        return torch.cat([z.real, z.imag], -1)

    for block in model.layers:
        a, h = block.self_attn, norm(block.input_layernorm, x)
        q, k, v = (proj(h).view(len(ids), -1, c.head_dim) for proj in (a.q_proj, a.k_proj, a.v_proj))
        q = torch.stack([turned(one, i) for i, one in enumerate(q)])
        k = torch.stack([turned(one, i) for i, one in enumerate(k)])
        out = torch.zeros_like(q)
        for i in range(len(ids)):
            for head in range(c.heads):
                group = head // (c.heads // c.kv_heads)
                scores = k[: i + 1, group] @ q[i, head] / math.sqrt(c.head_dim)
                out[i, head] = scores.softmax(-1) @ v[: i + 1, group]
        x = x + a.o_proj(out.flatten(1))
        h, m = norm(block.post_attention_layernorm, x), block.mlp
        gate = m.gate_proj(h)
        x = x + m.down_proj(gate * gate.sigmoid() * m.up_proj(h))
    return norm(model.norm, x) @ model.lm_head.weight.T


@pytest.mark.parametrize("kv_heads", [1, 2, 4])
def test_the_forward_is_what_the_formulas_say(kv_heads):
    """Norms, rotary positions, grouped attention and SwiGLU, written out once more, give the same logits."""
    model = tiny.gpt(tiny.config(kv_heads=kv_heads), seed=4)
    block = tokens(model, 1, 9)
    with torch.inference_mode():
        torch.testing.assert_close(model(block)[0], by_the_formulas(model, block[0]), rtol=0, atol=1e-11)


@pytest.mark.parametrize("kv_heads", [1, 2, 4])
def test_training_and_decoding_compute_the_same(kv_heads):
    """A forward with gradients gives the logits of one without, and its slope is that of differences."""
    model = tiny.gpt(tiny.config(kv_heads=kv_heads), seed=4)
    block = tokens(model, 2, 9)
    with torch.inference_mode():
        decoded = model(block)
    trained = model(block)
    assert trained.requires_grad
    torch.testing.assert_close(trained.detach(), decoded, rtol=0, atol=1e-12)
    weight, step = model.layers[0].self_attn.k_proj.weight, 1e-5
    (slope,) = torch.autograd.grad(trained.logsumexp(-1).sum(), weight)
    values = []
    for sign in (1, -1):
        with torch.inference_mode():
            weight[0, 0] += sign * step
            values.append(float(model(block).logsumexp(-1).sum()))
            weight[0, 0] -= sign * step
    assert float(slope[0, 0]) == pytest.approx((values[0] - values[1]) / (2 * step), rel=1e-5)


@torch.inference_mode()
def test_grouped_queries_equal_repeated_keys_and_values():
    """With kv_heads < heads, repeating each key and value head for its group changes nothing."""
    grouped = tiny.gpt(tiny.config(kv_heads=2))
    repeated = GPT(tiny.config(kv_heads=4)).double()
    weights = grouped.state_dict()
    for name, weight in weights.items():
        if "k_proj" in name or "v_proj" in name:
            heads = weight.view(2, grouped.config.head_dim, -1)
            weights[name] = heads.repeat_interleave(2, dim=0).flatten(0, 1)
    repeated.load_state_dict(weights)
    block = tokens(grouped, 2, 12)
    torch.testing.assert_close(grouped(block), repeated(block), rtol=0, atol=1e-12)


def test_turned_queries_and_keys_see_only_their_distance():
    """Shifting all positions changes no score, changing the distance does, and lengths stay."""
    cos, sin = rotary_tables(tiny.config())
    generator = torch.Generator().manual_seed(0)
    q, k = torch.randn(2, 1, 1, 1, 4, generator=generator, dtype=torch.float64)

    def score(m, n):
        return float(
            (rotate(q, cos[m : m + 1], sin[m : m + 1]) * rotate(k, cos[n : n + 1], sin[n : n + 1])).sum()
        )

    assert score(30, 27) == pytest.approx(score(3, 0), abs=1e-12)
    assert abs(score(30, 26) - score(3, 0)) > 1e-2
    assert torch.equal(rotate(q, cos[:1], sin[:1]), q)
    assert float(rotate(q, cos[17:18], sin[17:18]).norm()) == pytest.approx(float(q.norm()))


def test_a_cache_made_while_decoding_does_not_spoil_training():
    """The rotary tables that a first forward without gradients makes still serve one with gradients."""
    model = tiny.gpt(tiny.config())
    block = tokens(model, 1, 5)
    with torch.inference_mode():
        model(block)
    model(block).sum().backward()
    assert all(weight.grad is not None for weight in model.parameters())


def test_changing_the_type_changes_the_rotary_tables_too():
    """A float32 model made float64 gives float64's logits, with nothing left over from before."""
    model = tiny.gpt(tiny.config())
    block = tokens(model, 1, 20)
    with torch.inference_mode():
        exact = model(block)
        for dtype in (torch.float32, torch.float64):
            assert model.to(dtype)(block).dtype == dtype
    narrowed = tiny.gpt(tiny.config(), dtype=torch.float32).double()
    with torch.inference_mode():
        assert torch.equal(model(block), narrowed(block))
        torch.testing.assert_close(model(block), exact, rtol=0, atol=2e-5)


def test_a_tied_head_is_the_embedding_and_counts_once():
    """Tying shares one matrix, and saves V·D numbers."""
    tied, free = GPT(tiny.config(tied=True)), GPT(tiny.config())
    assert tied.lm_head.weight is tied.embed_tokens.weight
    assert free.parameters_count - tied.parameters_count == 11 * 16


@pytest.mark.parametrize("name", ["vocab_size", "layers", "width", "heads", "kv_heads", "ffn", "max_length"])
def test_sizes_below_one_are_refused(name):
    """Every size must be at least 1, and the message names it."""
    with pytest.raises(ValueError, match=f"{name} must be at least 1, not 0"):
        tiny.config(**{name: 0})


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"width": 18}, "width 18 must be an even multiple of heads 4"),
        ({"width": 12}, "width 12 must be an even multiple of heads 4"),  # heads of 3: no pairs to turn
        ({"kv_heads": 3}, "heads 4 must be a multiple of kv_heads 3"),
        ({"kv_heads": 8}, "heads 4 must be a multiple of kv_heads 8"),
    ],
)
def test_sizes_that_do_not_fit_together_are_refused(changes, message):
    """Heads divide the width into even parts, and key heads divide the heads."""
    with pytest.raises(ValueError, match=message):
        tiny.config(**changes)
