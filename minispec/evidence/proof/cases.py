"""The ladder: settings of the loop, from the smallest up, on which a bug may show itself.

They are ordered by the size of the vocabulary, then K, then the cap, then the number of rows; the tables come
before the GPTs. The first one that shows a bug is the bug's smallest instance.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch

from minispec.core.verify import verify_greedy
from minispec.core.warp import Warp
from minispec.evidence.proof.distributions import Case
from minispec.evidence.proof.models import TableModel, table_pair, tiny_gpt_pair
from minispec.evidence.proof.quick_drafters import automatic, stopping
from minispec.rules.coupled import verify_coupled

ONE = ((0,),)
RAGGED = ((0,), (1, 0, 1))
COLD = Warp(temperature=0)
SHARP = Warp(temperature=0.5)


def ladder(seed: int = 0) -> tuple[Case, ...]:
    """Returns all cases, smallest first.

    Args:
        seed: of the models.
    """
    return (*two_ids(seed), *three_ids(seed), *gpts(seed))


def two_ids(seed: int) -> Sequence[Case]:
    """Returns cases of a vocabulary of two."""
    target, draft = table_pair(2, seed)
    short = table_pair(2, seed, max_length=4)
    long = table_pair(2, seed, max_length=5)
    close, opposite = table_pair(2, seed, distance=0.2)[1], TableModel(-target.table)
    least = Case("V 2, K 1, cap 2", target, draft, ONE, 1, 2)
    wider = Case("V 2, K 2, cap 3", target, draft, ONE, 2, 3)
    return (
        least,
        replace(least, name="V 2, K 1, cap 2, EOS", eos=(1,)),
        replace(least, name="V 2, K 1, cap 2, T 0, opposite draft", warp=COLD, draft=opposite),
        replace(least, name="V 2, K 1, cap 2, T 0.5", warp=SHARP),
        replace(least, name="V 2, K 1, cap 2, coupled", verifier=verify_coupled),
        replace(least, name="V 2, K 1, cap 3, two rows", max_new_tokens=3, prompts=RAGGED),
        replace(least, name="V 2, K 1, cap 4, close draft", max_new_tokens=4, draft=close),
        replace(least, name="V 2, K 1, context 4", target=short[0], draft=short[1], max_new_tokens=9),
        wider,
        replace(wider, name="V 2, K 2, cap 3, EOS", eos=(1,)),
        replace(wider, name="V 2, K 2, cap 3, two rows", prompts=RAGGED),
        replace(wider, name="V 2, K 2, context 5, two rows", target=long[0], draft=long[1], prompts=RAGGED),
        replace(wider, name="V 2, K 2, cap 3, greedy", warp=COLD, draft_warp=Warp(), verifier=verify_greedy),
        replace(wider, name="V 2, K 2, cap 3, stop rule", drafter=stopping),
        replace(wider, name="V 2, K up to 2, cap 3, automatic K", drafter=automatic, rows=1),
    )


def three_ids(seed: int) -> Sequence[Case]:
    """Returns cases of a vocabulary of three: here top-k, top-p and residuals have a choice."""
    target, draft = table_pair(3, seed)
    tied = [TableModel((model.table / 3).round()) for model in (target, draft)]
    least = Case("V 3, K 1, cap 2", target, draft, ONE, 1, 2)
    even = replace(least, name="V 3, K 1, cap 2, ties", target=tied[0], draft=tied[1])
    turned = replace(least, target=turning(0), draft=turning(1))
    wider = Case("V 3, K 2, cap 3", target, draft, ONE, 2, 3)
    return (
        least,
        replace(even, name="V 3, K 1, cap 2, ties, T 0", warp=COLD),
        replace(even, name="V 3, K 1, cap 2, ties, top-k 1", warp=Warp(top_k=1)),
        replace(turned, name="V 3, K 1, cap 2, laws (5, 3, 2)/10, top-k 2", warp=Warp(top_k=2)),
        replace(least, name="V 3, K 1, cap 2, top-p 0.6", warp=Warp(top_p=0.6)),
        replace(least, name="V 3, K 1, cap 2, T 0.5, top-p 0.8", warp=Warp(0.5, top_p=0.8)),
        replace(
            turned,
            name="V 3, K 1, cap 2, laws (5, 3, 2)/10, top-k 2, top-p 0.6",
            warp=Warp(top_k=2, top_p=0.6),
        ),
        replace(least, name="V 3, K 1, cap 2, hotter draft", draft_warp=Warp(2.0)),
        wider,
        replace(wider, name="V 3, K 2, cap 3, T 0.5, top-k 2, top-p 0.8", warp=Warp(0.5, 2, 0.8)),
        replace(
            even,
            name="V 3, K 2, cap 3, ties, greedy",
            k=2,
            max_new_tokens=3,
            warp=COLD,
            verifier=verify_greedy,
        ),
    )


def turning(by: int) -> TableModel:
    """Returns a model whose laws are all (5, 3, 2)/10, turned by one id more from each context to the next.

    Turned by one, a draft's top 2 and a target's have one id in common. Of what top-k 2 leaves, the first id
    has 5/8, above a top-p of 0.6; of the whole it has 5/10, below.
    """
    law = torch.tensor([5, 3, 2], dtype=torch.float64).div(10).log()
    return TableModel(torch.stack([law.roll(by + context) for context in range(12)]))


def gpts(seed: int) -> Sequence[Case]:
    """Returns cases of a tiny GPT, whose cache and positions are those of a real model."""
    target, draft = tiny_gpt_pair(seed, vocab_size=2)
    least = Case("GPT, V 2, K 1, cap 3", target, draft, ONE, 1, 3)
    wide = tiny_gpt_pair(seed, vocab_size=3)
    return (
        least,
        replace(least, name="GPT, V 2, K 1, cap 3, two rows", prompts=RAGGED),
        replace(least, name="GPT, V 2, K 2, cap 3", k=2),
        replace(least, name="GPT, V 2, K 2, cap 3, two rows", k=2, prompts=RAGGED),
        Case("GPT, V 3, K 2, cap 3, two rows", wide[0], wide[1], RAGGED, 2, 3),
    )
