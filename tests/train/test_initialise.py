"""Initialisation: what a GPT can do before it has learned anything."""

import pytest
import torch

from minispec.core.model import GPT, rotary_tables, rotate
from minispec.train.initialise import DISTANCES, draw_weights
from minispec.train.recipes import gpt

CONFIG = gpt(layers=3, width=128, heads=8, kv_heads=4, ffn=64, vocab_size=200)


@pytest.fixture(scope="module")
def model():
    torch.manual_seed(0)
    return draw_weights(GPT(CONFIG))


def scores(model, layer, tokens):
    """Returns a layer's attention scores at the start, [heads, n, n]: the layers before it add nothing."""
    block = model.layers[layer]
    x = block.input_layernorm(model.embed_tokens(tokens))  # [n, D]
    cos, sin = (table.float() for table in rotary_tables(CONFIG, len(tokens)))
    q = block.self_attn.q_proj(x).view(len(tokens), CONFIG.heads, -1).transpose(0, 1)
    k = block.self_attn.k_proj(x).view(len(tokens), CONFIG.kv_heads, -1).transpose(0, 1)
    k = k.repeat_interleave(CONFIG.heads // CONFIG.kv_heads, 0)
    scores = rotate(q, cos, sin) @ rotate(k, cos, sin).transpose(1, 2) / CONFIG.head_dim**0.5
    return scores + torch.full_like(scores, float("-inf")).triu(1)


def test_first_layer_looks_back(model):
    """Whatever the tokens are, a head of the first layer looks most at the token one or two back."""
    generator = torch.Generator().manual_seed(1)
    seen = torch.zeros(CONFIG.heads)
    for _ in range(20):
        tokens = torch.randint(CONFIG.vocab_size, (24,), generator=generator)
        best = scores(model, 0, tokens)[:, 8:].argmax(-1)  # [heads, 16]
        back = torch.arange(8, 24) - best
        want = torch.tensor([DISTANCES[h % len(DISTANCES)] for h in range(CONFIG.heads)])
        seen += (back == want[:, None]).float().mean(1) / 20
    assert float(seen.min()) > 0.6, seen


def test_later_layers_look_for_their_like(model):
    """A later layer scores an equal token highest far more often than one of eleven would be at random."""
    generator = torch.Generator().manual_seed(2)
    higher = []
    for _ in range(20):
        tokens = torch.randperm(CONFIG.vocab_size, generator=generator)[:12]
        tokens[5] = tokens[11]
        row = scores(model, 1, tokens)[:, 11, :11]
        higher.append((row[:, 5] > row[:, torch.arange(11) != 5].max(-1).values).float().mean())
    assert float(torch.stack(higher).mean()) > 0.4  # at random: 1 in 11


def test_model_adds_nothing_at_first(model):
    """At the start the stream is the embedding itself: all that writes into it is zero."""
    tokens = torch.arange(10)[None]
    assert torch.equal(model.hidden(tokens), model.norm(model.embed_tokens(tokens)))


@pytest.mark.parametrize("tied", [False, True])
def test_half_of_an_embedding_is_shared(tied):
    """Embeddings have one direction in common, as long as what is their own."""
    torch.manual_seed(3)
    config = gpt(layers=2, width=256, heads=4, kv_heads=2, ffn=8, vocab_size=400)
    weight = draw_weights(GPT(config)).embed_tokens.weight.detach()
    mean = weight.mean(0)
    assert float(mean.norm()) == pytest.approx(float((weight - mean).norm(dim=1).mean()), rel=0.15)


def test_a_lone_layer_starts_at_random():
    """A model of one layer cannot bind, and is not prepared for it: its embeddings share nothing."""
    torch.manual_seed(4)
    model = draw_weights(GPT(gpt(layers=1, width=256, heads=4, kv_heads=2, ffn=8, vocab_size=400)))
    weight = model.embed_tokens.weight.detach()
    assert float(weight.mean(0).norm()) < 0.1 * float(weight.norm(dim=1).mean())


def test_single_head_of_two_axes_is_drawn():
    """The smallest sizes work too."""
    model = draw_weights(GPT(gpt(layers=2, width=2, heads=1, kv_heads=1, ffn=2, vocab_size=5)))
    assert torch.isfinite(model(torch.arange(5)[None])).all()
