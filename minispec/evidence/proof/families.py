"""The cases of the proof, by family, read from families.toml; its first lines say how they are written."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import fields
from itertools import product
from typing import Any

from minispec.core.warp import Warp
from minispec.evidence.proof.cases import ENUMERATED, Case
from minispec.evidence.proof.models import MODELS
from minispec.io.files import read_table
from minispec.verifiers.registry import CHAINS, TREES

Fields = Mapping[str, Any]

TABLES = read_table(__file__, "families.toml")
FAMILIES: Mapping[str, list[Fields]] = TABLES["families"]
RULES = CHAINS | {f"tree {name}": rule for name, rule in TREES.items()}
CASE_FIELDS = {field.name for field in fields(Case)}
LAYOUT = {"bases", "changes", "models", "longer"}  # what is neither a case's nor its models'
# What makes a field's value of what is written.
VALUES: dict[str, Callable[[Any], Any]] = {
    "prompts": lambda prompts: tuple(map(tuple, prompts)),
    "eos": tuple,
    "warp": lambda settings: Warp(**settings),
    "draft_warp": lambda settings: Warp(**settings),
    "verifier": RULES.__getitem__,
    "drafter": ENUMERATED.__getitem__,
}


def family_cases(family: str, seed: int, longer: int) -> Iterator[Case]:
    """Yields the cases of a family: from the seed of its models, and how many more tokens are emitted."""
    return read_cases(FAMILIES[family], seed, longer)


def read_cases(groups: Iterable[Fields], seed: int, longer: int = 0) -> Iterator[Case]:
    """Yields the cases that groups stand for."""
    for group in groups:
        for base, change in product(group.get("bases", [{}]), group.get("changes", [{}])):
            names = [part["name"] for part in (group, base, change) if "name" in part]
            settings = {**group, **base, **change, "name": ", ".join(names).format(seed)}
            if "longer" in settings:
                settings[settings["longer"]] += longer
            yield read_case(settings, seed)


def read_case(settings: Fields, seed: int) -> Case:
    """Returns the case of some fields; those that are no fields of `Case` are the models'."""
    sizes = {name: settings[name] for name in settings.keys() - CASE_FIELDS - LAYOUT}
    target, draft = MODELS[settings["models"]](seed=seed, **sizes)
    values = {
        name: VALUES.get(name, lambda value: value)(settings[name]) for name in CASE_FIELDS & settings.keys()
    }
    return Case(target=target, draft=draft, **values)


def describe(warp: Warp) -> str:
    """Names a warp by its settings."""
    settings = {"T": warp.temperature, "top-k": warp.top_k, "top-p": warp.top_p}
    return ", ".join(f"{name} {value:g}" for name, value in settings.items() if value is not None)
