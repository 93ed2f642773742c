"""The coupled rule: draft and target draw by the same noise, and mostly agree.

The output then is the target's own, token for token, with or without a draft (Daliri, Musco, Suresh 2024).
"""

import torch
from torch import Tensor

from minispec.core.records import Draft, Verdict
from minispec.core.rng import Place, RoundRng, check_one_a_row, checked_seed
from minispec.core.verify import Verifier


def accept_coupled(draft: Draft, target_probs: Tensor, rng: RoundRng) -> Verdict:
    """Draws the target's own token at every position, and accepts while the drafted token is the same.

    What is emitted is always the target's own draw, so it is lossless with any random number generator. With
    a `KeyedRng` draft and target draw by the same noise: then the output is target-only's token for token,
    whatever the draft, and they agree with probability at least (1 − TV)/(1 + TV) (Daliri, Musco, Suresh
    2024). With independent draws they agree less often, with probability Σ p·q.

    target_probs are [B, K+1, V].
    """
    p = target_probs.double()
    mask = draft.mask
    accepted = torch.zeros(len(p), dtype=torch.long, device=p.device)
    token = torch.zeros_like(accepted)
    matching = torch.ones_like(accepted, dtype=torch.bool)  # rows in which all so far were alike
    for i in range(draft.k + 1):
        if not bool(matching.any()):
            break
        token = torch.where(matching, rng.categorical(p[:, i], i, matching), token)
        if i < draft.k:
            matching = matching & mask[:, i] & (token == draft.tokens[:, i])
            accepted = accepted + matching
    return Verdict(accepted, token)


def accept_compare(draft: Draft, target_probs: Tensor, rng: RoundRng) -> Verdict:
    """Samples and compares: the coupled rule with draws of the target that are independent of the draft's.

    Lossless, for all that is emitted is drawn from p; and wasteful: a token is accepted with probability
    Σ p·q. Where q is one-hot it accepts as `accept_rejection` does, and needs no q. target_probs are
    [B, K+1, V].
    """
    return accept_coupled(draft, target_probs, rng)


verify_coupled = Verifier("coupled", accept_coupled)
verify_compare = Verifier("compare", accept_compare)


class KeyedRng:
    """Noise that is a pure function of seed, prompt id, position and id: the same for whoever asks.

    `categorical` takes the largest log-probability plus Gumbel noise, which has exactly the distribution
    that was asked for (Gumbel 1954; Maddison et al. 2014). A draft and a target that share the noise mostly
    draw the same token, and a target finds the same token with or without a draft.

    It decides no yes or no. A verifier that rejects at random and draws again at the same position would meet
    the noise that its draft was drawn with; that is why `bernoulli` refuses.

    Attributes:
        key: the seed, which fixes the noise.
    """

    def __init__(self, seed: int) -> None:
        """Fixes the noise by a seed of 0 to 2⁶³ − 1; errors are those of `SeededRng`."""
        self.key = checked_seed(seed, 2**63)

    def bernoulli(self, probs: Tensor, place: Place | None = None) -> Tensor:
        """Answers yes where that is certain, no where it is impossible: probs [B] -> [B] bool.

        Raises:
            ValueError: if a decision is open, or the probabilities are not [B].
        """
        check_one_a_row(probs)
        live = None if place is None else place.live
        uncertain = (probs > 0) & (probs < 1)
        if bool((uncertain if live is None else uncertain & live).any()):
            raise ValueError(
                "shared noise decides no yes or no: it would repeat the noise of the draft; "
                "use verify_coupled, or another random number generator"
            )
        outcome = probs >= 1
        return outcome if live is None else outcome & live

    def categorical(self, probs: Tensor, place: Place | None = None) -> Tensor:
        """Draws ids by noise: probs [B, V] -> [B] ids (see `Rng`).

        Raises:
            ValueError: if no positions are given.
        """
        if place is None or place.positions is None:
            raise ValueError("keyed noise needs positions: give the offset of the token that is decided")
        device = probs.device
        key = scramble(torch.tensor(self.key, device=device))
        key = scramble(scramble(key + place.prompt_ids.to(device)) + place.positions.to(device))  # [B]
        ids = torch.arange(probs.shape[1], device=device)
        bits = scramble(key[:, None] + scramble(ids))  # [B, V]
        uniform = ((bits >> 12) & (2**52 - 1)).double().add(0.5) * 2.0**-52  # inside (0, 1)
        # The largest log p + Gumbel is the smallest exponential / p; where p is 0 that is infinite.
        token = (-uniform.log() / probs.double()).argmin(-1)
        return token if place.live is None else token * place.live


def scramble(values: Tensor) -> Tensor:
    """Mixes 64-bit integers so that neighbours come out unrelated: [...] int64 -> [...] int64.

    The finalizer of SplitMix64 (Steele, Lea, Flood 2014). Products wrap around, and the shifts are logical.
    """
    z = values + -7046029254386353131  # 0x9E3779B97F4A7C15 as a signed number
    z = (z ^ ((z >> 30) & (2**34 - 1))) * -4658895280553007687
    z = (z ^ ((z >> 27) & (2**37 - 1))) * -7723592293110705685
    return z ^ ((z >> 31) & (2**33 - 1))
