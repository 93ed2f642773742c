"""A section of the bench, and what all of them are handed.

A section is a function from a `Bench` to what it has found, ready for JSON. Sections hand things on through
what they have found and in no other way, so a bench that was cut can be taken up where it stopped.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from minispec.core.model import GPT
from minispec.evidence.bench.interleaved import Way
from minispec.evidence.bench.sections.plan import Plan
from minispec.evidence.bench.settings import bench_prompts
from minispec.io.checkpoint import Pair
from minispec.native.backend import BACKENDS, Models, on_backend

Found = dict[str, Any]


class Skipped(Exception):
    """A section cannot be measured here; the message says why."""


@dataclass(frozen=True)
class Section:
    """A part of the bench.

    Attributes:
        name: as people choose it.
        title: what it measures, in a few words.
        run: measures it.
        needs: sections that must be found before.
        core: whether plain `bench` runs it.
        weight: about how many seconds it takes in the full plan, for the progress bar.
    """

    name: str
    title: str
    run: Callable[[Bench], Found]
    needs: tuple[str, ...] = ()
    core: bool = True
    weight: float = 10.0


@dataclass(frozen=True)
class Prompts:
    """A pair's prompts in three groups that share none.

    Attributes:
        learning: what predictions are made from.
        choosing: what K is chosen on.
        reporting: what is reported.
    """

    learning: list[list[int]]
    choosing: list[list[int]]
    reporting: list[list[int]]


@dataclass
class Bench:
    """What a section is handed.

    Attributes:
        pair: the models.
        plan: how much to measure.
        prompts: in three groups.
        seed: of the sampling.
        selected: the names of all sections of this run.
        found: what earlier sections have found, by name.
        tell: told how much of the section is done, from 0 to 1, and what comes next.
    """

    pair: Pair
    plan: Plan
    prompts: Prompts
    seed: int = 0
    selected: tuple[str, ...] = ()
    found: dict[str, Found] = field(default_factory=dict)
    tell: Callable[[float, str], None] = lambda share, text: None
    _models: dict[tuple[str, int], tuple[GPT, Models]] = field(default_factory=dict)

    def models(self, path: str, draft: GPT | None = None) -> Models:
        """Returns the target and a draft, by default the pair's, on a path.

        Raises:
            ValueError: if this machine cannot build the path.
        """
        draft = draft or self.pair.draft
        key = path, id(draft)
        if key not in self._models:
            if draft is self.pair.draft:
                models = on_backend(self.pair, path)
            else:
                backend = BACKENDS[path]
                models = Models(self.models(path).target, backend.model(draft), backend)
            self._models[key] = draft, models
        return self._models[key][1]

    def paths(self) -> tuple[dict[str, Models], dict[str, str]]:
        """Returns the paths that can be had here, and why the others cannot."""
        have, lack = {}, {}
        for path in self.plan.paths:
            self.tell(0.0, f"the {path} path; the first time it may have to be built")
            try:
                have[path] = self.models(path)
            except ValueError as error:
                lack[path] = str(error)
        return have, lack

    def alone(self, verifier: str = "greedy", temperature: float = 0.0) -> Way:
        """Returns the target alone, as fast as this bench has seen it."""
        best = self.found["target-only"]["baseline"]
        target = self.models(best["path"]).target
        return Way(target, None, 0, verifier, temperature, best["threads"], BACKENDS[best["path"]])

    def way(self, k: int, verifier: str, temperature: float, draft: GPT | None = None) -> Way:
        """Returns speculative decoding on the path on which it is fastest here.

        Args:
            k: drafted tokens per round.
            verifier: `greedy` or `rejection`.
            temperature: 0 for greedy.
            draft: another draft than the pair's.
        """
        best = self.found["target-only"]["speculative"]
        return way_on(self.models(best["path"], draft), k, verifier, temperature, best["threads"])

    def best_k(self, verifier: str) -> int:
        """Returns the K that the section `widths` chose."""
        return next(s["k"] for s in self.found["widths"]["settings"] if s["verifier"] == verifier)


def way_on(models: Models, k: int, verifier: str, temperature: float, threads: int | None) -> Way:
    """Returns speculative decoding with given models."""
    backend = models.backend
    return Way(
        models.target, lambda: backend.drafter(models.draft), k, verifier, temperature, threads, backend
    )


def group(pair: Pair, plan: Plan) -> Prompts:
    """Deals a pair's prompts out: some to choose K, as many or more to report, the rest to predict from.

    Raises:
        ValueError: if there are too few.
    """
    prompts = bench_prompts(pair)[: plan.prompts]
    if len(prompts) < 3:
        raise ValueError(f"the pair {pair.name} has {len(prompts)} prompts; the bench needs 3 or more")
    quarter = max(len(prompts) // 4, 1)
    choosing, reporting = min(quarter, plan.choosing), min((len(prompts) - quarter) // 2, plan.reporting)
    measured = choosing + reporting
    return Prompts(prompts[measured:], prompts[:choosing], prompts[choosing:measured])


def setting_name(verifier: str, temperature: float, k: int | str, more: str = "") -> str:
    """Returns what predictions and measurements of the same setting are both called."""
    return f"{verifier}, T = {temperature:g}, K = {k}" + (f", {more}" if more else "")


def points_of(prompts: Sequence[Sequence[int]]) -> list[list[Sequence[int]]]:
    """Returns each prompt as a batch of its own."""
    return [[prompt] for prompt in prompts]


def by_name(rows: Sequence[Mapping[str, Any]], **values: Any) -> Mapping[str, Any]:
    """Returns the first row with these values.

    Raises:
        KeyError: if there is none.
    """
    for row in rows:
        if all(row[name] == value for name, value in values.items()):
            return row
    raise KeyError(values)
