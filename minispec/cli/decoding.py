"""Decoding on the command line: K by number or automatic, and requests decoded with and without a draft."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from rich.console import Console

from minispec.cli.options import choose
from minispec.core.batch import Request
from minispec.core.draft import Drafter
from minispec.core.warp import Warp
from minispec.drafters.adaptive import LARGEST_K, PRIOR, AdaptiveDrafter, RunningAcceptance
from minispec.drafters.costs import Costs
from minispec.drafters.entry import DrafterEntry
from minispec.drafters.registry import DRAFTERS
from minispec.evidence.bench.costs import measure_costs, measure_forwards
from minispec.io.checkpoint import Pair
from minispec.io.trace import ObservedRound
from minispec.native.backend import AUTO, Models
from minispec.native.drafters import K, make_drafter
from minispec.verifiers.coupled import KeyedRng, verify_coupled
from minispec.verifiers.lossy import verify_mixture
from minispec.verifiers.registry import CHAINS


def why_lossy(verifier: str, temperature: float) -> str | None:
    """Says that a verifier is lossy; None if it is not. At temperature 0 only a mixture is lossy."""
    if CHAINS[verifier].lossless or (temperature == 0 and verifier != verify_mixture.name):
        return None
    return f"--verifier {verifier} is lossy: this text is not distributed as the target's own"


def read_k(k: str) -> int:
    """Returns K, or the largest K to choose from for an automatic one."""
    if k == AUTO:
        return LARGEST_K
    try:
        number = int(k)
    except ValueError:
        raise ValueError(f"--k must be an integer of at least 0, or {AUTO}, not {k!r:.60}") from None
    if number < 0:  # refused here: a tree of that depth could not even be made
        raise ValueError(f"k must be at least 0, not {k:.60}")
    return number


def chosen_drafter(name: str, k: str | None, has_draft: bool = True) -> DrafterEntry:
    """Returns the drafter of a name, for a `--k`; ValueError if there is none, or it cannot be had so.

    has_draft: whether there is a draft model.
    """
    entry = DRAFTERS[choose(name, tuple(DRAFTERS), "--drafter")]
    entry.check_draft(has_draft)
    if k == AUTO and not (entry.allows_automatic_k or entry.chooses):
        raise ValueError(f"--drafter {name} needs a K: give a number, such as --k 4")
    return entry


def usual_k(entry: DrafterEntry) -> str:
    """Returns what `--k` is where it is not given."""
    return AUTO if entry.chooses else str(K)


def automatic(drafter: Drafter, costs: Costs, info: Mapping[str, Any]) -> AdaptiveDrafter:
    """Returns a drafter that chooses K by costs, and lets another drafter propose.

    Before the first round it assumes the recorded acceptance of the pair, which `info` describes.
    """
    acceptance = RunningAcceptance(min(LARGEST_K, costs.most), prior=recorded_acceptance(info))
    return AdaptiveDrafter(drafter, costs, acceptance=acceptance)


def recorded_acceptance(info: Mapping[str, Any]) -> float:
    """Returns the acceptance that a pair's training has measured; `PRIOR` where it has none that can be."""
    acceptance = info.get("acceptance")
    return acceptance if isinstance(acceptance, (int, float)) and 0 <= acceptance <= 1 else PRIOR


def print_advice(setting: str, speed_up: float, advice: Sequence[str], console: Console) -> None:
    """Prints why a setting loses or gains little, and what would help, if there is anything to say."""
    if advice:
        title = f"{setting}, {speed_up:.2f}x: {'a loss' if speed_up < 1 else 'a small gain'}"
        console.print("\n  ".join([title, *advice]))


@dataclass(frozen=True)
class Decoding:
    """How requests are decoded, with a draft and by the target alone."""

    pair: Pair  #: its tokenizer and end-of-text
    models: Models  #: its models on a backend
    verifier: str  #: by name
    warp: Warp  #: of the backend
    k: int  #: drafted tokens per round; for an automatic K the most of them; 0 is the target alone
    seed: int  #: of the sampling
    drafter: DrafterEntry  #: what proposes
    costs: Costs | None = None  #: what an automatic K is chosen by, anew in each run; None: K is fixed

    def settings(self) -> dict[str, Any]:
        """Returns what both sides decode with."""
        rng = KeyedRng if self.verifier == verify_coupled.name else self.models.backend.rng
        return {"warp": self.warp, "rng": rng(self.seed)}

    def speculative(
        self, requests: Sequence[Request], batch_size: int | None = None
    ) -> Iterator[ObservedRound]:
        """Decodes with the draft (see `speculate`); a ValueError says what does not go together."""
        backend = self.models.backend
        verifier = backend.verifier(self.verifier, bool(self.k) and self.drafter.proposes_trees)
        settings = self.settings() | {"verifier": verifier, "k": self.k, "batch_size": batch_size}
        if not self.k:
            return backend.observe(self.models.target, None, requests, **settings)
        target, drafter = make_drafter(self.drafter, self.pair, self.models, self.k, costs=self.costs)
        if self.costs is not None and not self.drafter.chooses:
            drafter = automatic(drafter, self.costs, self.pair.info if self.drafter.uses_draft_model else {})
        return backend.observe(target, drafter, requests, **settings)

    def measured_costs(self, request: Request, repeats: int = 2) -> Costs:
        """Measures the parts of a round, with caches as long as in the middle of a request.

        5 repeats take up to two seconds. A draft by a drafter without a model takes no time worth counting.
        Where the choice is between look-ups, for the draft is the target itself, only forwards are measured.
        """
        cached = len(request.prompt) + request.max_new_tokens // 2
        if self.drafter.chooses and self.models.draft is self.models.target:
            return measure_forwards(self.models.target, cached, repeats=repeats)
        costs = measure_costs(
            self.models,
            request.prompt[-self.models.draft.max_length :],  # longer only for a drafter without a model
            cached=cached,
            warp=self.warp,
            verifier=self.models.backend.verifier(self.verifier),
            repeats=repeats,
        )
        if self.drafter.uses_draft_model:
            return costs
        return replace(costs, t_draft=0.0, catch_up=0.0, draft_prefill=0.0, restart=0.0)
