"""Llama: the words and files of Hugging Face's `LlamaForCausalLM`, of transformers 4 and 5.

Our model is a plain Llama: no biases, SiLU, rotary positions that nothing stretches. What says more is
refused. Nothing is ever unpickled.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from minispec.core.model import GPTConfig
from minispec.io.files import read_json, shown

WEIGHTS = "model.safetensors"
INDEX = "model.safetensors.index.json"  # where weights are in several files: which one has which
MOST_FILES = 1000
TYPES = (torch.float16, torch.bfloat16, torch.float32, torch.float64)  # of weights that stand for themselves
# What a checkpoint may say only if it says this: our model has nothing else.
REQUIRED = {"hidden_act": "silu", "attention_bias": False, "mlp_bias": False}
# Where transformers 4 and 5 describe how positions are turned.
ROTARY = ("rope_scaling", "rope_parameters")
# Fields of Hugging Face's config: their name in ours, their type, and the largest value that is read.
FIELDS: dict[str, tuple[str, type, float]] = {
    "vocab_size": ("vocab_size", int, 2**20),
    "num_hidden_layers": ("layers", int, 200),
    "hidden_size": ("width", int, 2**20),
    "num_attention_heads": ("heads", int, 2**20),
    "num_key_value_heads": ("kv_heads", int, 2**20),
    "intermediate_size": ("ffn", int, 2**20),
    "max_position_embeddings": ("max_length", int, 2**14),  # a cache's mask has its square: 1 GiB
    "tie_word_embeddings": ("tied", bool, True),
    "rope_theta": ("rope_theta", float, 1e9),
    "rms_norm_eps": ("norm_eps", float, 1.0),
}
MOST_HEAD_DIM = 2**14


def config_to_json(config: GPTConfig, dtype: torch.dtype) -> dict[str, Any]:
    """Returns a config in Hugging Face's words."""
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_act": "silu",
        "attention_bias": False,
        "mlp_bias": False,
        "head_dim": config.head_dim,
        "torch_dtype": str(dtype).removeprefix("torch."),
        **{name: getattr(config, field) for name, (field, _, _) in FIELDS.items()},
    }


def config_from_json(data: Mapping[str, Any], folder: Path) -> GPTConfig:
    """Reads Hugging Face's words; ValueError if it is no plain Llama, or a size is missing or impossible."""
    path = folder / "config.json"
    if data.get("model_type") != "llama":
        raise ValueError(f"{path} describes {shown(data.get('model_type'))}; minispec reads 'llama'")
    for name, value in REQUIRED.items():
        if data.get(name, value) != value:
            raise ValueError(f"{path} has {name} {shown(data[name])}; minispec reads {value!r} only")
    data = with_theta(data, path)
    for name, (_, kind, most) in FIELDS.items():
        if name not in data:
            raise ValueError(f"{path} lacks {name}")
        check_field(path, name, data[name], kind, most)
    size = data.get("head_dim")
    if size is not None:
        check_field(path, "head_dim", size, int, MOST_HEAD_DIM)
        if size * data["num_attention_heads"] == data["hidden_size"]:
            size = None  # as it would be if nothing were said
    try:
        sizes = {field: kind(data[name]) for name, (field, kind, _) in FIELDS.items()}
        return GPTConfig(**sizes, head_size=size)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error


def with_theta(data: Mapping[str, Any], path: Path) -> dict[str, Any]:
    """Returns a config's fields, with the base of the rotary frequencies where transformers 4 has it.

    transformers 5 keeps it in `rope_parameters`. Raises ValueError if positions are turned in another way.
    """
    fields = dict(data)
    for name in ROTARY:
        scaling = fields.pop(name, None)
        if scaling is None:
            continue
        supported = {"rope_type": "default", "type": "default", "partial_rotary_factor": 1, "rope_theta": ...}
        if not isinstance(scaling, dict) or any(
            supported.get(key) not in (value, ...) for key, value in scaling.items()
        ):
            plain = {"rope_type": "default"}
            raise ValueError(f"{path} has {name} {shown(scaling)}; minispec reads None or {plain} only")
        if "rope_theta" in scaling:
            fields["rope_theta"] = scaling["rope_theta"]
    return fields


def check_field(path: Path, name: str, value: Any, kind: type, most: float) -> None:
    """Raises ValueError if a value is not of a type, or out of bounds; an integer may stand for a number."""
    kinds = (int, float) if kind is float else (kind,)
    if type(value) not in kinds or not (kind is bool or 0 < value <= most):
        type_names = {bool: "true or false", int: "an integer", float: "a number"}
        bounds = "" if kind is bool else f" above 0 and at most {most:,}"
        raise ValueError(f"{path} has {name} {shown(value)}; it should be {type_names[kind]}{bounds}")


def stored_weights(folder: Path, tied: bool) -> dict[str, Tensor]:
    """Reads a checkpoint's weights, from one file or from those that its index names.

    Returns weights [out, in] by our names, as they are stored; raises ValueError if a file cannot be read.
    """
    stored: dict[str, Tensor] = {}
    for path in weight_files(folder):
        try:
            if path.exists() and not path.is_file():
                raise OSError("it is no file")
            tensors = load_file(path)
            if repeated := sorted(stored.keys() & tensors.keys()):
                name = shown(repeated[0])
                raise ValueError(f"{name} stands in another file, too, and only one can be right")
            check_types(tensors)
            stored |= tensors
        except (OSError, SafetensorError, ValueError) as error:
            raise ValueError(f"{path} cannot be read as safetensors: {error}") from error
    weights: dict[str, Tensor] = {}
    for name, weight in stored.items():
        if name.endswith("rotary_emb.inv_freq"):
            continue  # old checkpoints store the rotary frequencies, which follow from the config
        short = name.removeprefix("model.")
        if short in weights:
            raise ValueError(f"{folder}: {short} is stored twice, with and without model. before its name")
        weights[short] = weight
    if tied and "embed_tokens.weight" in weights:
        weights.setdefault("lm_head.weight", weights["embed_tokens.weight"])
    return weights


def check_types(weights: Mapping[str, Tensor]) -> None:
    """Raises ValueError if a weight, [...], is of a type that needs scales to be read: integers, 8 bits."""
    for name, weight in weights.items():
        if weight.dtype not in TYPES:
            supported = ", ".join(map(str, TYPES))
            raise ValueError(f"{shown(name)} has type {weight.dtype}; minispec reads {supported}")


def weight_files(folder: Path) -> list[Path]:
    """Returns the files of a checkpoint's weights; ValueError if its index names none of this folder."""
    if (folder / WEIGHTS).exists() or not (folder / INDEX).exists():
        return [folder / WEIGHTS]
    weight_map = read_json(folder / INDEX).get("weight_map")
    names = sorted({str(name) for name in weight_map.values()}) if isinstance(weight_map, dict) else []
    plain = all(Path(name).name == name and name.endswith(".safetensors") for name in names)
    if not 0 < len(names) <= MOST_FILES or not plain:
        raise ValueError(
            f"{folder / INDEX}: weight_map should name files of this folder that end in .safetensors, "
            f"{MOST_FILES:,} at most"
        )
    return [folder / name for name in names]
