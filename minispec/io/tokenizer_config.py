"""What a checkpoint says of its tokenizer beside `tokenizer.json`: ends of a text, BOS, the chat template."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from minispec.io.files import format_value, read_json, read_text

CONFIG = "tokenizer_config.json"
TEMPLATE = "chat_template.jinja"
# The first of them that names ends is right: generation is what they are for.
NAMES_ENDS = ("generation_config.json", "config.json")


@dataclass(frozen=True)
class TokenizerConfig:
    """What a checkpoint says of its tokenizer; a checkpoint may say nothing."""

    special_tokens: Mapping[str, str] = field(
        default_factory=dict
    )  #: by name, such as `bos_token`: their texts
    ends: tuple[int, ...] = ()  #: the ids that end a text; none: `eos_token` does, or end-of-text
    add_bos: bool | None = (
        None  #: whether BOS stands before a prompt; None: the tokenizer's post-processor says it
    )
    chat_template: str | None = None  #: how messages become a prompt, in Jinja


def read_config(folder: Path) -> TokenizerConfig:
    """Reads what stands beside a `tokenizer.json`: any of four files, or none.

    Raises:
        ValueError: if one is damaged, or a value is not what it should be.
    """
    data = read_if_there(folder / CONFIG)
    add_bos = data.get("add_bos_token")
    if not isinstance(add_bos, bool | None):
        raise ValueError(
            f"{folder / CONFIG}: add_bos_token should be true or false, not {format_value(add_bos)}"
        )
    texts = {
        name: value.get("content") if isinstance(value, dict) else value
        for name, value in data.items()
        if name.endswith("_token")
    }
    special_tokens = {name: text for name, text in texts.items() if isinstance(text, str)}
    return TokenizerConfig(special_tokens, read_ends(folder), add_bos, read_template(folder, data))


def read_if_there(path: Path) -> dict[str, Any]:
    """Returns the object of a JSON file, an empty one if there is no file; ValueError if it is damaged."""
    return read_json(path) if path.exists() else {}


def read_ends(folder: Path) -> tuple[int, ...]:
    """Returns the ids that end a text: one or several in `eos_token_id`; ValueError if they are no ids."""
    for name in NAMES_ENDS:
        value = read_if_there(folder / name).get("eos_token_id")
        ids = value if isinstance(value, list) else [value]
        if value is not None and not all(type(token) is int and token >= 0 for token in ids):
            raise ValueError(
                f"{folder / name}: eos_token_id should be an id or a list of ids, not {format_value(value)}"
            )
        if value is not None:
            return tuple(ids)
    return ()


def read_template(folder: Path, data: Mapping[str, Any]) -> str | None:
    """Returns the chat template: a file of its own, or in `tokenizer_config.json`, where it may have a name.

    Raises:
        ValueError: if there is something else, or several and none is called `default`.
    """
    path = folder / TEMPLATE
    if path.exists():
        try:
            return read_text(path)
        except (OSError, ValueError) as error:
            raise ValueError(f"{path} cannot be read as a chat template: {error}") from error
    template = data.get("chat_template")
    if isinstance(template, list):
        named = {
            str(entry.get("name")): entry.get("template") for entry in template if isinstance(entry, dict)
        }
        template = named.get("default", False)
    if not isinstance(template, str | None):
        raise ValueError(
            f"{folder / CONFIG}: chat_template should be a text, or a list with one named default"
        )
    return template
