"""Writes what `test_families.py` compares with: configs, logits and greedy texts of small random models.

    PYTHONPATH=tests python tests/io/families/make.py

It needs transformers: run it with 4.57 and with 5. Each writes a folder of its own. Weights are not kept:
they follow from their names.
"""

import json
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
import transformers
from family_weights import family_weight
from safetensors import safe_open
from safetensors.torch import save_file

VERSION = int(transformers.__version__.split(".")[0])
FOLDER = Path(__file__).parent / f"transformers-{VERSION}"
PROMPT = [(7 * i + 3) % 48 for i in range(16)]
NEW_TOKENS = 24
CLEAR = 0.002  # by so much, at least, the first token is ahead of the second
SIZES = {
    "vocab_size": 48,
    "hidden_size": 32,
    "intermediate_size": 40,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 512,
    "rms_norm_eps": 1e-3,
    "tie_word_embeddings": False,
    "bos_token_id": None,
    "eos_token_id": None,
    "pad_token_id": None,
}
LLAMA3 = {"rope_type": "llama3", "low_freq_factor": 1.0, "high_freq_factor": 4.0}
SHORT = {**LLAMA3, "factor": 8.0, "original_max_position_embeddings": 64}
LONG = {**LLAMA3, "factor": 32.0, "original_max_position_embeddings": 8192}
TIED = {"tie_word_embeddings": True}
# By name: the class, theta, how it is scaled, what differs from `SIZES`, and in how many files it is about.
SHAPES = {
    "llama-2": ("Llama", 1e4, {}, {"num_key_value_heads": 4, "rms_norm_eps": 1e-5}, 1),
    "llama-2-sharded": ("Llama", 1e4, {}, {"num_hidden_layers": 3}, 3),
    "llama-3": ("Llama", 5e5, SHORT, {"max_position_embeddings": 1024}, 1),
    "llama-3.2": ("Llama", 5e5, LONG, {"max_position_embeddings": 131_072, "head_dim": 16, **TIED}, 1),
    "smollm2": (
        "Llama",
        1e5,
        {},
        {"hidden_size": 36, "num_attention_heads": 9, "num_key_value_heads": 3, **TIED},
        1,
    ),
    "mistral": ("Mistral", 1e6, {}, {"sliding_window": None, "head_dim": 12}, 1),
    "mistral-one-key-head": ("Mistral", 1e4, {}, {"sliding_window": None, "num_key_value_heads": 1}, 2),
    "qwen2": ("Qwen2", 1e6, {}, {"max_position_embeddings": 32_768, **TIED}, 1),
    "qwen2.5": ("Qwen2", 1e6, {}, {"num_key_value_heads": 4, "sliding_window": 8, "max_window_layers": 1}, 2),
    "qwen2-scaled": ("Qwen2", 1e4, SHORT, {"intermediate_size": 44}, 1),
    "qwen3": ("Qwen3", 1e6, {}, {"max_position_embeddings": 40_960, "head_dim": 16, **TIED}, 1),
    "qwen3-sharded": ("Qwen3", 1e6, {}, {"head_dim": 8, "num_key_value_heads": 1}, 3),
    "qwen3-scaled": ("Qwen3", 1e4, SHORT, {"head_dim": 20, "num_key_value_heads": 4}, 1),
}


def rotary(theta, scaling):
    """Returns how a config of this version is told of rotary positions."""
    if VERSION >= 5:
        return {"rope_parameters": {"rope_type": "default", **scaling, "rope_theta": theta}}
    return {"rope_theta": theta, "rope_scaling": scaling or None}


def model_of(kind, config):
    """Returns a model whose weights follow from their names."""
    model = getattr(transformers, f"{kind}ForCausalLM")(config).float().eval().requires_grad_(False)
    for name, weight in model.named_parameters():
        weight.copy_(family_weight(name, weight.shape))
    return model


def files_of(model, count):
    """Saves a model; returns its config as written, and the shape of each weight of each file."""
    size = sum(weight.nbytes for weight in model.parameters())
    with TemporaryDirectory() as folder:
        model.save_pretrained(folder, max_shard_size=f"{size // count // 1000 + 1}KB" if count > 1 else "1GB")
        files = {}
        for path in sorted(Path(folder).glob("*.safetensors")):
            with safe_open(path, "pt") as file:
                files[path.name] = {name: file.get_slice(name).get_shape() for name in file.keys()}
        assert (len(files) > 1) == (count > 1)
        return json.loads((Path(folder) / "config.json").read_text()), files


def main():
    """Writes a file for each shape, and one with all logits."""
    FOLDER.mkdir(exist_ok=True)
    logits = {}
    for shape, (kind, theta, scaling, changes, count) in SHAPES.items():
        config = getattr(transformers, f"{kind}Config")(**{**SIZES, **changes}, **rotary(theta, scaling))
        model = model_of(kind, config)
        prompt = torch.tensor([PROMPT])
        text = model.generate(
            prompt,
            attention_mask=torch.ones_like(prompt),
            max_new_tokens=NEW_TOKENS,
            do_sample=False,
            pad_token_id=0,
        )
        logits[shape] = model(text[:, :-1]).logits[0]
        best = logits[shape][len(PROMPT) - 1 :].topk(2).values
        assert float((best[:, 0] - best[:, 1]).min()) > CLEAR, f"{shape}: two tokens are nearly equal"
        config, files = files_of(model, count)
        document = {"config": config, "files": files, "text": text[0].tolist()}
        (FOLDER / f"{shape}.json").write_text(json.dumps(document) + "\n", encoding="utf-8", newline="\n")
    save_file(logits, FOLDER / "logits.safetensors")
    print(transformers.__version__, len(logits))


if __name__ == "__main__":
    sys.exit(main())
