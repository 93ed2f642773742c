"""Families of models: logits and greedy texts are those of transformers 4 and 5; other models are refused.

`families/make.py` has saved them.
"""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from family_weights import family_weight
from native_models import needs_compiler
from pairs import edit_json
from refusals import refused
from safetensors.torch import load_file, save_file
from tiny import GREEDY
from torch import nn

from minispec.core.loop import generate
from minispec.core.model import GPT
from minispec.core.rng import SeededRng
from minispec.io.checkpoint import save_model
from minispec.io.files import read_json, write_json
from minispec.io.llama import config_from_json, config_to_json
from minispec.io.source import load_model
from minispec.native.model import NativeGPT

SAVED = Path(__file__).parent / "families"
VERSIONS = ("transformers-4", "transformers-5")
SHAPES = sorted(path.stem for path in (SAVED / VERSIONS[0]).glob("*.json"))
PROMPT = 16  # tokens
CLOSE = 1e-4
CLEAR = 100 * CLOSE


def write_checkpoint(folder, shape, version="transformers-5", **changes):
    """Writes a checkpoint as a version of transformers did, some fields changed; returns what is saved."""
    saved = read_json(SAVED / version / f"{shape}.json")
    for file, shapes in saved["files"].items():
        save_file({name: family_weight(name, size) for name, size in shapes.items()}, folder / file)
    if len(saved["files"]) > 1:
        places = {name: file for file, shapes in saved["files"].items() for name in shapes}
        write_json(folder / "model.safetensors.index.json", {"metadata": {}, "weight_map": places})
    write_json(folder / "config.json", saved["config"])
    edit_json(folder / "config.json", **changes)
    return saved


def saved_logits(shape, version="transformers-5"):
    """The logits [n, V] that transformers computed."""
    return load_file(SAVED / version / "logits.safetensors")[shape]


@torch.inference_mode()
def logits_of(model, text):
    """Logits [n, V] of a text, at once."""
    return model(torch.tensor([text[:-1]]))[0]


@needs_compiler
@torch.inference_mode()
@pytest.mark.parametrize("version", [VERSIONS[1], pytest.param(VERSIONS[0], marks=pytest.mark.evidence)])
@pytest.mark.parametrize("shape", SHAPES)
def test_logits_and_greedy_texts_are_those_of_transformers(shape, version, tmp_path):
    """At once, through a cache in pieces, and token after token, on both backends."""
    saved = write_checkpoint(tmp_path, shape, version)
    text = saved["text"]
    wanted = saved_logits(shape, version)
    model = load_model(tmp_path)
    for side in (model, NativeGPT(model), NativeGPT(model, threads=2)):
        torch.testing.assert_close(logits_of(side, text), wanted, rtol=0, atol=CLOSE)
        cache = side.new_cache(1)
        pieces = [side(piece, cache) for piece in torch.tensor([text[:-1]]).split([5, 1, 20, 13], 1)]
        torch.testing.assert_close(torch.cat(pieces, 1)[0], wanted, rtol=0, atol=CLOSE)
        found = generate(
            side, [text[:PROMPT]], max_new_tokens=len(text) - PROMPT, warp=GREEDY["warp"], rng=SeededRng(0)
        )
        assert [token for (token,) in found] == text[PROMPT:]


def test_there_is_enough_to_compare():
    """At least 12 shapes, the same of both versions, of every family; together they are small."""
    assert len(SHAPES) >= 12 and {path.stem for path in (SAVED / VERSIONS[1]).glob("*.json")} == {*SHAPES}
    kinds = {read_json(SAVED / VERSIONS[0] / f"{shape}.json")["config"]["model_type"] for shape in SHAPES}
    assert kinds == {"llama", "mistral", "qwen2", "qwen3"}
    assert sum(path.stat().st_size for path in SAVED.rglob("*") if path.is_file()) < 600_000


def without(model, feature):
    """Returns a model that lacks a feature, with the same weights."""
    config = model.config
    changes = {
        "theta": {"rope_theta": 10_000.0},
        "scaling": {"rope_scaling": None},
        "epsilon": {"norm_eps": 1e-6},
    }
    other = GPT(replace(config, **changes.get(feature, {}))).eval()
    other.load_state_dict(model.state_dict())
    for layer in other.layers:
        attention = layer.self_attn
        if feature.endswith("bias"):
            attention.get_submodule(feature.replace("bias", "proj")).bias.data.zero_()
        if feature.endswith("_norm"):
            setattr(attention, feature, nn.Identity())
    if feature == "tie":
        other.lm_head.weight = nn.Parameter(family_weight("lm_head.weight", other.lm_head.weight.shape))
    return other


