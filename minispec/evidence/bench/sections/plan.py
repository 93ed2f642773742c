"""Plans: how much the bench measures, from a minute to a quarter of an hour."""

from __future__ import annotations

from dataclasses import dataclass

from minispec.evidence.bench.settings import NEW_TOKENS, WIDTHS
from minispec.native.backend import BACKENDS


@dataclass(frozen=True)
class Plan:
    """How much is measured.

    Attributes:
        name: `quick`, `core` or `full`.
        prompts: at most so many of the pair's prompts, in all.
        choosing: at most so many of them, and no more than a quarter, choose K.
        reporting: at most so many of them report.
        repeats: how often each reporting prompt is measured.
        new_tokens: per prompt.
        widths: values of K to choose from.
        few_widths: the same where a section has much else to vary.
        temperatures: of the sampled sweep.
        rows: sizes of a batch.
        batch_repeats: how often each size is measured.
        latencies: how often each forward is timed.
        paths: the backends that are tried.
        matrix_bytes: of the matrix that is read to measure the bandwidth, far beyond any cache.
        parameters: sizes of the models whose share of the bandwidth is measured.
        train: whether drafts of several sizes may be trained where there are none.
    """

    name: str = "core"
    prompts: int = 32
    choosing: int = 4
    reporting: int = 8
    repeats: int = 2
    new_tokens: int = NEW_TOKENS
    widths: tuple[int, ...] = WIDTHS
    few_widths: tuple[int, ...] = (2, 4, 6, 8, 10)
    temperatures: tuple[float, ...] = (0.0, 0.5, 0.8, 1.0, 1.5)
    rows: tuple[int, ...] = (1, 2, 4, 8, 16, 32, 64)
    batch_repeats: int = 3
    latencies: int = 12
    paths: tuple[str, ...] = tuple(BACKENDS)
    matrix_bytes: int = 256 * 2**20
    parameters: tuple[float, ...] = (1e6, 5e6, 25e6, 50e6)
    train: bool = False

    def __post_init__(self) -> None:
        if min(self.choosing, self.reporting, self.repeats, self.batch_repeats, self.latencies) < 1:
            raise ValueError("the bench needs prompts and repetitions of at least 1")
        if not self.widths or min(*self.widths, *self.few_widths, *self.rows) < 1:
            raise ValueError("values of K and sizes of batches must be at least 1")


QUICK = Plan(
    "quick",
    choosing=2,
    reporting=4,
    repeats=1,
    widths=(3, 5, 8),
    few_widths=(3, 8),
    latencies=5,
)
CORE = Plan()
FULL = Plan("full", prompts=64, choosing=16, reporting=20, repeats=2, latencies=30, train=True)
PLANS = {plan.name: plan for plan in (QUICK, CORE, FULL)}
