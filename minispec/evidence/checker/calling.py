"""Engines as `check_engine` calls them: any, one that decodes batches, and one at an HTTP endpoint."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence, Sized
from collections.abc import Set as AbstractSet
from itertools import islice
from operator import index
from typing import Any
from urllib.request import Request, urlopen

from minispec.evidence.checker.beginnings import Text
from minispec.evidence.checker.guard import Stopped, called

MAX_CHARACTERS = 200  # characters of what is shown of a wrong value
Generate = Callable[[Sequence[int], int, int], Sequence[int]]  # (prompt ids, n, seed) -> n ids


def request_text(
    generate: Generate,
    prompt: Sequence[int],
    n: int,
    seed: int,
    ends: frozenset[int],
    limit: float | None,
) -> Text:
    """Asks an engine for one text of n tokens, or fewer of which the last one is of `ends`.

    Raises:
        ValueError: if what it returns is no list of ids, or has the wrong number of them; or if it exits,
            comes back twice, or takes longer than `limit` seconds.
    """
    try:
        text = called(call_engine, generate, list(prompt), n, seed, limit=limit)
    except Stopped as stopped:
        raise ValueError(f"the engine gave no text with seed {seed}: {stopped}") from stopped
    if len(text) > n or (len(text) < n and not ends.intersection(text)):
        raise ValueError(f"the engine returned {len(text)} ids; {n} were asked for")
    return text


def call_engine(generate: Generate, prompt: list[int], n: int, seed: int) -> Text:
    """Calls an engine; a ValueError says if it returns no list of ids."""
    returned: Any = generate(prompt, n, seed)
    if isinstance(returned, str | bytes | AbstractSet | Mapping) or not isinstance(returned, Iterable):
        raise ValueError(f"the engine must return a list of ids, not {short_repr(returned)}")
    # It may be a generator that never ends.
    ids = list(returned if isinstance(returned, Sized) else islice(returned, n + 1))
    return tuple(token_id(token, ids) for token in ids)


def token_id(token: Any, ids: list[Any]) -> int:
    """Returns a token id as an int.

    Raises:
        ValueError: if it is no integer; a float is none, for to round it would hide a fault.
    """
    try:
        if isinstance(token, bool):
            raise TypeError
        return index(token)
    except (TypeError, ValueError, RuntimeError):
        detail = f"{short_repr(token)} in {short_repr(ids)} is none"
        raise ValueError(f"the engine must return a list of ids, which are integers; {detail}") from None


def short_repr(value: Any) -> str:
    """Writes a value in one line that is not long."""
    return " ".join(repr(value).split())[:MAX_CHARACTERS]


def in_batches(
    draw: Callable[[Sequence[int], int, int, int], Sequence[Sequence[int]]], rows: int
) -> Generate:
    """Makes a batch's rows texts of their own: an engine for `check_engine`, many times as fast.

    The rows must be independent; the check sees it if they are not.

    Args:
        draw: (prompt ids, n, seed, rows) -> `rows` lists of n ids.
        rows: of a batch.
    """
    waiting: dict[tuple[int, ...], list[Sequence[int]]] = {}

    def generate(prompt: Sequence[int], n: int, seed: int) -> Sequence[int]:
        texts = waiting.setdefault((*prompt, n), [])
        if not texts:
            texts.extend(draw(prompt, n, seed, rows))
        return texts.pop()

    return generate


def completions_engine(url: str, model: str, *, timeout: float = 60.0, **body: Any) -> Generate:
    """Asks an OpenAI-compatible endpoint for texts, with token ids in and out.

    Servers that can return ids, such as those of vLLM and SGLang, have `return_token_ids`. Temperature 1
    without top-p and top-k is asked for, since a server may have other defaults.

    Args:
        url: of the API, such as http://localhost:8000/v1.
        model: its name there.
        timeout: in seconds, of one request.
        body: more of the request, such as temperature=0.8 or, where no text may end early, ignore_eos=True.

    Returns:
        An engine for `check_engine`. It raises OSError where the endpoint does not answer, and ValueError
        where the answer has no ids.
    """

    def generate(prompt: Sequence[int], n: int, seed: int) -> Sequence[int]:
        fields = {"model": model, "prompt": list(prompt), "max_tokens": n, "seed": seed}
        fields |= {"return_token_ids": True, "temperature": 1.0, "top_p": 1.0, "top_k": -1} | body
        headers = {"Content-Type": "application/json"}
        request = Request(f"{url.rstrip('/')}/completions", json.dumps(fields).encode(), headers)
        with urlopen(request, timeout=timeout) as response:
            token_ids = json.load(response)["choices"][0].get("token_ids")
        if token_ids is None:
            raise ValueError(f"{url} returns no token_ids; its server must support return_token_ids")
        return token_ids

    return generate
