"""EAGLE-3 drafters as the library speculators keeps them, and engines read them: a folder.

`config.json` has the sizes of the layer, the taps and the target's name; `model.safetensors` the weights, and
in its header how they were trained. The target's embedding is not stored: who drafts has the target.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open

from minispec.core.model import GPT
from minispec.drafters.eagle3 import Eagle3Layer
from minispec.io.checkpoint import describe_mismatch
from minispec.io.files import (
    check_regular,
    format_value,
    read_json,
    read_table,
    replace_folder,
    write_json,
    write_tensors,
)
from minispec.io.llama import WEIGHTS, check_field, check_types, config_from_json, config_to_json

CONFIG = "config.json"
KIND = "speculators_model_type"
TABLES = read_table(__file__, "speculators.toml")
REQUIRED = TABLES["required"]
TAPS = "eagle_aux_hidden_state_layer_ids"
NORMED = "norm_before_residual"
KNOWN = "draft_vocab_size"
UNUSED = "embed_tokens.weight"  # who drafts has the target's
IDS = ("d2t", "t2d")  # how far each id is from its place; which of the target's are known
KEPT = torch.bfloat16


def usual_taps(layers: int) -> tuple[int, ...]:
    """Returns after how many of a target's layers engines tap it: early, in the middle, and late."""
    return tuple(sorted({min(2, layers), max(layers // 2, 1), max(layers - 3, 1)}))


def holds_eagle3(folder: Path) -> bool:
    """Whether a folder is a drafter's, which another may replace."""
    try:
        return read_json(folder / CONFIG).get(KIND) == REQUIRED[KIND]
    except ValueError:
        return False


def save_eagle3(layer: Eagle3Layer, folder: Path, target: str, k: int, info: Mapping[str, Any]) -> None:
    """Writes a drafter as a whole, or nothing; ValueError if that cannot be written.

    Args:
        layer: what was trained.
        folder: where to.
        target: its name on a hub, or its folder.
        k: how many tokens it is meant to draft.
        info: how it was trained, and `target_sha256`.
    """
    config = {
        "architectures": ["Eagle3Speculator"],
        **REQUIRED,
        "transformer_layer_config": config_to_json(layer.config, KEPT),
        KNOWN: len(layer.ids),
        NORMED: layer.adds_to_normed,
        TAPS: [*layer.taps],
        "speculators_config": {
            **TABLES["speculators_config"],
            "proposal_methods": [TABLES["method"] | {"speculative_tokens": k}],
            "verifier": {"name_or_path": target, "architectures": ["LlamaForCausalLM"]},
        },
    }
    known = torch.zeros(layer.config.vocab_size, dtype=torch.bool)
    known[layer.ids] = True
    weights = {name: weight.to(KEPT) for name, weight in layer.state_dict().items()}
    weights |= {"d2t": layer.ids - torch.arange(len(layer.ids)), "t2d": known}
    with replace_folder(folder, holds_eagle3) as temporary:
        write_json(temporary / CONFIG, config)
        write_tensors(temporary / WEIGHTS, weights, {"minispec": json.dumps(info)})


def load_eagle3(folder: Path, target: GPT) -> tuple[Eagle3Layer, dict[str, Any]]:
    """Loads a drafter for a target, of its type and on its device; and how it was trained, if that is known.

    Raises:
        ValueError: if it is damaged, was made for another target, or is of a kind that is not read here.
    """
    path = folder / CONFIG
    data = read_json(path)
    for name, value in REQUIRED.items():
        if data.get(name, value) != value:
            raise ValueError(f"{path} has {name} {format_value(data[name])}; minispec reads {value} only")
    sizes = data.get("transformer_layer_config")
    if not isinstance(sizes, dict):
        raise ValueError(f"{path} lacks transformer_layer_config")
    config = config_from_json(sizes, path)
    own = replace(target.config, layers=1, ffn=config.ffn, tied=False, qkv_bias=False, qk_norm=False)
    if replace(config, max_length=own.max_length, norm_eps=own.norm_eps, tied=False) != own:
        raise ValueError(
            f"{path} was made for another target: its layer has other sizes, or rotates otherwise"
        )
    taps = read_taps(data, path, target.config.layers)
    normed = data.get(NORMED, False)
    check_field(path, NORMED, normed, "true or false", 1)
    weights, info = read_weights(folder / WEIGHTS)
    ids = read_ids(weights, folder / WEIGHTS, target.vocab_size)
    if data.get(KNOWN, len(ids)) != len(ids):
        raise ValueError(f"{path} has {KNOWN} {format_value(data[KNOWN])}; its weights are for {len(ids)}")
    with torch.device("meta"):
        layer = Eagle3Layer(replace(own, norm_eps=config.norm_eps), taps, ids, normed)
    if mismatch := describe_mismatch(layer, weights):
        raise ValueError(f"{folder} was made for another target: {mismatch}")
    layer.load_state_dict(weights, assign=True)
    return layer.to(target.device, target.dtype).requires_grad_(False).eval(), info


def read_taps(data: Mapping[str, Any], path: Path, layers: int) -> Sequence[int]:
    """Returns after which of a target's layers a drafter reads; ValueError if it has none such."""
    listed = data.get(TAPS)
    if listed is None:
        return usual_taps(layers)
    taps = [tap for tap in range(1, layers + 1) if isinstance(listed, list) and tap in listed]
    if not taps or taps != listed:
        raise ValueError(
            f"{path} taps after layers {format_value(listed)}; they should ascend, from 1 to {layers} at most"
        )
    return taps


def read_weights(path: Path) -> tuple[dict[str, torch.Tensor], dict[str, Any]]:
    """Returns weights [...] of a file, and how they were trained; ValueError if it cannot be read."""
    try:
        check_regular(path)
        with safe_open(path, framework="pt") as file:
            info = json.loads((file.metadata() or {}).get("minispec", "{}"))
            weights = {name: file.get_tensor(name) for name in file.keys() if name != UNUSED}  # noqa: SIM118
        check_types({name: weight for name, weight in weights.items() if name not in IDS})
        return weights, dict(info)
    except (OSError, SafetensorError, ValueError, TypeError, RecursionError) as error:
        raise ValueError(f"{path} cannot be read as a drafter: {error}") from error


def read_ids(weights: dict[str, torch.Tensor], path: Path, vocab_size: int) -> torch.Tensor:
    """Takes out of weights which of a target's ids a drafter knows: [ids]; all, if no weights list them.

    ValueError if they are none.
    """
    offsets, known = (weights.pop(name, None) for name in IDS)
    if offsets is None:
        offsets = torch.zeros(vocab_size, dtype=torch.long)
    if offsets.dim() != 1 or offsets.dtype not in (torch.int64, torch.int32):
        raise ValueError(f"{path}: d2t should be a row of integers")
    ids = offsets + torch.arange(len(offsets))
    if not len(ids) or int(ids[0]) < 0 or int(ids[-1]) >= vocab_size or bool((ids.diff() <= 0).any()):
        raise ValueError(
            f"{path}: d2t should lead to ascending ids of the target, from 0 to {vocab_size - 1}"
        )
    if known is not None and known.nonzero().flatten().tolist() != ids.tolist():
        raise ValueError(f"{path}: d2t and t2d speak of different ids")
    return ids
