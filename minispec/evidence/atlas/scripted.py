"""Somebody else's code, unchanged, whose random numbers are an `Rng`'s.

Samplers of other projects draw from the generators of torch or of Python. Here a function of theirs is called
with a `torch` whose random functions ask an `Rng`. So it follows a script, each of its branches can be taken,
and what it says is known exactly.
"""

import __future__

import ast
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor

from minispec.core.rng import Rng


class Uniform:
    """Numbers from [0, 1) that are never drawn: what they are compared with is the probability of a yes."""

    def __init__(self, rng: Rng) -> None:
        self._rng = rng

    def __le__(self, probs: Tensor) -> Tensor:
        return self._rng.bernoulli(probs.reshape(-1).clamp(0, 1)).reshape(probs.shape)

    __lt__ = __le__  # they differ where a number is equal to a probability, which happens with probability 0

    def __gt__(self, probs: Tensor) -> Tensor:
        return ~(self <= probs)


def scripted_torch(rng: Rng) -> SimpleNamespace:
    """Returns torch, as a sampler sees it, with another source of random numbers."""
    others = {
        "rand_like": lambda like: Uniform(rng),
        "multinomial": lambda probs, num_samples: rng.categorical(probs)[:, None],
    }
    return SimpleNamespace(**vars(torch) | others)


def unpinned_torch() -> SimpleNamespace:
    """Returns torch for code that pins memory, which needs an accelerator; it draws as torch does."""

    def unpinned(name: str) -> Any:
        return lambda *args, pin_memory=False, **more: getattr(torch, name)(*args, **more)

    names = ("tensor", "arange", "ones", "full")
    return SimpleNamespace(**vars(torch) | {name: unpinned(name) for name in names})


def functions_of(path: Path, *names: str, **given: Any) -> dict[str, Any]:
    """Loads functions and classes from a file, and nothing else of it: no import of it is followed.

    What they need besides `torch` is `given`. Returns their global names: change one, and they see it.

    Raises:
        ValueError: if there is no such file, or it lacks one of them.
    """
    if not path.is_file():
        raise ValueError(f"there is no file {path}")
    module = ast.parse(path.read_text(encoding="utf-8"))
    module.body = [one for one in module.body if getattr(one, "name", None) in names]
    if missing := set(names) - {getattr(one, "name", None) for one in module.body}:
        raise ValueError(f"{path} has no {' and no '.join(sorted(missing))}")
    space = {"torch": torch} | given
    # Annotations stay text: what they name may be defined elsewhere.
    exec(compile(module, str(path), "exec", __future__.annotations.compiler_flag, dont_inherit=True), space)
    return space
