"""The zoo's cases: settings of the loop, ordered by size.

They are ordered by the size of the vocabulary, then K, then the cap, then the number of rows; the tables come
before the GPTs, and in both those of other drafters last. The first case that shows a bug is the bug's
smallest instance.
"""

from collections.abc import Sequence
from dataclasses import replace

import torch

from minispec.core.verify import verify_greedy
from minispec.core.warp import Warp
from minispec.evidence.proof.cases import DRAFTERS, Case
from minispec.evidence.proof.models import TableModel, early_exit, table_pair, tiny_gpt_pair
from minispec.rules.block import verify_block
from minispec.rules.coupled import verify_coupled
from minispec.rules.tree import verify_tree

ONE = ((0,),)
RAGGED = ((0,), (1, 0, 1))
COLD = Warp(temperature=0)
SHARP = Warp(temperature=0.5)


def size_ordered_cases(seed: int = 0) -> tuple[Case, ...]:
    """Returns the cases on which the zoo looks for a bug, smallest first; the seed is that of the models."""
    tables = (*two_ids(seed), *three_ids(seed), *look_ups(seed), *waiting(seed))
    return (*tables, *gpts(seed), *on_the_target(seed), *trees(seed))


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
        replace(wider, name="V 2, K 2, cap 3, block", verifier=verify_block),
        replace(wider, name="V 2, K 2, cap 3, stop rule", drafter=DRAFTERS["stopping"]),
        replace(wider, name="V 2, K up to 2, cap 3, automatic K", drafter=DRAFTERS["automatic"], rows=1),
    )


def three_ids(seed: int) -> Sequence[Case]:
    """Returns cases of a vocabulary of three: here top-k, top-p and residuals have a choice."""
    target, draft = table_pair(3, seed)
    tied = [TableModel((model.table / 3).round()) for model in (target, draft)]
    least = Case("V 3, K 1, cap 2", target, draft, ONE, 1, 2)
    even = replace(least, name="V 3, K 1, cap 2, ties", target=tied[0], draft=tied[1])
    turned = replace(least, target=turning(0), draft=turning(1))
    wider = Case("V 3, K 2, cap 3", target, draft, ONE, 2, 3)
    greedy = replace(wider, warp=COLD, verifier=verify_greedy)
    return (
        least,
        replace(even, name="V 3, K 1, cap 2, ties, T 0", warp=COLD),
        replace(even, name="V 3, K 1, cap 2, ties, top-k 1", warp=Warp(top_k=1)),
        replace(turned, name="V 3, K 1, cap 2, p = (5, 3, 2)/10, top-k 2", warp=Warp(top_k=2)),
        replace(least, name="V 3, K 1, cap 2, top-p 0.6", warp=Warp(top_p=0.6)),
        replace(least, name="V 3, K 1, cap 2, T 0.5, top-p 0.8", warp=Warp(0.5, top_p=0.8)),
        replace(
            turned,
            name="V 3, K 1, cap 2, p = (5, 3, 2)/10, top-k 2, top-p 0.6",
            warp=Warp(top_k=2, top_p=0.6),
        ),
        replace(least, name="V 3, K 1, cap 2, hotter draft", draft_warp=Warp(2.0)),
        wider,
        replace(wider, name="V 3, K 2, cap 3, block, sharp draft", draft_warp=SHARP, verifier=verify_block),
        replace(wider, name="V 3, K 2, cap 3, T 0.5, top-k 2, top-p 0.8", warp=Warp(0.5, 2, 0.8)),
        replace(greedy, name="V 3, K 2, cap 3, ties, greedy", target=tied[0], draft=tied[1]),
    )


def turning(by: int) -> TableModel:
    """Returns a model whose rows are all (5, 3, 2)/10, turned by one id more from each context to the next.

    Turned by one, a draft's top 2 and a target's have one id in common. Of what top-k 2 leaves, the first id
    has 5/8, above a top-p of 0.6; of the whole it has 5/10, below.
    """
    logits = torch.tensor([5, 3, 2], dtype=torch.float64).div(10).log()
    return TableModel(torch.stack([logits.roll(by + context) for context in range(12)]))


def gpts(seed: int) -> Sequence[Case]:
    """Returns cases of a tiny GPT, whose cache and positions are those of a real model."""
    target, draft = tiny_gpt_pair(seed, vocab_size=2)
    least = Case("GPT, V 2, K 1, cap 3", target, draft, ONE, 1, 3)
    wide = tiny_gpt_pair(seed, vocab_size=3)
    return (
        least,
        replace(least, name="GPT, V 2, K 1, cap 3, T 0.5", warp=SHARP),
        replace(least, name="GPT, V 2, K 1, cap 3, two rows", prompts=RAGGED),
        replace(least, name="GPT, V 2, K 2, cap 3", k=2),
        replace(least, name="GPT, V 2, K 2, cap 3, two rows", k=2, prompts=RAGGED),
        Case("GPT, V 3, K 2, cap 3, two rows", wide[0], wide[1], RAGGED, 2, 3),
    )


def look_ups(seed: int) -> Sequence[Case]:
    """Returns cases in which the draft is looked up in the text."""
    target, draft = table_pair(2, seed)
    least = Case("V 2, K 1, cap 2, n-gram", target, draft, ((0, 1, 0),), 1, 2, drafter=DRAFTERS["ngram"])
    return least, replace(
        least, name="V 2, K 2, cap 3, suffix", k=2, max_new_tokens=3, drafter=DRAFTERS["suffix"]
    )


def waiting(seed: int) -> Sequence[Case]:
    """Returns a case in which a third prompt waits for a row that is done; it has few branches."""
    target, draft = table_pair(2, seed)
    queue = ((1, 0, 1), (0, 1, 1), (0,))  # the last has nothing to overwrite what its row held before
    least = Case("V 2, K 1, cap 2, one of three waits", target, draft, queue, 1, 2, waiting=True)
    return (replace(least, draft_warp=COLD),)


def on_the_target(seed: int) -> Sequence[Case]:
    """Returns cases of drafters that live on the target."""
    model, _ = tiny_gpt_pair(seed, vocab_size=2)
    early = early_exit(model, seed)
    least = Case("GPT, V 2, K 1, cap 3, exit", early, early, ONE, 1, 3, drafter=DRAFTERS["exit"])
    later = replace(least, target=model, draft=model, k=2, max_new_tokens=4)
    two = replace(later, name="GPT, V 2, K 2, cap 3, two rows, medusa", max_new_tokens=3, prompts=RAGGED)
    return (
        least,
        replace(two, drafter=DRAFTERS["medusa"]),
        replace(later, name="GPT, V 2, K 2, cap 4, eagle", drafter=DRAFTERS["eagle"]),
        replace(later, name="GPT, V 2, K 2, cap 4, parallel", drafter=DRAFTERS["parallel"]),
    )


def trees(seed: int) -> Sequence[Case]:
    """Returns cases of trees with two branches."""
    target, draft = tiny_gpt_pair(seed, vocab_size=3)
    least = Case("GPT, V 3, K 1, cap 2, tree", target, draft, ((1,),), 1, 2, drafter=DRAFTERS["two_branches"])
    least = replace(least, verifier=verify_tree)
    target, draft = tiny_gpt_pair(seed, vocab_size=2)
    deeper = replace(least, name="GPT, V 2, K 2, cap 3, tree", target=target, draft=draft)
    return least, replace(deeper, k=2, max_new_tokens=3)
