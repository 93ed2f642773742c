"""EAGLE-3 drafters on disk: what was written comes back, the library reads it, damage is refused."""

import json

import pytest
import tiny
import torch
from refusals import refused
from safetensors.torch import load_file, save_file

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


# Changes of the config, or of the weights; and what the message says.
WRONG_CONFIGS = [
    ({"speculators_model_type": "dflash"}, "minispec reads eagle3 only"),
    ({"norm_before_fc": True}, "minispec reads False only"),
    ({"transformer_layer_config": 3}, "lacks transformer_layer_config"),
    ({"eagle_aux_hidden_state_layer_ids": [0, 9]}, "taps after layers"),
    ({"eagle_aux_hidden_state_layer_ids": "abc"}, "taps after layers"),
    ({"eagle_aux_hidden_state_layer_ids": [3, 2]}, "should ascend, from 1 to 5"),
    ({"eagle_aux_hidden_state_layer_ids": [2, 2]}, "should ascend"),
    ({"eagle_aux_hidden_state_layer_ids": []}, "taps after layers"),
    ({"eagle_aux_hidden_state_layer_ids": [1, 2, 3]}, "made for another target"),
    ({"norm_before_residual": "x"}, "should be true or false"),
    ({"draft_vocab_size": 7}, "draft_vocab_size 7; its weights are for 6"),
]
WRONG_WEIGHTS = [
    ({"d2t": torch.full((6,), 60)}, "ascending ids of the target, from 0 to 63"),
    ({"d2t": torch.full((6,), -3)}, "ascending ids"),
    ({"d2t": -torch.arange(6)}, "ascending ids"),
    ({"d2t": torch.tensor([2, -1, 1, 4, 5, 35])}, "ascending ids"),
    ({"d2t": torch.zeros(6, 1)}, "row of integers"),
    ({"d2t": torch.zeros(6, dtype=torch.bool)}, "row of integers"),
    ({"t2d": torch.ones(64, dtype=torch.bool)}, "d2t and t2d speak of different ids"),
    ({"fc.weight": torch.zeros(16, 16)}, "made for another target"),
    ({"norm.weight": torch.zeros(16, dtype=torch.int8)}, "int8"),
]


@pytest.mark.parametrize(("changes", "message"), WRONG_CONFIGS, ids=lambda value: str(value)[:40])
def test_other_configs_are_refused(target, tmp_path, changes, message):
    save_eagle3(drawn_layer(target), tmp_path / "head", "owner/name", 3, {})
    path = tmp_path / "head" / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))
    with refused(message):
        load_eagle3(tmp_path / "head", target)


@pytest.mark.parametrize(("changes", "message"), WRONG_WEIGHTS, ids=lambda value: str(value)[:40])
def test_other_weights_are_refused(target, tmp_path, changes, message):
    save_eagle3(drawn_layer(target), tmp_path / "head", "owner/name", 3, {})
    path = tmp_path / "head" / "model.safetensors"
    save_file(load_file(path) | changes, path)
    with refused(message):
        load_eagle3(tmp_path / "head", target)


def test_another_target_is_refused(target, tmp_path):
    """One of another width, with other heads, or with other rotations."""
    save_eagle3(drawn_layer(target), tmp_path / "head", "owner/name", 3, {})
    for changes in ({"width": 32}, {"kv_heads": 4}, {"rope_theta": 5e5}, {"vocab_size": 65}):
        other = tiny.gpt(
            tiny.config(**{"vocab_size": 64, "layers": 5} | changes), seed=6, dtype=torch.float32
        )
        with refused("made for another target"):
            load_eagle3(tmp_path / "head", other)
