"""Checkpoints: a pair of models in a folder that other tools can read.

`target/`, `draft/` and, where there is one, `draft-plain/` each hold `model.safetensors` and `config.json` in
the layout of Hugging Face's `LlamaForCausalLM`. Next to them lie `tokenizer.json` and `pair.json`, which says
how the pair was made. Nothing is ever unpickled: a file from a stranger can be wrong, but it cannot run.

A pair is written under a temporary name and renamed when it is complete. A crash leaves the old pair, and
where it came just between two renames, `find_pair` reads the old one from where it was put aside.

`pair.json` holds a SHA-256 of each model's weights and config and of the tokenizer. What is loaded is
compared with those that are there; a pair without them, made by hand, is not. They find damage and mix-ups,
no forgery: whoever can change a file can change `pair.json` too.
"""

import hashlib
import json
import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import platformdirs
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from minispec.core.model import GPT
from minispec.io.files import (
    format_value,
    interrupted_names,
    read_json,
    readable_folder,
    write_json,
    write_tensors,
)
from minispec.io.llama import INDEX, WEIGHTS, config_from_json, config_to_json, stored_weights
from minispec.io.tokenizer import Tokenizer, load_tokenizer

SHIPPED = Path(__file__).parent.parent / "pairs"
RESERVED_NAMES = frozenset({"native", "runs", "drafters", "drafts"})  # folders of the cache that are no pairs
# How long the training of a preset takes, on two cores.
TRAINING_MINUTES = {"quick": "1 to 2", "stories": "15 to 40", "english": "5 to 15", "python": "5 to 15"}


@dataclass(frozen=True)
class Pair:
    """A target and a draft that share a tokenizer."""

    target: GPT  #: the model whose distributions the text follows
    draft: GPT  #: the small model that drafts; where there is none, the target
    tokenizer: Tokenizer  #: of both
    folder: Path  #: the folder that they were read from
    info: Mapping[str, Any] = field(default_factory=dict)  #: what `pair.json` says: corpus, losses, …
    #: the type that a backend keeps weights in; int8, native only: matrices have 8 bits; None: as they are
    kept: torch.dtype | None = None
    heads: Path | None = None  #: where its trained drafter lies; None: where drafters of its name do

    @property
    def name(self) -> str:
        """The pair's name: that in `pair.json`, or the folder's."""
        return str(self.info.get("name", self.folder.name))

    @property
    def has_draft(self) -> bool:
        """Whether there is a draft model."""
        return self.draft is not self.target

    @property
    def walkthrough(self) -> str | None:
        """The prompt that the explanations walk through, where the pair has one."""
        return self.info.get("walkthrough")


def cache_folder() -> Path:
    """Returns where trained pairs are kept: `MINISPEC_HOME`, or the system's cache folder."""
    home = os.environ.get("MINISPEC_HOME")
    return Path(home) if home else Path(platformdirs.user_cache_dir("minispec", appauthor=False))


def find_pair(name: str | Path) -> Path:
    """Returns the folder of a pair, given the folder or the pair's name; ValueError if there is none."""
    for folder in (Path(name), cache_folder() / str(name), SHIPPED / str(name)):
        with suppress(OSError, ValueError):  # a name that no file can have
            folder = readable_folder(folder)
            if (folder / "pair.json").is_file():
                return folder
    advice = "Train one with: minispec train"
    if str(name) in TRAINING_MINUTES:
        advice = (
            f"Train it with: minispec train --preset {name} ({TRAINING_MINUTES[str(name)]} min on two cores)"
        )
    names = ", ".join(sorted(known_pairs())) or "none yet"
    raise ValueError(
        f"there is no pair called {format_value(str(name), max_length=200)}; there is {names}. {advice}"
    )


def check_pair_name(folder: Path) -> None:
    """Raises ValueError if a pair in this folder could not be found by its name, or would hide another."""
    resolved = Path(os.path.realpath(folder))
    name = resolved.name
    is_cached = resolved.parent == Path(os.path.realpath(cache_folder()))
    advice = "give the pair another folder with --out"
    if is_cached and (not name.isprintable() or name.startswith(".") or not name.strip()):
        raise ValueError(
            f"{format_value(name)} is no name for a pair: a name can be printed, and begins with no dot"
        )
    if (is_cached or resolved.parent == Path.cwd()) and (SHIPPED / name / "pair.json").is_file():
        raise ValueError(
            f"a pair named {name} comes with the package, and here this one would hide it: {advice}"
        )
    if is_cached and name in RESERVED_NAMES:
        raise ValueError(
            f"{name} is no name for a pair: the cache has other files in a folder of it; {advice}"
        )


