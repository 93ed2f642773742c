"""Renders a chat template; `chat.py` runs this file in a process of its own, which it ends if need be.

A template is a program of a stranger. It runs in jinja2's immutable sandbox, with what transformers gives
one, and may not take more lines, memory or output than a template needs. Standard input has a JSON object of
what `render` takes; standard output gets one of `texts`, or of an `error`. Nothing of minispec is imported:
that would take seconds.
"""

import json
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from types import FrameType
from typing import Any

from jinja2 import TemplateError, nodes
from jinja2.exceptions import SecurityError
from jinja2.ext import Extension, loopcontrols
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment

MAX_LINES = 2**18  # lines of Python that a rendering runs; templates of chat models take thousands
MAX_OUTPUT = 2**22  # characters
MAX_MEMORY = 2**28  # bytes


class Sandbox(ImmutableSandboxedEnvironment):
    """A sandbox that says at once what a template must not do, where jinja2 would give it something empty."""

    def unsafe_undefined(self, obj: object, attribute: str) -> Any:
        """Refuses an attribute that is none of a template's business."""
        raise SecurityError(f"it reaches for {attribute!r} of {type(obj).__name__}")


class Generation(Extension):
    """The tag `generation`, by which some templates mark answers for training: what is in it is rendered."""

    tags = {"generation"}

    def parse(self, parser: Parser) -> list[nodes.Node]:
        """Returns what stands between the tag and its end."""
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


def refuse(message: str) -> None:
    """What templates call `raise_exception`."""
    raise TemplateError(f"it refuses these messages: {message}")


def to_json(value: object, **options: Any) -> str:
    """The filter `tojson`, which escapes nothing for a web page."""
    return json.dumps(value, **{"ensure_ascii": False} | options)


def environment() -> Sandbox:
    """Returns what templates run in."""
    sandbox = Sandbox(trim_blocks=True, lstrip_blocks=True, extensions=[loopcontrols, Generation])
    sandbox.filters["tojson"] = to_json
    sandbox.globals["raise_exception"] = refuse
    sandbox.globals["strftime_now"] = lambda form: datetime.now().strftime(form)
    return sandbox


def limit_memory() -> None:
    """Limits the memory of this process, where the system can."""
    with suppress(ImportError, OSError, ValueError):
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (MAX_MEMORY, MAX_MEMORY))


def limit_lines() -> None:
    """Raises an error after so many lines of Python from now on, wherever they are."""
    left = MAX_LINES

    def count(frame: FrameType, event: str, argument: object) -> Any:
        nonlocal left
        left -= 1
        if left < 0:
            raise TemplateError("it runs for too long")
        return count

    sys.settrace(count)


def render(
    source: str, chats: Sequence[Sequence[Mapping[str, str]]], special_tokens: Mapping[str, str]
) -> list[str]:
    """Returns the prompt of each chat, a list of messages with `role` and `content`.

    Raises:
        Exception: of any kind, if the template cannot be rendered, or takes too much.
    """
    template = environment().from_string(source)
    context = {"add_generation_prompt": True, "tools": None, "documents": None, **special_tokens}
    limit_lines()
    texts = []
    for messages in chats:
        pieces = []
        space = MAX_OUTPUT
        for piece in template.generate(context, messages=messages):
            pieces.append(piece)
            space -= len(piece)
            if space < 0:
                raise TemplateError(f"it writes more than {MAX_OUTPUT:,} characters")
        texts.append("".join(pieces))
    sys.settrace(None)
    return texts


def main() -> None:
    """Answers the request on standard input."""
    limit_memory()
    answer: dict[str, Any]
    try:
        answer = {"texts": render(**json.load(sys.stdin))}
    except MemoryError:
        answer = {"error": "it takes too much memory"}
    except Exception as error:
        answer = {"error": str(error) or type(error).__name__}
    sys.settrace(None)
    json.dump(answer, sys.stdout)


if __name__ == "__main__":
    main()