def features(config):
    """The features by which a config differs from a plain one."""
    has = {
        "theta": config.rope_theta != 10_000,
        "scaling": config.rope_scaling is not None,
        "epsilon": config.norm_eps != 1e-6,
        "tie": config.tied,
        **dict.fromkeys(("q_bias", "k_bias", "v_bias"), config.qkv_bias),
        **dict.fromkeys(("q_norm", "k_norm"), config.qk_norm),
    }
    return [feature for feature, is_there in has.items() if is_there]


def test_every_feature_counts(tmp_path):
    """Switched off, each shifts logits by far more than they may differ: else equal ones prove nothing."""
    seen = set()
    for shape in SHAPES:
        (tmp_path / shape).mkdir()
        saved = write_checkpoint(tmp_path / shape, shape)
        model = load_model(tmp_path / shape)
        for feature in features(model.config):
            seen.add(feature)
            shift = (logits_of(without(model, feature), saved["text"]) - saved_logits(shape)).abs().max()
            assert float(shift) > CLEAR, (shape, feature, float(shift))
    assert len(seen) == 9


@pytest.mark.parametrize("shape", ["llama-3.2", "mistral", "qwen3", "qwen3-scaled"])
def test_the_size_of_heads_counts(shape, tmp_path):
    """Left out, it is the family's, 128 for Qwen 3, else width / heads; that does not fit these weights."""
    write_checkpoint(tmp_path, shape, head_dim=...)
    with refused("does not fit its config.json: .*_proj.weight is", tmp_path):
        load_model(tmp_path)


@pytest.mark.parametrize("shape", SHAPES)
def test_a_family_is_written_as_itself(shape, tmp_path):
    """What was read and saved is read again: the same config and logits, and the names of its weights."""
    (tmp_path / "theirs").mkdir()
    saved = write_checkpoint(tmp_path / "theirs", shape)
    model = load_model(tmp_path / "theirs")
    save_model(model, tmp_path, torch.float32)
    again = load_model(tmp_path)
    assert again.config == model.config
    torch.testing.assert_close(logits_of(again, saved["text"]), saved_logits(shape), rtol=0, atol=CLOSE)
    assert load_file(tmp_path / "model.safetensors").keys() == {
        name for shapes in saved["files"].values() for name in shapes
    }
    kind, architecture = (
        read_json(tmp_path / "config.json")["model_type"],
        saved["config"]["architectures"],
    )
    if kind != "llama":
        assert kind == saved["config"]["model_type"]
        assert architecture == read_json(tmp_path / "config.json")["architectures"]


def test_a_model_that_is_of_no_family_cannot_be_written(tmp_path):
    """With biases and norms, too."""
    write_checkpoint(tmp_path, "qwen2")
    both = replace(load_model(tmp_path).config, qk_norm=True)
    with refused("no family of models has biases"):
        config_to_json(both, torch.float32)


MISSING = {  # what is left out, and what that means
    "llama-2": ({"num_key_value_heads": ..., "head_dim": ...}, {"kv_heads": 4, "head_size": None}),
    "llama-2-sharded": (
        {"tie_word_embeddings": ..., "rms_norm_eps": ..., "rope_scaling": ..., "rope_theta": ...},
        {"tied": False, "norm_eps": 1e-6, "rope_theta": 1e4},
    ),
    "mistral": ({"num_key_value_heads": None, "head_dim": None}, {"kv_heads": 4, "head_size": None}),
    "qwen2": ({"use_sliding_window": ..., "layer_types": ...}, {"qkv_bias": True}),
    "qwen3": ({"head_dim": ...}, {"head_size": 128}),
    "qwen3-sharded": ({"head_dim": None}, {"head_size": None}),
}


@pytest.mark.parametrize("shape", MISSING)
def test_what_is_missing_is_as_in_transformers(shape):
    """The number of key heads, and their size; no tie; theta and epsilon. Null is what nobody has set."""
    changes, wanted = MISSING[shape]
    data = read_json(SAVED / VERSIONS[0] / f"{shape}.json")["config"] | changes
    data = {name: value for name, value in data.items() if value is not ...}
    config = config_from_json(data, Path())
    assert {name: getattr(config, name) for name in wanted} == wanted


