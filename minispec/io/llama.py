"""Llama and its relatives: the words and files of Hugging Face's models, of transformers 4 and 5.

Llama 2 and 3, SmolLM2, Mistral, Qwen 2, 2.5 and 3 differ in few things: see `llama.toml`. What a config says
that our model does not compute is refused. Nothing is ever unpickled.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from minispec.core.model import GPTConfig, RopeScaling
from minispec.io.files import format_value, read_json, read_table

WEIGHTS = "model.safetensors"
INDEX = "model.safetensors.index.json"  # where weights are in several files: which one has which
MAX_FILES = 1000
# The types of weights that need no scales to be read.
FLOAT_TYPES = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
# The fields in which transformers 4 and 5 describe rotary positions.
ROTARY = ("rope_scaling", "rope_parameters")
TABLES = read_table(__file__, "llama.toml")
Fields = Mapping[str, tuple[str, str, float]]
FAMILIES: Mapping[str, Mapping[str, Any]] = TABLES["families"]
FIELDS: Fields = TABLES["fields"]
SCALING: Fields = TABLES["scaling"]
# What a value may be; the last type is the one that it has in `GPTConfig`.
TYPES = {"true or false": (bool,), "an integer": (int,), "a number": (int, float)}
MAX_HEAD_DIM = 2**14


def config_to_json(config: GPTConfig, dtype: torch.dtype) -> dict[str, Any]:
    """Returns a config as the fields of Hugging Face's `config.json`; ValueError if no family is like it."""
    parts = {"qkv_bias": config.qkv_bias, "qk_norm": config.qk_norm}
    families = [name for name, family in FAMILIES.items() if family["parts"] == parts]
    if not families:
        raise ValueError("no family of models has biases of queries and keys and norms of them, too")
    scaling = config.rope_scaling
    described = {name: getattr(scaling, field) for name, (field, _, _) in SCALING.items() if scaling}
    return {
        "architectures": [FAMILIES[families[0]]["architecture"]],
        "model_type": families[0],
        **TABLES["required"],
        "head_dim": config.head_dim,
        "torch_dtype": str(dtype).removeprefix("torch."),
        **{name: getattr(config, config_field) for name, (config_field, _, _) in FIELDS.items()},
        **({"rope_scaling": {"rope_type": "llama3", **described}} if described else {}),
    }


def config_from_json(data: Mapping[str, Any], path: Path) -> GPTConfig:
    """Reads the fields of `config.json`; ValueError if it says what our model is not, or cannot be."""
    name = data.get("model_type")
    if name not in list(FAMILIES):
        raise ValueError(f"{path} describes {format_value(name)}; minispec reads {', '.join(FAMILIES)}")
    family = FAMILIES[name]
    data = {
        name: value
        for name, value in {**TABLES["missing"], **family["missing"], **data}.items()
        if value is not None and name not in family["ignored"]
    }
    data.setdefault("num_key_value_heads", data.get("num_attention_heads"))
    rotary = read_rotary(data, path)
    sizes = read_fields(FIELDS, data | rotary, path)
    supported = TABLES["required"] | TABLES["unsupported"] | dict.fromkeys(TABLES["absent"])
    supported["layer_types"] = ["full_attention"] * sizes["layers"]
    for name, value in supported.items():
        if data.get(name, value) != value:
            raise ValueError(
                f"{path} has {name} {format_value(data[name])}; minispec reads {format_value(value)} only"
            )
    scales = read_fields(SCALING, rotary, path) if "factor" in rotary else None
    head_size = data.get("head_dim")
    if head_size is not None:
        check_field(path, "head_dim", head_size, "an integer", MAX_HEAD_DIM)
        if head_size * sizes["heads"] == sizes["width"]:
            head_size = None  # as it would be if nothing were said
    try:
        scaling = RopeScaling(**scales) if scales else None
        return GPTConfig(**sizes, **family["parts"], head_size=head_size, rope_scaling=scaling)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error


