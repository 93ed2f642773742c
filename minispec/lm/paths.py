"""Paths: the ways to compute the same models, from the one to read to the fastest."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from minispec.lm.checkpoint import Pair
from minispec.lm.compiled import CompiledGPT
from minispec.lm.compiled_draft import CompiledDraft
from minispec.lm.lean import LeanGPT
from minispec.lm.model import GPT, LanguageModel
from minispec.lm.native import NativeGPT

# How a target and how a draft are made: a draft reads one token at a time.
WAYS: dict[str, tuple[Callable[[GPT], LanguageModel], Callable[[GPT], LanguageModel]]] = {
    "readable": (lambda model: model, lambda model: model),
    "lean": (LeanGPT, LeanGPT),
    "compiled": (CompiledGPT, CompiledDraft),
    "native": (NativeGPT, NativeGPT),
}
PATHS = tuple(WAYS)


@dataclass(frozen=True)
class Models:
    """A pair, ready to compute in one way.

    Attributes:
        target: the target.
        draft: the draft.
        path: which way, one of `PATHS`.
    """

    target: LanguageModel
    draft: LanguageModel
    path: str


def on_path(pair: Pair, path: str) -> Models:
    """Returns a pair's models as a path computes them; the first time, `compiled` and `native` are built.

    Args:
        pair: the models.
        path: one of `PATHS`.

    Raises:
        ValueError: if the path is unknown, or cannot be had here (see `CompiledGPT`, `NativeGPT`).
    """
    if path not in WAYS:
        raise ValueError(f"there is no path {path!r}; choose {', '.join(PATHS)}")
    target, draft = WAYS[path]
    return Models(target(pair.target), draft(pair.draft), path)
