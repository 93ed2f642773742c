"""Heads on disk: what a target needs to draft for itself, one file each, beside the pair.

`drafters/exit.safetensors` and its like hold the weights, and say in their header what they are, for which
target they were made, and how. Nothing is ever unpickled.
"""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import nn

from minispec.core.model import GPT
from minispec.drafters.eagle import FeatureLayer
from minispec.drafters.eagle3 import Eagle3Layer
from minispec.drafters.exit import Exit
from minispec.drafters.medusa import Medusa
from minispec.drafters.parallel import ParallelLayers
from minispec.io.checkpoint import SHIPPED, Pair, cache_folder, describe_mismatch, tensors_hash
from minispec.io.files import format_path, format_value, readable_folder, write_tensors
from minispec.io.speculators import load_eagle3, read_weights

# Makes the module of a kind for a target, given a number: the exit's layer, how many heads or layers.
MAKERS: dict[str, Callable[[GPT, int], nn.Module]] = {
    "exit": lambda target, layers: Exit(target.config.width, layers, target.config.norm_eps),
    "medusa": lambda target, heads: Medusa(target.config.width, target.vocab_size, heads),
    "eagle": lambda target, layers: FeatureLayer(target.config, layers),
    "eagle-1": lambda target, layers: FeatureLayer(target.config, layers),
    "parallel": lambda target, layers: ParallelLayers(target.config, layers),
}
MAX_NUMBER = 64  # of layers or heads


def heads_folder(pair: Pair) -> Path:
    """Returns where a pair's heads are: beside it, or in the cache for what is shipped or no pair."""
    if pair.heads is not None:
        return pair.heads
    if pair.folder.parent == SHIPPED or "sources" in pair.info:
        return cache_folder() / "drafters" / pair.name
    return pair.folder / "drafters"


def save_heads(module: nn.Module, path: str | Path, info: Mapping[str, Any]) -> None:
    """Writes heads in bfloat16; ValueError if the file cannot be written.

    info: `kind`, `number` (see `MAKERS`), `target_sha256`, and how they were trained.
    """
    weights = {name: weight.to(torch.bfloat16) for name, weight in module.state_dict().items()}
    write_tensors(Path(path), weights, {"minispec": json.dumps(info)})


def load_heads(pair: Pair, kind: str) -> tuple[nn.Module, dict[str, Any]]:
    """Loads the trained module of a drafter of a pair: a kind of `MAKERS`.

    The pair's own file is used, or else the one that came with the package. Returns the module, of the
    target's type and on its device, and what its file says.

    Raises:
        ValueError: if there is none, it is damaged, or it was made for another target.
    """
    if kind == "eagle3":
        return load_eagle3_of(pair)
    name = f"{kind}.safetensors"
    paths = [folder / name for folder in (heads_folder(pair), pair.folder / "drafters")]
    path = next((path for path in paths if path.is_file()), None)
    if path is None:
        advice = f"train it with: minispec train --drafter {kind} --pair {format_value(pair.name)}"
        raise ValueError(f"the pair {pair.name} has no {kind} drafter; {advice}")
    weights, info = read_weights(path)
    found = info.get("kind")
    number = info.get("number")
    if found != kind or type(number) is not int or not 1 <= number <= MAX_NUMBER:
        raise ValueError(
            f"{path} cannot be read as a drafter: it says kind {format_value(found)}, "
            f"number {format_value(number)}"
        )
    module = MAKERS[kind](pair.target, number)
    if mismatch := describe_mismatch(module, weights):
        raise ValueError(f"{path} was made for another target: {mismatch}")
    if info.get("target_sha256") != target_hash(pair):
        raise ValueError(f"{path} was made for another target, of the same sizes; train it again")
    module.load_state_dict(weights)
    return module.to(pair.target.device, pair.target.dtype).requires_grad_(False).eval(), info


def eagle3_folder(pair: Pair) -> Path:
    """Returns where the EAGLE-3 drafter of a pair is."""
    return heads_folder(pair) / "eagle3" if pair.heads is None else pair.heads


def find_eagle3(pair: Pair) -> Eagle3Layer | None:
    """Returns the EAGLE-3 drafter of a pair; None if there is none."""
    return load_eagle3_of(pair)[0] if readable_folder(eagle3_folder(pair)).is_dir() else None


def load_eagle3_of(pair: Pair) -> tuple[Eagle3Layer, dict[str, Any]]:
    """Loads the EAGLE-3 drafter of a pair (see `load_eagle3`); ValueError if there is none for its target."""
    folder = readable_folder(eagle3_folder(pair))
    if not folder.is_dir():
        advice = "train it with: minispec train --drafter eagle3 --for TARGET"
        raise ValueError(f"{format_path(folder)} has no eagle3 drafter; {advice}")
    layer, info = load_eagle3(folder, pair.target)
    if "target_sha256" in info and info["target_sha256"] != target_hash(pair):
        raise ValueError(
            f"{format_path(folder)} was made for another target, of the same sizes; train it again"
        )
    return layer, info


def target_hash(pair: Pair) -> str:
    """Returns the SHA-256 of a pair's target in bfloat16, as its `pair.json` has it."""
    stored_hash = pair.info.get("models", {}).get("target", {}).get("sha256")
    if isinstance(stored_hash, str):
        return stored_hash
    weights = {name: weight.to(torch.bfloat16) for name, weight in pair.target.state_dict().items()}
    return tensors_hash(weights)
