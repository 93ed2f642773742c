"""What exercises say, read from exercises.toml. What they run stands in Python; keys join the two."""

import tomllib
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from minispec.classroom.cards import joined
from minispec.classroom.exercise import Exercise

PARTS = ("notebook", "difficulty", "minutes", "title", "stub", "goal", "hints", "praise", "wrong")
WHOLE = ("stub", "picture")  # kept as they stand; all other texts are joined to one line


def texts_in(text: str) -> dict[str, dict[str, Any]]:
    """Reads what exercises say, by key: fields of an `Exercise`, but in `wrong` messages only.

    Raises:
        ValueError: if a part is missing, there twice, or unknown, or there are not two hints.
    """
    texts = tomllib.loads(text)
    for key, said in texts.items():
        same_names(f"parts of {key!r}", PARTS, {part for part in said if said[part]} - {"picture"})
        if len(said["hints"]) != 2:
            raise ValueError(f"exercises.toml should have two hints for {key!r}, not {len(said['hints'])}")
        said |= {part: joined(value) for part, value in said.items() if part not in WHOLE} | {"key": key}
    return texts


def exercise(key: str, wrong: Mapping[str, Any], **code: Any) -> Exercise:
    """Returns an exercise: what exercises.toml says under this key, and what it runs.

    `wrong` are the typical wrong answers, by the names of their messages; `code`: the fields that are run.

    Raises:
        ValueError: if exercises.toml lacks it, or has other wrong answers.
    """
    same_names("exercises", [key], TEXTS.keys() & {key})
    said = TEXTS[key]
    same_names(f"wrong answers of {key!r}", wrong, said["wrong"])
    messages = {name: (said["wrong"][name], answer) for name, answer in wrong.items()}
    return Exercise(**(said | code | {"wrong": messages}))


def same_names(what: str, run: Collection[str], said: Collection[str]) -> None:
    """Compares the names of what is run with the names in exercises.toml.

    Raises:
        ValueError: if they differ.
    """
    lacking, surplus = set(run) - set(said), set(said) - set(run)
    for names, fault in ((lacking, "lacks"), (surplus, "has, and the code lacks,")):
        if names:
            raise ValueError(f"exercises.toml {fault} the {what}: {', '.join(sorted(names))}")


TEXTS = texts_in(Path(__file__).with_name("exercises.toml").read_text(encoding="utf-8"))
