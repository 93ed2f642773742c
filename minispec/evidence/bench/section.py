"""A section of the bench, how much it measures, and what all sections are handed.

A section is a function from a `BenchRun` to what it has found, ready for JSON. Sections hand things on
through what they have found and in no other way, so a bench that was cut can be resumed where it stopped.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from minispec.core.batch import Prompts
from minispec.core.draft import Drafter
from minispec.core.model import GPT
from minispec.drafters.lookup import for_target
from minispec.drafters.suffix import SuffixDrafter
from minispec.evidence.bench.interleaved import Decodes, Key, Run, Setting, Tell, interleave
from minispec.evidence.bench.measure import NEW_TOKENS, bench_prompts
from minispec.io.checkpoint import Pair
from minispec.io.tokenizer import Tokenizer
from minispec.native.backend import BACKENDS, Models, on_backend

Results = dict[str, Any]
DECODINGS = (("greedy", 0.0), ("rejection", 1.0))  # verifiers, each with its temperature


@dataclass(frozen=True)
class Section:
    """A part of the bench."""

    name: str  #: as people choose it
    run: Callable[["BenchRun"], Results]  #: measures it
    needs: tuple[str, ...] = ()  #: sections that must be found before
    core: bool = True  #: whether plain `bench` runs it
    full: bool = True  #: whether `bench --full` runs it
    needs_draft: bool = True  #: whether it needs a draft model
    prompts: Callable[[Tokenizer], Prompts] | None = None  #: makes its own; None: it measures on the pair's


@dataclass(frozen=True)
class Plan:
    """How much is measured."""

    name: str = "core"  #: `quick`, `core` or `full`
    prompts: int = 32  #: at most so many of the pair's prompts, in all
    choosing: int = 4  #: at most so many of them, and no more than a quarter, choose K
    reporting: int = 8  #: at most so many of them report
    repeats: int = 2  #: how often each reporting prompt is measured
    new_tokens: int = NEW_TOKENS  #: per prompt
    widths: tuple[int, ...] = (1, 2, 3, 4, 5, 6, 8, 10, 12)  #: values of K to choose from
    few_widths: tuple[int, ...] = (2, 4, 6, 8, 10)  #: the same where a section has much else to vary
    temperatures: tuple[float, ...] = (0.0, 0.5, 0.8, 1.0, 1.5)  #: of the sampled sweep
    rows: tuple[int, ...] = (1, 2, 4, 8, 16, 32, 64)  #: sizes of a batch
    latencies: int = 12  #: how often each forward is timed
    backends: tuple[str, ...] = tuple(BACKENDS)  #: that are tried


QUICK = Plan("quick", choosing=2, reporting=4, repeats=1, widths=(3, 5, 8), few_widths=(3, 8), latencies=5)
CORE = Plan()
FULL = Plan("full", prompts=64, choosing=16, reporting=20, latencies=30)


@dataclass(frozen=True)
class PromptGroups:
    """A pair's prompts in three groups that share none."""

    learning: list[list[int]]  #: what predictions are made from
    choosing: list[list[int]]  #: what K is chosen on
    reporting: list[list[int]]  #: what is reported


@dataclass
class BenchRun:
    """What a section is handed."""

    pair: Pair  #: the models
    plan: Plan  #: how much to measure
    prompts: PromptGroups
    seed: int = 0  #: of the sampling
    selected: tuple[str, ...] = ()  #: the names of all sections of this run
    results: dict[str, Results] = field(default_factory=dict)  #: what earlier sections have found, by name
    tell: Tell = lambda text: None  #: told what comes next, for people
    _models: dict[tuple[str, GPT], Models] = field(default_factory=dict)

    def models(self, backend: str, draft: GPT | None = None) -> Models:
        """Returns the target and a draft, by default the pair's, on a backend; a ValueError says why not."""
        key = backend, draft or self.pair.draft
        if key not in self._models:
            self._models[key] = on_backend(replace(self.pair, draft=key[1]), backend)
        return self._models[key]

    def backends(self) -> tuple[dict[str, Models], dict[str, str]]:
        """Returns the backends that can be had here, and why the others cannot."""
        available = {}
        unavailable = {}
        for name in self.plan.backends:
            self.tell(f"the {name} backend; the first time it may have to be built")
            try:
                available[name] = self.models(name)
            except ValueError as error:
                unavailable[name] = str(error)
        return available, unavailable

    def alone(self, verifier: str = "greedy", temperature: float = 0.0) -> Setting:
        """Returns the target alone, as fast as this bench has seen it."""
        best = self.results["target-only"]["baseline"]
        return Setting(self.models(best["path"]), 0, verifier, temperature, best["threads"])

    def drafted(
        self, verifier: str, temperature: float, k: int = 1, draft: GPT | None = None, label: str = ""
    ) -> Setting:
        """Returns speculative decoding where it is fastest here; draft: another one than the pair's."""
        best = self.results["target-only"]["speculative"]
        return Setting(self.models(best["path"], draft), k, verifier, temperature, best["threads"], label)

    def best_k(self, verifier: str) -> int:
        """Returns the K that the section `widths` chose."""
        return next(s["k"] for s in self.results["widths"]["settings"] if s["verifier"] == verifier)

    @property
    def lookup(self) -> Drafter | None:
        """What drafts where there is no draft model; None where there is one."""
        return None if self.pair.has_draft else for_target(SuffixDrafter, self.pair.target)

    @property
    def choosing(self) -> Sequence[Prompts]:
        """The prompts that choose, each as a batch of its own."""
        return [[prompt] for prompt in self.prompts.choosing]

    @property
    def reporting(self) -> Sequence[Prompts]:
        """The prompts that report, each as a batch of its own, as often as the plan says."""
        return [[prompt] for prompt in self.prompts.reporting * self.plan.repeats]

    def interleave(
        self, groups: Mapping[Key, Sequence[Decodes]], batches: Sequence[Prompts], title: str
    ) -> dict[Key, list[list[Run]]]:
        """Lets the members of each group decode each batch (see `interleaved.interleave`)."""
        new_tokens = self.plan.new_tokens
        return interleave(groups, batches, self.seed, new_tokens, lambda text: self.tell(f"{title}, {text}"))

    def compare(
        self, settings: Mapping[Key, Decodes], batches: Sequence[Prompts], title: str
    ) -> dict[Key, list[Run]]:
        """Compares all settings with each other: as `interleave`, with one group."""
        runs = self.interleave({"": [*settings.values()]}, batches, title)[""]
        return dict(zip(settings, runs, strict=True))

    def speed_ups(
        self, settings: Iterable[Setting], batches: Sequence[Prompts], title: str
    ) -> dict[Setting, list[list[Run]]]:
        """Returns runs of the target alone and of each setting, which decode the same batches."""
        groups = {
            setting: (self.alone(setting.verifier, setting.temperature), setting) for setting in settings
        }
        return self.interleave(groups, batches, title)


def group(pair: Pair, plan: Plan) -> PromptGroups:
    """Deals a pair's prompts out: some to choose K, as many or more to report, the rest to predict from.

    Raises:
        ValueError: if there are too few.
    """
    prompts = bench_prompts(pair)[: plan.prompts]
    quarter = max(len(prompts) // 4, 1)
    choosing = min(quarter, plan.choosing)
    measured = choosing + min((len(prompts) - quarter) // 2, plan.reporting)
    return PromptGroups(prompts[measured:], prompts[:choosing], prompts[choosing:measured])
