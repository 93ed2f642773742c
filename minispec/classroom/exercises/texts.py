"""What exercises say, read from exercises.txt. What they run stands in Python; keys join the two."""

import re
from collections.abc import Collection, Mapping
from pathlib import Path
from textwrap import dedent
from typing import Any

from minispec.classroom.exercise import Exercise

HEAD = re.compile(r"([\w-]+) \(notebook (\d+), difficulty ([123]), (\d+) minutes\)")
WHOLE = ("stub", "picture")  # kept as they stand
LINES = ("title", "goal", "praise")


def texts_in(text: str) -> dict[str, dict[str, Any]]:
    """Reads what exercises say, by key.

    An exercise begins with `key (notebook N, difficulty D, M minutes)`, and a blank line ends it. It has
    parts, `name: text`; further lines of a part are indented by four spaces. `stub` and `picture` keep their
    lines. There are two parts `hint`, and a part `wrong NAME` for each typical wrong answer.

    Raises:
        ValueError: if something is missing, there twice, or unknown.
    """
    texts: dict[str, dict[str, Any]] = {}
    for paragraph in re.split(r"\n\n+(?=\S)", text.strip()):
        said = text_in(paragraph)
        if said["key"] in texts:
            raise ValueError(f"exercises.txt has the exercise {said['key']!r} twice")
        texts[said["key"]] = said
    return texts


def text_in(paragraph: str) -> dict[str, Any]:
    """Reads what one exercise says: fields of an `Exercise`, but in `wrong` messages only."""
    first, *parts = re.split(r"\n(?=\S)", paragraph)
    if (head := HEAD.fullmatch(first)) is None:
        raise ValueError(f"in exercises.txt a line `key (notebook N, …)` should stand in place of {first!r}")
    hints: list[str] = []
    wrong: dict[str, str] = {}
    said: dict[str, Any] = {"key": head[1]}
    said |= zip(("notebook", "difficulty", "minutes"), map(int, head.groups()[1:]), strict=True)
    for part in parts:
        name, _, value = part.partition(":")
        line = " ".join(value.split())
        if name == "hint":
            hints.append(line)
        elif name.startswith("wrong ") and name[6:] not in wrong:
            wrong[name[6:]] = line
        elif name in (*WHOLE, *LINES) and name not in said:
            said[name] = dedent(value.strip("\n")) + "\n" if name in WHOLE else line
        else:
            raise ValueError(f"in exercises.txt {head[1]!r} has an unknown or second part {name!r}")
    lacking = [name for name in ("stub", *LINES) if not said.get(name)]
    lacking += ["two hints"] * (len(hints) != 2) + ["wrong answers"] * (not wrong)
    if lacking:
        raise ValueError(f"in exercises.txt {head[1]!r} lacks {', '.join(lacking)}")
    return said | {"hints": tuple(hints), "wrong": wrong}


TEXTS = texts_in(Path(__file__).with_name("exercises.txt").read_text(encoding="utf-8"))


def exercise(key: str, wrong: Mapping[str, Any], **code: Any) -> Exercise:
    """Returns an exercise: what exercises.txt says under this key, and what it runs.

    Args:
        key: its name.
        wrong: typical wrong answers, by the names of their messages.
        code: the fields of `Exercise` that are run.

    Raises:
        ValueError: if exercises.txt lacks it, or has other wrong answers.
    """
    same_names("exercises", [key], TEXTS.keys() & {key})
    said = TEXTS[key]
    same_names(f"wrong answers of {key!r}", wrong, said["wrong"])
    messages = {name: (said["wrong"][name], answer) for name, answer in wrong.items()}
    return Exercise(**(said | code | {"wrong": messages}))


def same_names(what: str, run: Collection[str], said: Collection[str]) -> None:
    """Compares the names of what is run with the names in exercises.txt.

    Raises:
        ValueError: if they differ.
    """
    lacking, surplus = set(run) - set(said), set(said) - set(run)
    for names, fault in ((lacking, "lacks"), (surplus, "has, and the code lacks,")):
        if names:
            raise ValueError(f"exercises.txt {fault} the {what}: {', '.join(sorted(names))}")