def known_pairs() -> set[str]:
    """Returns the names of all pairs that can be loaded without a path."""
    roots = (cache_folder(), SHIPPED)
    names = {entry.parent.name for root in roots for entry in root.glob("*/pair.json")}
    names |= {name for root in roots for name in interrupted_names(root)}
    return {name for name in names if not name.startswith(".")}  # what a crash has left half-written


def load_pair(
    name: str | Path = "stories",
    *,
    device: str | torch.device = "cpu",
    dtype: torch.dtype | None = torch.float32,
    draft: str = "draft",
) -> Pair:
    """Loads a target, a draft and their tokenizer.

    Args:
        name: a folder, or the name of a pair (`stories` comes with the package).
        device: where to put the models.
        dtype: float32, bfloat16 or float64; None: as they are stored (see `source.load_model`).
        draft: which draft: `draft`, or `draft-plain`, the one before distillation.

    Returns:
        The pair, both models in evaluation mode.

    Raises:
        ValueError: if there is no such pair, or a part of it is missing, damaged, not the one that
            `pair.json` describes, or does not fit the rest.
    """
    folder = find_pair(name)
    info = read_json(folder / "pair.json")
    descriptions = info.get("models", {})
    if not isinstance(descriptions, dict) or not all(isinstance(d, dict) for d in descriptions.values()):
        raise ValueError(f"{folder}/pair.json: models should hold an object for each model")
    path = folder / "tokenizer.json"
    if "tokenizer_sha256" in info:
        check_hash(path, json_hash(read_json(path)), info["tokenizer_sha256"])
    tokenizer = load_tokenizer(path)
    target, draft_model = (
        read_folder(
            folder / model_folder, device=device, dtype=dtype, description=descriptions.get(model_folder, {})
        )
        for model_folder in ("target", draft)
    )
    pair = Pair(target, draft_model, tokenizer, folder, info)
    check_pair(pair, str(folder))
    return pair


def check_pair(pair: Pair, location: str) -> None:
    """Raises ValueError if the parts of a pair do not fit each other, or `pair.json` says what cannot be."""
    info = pair.info
    vocab_size = pair.target.vocab_size
    prompts = info.get("prompts", [])
    name = info.get("name", "")
    are_lists = isinstance(prompts, list) and all(isinstance(prompt, list) for prompt in prompts)
    tokens = [token for prompt in prompts for token in prompt] if are_lists else []
    faults = {
        f": draft and target must share one vocabulary: the draft has {pair.draft.vocab_size} tokens, "
        f"the target {vocab_size}": pair.draft.vocab_size != vocab_size,
        f": the tokenizer has {pair.tokenizer.vocab_size} tokens, the models {vocab_size}": (
            pair.tokenizer.vocab_size > vocab_size  # more ids than tokens are padding
        ),
        "/pair.json: name should be a text that can be printed": (
            not isinstance(name, str) or not name.isprintable()
        ),
        "/pair.json: prompts should be a list of lists of token ids": not are_lists,
        f"/pair.json: prompts should hold token ids from 0 to {vocab_size - 1}": (
            not all(type(token) is int and 0 <= token < vocab_size for token in tokens)
        ),
        "/pair.json: walkthrough should be a text": not isinstance(info.get("walkthrough"), str | None),
    }
    for fault, is_present in faults.items():
        if is_present:
            raise ValueError(f"{location}{fault}")


def read_folder(
    folder: Path,
    *,
    device: str | torch.device = "cpu",
    dtype: torch.dtype | None = torch.float32,
    description: Mapping[str, Any] | None = None,
) -> GPT:
    """Reads the model of a folder.

    Args:
        folder: holds `config.json` and `model.safetensors`, or the files that an index names.
        device: where to put it.
        dtype: of its weights in memory. Those that are stored in it are not copied, but mapped from the file;
            None: all of them.
        description: what `pair.json` says of it. Hashes that are there are compared: `sha256`, of the weights
            as they are stored, and `config_sha256`.

    Raises:
        ValueError: if a file is missing, damaged, of another architecture, or not the one described.
    """
    description = description or {}
    data = read_json(folder / "config.json")
    config = config_from_json(data, folder / "config.json")
    if "config_sha256" in description:
        check_hash(folder / "config.json", json_hash(data), description["config_sha256"])
    weights = stored_weights(folder, config.tied)
    path = folder / WEIGHTS if (folder / WEIGHTS).exists() else folder / INDEX
    with torch.device("meta"):
        model = GPT(config)
    if mismatch := describe_mismatch(model, weights):
        raise ValueError(f"{path} does not fit its config.json: {mismatch}")
    if "sha256" in description:
        types = ", ".join(sorted({str(weight.dtype) for weight in weights.values()}))
        # Equal bits of another type are other weights: the type must be the one that `save_model` writes.
        actual_hash = tensors_hash(weights) if types == str(torch.bfloat16) else f"another type, {types}"
        check_hash(path, actual_hash, description["sha256"])
    return fill(model, weights, device, dtype)


