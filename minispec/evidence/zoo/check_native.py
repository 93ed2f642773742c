"""Checks of the C++: a case as the native backend decodes it, against the core's models; and its threads."""

from dataclasses import replace
from functools import cache

import torch

from minispec.core.loop import speculate
from minispec.core.model import GPT, GPTConfig
from minispec.evidence.proof.cases import Case
from minispec.evidence.proof.distributions import speculative_distributions
from minispec.evidence.proof.models import tiny_gpt
from minispec.evidence.zoo.check_distributions import check_coupled, find_distribution_fault
from minispec.native.backend import NATIVE
from minispec.native.decisions import native_coupled
from minispec.native.model import NativeGPT

FORWARDS = 200
ROUND_SEEDS = 4
ROUND_TOKENS = 12
MAX_LENGTH = 16  # tokens


@cache
def on_native(case: Case) -> Case:
    """Returns the case on the native backend; its models are made once, and meet every bug."""
    return case.on(NATIVE)


def check_native_threads(case: Case) -> str | None:
    """Where GPTs are, 200 forwards shared by two threads have the very bits of one that is not shared.

    Where the draft model drafts, that is: the models are made anew, and read 1 to 16 tokens in turn. A race
    shows only where two threads are there at the same time: on one core it may be missed.
    """
    if not (isinstance(case.target, GPT) and case.drafts_with == "model"):
        return None
    model = tiny_gpt(GPTConfig(64, layers=4, width=64, heads=4, kv_heads=2, ffn=256, max_length=MAX_LENGTH))
    one_thread, two_threads = (NativeGPT(model, threads=threads) for threads in (1, 2))
    blocks = [torch.arange(n)[None] for n in range(1, MAX_LENGTH + 1)]
    torch_threads = torch.get_num_threads()
    torch.set_num_threads(2)  # a model is shared by as many as torch may use
    try:
        expected = [one_thread(block) for block in blocks]
        for index in range(FORWARDS):
            if not torch.equal(two_threads(blocks[index % MAX_LENGTH]), expected[index % MAX_LENGTH]):
                return f"forward {index} of two threads has other logits than that of one"
    finally:
        torch.set_num_threads(torch_threads)
    return None


def check_native_rounds(case: Case) -> str | None:
    """Rounds that the library plays are those of the core's loop over the same native parts."""
    ours = replace(on_native(case), max_new_tokens=ROUND_TOKENS)  # a cap that leaves rounds after most drafts
    for seed in range(ROUND_SEEDS):
        played, looped = (
            [
                (r.emitted, r.lengths, r.draft.probs[r.draft.mask].tolist())
                for r in ours.rounds(case.prompts * 2, NATIVE.rng(seed), how)
            ]
            for how in (NATIVE.observe, speculate)
        )
        if played != looped:
            return f"with seed {seed}, the rounds that the library plays are not those of the core's loop"
    return None


def check_native(case: Case) -> str | None:
    """Drafted and decided in C++, whole outputs have the chain rule's distribution, branch by branch.

    With keyed noise, the text is that of the target alone.
    """
    ours = on_native(case)
    fault = find_distribution_fault(case, speculative_distributions(ours).distributions)
    return fault or check_coupled(ours, native_coupled)
