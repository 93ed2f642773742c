"""What exercises say, read from exercises.toml. What they run stands in Python; keys join the two."""

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from minispec.classroom.cards import joined
from minispec.classroom.exercise import Exercise

WHOLE = ("stub", "picture")  # kept as they stand; all other texts are joined to one line


def texts_in(text: str) -> dict[str, dict[str, Any]]:
    """Reads what exercises say, by key: fields of an `Exercise`, but in `wrong` messages only."""
    texts = tomllib.loads(text)
    for key, said in texts.items():
        said |= {part: joined(value) for part, value in said.items() if part not in WHOLE} | {"key": key}
    return texts


def exercise(key: str, wrong: Mapping[str, Any], **code: Any) -> Exercise:
    """Returns an exercise: what exercises.toml says under this key, and what it runs.

    `wrong` are the typical wrong answers, by the names of their messages; `code`: the fields that are run.

    Raises:
        KeyError: if exercises.toml lacks it.
        TypeError: if a part is missing there, or unknown.
        ValueError: if it has other wrong answers.
    """
    said = TEXTS[key]
    if names := wrong.keys() ^ said["wrong"].keys():
        raise ValueError(f"exercises.toml or the code lacks wrong answers of {key!r}: {', '.join(names)}")
    messages = {name: (said["wrong"][name], answer) for name, answer in wrong.items()}
    return Exercise(**(said | code | {"wrong": messages}))


TEXTS = texts_in(Path(__file__).with_name("exercises.toml").read_text(encoding="utf-8"))