def fill(
    model: GPT, weights: Mapping[str, Tensor], device: str | torch.device, dtype: torch.dtype | None
) -> GPT:
    """Puts weights that fit, [out, in] each, into a model that takes no memory yet, and returns it."""
    tied = ("lm_head.weight",) if model.config.tied else ()  # it is the embedding, which is read once
    stored = ((name, weights[name]) for name in weights if name not in tied)
    state = {name: weight.to(device, dtype or weight.dtype) for name, weight in stored}
    model.load_state_dict(state, assign=True, strict=False)  # all that should be there is
    if tied:
        model.lm_head.weight = model.embed_tokens.weight
    return model.requires_grad_(False).eval()


def with_vocabulary(model: GPT, vocab_size: int) -> GPT:
    """Returns a model that knows so many ids: the last are left out, or zeros stand for those that it lacks.

    It is for a draft: whatever it thinks of ids that no token has, text is distributed as the target's.
    """
    missing = vocab_size - model.vocab_size
    if not missing:
        return model
    with torch.device("meta"):
        resized = GPT(replace(model.config, vocab_size=vocab_size))
    weights = model.state_dict()
    for name in ("embed_tokens.weight", "lm_head.weight"):
        weights[name] = F.pad(weights[name], (0, 0, 0, missing))
    return fill(resized, weights, model.device, None)


def describe_mismatch(model: nn.Module, weights: Mapping[str, Tensor]) -> str | None:
    """Returns how weights, [out, in] each, differ from those of a model, in a few words; None if they fit."""
    expected = {name: tuple(p.shape) for name, p in model.state_dict().items()}
    if missing := sorted(expected.keys() - weights.keys()):
        return f"{len(missing)} weights are missing, such as {missing[0]}"
    if unknown := sorted(weights.keys() - expected.keys()):
        return f"{len(unknown)} weights are unknown, such as {unknown[0]}"
    for name, shape in expected.items():
        actual_shape = tuple(weights[name].shape)
        if actual_shape != shape:
            return f"{name} is {list(actual_shape)} and should be {list(shape)}"
    return None


def save_model(model: GPT, folder: str | Path, dtype: torch.dtype = torch.bfloat16) -> None:
    """Writes one model, `config.json` and `model.safetensors`, into a folder; dtype: on disk.

    Raises:
        ValueError: if it cannot be written.
    """
    folder = Path(folder)
    weights = {
        name if name.startswith("lm_head") else f"model.{name}": weight.to(dtype)
        for name, weight in model.state_dict().items()
        if not (model.config.tied and name == "lm_head.weight")
    }
    write_tensors(folder / WEIGHTS, weights, {"format": "pt"})
    write_json(folder / "config.json", config_to_json(model.config, dtype))


def weights_hash(model: GPT) -> str:
    """Returns the SHA-256 of a model's weights, in order of their names, as hexadecimal digits."""
    return tensors_hash(model.state_dict())


def tensors_hash(tensors: Mapping[str, Tensor]) -> str:
    """Returns the SHA-256 of tensors, [...] each, in order of their names, as hexadecimal digits."""
    digest = hashlib.sha256()
    for name, tensor in sorted(tensors.items()):
        digest.update(name.encode())
        digest.update(tensor.detach().cpu().contiguous().view(torch.uint8).numpy().data)
    return digest.hexdigest()


def json_hash(data: Mapping[str, Any]) -> str:
    """Returns the SHA-256 of the data of a JSON file, as hexadecimal digits.

    The bytes of the file do not count: git or an editor may change line ends, blanks and the order of fields.
    """
    canonical = json.dumps(data, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()


def check_hash(path: Path, actual: str, expected: object) -> None:
    """Raises ValueError if the hash of a file is not the one in `pair.json`."""
    if actual != expected:
        raise ValueError(
            f"{path} is not the file that pair.json describes: found {actual[:28]}, described "
            f"{format_value(expected)[1:29]}; restore it, or train the pair again"
        )