FULL = "full_attention"
SLIDES = [FULL, "sliding_attention"]
REFUSED = [  # a shape, a field of its config, and values that no model of ours computes with
    ("llama-2", "model_type", ("gemma3_text", "qwen3_moe", ["llama"], ...)),
    ("llama-2", "attention_bias", (True,)),
    ("qwen3", "attention_bias", (True,)),
    ("llama-2", "mlp_bias", (True,)),
    ("qwen2", "hidden_act", ("gelu",)),
    ("llama-2", "sliding_window", (4096,)),
    ("mistral", "sliding_window", (4096, ..., 0)),  # transformers takes what is missing for 4,096
    ("qwen2.5", "use_sliding_window", (True,)),
    ("qwen3", "layer_types", (SLIDES, FULL, [FULL])),
    ("llama-2", "partial_rotary_factor", (0.5,)),
    ("llama-2", "quantization_config", ({"bits": 4},)),
    ("llama-2", "logits_scaling", (8.0,)),
    ("llama-2", "final_logit_softcapping", (30.0,)),
    ("llama-2", "num_local_experts", (8,)),
    ("llama-2", "rope_scaling", ({"type": "linear", "factor": 2.0}, "llama3")),
    ("llama-3", "rope_parameters", ([1], "default", {FULL: {"rope_type": "default"}})),
    ("llama-3", "num_attention_heads", (...,)),
    ("llama-3", "num_key_value_heads", ([2],)),
]
SCALING = {  # of the scaling of llama-3: the field that the line names, and its values
    "rope_parameters": ({"rope_type": "yarn"}, {"rope_type": []}, {"rope_type": "default"}),
    "rope_type": ({"type": "dynamic"}, {"attention_factor": 2.0}, {"partial_rotary_factor": 0.5}),
    "factor": [{"factor": value} for value in (0, float("nan"), "8", 10**400)],
    "low_freq_factor": ({"low_freq_factor": None}, {"low_freq_factor": -1.0}, {"high_freq_factor": 1.0}),
    "high_freq_factor": ({"high_freq_factor": True},),
    "original_max_position_embeddings": ({"original_max_position_embeddings": 64.0},),
    "rope_theta": ({"rope_theta": "big"}, {"rope_theta": 0.5}),
}


def is_refused(folder, name):
    """Asserts that a checkpoint is refused in one line that names its folder once, and a field."""
    with refused("describes" if name == "model_type" else name, folder) as caught:
        load_model(folder)
    assert str(caught.value).count(str(folder)) == 1


@pytest.mark.parametrize(("shape", "name", "values"), REFUSED, ids=range(len(REFUSED)))
def test_what_is_computed_in_another_way_is_refused(shape, name, values, tmp_path):
    for value in values:
        write_checkpoint(tmp_path, shape, **{name: value})
        is_refused(tmp_path, name)


def test_other_or_hostile_scaling_is_refused(tmp_path):
    rotary = read_json(SAVED / "transformers-5" / "llama-3.json")["config"]["rope_parameters"]
    for name, every in SCALING.items():
        for changes in every:
            write_checkpoint(tmp_path, "llama-3", rope_parameters=rotary | changes)
            is_refused(tmp_path, name)


@pytest.mark.parametrize(
    "changes",
    [
        {
            "partial_rotary_factor": 1.0,
            "quantization_config": None,
            "sliding_window": None,
            "logits_scaling": 1.0,
        },
        {"rope_parameters": {"rope_type": "default", "type": "default", "partial_rotary_factor": 1.0}},
        {"rope_parameters": {}, "rope_scaling": None, "rope_theta": 10_000},
        {"rope_parameters": ..., "rope_theta": ...},
        {"layer_types": [FULL, FULL], "max_window_layers": 2, "attention_bias": None},
    ],
)
def test_what_changes_nothing_is_read(changes, tmp_path):
    """Fields that say what is so anyway."""
    saved = write_checkpoint(tmp_path, "llama-2", **changes)
    found = logits_of(load_model(tmp_path), saved["text"])
    torch.testing.assert_close(found, saved_logits("llama-2"), rtol=0, atol=CLOSE)