def read_rotary(data: Mapping[str, Any], path: Path) -> dict[str, Any]:
    """Returns what a config says of rotary positions: `rope_theta`, and how they are scaled, if they are.

    transformers 4 keeps the former elsewhere. Raises ValueError if positions are rotated in another way.
    """
    name = next((name for name in ROTARY if name in data), "")
    rotary = data.get(name, {})
    if isinstance(rotary, dict):
        kind = rotary.get("rope_type", rotary.get("type", "default"))
        plain = {"rope_type": kind, "type": kind, "partial_rotary_factor": 1}
        fields = {key: value for key, value in rotary.items() if plain.get(key) != value}
        if (kind, fields.keys() - {"rope_theta"}) in (("default", set()), ("llama3", set(SCALING))):
            return fields
    raise ValueError(
        f"{path} has {name} {format_value(rotary)}; minispec reads rope_type 'default', or 'llama3' with "
        f"{', '.join(SCALING)}"
    )


def read_fields(table: Fields, data: Mapping[str, Any], path: Path) -> dict[str, Any]:
    """Returns fields by our names for them; ValueError if one is missing or out of bounds."""
    fields = {}
    for name, (field, kind, maximum) in table.items():
        if name not in data:
            raise ValueError(f"{path} lacks {name}")
        check_field(path, name, data[name], kind, maximum)
        fields[field] = TYPES[kind][-1](data[name])
    return fields


def check_field(path: Path, name: str, value: Any, kind: str, maximum: float) -> None:
    """Raises ValueError if a value is not of a kind, or out of bounds; an integer may stand for a number."""
    is_flag = kind == "true or false"
    if type(value) not in TYPES[kind] or not (is_flag or 0 < value <= maximum):
        bounds = "" if is_flag else f" above 0 and at most {maximum:,}"
        raise ValueError(f"{path} has {name} {format_value(value)}; it should be {kind}{bounds}")


def stored_weights(folder: Path, tied: bool) -> dict[str, Tensor]:
    """Reads a checkpoint's weights, from one file or from those that its index names.

    Returns weights [out, in] by our names, as they are stored; raises ValueError if a file cannot be read.
    """
    stored: dict[str, Tensor] = {}
    for path in weight_files(folder):
        try:
            if path.exists() and not path.is_file():
                raise OSError("it is no file")
            file_weights = load_file(path)
            if duplicates := sorted(stored.keys() & file_weights.keys()):
                raise ValueError(
                    f"{format_value(duplicates[0])} stands in another file, too, and only one can be right"
                )
            check_types(file_weights)
            stored |= file_weights
        except (OSError, SafetensorError, ValueError) as error:
            raise ValueError(f"{path} cannot be read as safetensors: {error}") from error
    weights: dict[str, Tensor] = {}
    for name, weight in stored.items():
        if name.endswith("rotary_emb.inv_freq"):
            continue  # old checkpoints store the rotary frequencies, which follow from the config
        model_name = name.removeprefix("model.")
        if model_name in weights:
            raise ValueError(
                f"{folder}: {model_name} is stored twice, with and without model. before its name"
            )
        weights[model_name] = weight
    if tied and "embed_tokens.weight" in weights:
        weights.setdefault("lm_head.weight", weights["embed_tokens.weight"])
    return weights


def check_types(weights: Mapping[str, Tensor]) -> None:
    """Raises ValueError if a weight, [...], is of a type that needs scales to be read: integers, 8 bits."""
    for name, weight in weights.items():
        if weight.dtype not in FLOAT_TYPES:
            supported = ", ".join(map(str, FLOAT_TYPES))
            raise ValueError(f"{format_value(name)} has type {weight.dtype}; minispec reads {supported}")


def weight_files(folder: Path) -> list[Path]:
    """Returns the files of a checkpoint's weights; ValueError if its index names none of this folder."""
    if (folder / WEIGHTS).exists():
        return [folder / WEIGHTS]
    if not (folder / INDEX).exists():
        raise ValueError(
            f"{folder} has no {WEIGHTS}; minispec reads safetensors and GGUF, and unpickles nothing"
        )
    weight_map = read_json(folder / INDEX).get("weight_map")
    names = sorted({str(name) for name in weight_map.values()}) if isinstance(weight_map, dict) else []
    are_file_names = all(Path(name).name == name and name.endswith(".safetensors") for name in names)
    if not 0 < len(names) <= MAX_FILES or not are_file_names:
        raise ValueError(
            f"{folder / INDEX}: weight_map should name files of this folder that end in .safetensors, "
            f"{MAX_FILES:,} at most"
        )
    return [folder / name for name in names]
