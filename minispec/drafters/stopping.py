"""A stop rule: end a draft early where it has become doubtful.

After each drafted token the drafter asks whether another one would pay: is it likely enough that all so far
will be accepted? It trusts the draft: a token that the draft gives probability 0.7, before any warp, is taken
to be accepted with probability 0.7.

Why it is lossless. The question is asked *after* a token was drawn, and about the *next* one. The token that
made the rule stop has been drawn, so it stays in the draft and is verified. Given all that was drafted
before, each drafted token has the distribution that is reported for it, and a round may end after any of
them. To drop the token that looked doubtful would be something else: what is left was then drawn from its
distribution *under the condition that it looked good*, and the distribution that is reported is wrong.
"""

import torch
from torch import Tensor

from minispec.core.draft import ModelDrafter
from minispec.core.model import LanguageModel
from minispec.core.records import Draft
from minispec.core.rng import RoundRng
from minispec.core.warp import Warp


class StoppingDrafter(ModelDrafter):
    """A draft model that stops before K where its draft has become doubtful; each row where its own has."""

    def __init__(self, model: LanguageModel, least: float, warp: Warp | None = None) -> None:
        """Makes a drafter.

        Args:
            model: the draft model; it must have the target's vocabulary.
            least: how likely all so far must be accepted for one token more, from 0 (never stop) to 1.
            warp: how to warp its logits; None: like the target's. Any is lossless.

        Raises:
            ValueError: if `least` is no probability.
        """
        if not 0 <= least <= 1:
            raise ValueError(f"the least probability to go on must be between 0 and 1, not {least}")
        super().__init__(model, warp)
        self.least = least

    def propose(self, pending: Tensor, k: int, warp: Warp, rng: RoundRng) -> Draft:
        """Guesses up to k tokens a row after the pending ones [B]; lengths [B]: where each has stopped."""
        warp = self.warp or warp
        all_accepted = (torch.tensor(rng.plan.budgets) > 0).double()  # [B], how probable it is
        lengths = torch.zeros_like(all_accepted, dtype=torch.long)
        token = pending
        tokens = []
        dists = []
        for i in range(k):
            drafting = (all_accepted > 0) & (all_accepted >= self.least)
            if not bool(drafting.any()):
                break
            logits = self.model.head(self.model.hidden(token[:, None], self.cache))[:, -1]  # [B, V]
            dist = warp(logits)
            token = rng.categorical(dist, i, drafting.to(dist.device))
            tokens.append(token)
            dists.append(dist)
            token_probs = torch.softmax(logits, dim=-1).gather(1, token[:, None])[:, 0].cpu()
            all_accepted = torch.where(drafting, all_accepted * token_probs, all_accepted)
            lengths += drafting  # the token stays, whatever comes of the next question
        if not tokens:
            return Draft.empty(len(pending), self.vocab_size, pending.device)
        return Draft(torch.stack(tokens, 1), torch.stack(dists, 1), lengths)
