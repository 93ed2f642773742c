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

ONE_PROMPT = ((0,),)
TWO_PROMPTS = ((0,), (1, 0, 1))
T_0 = Warp(temperature=0)
T_05 = Warp(temperature=0.5)


def size_ordered_cases(seed: int = 0) -> tuple[Case, ...]:
    """Returns the cases on which the zoo looks for a bug, smallest first; the seed is that of the models."""
    return (*two_ids(seed), *three_ids(seed), *table_drafters(seed), *gpts(seed))


def two_ids(seed: int) -> Sequence[Case]:
    """Returns cases of a vocabulary of two."""
    target, draft = table_pair(2, seed)
    context4, context5 = (table_pair(2, seed, max_length=length) for length in (4, 5))
    _, close_draft = table_pair(2, seed, distance=0.2)
    opposite_draft = TableModel(-target.table)
    k1 = Case("V 2, K 1", target, draft, ONE_PROMPT, 1, 2)
    k1_cap2 = k1.but("cap 2")
    k2 = Case("V 2, K 2", target, draft, ONE_PROMPT, 2, 3)
    k2_cap3 = k2.but("cap 3")
    return (
        k1_cap2,
        k1_cap2.but("EOS", eos=(1,)),
        k1_cap2.but("T 0, opposite draft", warp=T_0, draft=opposite_draft),
        k1_cap2.but("T 0.5", warp=T_05),
        k1_cap2.but("coupled", verifier=verify_coupled),
        k1.but("cap 3, two rows", max_new_tokens=3, prompts=TWO_PROMPTS),
        k1.but("cap 4, close draft", max_new_tokens=4, draft=close_draft),
        k1.but("context 4", target=context4[0], draft=context4[1], max_new_tokens=9),
        k2_cap3,
        k2_cap3.but("EOS", eos=(1,)),
        k2_cap3.but("two rows", prompts=TWO_PROMPTS),
        k2.but("context 5, two rows", target=context5[0], draft=context5[1], prompts=TWO_PROMPTS),
        k2_cap3.but("greedy", warp=T_0, draft_warp=Warp(), verifier=verify_greedy),
        k2_cap3.but("block", verifier=verify_block),
        k2_cap3.but("stop rule", drafter=ENUMERATED["stopping"]),
        replace(k2_cap3, name="V 2, K up to 2, cap 3, automatic K", drafter=ENUMERATED["automatic"], rows=1),
    )


def three_ids(seed: int) -> Sequence[Case]:
    """Returns cases of a vocabulary of three: here top-k, top-p and residuals have a choice."""
    target, draft = table_pair(3, seed)
    tied_target, tied_draft = (TableModel((model.table / 3).round()) for model in (target, draft))
    k1 = Case("V 3, K 1, cap 2", target, draft, ONE_PROMPT, 1, 2)
    k1_ties = k1.but("ties", target=tied_target, draft=tied_draft)
    k1_rotated = k1.but("p = (5, 3, 2)/10", target=rotated_table(0), draft=rotated_table(1))
    k2 = Case("V 3, K 2, cap 3", target, draft, ONE_PROMPT, 2, 3)
    k2_ties = k2.but("ties", target=tied_target, draft=tied_draft)
    return (
        k1,
        k1_ties.but("T 0", warp=T_0),
        k1_ties.but("top-k 1", warp=Warp(top_k=1)),
        k1_rotated.but("top-k 2", warp=Warp(top_k=2)),
        k1.but("top-p 0.6", warp=Warp(top_p=0.6)),
        k1.but("T 0.5, top-p 0.8", warp=Warp(0.5, top_p=0.8)),
        k1_rotated.but("top-k 2, top-p 0.6", warp=Warp(top_k=2, top_p=0.6)),
        k1.but("hotter draft", draft_warp=Warp(2.0)),
        k2,
        k2.but("block, sharp draft", draft_warp=T_05, verifier=verify_block),
        k2.but("T 0.5, top-k 2, top-p 0.8", warp=Warp(0.5, 2, 0.8)),
        k2_ties.but("greedy", warp=T_0, verifier=verify_greedy),
    )


def rotated_table(offset: int) -> TableModel:
    """Returns a model whose rows are (5, 3, 2)/10, rotated by one id more from each context to the next.

    Rotated by one, a draft's top 2 and a target's have one id in common. Of what top-k 2 leaves, the first id
    has 5/8, above a top-p of 0.6; of the whole it has 5/10, below.
    """
    logits = torch.tensor([5, 3, 2], dtype=torch.float64).div(10).log()
    return TableModel(torch.stack([logits.roll(offset + context) for context in range(12)]))


def table_drafters(seed: int) -> Sequence[Case]:
    """Returns cases on tables of drafts that are looked up, and of a prompt that waits for a row."""
    target, draft = table_pair(2, seed)
    look_up = Case("V 2, K 1, cap 2", target, draft, ((0, 1, 0),), 1, 2)
    k2 = replace(look_up, name="V 2, K 2, cap 3", k=2, max_new_tokens=3)
    queue = ((1, 0, 1), (0, 1, 1), (0,))  # the last has nothing to overwrite what its row held before
    waiting = replace(look_up, prompts=queue, waiting=True, draft_warp=T_0)  # has few branches
    return (
        look_up.but("n-gram", drafter=ENUMERATED["ngram"]),
        k2.but("suffix", drafter=ENUMERATED["suffix"]),
        waiting.but("one of three waits"),
    )


def gpts(seed: int) -> Sequence[Case]:
    """Returns cases of tiny GPTs, whose caches and positions are those of real models.

    They end with drafters on the target, and with trees of two branches.
    """
    pair2 = tiny_gpt_pair(seed, vocab_size=2)
    pair3 = tiny_gpt_pair(seed, vocab_size=3)
    target, _ = pair2
    early = early_exit(target, seed)
    k1 = Case("GPT, V 2, K 1, cap 3", *pair2, ONE_PROMPT, 1, 3)
    k2 = replace(k1, name="GPT, V 2, K 2, cap 3", k=2)
    two_rows = k2.but("two rows", prompts=TWO_PROMPTS)
    cap4 = replace(k2, name="GPT, V 2, K 2, cap 4", draft=target, max_new_tokens=4)
    trees = {"drafter": ENUMERATED["two_branches"], "verifier": verify_tree, "prompts": ((1,),)}
    return (
        k1,
        k1.but("T 0.5", warp=T_05),
        k1.but("two rows", prompts=TWO_PROMPTS),
        k2,
        two_rows,
        Case("GPT, V 3, K 2, cap 3, two rows", *pair3, TWO_PROMPTS, 2, 3),
        k1.but("exit", target=early, draft=early, drafter=ENUMERATED["exit"]),
        two_rows.but("medusa", draft=target, drafter=ENUMERATED["medusa"]),
        cap4.but("eagle", drafter=ENUMERATED["eagle"]),
        cap4.but("parallel", drafter=ENUMERATED["parallel"]),
        Case("GPT, V 3, K 1, cap 2", *pair3, (), 1, 2).but("tree", **trees),
        k2.but("tree", **trees),
    )
