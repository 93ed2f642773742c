"""Theory: what the formulas promise, each a small function with its equation.

α is the probability to accept one drafted token, K how many are drafted per round, c what one draft step
costs in target steps. The papers call K γ. p is the target's distribution and q the draft's. What cannot be
raises a ValueError: α outside of 0 to 1, a negative K or cost, p and q of different sizes or sums.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import fsum, prod

from torch import Tensor

from minispec.core.model import GPTConfig

Probabilities = Sequence[float] | Tensor
SUM_ERROR = 1e-4  # a distribution in float32, over many tokens, may miss a sum of 1 by this


def total_variation(p: Probabilities, q: Probabilities) -> float:
    """Returns half of Σ |p − q|: how far two distributions are apart, between 0 and 1; p and q are [V].

    It is the D_LK of Leviathan et al. 2023, definition 3.2.
    """
    return fsum(abs(a - b) for a, b in _both(p, q)) / 2


def acceptance(p: Probabilities, q: Probabilities) -> float:
    """Returns Σ min(p, q) = 1 − TV(p, q): the probability that a token drawn from q is accepted.

    Leviathan et al. 2023, theorem 3.5; its mean over positions is α, corollary 3.6. p and q are [V].
    """
    return fsum(min(a, b) for a, b in _both(p, q))


def expected_tokens(alpha: float, k: int) -> float:
    """Returns the tokens that one target call yields on average: 1 + α + α² + … + α^K.

    That is (1 − α^(K+1)) / (1 − α), and K + 1 for α = 1: Leviathan et al. 2023, equation 1.
    """
    _check(alphas=[alpha], k=k)
    return fsum(alpha**i for i in range(k + 1))


def speed_up(alpha: float, k: int, c: float) -> float:
    """Returns how many times faster decoding gets, if verifying K + 1 tokens costs one target step.

    (1 − α^(K+1)) / ((1 − α)(Kc + 1)): Leviathan et al. 2023, theorem 3.8. See `refined_speed_up` for
    machines on which verifying costs more.
    """
    _check(c=c)
    return expected_tokens(alpha, k) / (k * c + 1)


def best_k(alpha: float, c: float, most: int = 16) -> int:
    """Returns the K from 0 to `most` with the largest `speed_up`; 0 means that drafting does not pay."""
    _check(k=most)
    return max(range(most + 1), key=lambda k: speed_up(alpha, k, c))


def expected_tokens_by_position(alphas: Sequence[float]) -> float:
    """Returns the tokens per target call where each position has its own α: 1 + Σ_i Π_(j ≤ i) α_j.

    Equation 1 of Leviathan et al. 2023 without its assumption that all α_j are equal: α_j is the probability
    to accept drafted token j if all before it were accepted, [K].
    """
    _check(alphas=alphas)
    return 1 + fsum(prod(alphas[: i + 1]) for i in range(len(alphas)))


def refined_speed_up(
    alphas: Sequence[float], t_target: float, t_draft: float, t_verify: Callable[[int], float]
) -> float:
    """Returns the speed-up with measured times, and an α for each position [K].

    Tokens per round over the time of a round, in target steps: K draft steps, and one target forward over
    K + 1 tokens, in the seconds that `t_verify` says. Theorem 3.8 is the case t_verify(n) = t_target.
    """
    seconds = t_verify(len(alphas) + 1)
    if min(t_target, seconds) <= 0 or t_draft < 0:
        raise ValueError(f"times must be above 0: {t_target}, {t_draft} and {seconds} seconds are not")
    return expected_tokens_by_position(alphas) * t_target / (len(alphas) * t_draft + seconds)


@dataclass(frozen=True)
class Hardware:
    """What a machine can do at its best."""

    name: str  #: for people
    bandwidth: float  #: bytes per second from memory
    arithmetic: float  #: operations (additions and multiplications) per second

    def __post_init__(self) -> None:
        if min(self.bandwidth, self.arithmetic) <= 0:
            raise ValueError(f"bandwidth and arithmetic must be above 0, not {self}")


@dataclass(frozen=True)
class ForwardCost:
    """The least that one forward of a model takes: its weights are read once, however many tokens."""

    tokens: int  #: new tokens of the forward, those of all rows
    bytes: float  #: read from memory: the weights, and every row's cache
    operations: float  #: two per weight and token (Kaplan et al. 2020, table 1), and those of looking back
    moving: float  #: seconds to read the bytes
    computing: float  #: seconds to do the operations

    @property
    def seconds(self) -> float:
        """The longer of both, as they overlap: the roofline of Williams, Waterman and Patterson 2009."""
        return max(self.moving, self.computing)


def forward_cost(
    parameters: float,
    bytes_each: float,
    hardware: Hardware,
    tokens: int = 1,
    rows: int = 1,
    context: int = 0,
    config: GPTConfig | None = None,
) -> ForwardCost:
    """Returns what a forward takes by memory and by arithmetic: some new tokens in each of some rows.

    All rows share one reading of the weights. Each reads a cache of its own, so with long contexts a forward
    is limited by memory at any batch size (MagicDec: Sadhukhan et al. 2024, arXiv 2408.11049). Each new token
    looks at its row's context: 4 · layers · heads · head size operations a token of it. What new tokens write
    into the cache, and how they look at each other, is left out.

    bytes_each: bytes per weight, and per number in a cache; 2 in 16 bits.
    context: tokens in each row's cache; above 0 it takes a config, for the sizes of attention.
    """
    if min(parameters, bytes_each, tokens, rows) <= 0 or (context and config is None):
        sizes = f"{parameters} weights, {bytes_each} bytes, {rows} rows of {tokens} tokens"
        raise ValueError(f"all must be above 0, and a context takes a config: {sizes}")
    moved = parameters * bytes_each
    done = 2 * parameters * tokens * rows
    if config is not None:
        moved += kv_cache_bytes(config, rows * context, 1) * bytes_each
        done += 4 * config.layers * config.heads * config.head_dim * context * tokens * rows
    return ForwardCost(rows * tokens, moved, done, moved / hardware.bandwidth, done / hardware.arithmetic)


def kv_cache_bytes(config: GPTConfig, tokens: int, dtype_bytes: int = 4) -> int:
    """Returns the bytes of keys and values: 2 · layers · key heads · head size · all tokens · bytes each."""
    if tokens < 0 or dtype_bytes < 1:
        raise ValueError(f"a cache needs 0 or more tokens of 1 or more bytes, not {tokens} of {dtype_bytes}")
    return 2 * config.layers * config.kv_heads * config.head_dim * tokens * dtype_bytes


def _both(p: Probabilities, q: Probabilities) -> list[tuple[float, float]]:
    target, draft = ([float(x) for x in probabilities] for probabilities in (p, q))
    if len(target) != len(draft):
        raise ValueError(f"p and q must be over the same tokens; they have {len(target)} and {len(draft)}")
    for probabilities in (target, draft):
        if not abs(fsum(probabilities) - 1) <= SUM_ERROR or min(probabilities) < 0:
            raise ValueError(
                f"probabilities are 0 or more and sum to 1; these sum to {fsum(probabilities):.6g}"
            )
    return list(zip(target, draft, strict=True))


def _check(alphas: Sequence[float] = (), k: int = 0, c: float = 0.0) -> None:
    for alpha in alphas:
        if not 0 <= alpha <= 1:
            raise ValueError(f"the acceptance rate must be between 0 and 1, not {alpha}")
    if k < 0:
        raise ValueError(f"K must be 0 or more, not {k}")
    if not c >= 0:
        raise ValueError(f"the cost ratio must be 0 or more, not {c}")
