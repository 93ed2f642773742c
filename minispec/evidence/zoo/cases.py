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
from minispec.evidence.proof.cases import ENUMERATED, Case
from minispec.evidence.proof.models import TableModel, early_exit, table_pair, tiny_gpt_pair
from minispec.verifiers.block import verify_block
from minispec.verifiers.coupled import verify_coupled
from minispec.verifiers.tree import verify_tree

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
    short, long = (table_pair(2, seed, max_length=length) for length in (4, 5))
    close = table_pair(2, seed, distance=0.2)[1]
    opposite = TableModel(-target.table)
    base = Case("V 2, K 1", target, draft, ONE, 1, 2)
    least = base.but("cap 2")
    two = Case("V 2, K 2", target, draft, ONE, 2, 3)
    wider = two.but("cap 3")
    return (
        least,
        least.but("EOS", eos=(1,)),
        least.but("T 0, opposite draft", warp=COLD, draft=opposite),
        least.but("T 0.5", warp=SHARP),
        least.but("coupled", verifier=verify_coupled),
        base.but("cap 3, two rows", max_new_tokens=3, prompts=RAGGED),
        base.but("cap 4, close draft", max_new_tokens=4, draft=close),
        base.but("context 4", target=short[0], draft=short[1], max_new_tokens=9),
        wider,
        wider.but("EOS", eos=(1,)),
        wider.but("two rows", prompts=RAGGED),
        two.but("context 5, two rows", target=long[0], draft=long[1], prompts=RAGGED),
        wider.but("greedy", warp=COLD, draft_warp=Warp(), verifier=verify_greedy),
        wider.but("block", verifier=verify_block),
        wider.but("stop rule", drafter=ENUMERATED["stopping"]),
        replace(wider, name="V 2, K up to 2, cap 3, automatic K", drafter=ENUMERATED["automatic"], rows=1),
    )


def three_ids(seed: int) -> Sequence[Case]:
    """Returns cases of a vocabulary of three: here top-k, top-p and residuals have a choice."""
    target, draft = table_pair(3, seed)
    tied = [TableModel((model.table / 3).round()) for model in (target, draft)]
    least = Case("V 3, K 1, cap 2", target, draft, ONE, 1, 2)
    even = least.but("ties", target=tied[0], draft=tied[1])
    turned = least.but("p = (5, 3, 2)/10", target=turning(0), draft=turning(1))
    wider = Case("V 3, K 2, cap 3", target, draft, ONE, 2, 3)
    greedy = wider.but("ties, greedy", warp=COLD, verifier=verify_greedy)
    return (
        least,
        even.but("T 0", warp=COLD),
        even.but("top-k 1", warp=Warp(top_k=1)),
        turned.but("top-k 2", warp=Warp(top_k=2)),
        least.but("top-p 0.6", warp=Warp(top_p=0.6)),
        least.but("T 0.5, top-p 0.8", warp=Warp(0.5, top_p=0.8)),
        turned.but("top-k 2, top-p 0.6", warp=Warp(top_k=2, top_p=0.6)),
        least.but("hotter draft", draft_warp=Warp(2.0)),
        wider,
        wider.but("block, sharp draft", draft_warp=SHARP, verifier=verify_block),
        wider.but("T 0.5, top-k 2, top-p 0.8", warp=Warp(0.5, 2, 0.8)),
        replace(greedy, target=tied[0], draft=tied[1]),
    )


def turning(angle: int) -> TableModel:
    """Returns a model whose rows are all (5, 3, 2)/10, turned by one id more from each context to the next.

    Turned by one, a draft's top 2 and a target's have one id in common. Of what top-k 2 leaves, the first id
    has 5/8, above a top-p of 0.6; of the whole it has 5/10, below.
    """
    logits = torch.tensor([5, 3, 2], dtype=torch.float64).div(10).log()
    return TableModel(torch.stack([logits.roll(angle + context) for context in range(12)]))


def gpts(seed: int) -> Sequence[Case]:
    """Returns cases of a tiny GPT, whose cache and positions are those of a real model."""
    base = Case("GPT, V 2, K 1, cap 3", *tiny_gpt_pair(seed, vocab_size=2), ONE, 1, 3)
    two = replace(base, name="GPT, V 2, K 2, cap 3", k=2)
    return (
        base,
        base.but("T 0.5", warp=SHARP),
        base.but("two rows", prompts=RAGGED),
        two,
        two.but("two rows", prompts=RAGGED),
        Case("GPT, V 3, K 2, cap 3, two rows", *tiny_gpt_pair(seed, vocab_size=3), RAGGED, 2, 3),
    )


def look_ups(seed: int) -> Sequence[Case]:
    """Returns cases in which the draft is looked up in the text."""
    base = Case("V 2, K 1, cap 2", *table_pair(2, seed), ((0, 1, 0),), 1, 2)
    two = replace(base, name="V 2, K 2, cap 3", k=2, max_new_tokens=3)
    return base.but("n-gram", drafter=ENUMERATED["ngram"]), two.but("suffix", drafter=ENUMERATED["suffix"])


def waiting(seed: int) -> Sequence[Case]:
    """Returns a case in which a third prompt waits for a row that is done; it has few branches."""
    queue = ((1, 0, 1), (0, 1, 1), (0,))  # the last has nothing to overwrite what its row held before
    least = Case("V 2, K 1, cap 2", *table_pair(2, seed), queue, 1, 2)
    return (least.but("one of three waits", waiting=True, draft_warp=COLD),)


def on_the_target(seed: int) -> Sequence[Case]:
    """Returns cases of drafters that live on the target."""
    model, _ = tiny_gpt_pair(seed, vocab_size=2)
    exit_model = early_exit(model, seed)
    longer = Case("GPT, V 2, K 2, cap 4", model, model, ONE, 2, 4)
    two = replace(longer, name="GPT, V 2, K 2, cap 3, two rows", max_new_tokens=3, prompts=RAGGED)
    return (
        Case("GPT, V 2, K 1, cap 3, exit", exit_model, exit_model, ONE, 1, 3, drafter=ENUMERATED["exit"]),
        two.but("medusa", drafter=ENUMERATED["medusa"]),
        longer.but("eagle", drafter=ENUMERATED["eagle"]),
        longer.but("parallel", drafter=ENUMERATED["parallel"]),
    )


def trees(seed: int) -> Sequence[Case]:
    """Returns cases of trees with two branches."""
    wide = Case("GPT, V 3, K 1, cap 2", *tiny_gpt_pair(seed, vocab_size=3), ((1,),), 1, 2)
    long = Case("GPT, V 2, K 2, cap 3", *tiny_gpt_pair(seed, vocab_size=2), ((1,),), 2, 3)
    drafter = ENUMERATED["two_branches"]
    return tuple(case.but("tree", drafter=drafter, verifier=verify_tree) for case in (wide, long))
