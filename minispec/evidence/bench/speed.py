"""How much faster a pair decodes with its draft, measured in seconds of waiting rather than minutes.

`minispec demo` prints one speed-up, and a training writes the K that was fastest into the pair. Both decode
the pair's own held-out prompts greedily, each other ones; `minispec bench` measures more.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import cycle, islice

from minispec.evidence.bench.interleaved import Setting, interleave, quartiles, speed_up_of
from minispec.evidence.bench.measure import NEW_TOKENS, PROMPT_TOKENS
from minispec.io.checkpoint import Pair
from minispec.native.backend import Models
from minispec.native.drafters import K

RUNS = 9  # of each side: their median is printed
CHOOSING = 12  # prompts on which K is chosen: with four, the choice changed from run to run
WIDTHS = (1, 2, 3, 4, 5, 6, 8, 10)  # values of K to choose from


@dataclass(frozen=True)
class SpeedUp:
    """Seconds per token of the target alone over those with a draft; quartiles are lower, median, upper."""

    backend: str  #: on which both sides ran
    k: int  #: drafted tokens a round
    tokens: int  #: emitted in each run, at least
    runs: int  #: of each side, interleaved
    quartiles: tuple[float, float, float]  #: of the speed-up, over the runs
    noise: tuple[float, float, float]  #: the same of the target alone, timed against itself

    @property
    def differs(self) -> bool:
        """Whether the median lies outside the quartiles of the noise."""
        low, _, high = self.noise
        return not low <= self.quartiles[1] <= high


def measure_speed_up(models: Models, prompts: Sequence[Sequence[int]], k: int, runs: int = RUNS) -> SpeedUp:
    """Times the target alone, with its draft, and alone again, on one prompt a run."""
    alone = Setting(models)
    batches = [[prompt] for prompt in islice(cycle(prompts), runs)]
    group = [alone, Setting(models, k), alone]
    first, drafted, second = interleave({"": group}, batches, seed=0, new_tokens=NEW_TOKENS)[""]
    return SpeedUp(
        backend=models.backend.name,
        k=k,
        tokens=min(run.tokens for run in drafted),
        runs=runs,
        quartiles=speed_up_of(first, drafted),
        noise=speed_up_of(first, second),
    )


def fastest_k(models: Models, prompts: Sequence[Sequence[int]]) -> int:
    """Returns the K with which a token takes least time, at the median over some prompts."""
    settings = [Setting(models, k) for k in WIDTHS]
    batches = [[prompt] for prompt in prompts[:CHOOSING]]
    runs = interleave({"": settings}, batches, seed=0, new_tokens=NEW_TOKENS)[""]
    seconds = {
        setting.k: quartiles(run.seconds_per_token for run in decoded)[1]
        for setting, decoded in zip(settings, runs, strict=True)
    }
    return min(seconds, key=seconds.__getitem__)


def halves(pair: Pair) -> tuple[list[list[int]], list[list[int]]]:
    """Returns a pair's held-out prompts, of at most 32 tokens: those that K is chosen on, and the others.

    A pair with a single prompt has it in both halves, and one without prompts has none.
    """
    prompts = [list(prompt[:PROMPT_TOKENS]) for prompt in pair.info.get("prompts", [])]
    return prompts[1::2] or prompts, prompts[0::2]


def recorded_k(pair: Pair) -> int:
    """Returns the K that the pair's training found fastest, or the usual one where it has recorded none."""
    k = pair.info.get("k")
    return k if isinstance(k, int) and k >= 1 else K
