"""A chat: a checkpoint's template makes a prompt of messages, whose text cannot become special tokens."""

import hashlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Sequence

from minispec.io import render
from minispec.io.files import shorten
from minispec.io.tokenizer import Tokenizer

MAX_TEMPLATE = 2**17  # characters; the longest that are in use have a fifth of it
SECONDS = 10.0  # until a rendering must have ended; it takes a tenth of a second
Message = dict[str, str]  # `role` and `content`


def chat_prompt(tokenizer: Tokenizer, message: str, system: str | None = None) -> list[int]:
    """Returns the ids of a user's message as the checkpoint's chat template renders it, up to the answer.

    The template is rendered twice, once with a mark in place of each text. If the special tokens are the same
    both times, they are the template's own, and the prompt is encoded in one piece, as other programs do. If
    not, a text has what looks like a special token: then the texts are encoded by themselves, as plain text.

    Args:
        tokenizer: the checkpoint's.
        message: what the user says.
        system: what the system message says; None: there is none.

    Raises:
        ValueError: if there is no template, it cannot be rendered or leaves a text out, or a text has what
            looks like a special token and the template changes the text.
    """
    messages = [{"role": "user", "content": message}]
    if system is not None:
        messages.insert(0, {"role": "system", "content": system})
    texts = {mark_of(each["content"]): each["content"] for each in messages}
    marked_messages = [each | {"content": mark_of(each["content"])} for each in messages]
    rendered, marked = render_chats(tokenizer, [messages, marked_messages])
    for each in marked_messages:
        if each["content"] not in marked:
            raise ValueError(f"the chat template leaves out the {each['role']} message")
    ids = tokenizer.encode_rendered(rendered)
    special, expected = (
        [token for token in encoded if token in tokenizer.special]
        for encoded in (ids, tokenizer.encode_rendered(marked))
    )
    if special == expected:
        return ids
    parts = re.split(f"({'|'.join(texts)})", marked)
    for plain in (texts, {mark: text.strip() for mark, text in texts.items()}):
        if "".join(plain.get(part, part) for part in parts) == rendered:
            return [token for part in parts for token in encode_part(tokenizer, part, plain)]
    raise ValueError(
        "the message has the text of a special token, and the chat template changes messages: leave it out"
    )


def encode_part(tokenizer: Tokenizer, part: str, plain: dict[str, str]) -> list[int]:
    """Returns the ids of a part of a prompt: of the text that a mark stands for, or the template's own."""
    if part in plain:
        return tokenizer.encode(plain[part])[len(tokenizer.begin) :]
    return tokenizer.encode_rendered(part)


def mark_of(text: str) -> str:
    """Returns what stands for a text in a rendering: letters and digits, which no text has by accident."""
    return hashlib.sha256(text.encode()).hexdigest()


def render_chats(
    tokenizer: Tokenizer, chats: Sequence[Sequence[Message]], seconds: float = SECONDS
) -> list[str]:
    """Renders chats by a checkpoint's template, in a process of its own (see `render.py`).

    Args:
        tokenizer: the checkpoint's.
        chats: messages each.
        seconds: after which the process is ended.

    Raises:
        ValueError: if there is no template, or it cannot be rendered.
    """
    config = tokenizer.config
    if config.chat_template is None:
        raise ValueError("this checkpoint has no chat template: it continues a prompt, without --chat")
    if len(config.chat_template) > MAX_TEMPLATE:
        raise ValueError(f"the chat template has more than {MAX_TEMPLATE:,} characters")
    fields = {"source": config.chat_template, "chats": chats, "special_tokens": dict(config.special_tokens)}
    try:
        done = subprocess.run(
            [sys.executable, "-P", render.__file__],
            input=json.dumps(fields).encode(),
            capture_output=True,
            timeout=seconds,
            env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        )
    except subprocess.TimeoutExpired:
        raise ValueError(f"the chat template had not ended after {seconds:g} seconds") from None
    if done.returncode:
        raise ValueError("the chat template cannot be rendered: its process ended before it was done")
    answer = json.loads(done.stdout)
    if "error" in answer:
        raise ValueError(
            f"the chat template cannot be rendered: {shorten(' '.join(answer['error'].split()), 400)}"
        )
    return answer["texts"]
