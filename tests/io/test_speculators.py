"""EAGLE-3 drafters on disk: what was written comes back, the library reads it, damage is refused."""

import pytest
import tiny
import torch

from minispec.drafters.eagle3 import Eagle3Layer
from minispec.io.checkpoint import save_model
from minispec.io.speculators import load_eagle3, save_eagle3

IDS = torch.tensor([0, 2, 3, 7, 9, 40])


@pytest.fixture(scope="module")
def target():
    """A GPT of five layers, with weights that bfloat16 can hold."""
    model = tiny.gpt(tiny.config(vocab_size=64, layers=5), seed=6, dtype=torch.float32)
    return model.bfloat16().float().requires_grad_(False)


def drawn_layer(target, normed=True):
    """Returns a layer with random weights that bfloat16 can hold."""
    torch.manual_seed(0)
    layer = Eagle3Layer(target.config, (2, 3), IDS, normed)
    for weight in layer.parameters():
        weight.data.copy_(torch.randn_like(weight).mul(0.3).bfloat16())
    return layer.requires_grad_(False)


@pytest.mark.parametrize("normed", [True, False])
def test_a_drafter_comes_back(target, tmp_path, normed):
    layer = drawn_layer(target, normed)
    save_eagle3(layer, tmp_path / "head", "owner/name", 3, {"seed": 5})
    found, info = load_eagle3(tmp_path / "head", target)
    assert (found.taps, found.adds_to_normed, info) == ((2, 3), normed, {"seed": 5})
    assert torch.equal(found.ids, IDS)
    for name, weight in layer.state_dict().items():
        assert torch.equal(found.state_dict()[name], weight)


@pytest.mark.evidence
@pytest.mark.parametrize("normed", [True, False])
def test_the_library_reads_it_and_gives_the_same_logits(target, tmp_path, normed):
    """Round trip: what the library saves again is what was written."""
    pytest.importorskip("speculators")
    from speculators.models.eagle3 import Eagle3DraftModel, Eagle3SpeculatorConfig

    save_model(target, tmp_path / "target", torch.float32)
    layer = drawn_layer(target, normed)
    save_eagle3(layer, tmp_path / "head", str(tmp_path / "target"), 3, {})
    config = Eagle3SpeculatorConfig.from_pretrained(tmp_path / "head")
    config.transformer_layer_config._attn_implementation = "eager"
    theirs = Eagle3DraftModel.from_pretrained(tmp_path / "head", config=config).eval().float()
    seen = []
    theirs.lm_head.register_forward_hook(lambda module, inputs, logits: seen.append(logits))
    tokens = torch.tensor([[1, 4, 1, 0, 7, 2, 10, 33]])
    streams = torch.randn(1, 8, 2 * 16, generator=torch.Generator().manual_seed(3))
    theirs(streams, tokens, torch.zeros(1, 8, dtype=torch.long), ttt_steps=1)
    features = layer(target.embed_tokens(tokens), layer.fc(streams), target.view(8, None))
    torch.testing.assert_close(layer.logits(features), seen[0], rtol=1e-5, atol=1e-5)
    theirs.bfloat16().save_pretrained(tmp_path / "again")
    again, _ = load_eagle3(tmp_path / "again", target)
    for name, weight in layer.state_dict().items():
        assert torch.equal(again.state_dict()[name], weight)
