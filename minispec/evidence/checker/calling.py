"""Engines as `check_engine` calls them: one that decodes batches, and one at an HTTP endpoint."""

import json
from collections.abc import Callable, Sequence
from typing import Any
from urllib.request import Request, urlopen

Generate = Callable[[Sequence[int], int, int], Sequence[int]]  # (prompt ids, n, seed) -> n ids


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
        left = waiting.setdefault((*prompt, n), [])
        if not left:
            left.extend(draw(prompt, n, seed, rows))
        return left.pop()

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
        asked = {"model": model, "prompt": list(prompt), "max_tokens": n, "seed": seed}
        asked |= {"return_token_ids": True, "temperature": 1.0, "top_p": 1.0, "top_k": -1} | body
        content = {"Content-Type": "application/json"}
        request = Request(f"{url.rstrip('/')}/completions", json.dumps(asked).encode(), content)
        with urlopen(request, timeout=timeout) as answer:
            ids = json.load(answer)["choices"][0].get("token_ids")
        if ids is None:
            raise ValueError(f"{url} returns no token_ids; its server must support return_token_ids")
        return ids

    return generate
