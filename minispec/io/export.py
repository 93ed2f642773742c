"""Export: a pair as two folders that transformers and engines read, and a model card that says what is known.

Configs have the keys of transformers 4, which 5 reads, too. Heads of a size that engines lack get zeros,
which change no logit but by rounding.
"""

import json
import shlex
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from math import sqrt
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from minispec.core.model import GPT
from minispec.io.checkpoint import Pair, fill, save_model
from minispec.io.files import (
    format_path,
    printable_line,
    read_json,
    read_table,
    replace_folder,
    write_json,
    write_text_file,
)
from minispec.io.tokenizer_config import CONFIG, read_if_there

CARD = read_table(__file__, "card.toml")
# Sizes of heads that vLLM's attention takes on a processor; on a GPU it takes them, too, and some others.
HEAD_DIMS = (32, 64, 80, 96, 112, 128, 160, 192, 224, 256)
DRAFTED = 4  # tokens a round, in the line for vLLM


class Recorded:
    """What `pair.json` says somewhere: a template takes fields of it, and `unknown` for what is not there."""

    def __init__(self, value: object) -> None:
        self.value = value

    def __getitem__(self, name: str) -> "Recorded":
        return Recorded(self.value.get(name) if isinstance(self.value, Mapping) else None)

    def __format__(self, form: str) -> str:
        with suppress(TypeError, ValueError, OverflowError):  # not the kind of value that it should be
            if self.value is not None:
                return printable_line(format(self.value, form))
        return "unknown"


def export_pair(pair: Pair, folder: Path) -> dict[str, Any]:
    """Writes a pair into a new folder, all of it or nothing; returns what `minispec export --json` prints.

    Raises:
        ValueError: if the folder cannot be written, or holds anything.
    """
    if (folder / "pair.json").exists():
        raise ValueError(f"{format_path(folder)} holds a pair, which is not replaced; choose a new folder")
    trained = {"target": pair.target, "draft": pair.draft}
    models = {name: with_known_heads(model) for name, model in trained.items()}
    heads = {
        name: {"trained": trained[name].config.head_dim, "written": model.config.head_dim}
        for name, model in models.items()
    }
    with replace_folder(folder) as new_folder:
        for name, model in models.items():
            write_model(pair, model, new_folder / name)
        write_text_file(new_folder / "README.md", model_card(pair, heads))
    line = vllm_line(folder)
    return {"pair": pair.name, "folder": str(folder), "head_dim": heads, "vllm": line, "vllm_was_run": False}


def write_model(pair: Pair, model: GPT, folder: Path) -> None:
    """Writes a model, the pair's tokenizer, and which of its tokens begin and end a text."""
    tokenizer = pair.tokenizer
    save_model(model, folder, model.dtype)
    tokenizer.save(folder / "tokenizer.json")
    end = next(iter(tokenizer.ends), None)
    ids = {
        "bos_token_id": next(iter(tokenizer.begin), None),
        "eos_token_id": [*tokenizer.ends] if len(tokenizer.ends) > 1 else end,
    }
    write_json(folder / "config.json", read_json(folder / "config.json") | ids)
    write_json(folder / "generation_config.json", ids | {"pad_token_id": end})
    text = None if end is None else tokenizer.library.id_to_token(end)
    described = CARD["tokenizer_config"] | {
        "model_max_length": model.max_length,
        "eos_token": text,
        "pad_token": text,
        "chat_template": tokenizer.config.chat_template,
    }
    write_json(folder / CONFIG, described | read_if_there(pair.folder / CONFIG))


def with_known_heads(model: GPT) -> GPT:
    """Returns a model whose heads have a size of `HEAD_DIMS`, where zeros can do that, and the same logits.

    Zeros come after each number of a head. So pair i of n, which theta^(-i/n) rotates, becomes pair 2i of 2n,
    and is rotated as before. Scores are divided by the root of a larger size, so queries grow by a root, in
    float32. Normed heads stay as they are: zeros would change their norm.
    """
    config = model.config
    ratio = next((size // config.head_dim for size in HEAD_DIMS if size % config.head_dim == 0), 1)
    if ratio == 1 or config.qk_norm:
        return model
    with torch.device("meta"):
        wide = GPT(replace(config, head_size=ratio * config.head_dim))
    dtype = torch.promote_types(model.dtype, torch.float32)
    weights = {name: weight.to(dtype) for name, weight in model.state_dict().items()}
    for name, weight in weights.items():
        if ".o_proj." in name:
            weights[name] = spread(weight.T, ratio).T
        elif ".q_proj." in name:
            weights[name] = spread(weight, ratio) * sqrt(ratio)
        elif ".k_proj." in name or ".v_proj." in name:
            weights[name] = spread(weight, ratio)
    return fill(wide, weights, "cpu", dtype)


def spread(weight: Tensor, ratio: int) -> Tensor:
    """Puts zeros after each row: [n, ...] -> [ratio · n, ...]."""
    rows = weight.new_zeros(ratio * len(weight), *weight.shape[1:])
    rows[::ratio] = weight
    return rows


def vllm_line(folder: Path) -> str:
    """Returns the command by which vLLM 0.25 serves an exported pair, as its documentation has it."""
    settings = {"model": f"{folder / 'draft'}", "num_speculative_tokens": DRAFTED, "method": "draft_model"}
    target = f"{folder / 'target'}"
    return shlex.join(["vllm", "serve", target, "--speculative-config", json.dumps(settings)])


def model_card(pair: Pair, heads: Mapping[str, Any]) -> str:
    """Returns what `README.md` says of a pair, whose heads have these sizes."""
    info = Recorded(pair.info)
    licence = CARD["licences"].get(f"{info['corpus']['name']}", CARD["unknown"])
    return CARD["text"].format(
        name=printable_line(pair.name), info=info, heads=heads, vllm=vllm_line(Path()), **licence
    )
