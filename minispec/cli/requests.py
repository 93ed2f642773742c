"""`minispec generate --requests`: many requests, one a line, and a line of JSON as soon as each ends."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from minispec.cli import options
from minispec.core.batch import Request, checked_prompt, end_ids
from minispec.core.records import Finish, Round
from minispec.io.checkpoint import Pair
from minispec.io.files import MAX_BYTES, format_path, format_value, read_text
from minispec.io.tokenizer import Tokenizer

FIELDS = ("prompt", "max_new_tokens", "eos")
BATCH_SIZE = 8
Encode = Callable[[str], list[int]]


def read_file(path: Path, what: str) -> str:
    """Returns the text of a file, of standard input for `-`; ValueError if it cannot be read."""
    try:
        if path != Path("-"):
            return read_text(path)
        content = options.standard_input(MAX_BYTES)
        if len(content) > MAX_BYTES:
            raise ValueError(f"it has more than {MAX_BYTES:,} bytes")
        return content.decode("utf-8")
    except (OSError, ValueError) as error:
        raise ValueError(f"{format_path(path)} cannot be read as {what}: {error}") from error


def parse_requests(
    text: str, defaults: dict[str, Any], pair: Pair, context: int, encode: Encode
) -> list[Request]:
    """Returns a request for each line of a text that is not blank (see `request_of`).

    Raises:
        ValueError: if there is none, or a line is no request that can be decoded; it has the line's number.
    """
    requests: list[Request] = []
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            try:
                requests.append(request_of(defaults | fields_of(line), len(requests), pair, context, encode))
            except ValueError as error:
                raise ValueError(f"line {number}: {error}") from error
    if not requests:
        raise ValueError('there is no request; give a line for each, such as {"prompt": "The cat"}')
    return requests


def fields_of(line: str) -> dict[str, Any]:
    """Returns the fields of a request; ValueError if they are none."""
    try:
        fields = json.loads(line)
    except (ValueError, RecursionError) as error:
        reason = str(error).partition(": line ")[0]
        raise ValueError(f"it cannot be read as JSON: {reason}") from error
    if not isinstance(fields, dict):
        raise ValueError(f"it must be a JSON object, not {format_value(fields)}")
    for name in fields:
        if name not in FIELDS:
            raise ValueError(f"{format_value(name)} is unknown; a request has {', '.join(FIELDS)}")
    return fields


def request_of(
    fields: Mapping[str, Any], prompt_id: int, pair: Pair, context: int, encode: Encode
) -> Request:
    """Returns a request.

    Args:
        fields: `prompt`, a text; `max_new_tokens`; `eos`, whether the checkpoint's ends do it, or which ids.
        prompt_id: its number, from 0.
        pair: whose vocabulary it is.
        context: how many tokens a row can hold.
        encode: makes ids of the prompt: as plain text, or as a message of a chat.

    Raises:
        ValueError: if it cannot be decoded.
    """
    prompt = fields.get("prompt")
    cap = fields["max_new_tokens"]
    eos = fields["eos"]
    if not isinstance(prompt, str):
        raise ValueError(f"prompt must be a text, not {format_value(prompt)}")
    prompt.encode("utf-8")  # half a character is no text
    if type(cap) is not int or cap < 0:
        raise ValueError(f"max_new_tokens must be an integer of at least 0, not {format_value(cap)}")
    if not isinstance(eos, bool | list):
        raise ValueError(f"eos must be true, false or a list of token ids, not {format_value(eos)}")
    if isinstance(eos, bool):
        eos = pair.tokenizer.ends * eos
    vocab_size = pair.target.vocab_size
    ids = checked_prompt(prompt_id, encode(prompt), vocab_size, context)
    return Request(ids, cap, end_ids(eos, vocab_size))


def print_ended(
    rounds: Iterable[Round], requests: Sequence[Request], tokenizer: Tokenizer, context: int
) -> None:
    """Prints a line of JSON for each request as soon as it ends."""
    tokens: list[list[int]] = [[] for _ in requests]
    calls = [0] * len(requests)

    def print_end(prompt_id: int, finish: Finish) -> None:
        document = {
            "prompt_id": prompt_id,
            "text": tokenizer.decode(tokens[prompt_id]),
            "tokens": tokens[prompt_id],
            "finish": finish,
            "target_calls": calls[prompt_id],
        }
        print(json.dumps(document), flush=True)

    for prompt_id, request in enumerate(requests):
        space = context - len(request.prompt)
        if not space or not request.max_new_tokens:  # no round is about it
            print_end(prompt_id, "cap" if space else "context")
    for r in rounds:
        for row, prompt_id in enumerate(r.prompt_ids):
            tokens[prompt_id] += r.emitted[row]
            calls[prompt_id] += r.live[row]
            if (finish := r.finish[row]) and r.live[row]:  # in this round
                print_end(prompt_id, finish)
