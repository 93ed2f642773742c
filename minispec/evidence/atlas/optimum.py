"""The most that any lossless rule can accept at one position, for given candidates: an optimal transport.

A rule is a joint distribution of the candidates and the token that is emitted, whose marginals are given: how
candidates are drawn, and p. A token is accepted if it is among the candidates. Only which tokens are among
them matters, neither their order nor how often; so a draw of candidates is a set, and its bits are a number.

The maximum is a linear programme (Sun et al. 2023, SpecTr). Hu et al. 2025 write it as a minimum over
subsets; that is computed here, and a test solves the programme.
"""

import torch
from torch import Tensor

from minispec.evidence.checker.instance import PossibleDrafts


def set_probabilities(drafts: PossibleDrafts) -> Tensor:
    """Returns how probable each set of candidates is, in each position: [N, 2^V]."""
    size = drafts.target_probs.shape[-1]
    is_candidate = torch.zeros(len(drafts.weights), size, dtype=torch.long).scatter_(
        1, drafts.draft.tokens, 1
    )
    sets = (is_candidate << torch.arange(size)).sum(-1)  # [B]
    positions = drafts.prefixes[:, 0]
    probabilities = torch.zeros(int(positions.max()) + 1, 2**size, dtype=torch.float64)
    return probabilities.index_put_((positions, sets), drafts.weights, accumulate=True)


def by_subsets(p: Tensor, sets: Tensor) -> Tensor:
    """Returns 1 + min over H of P(H) − Pr(all candidates in H), Hu et al. 2025: [N, V], [N, 2^V] -> [N]."""
    single = torch.zeros_like(sets)
    single[:, 2 ** torch.arange(p.shape[1])] = p
    return 1 + (over_subsets(single) - over_subsets(sets)).min(-1).values


def over_subsets(values: Tensor) -> Tensor:
    """Returns for each set the sum of the values of all its subsets: [N, 2^V] -> [N, 2^V]."""
    sums = values.clone()
    for bit in range(values.shape[1].bit_length() - 1):
        pairs = sums.view(len(sums), -1, 2, 2**bit)  # without the token, and with it
        pairs[:, :, 1] += pairs[:, :, 0]
    return sums
