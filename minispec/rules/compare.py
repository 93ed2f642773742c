"""Sample and compare: the target draws a token of its own, and the draft's is accepted if it is the same."""

from torch import Tensor

from minispec.core.records import Draft, Verdict
from minispec.core.rng import Rng
from minispec.rules.coupled import verify_coupled


def verify_compare(draft: Draft, target_probs: Tensor, rng: Rng) -> Verdict:
    """Accepts while draws from p are the drafted tokens; the first that differs is the correction.

    Lossless, for all that comes out is drawn from p; and wasteful: a token is accepted with probability
    Σ p·q. It is the coupled rule with draws that are independent of the draft's. Where q is one-hot it
    accepts as `verify_rejection` does, and needs no q. Arguments and result are those of `Verifier`,
    target_probs being [B, K+1, V].
    """
    return verify_coupled(draft, target_probs, rng)
