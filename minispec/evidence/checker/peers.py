"""Other people's accept rules, as verifiers.

    from minispec.evidence.checker.check import check_verifier
    from minispec.evidence.checker.peers import transformers_rule

    print(check_verifier(transformers_rule))

needs the extra `peers`: pip install 'minispec[peers]'.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from minispec.core.records import Draft, Verdict
from minispec.core.rng import Rng

NEEDS = "transformers_rule needs transformers, 4.57 to 5: pip install 'minispec[peers]'"


def transformers_rule(draft: Draft, target_probs: Tensor, rng: Rng) -> Verdict:
    """Asks the function with which transformers' `generate` verifies what an assistant model proposed.

    That is `transformers.generation.utils._speculative_sampling`. It is handed what `generate` hands it:
    float32 logits (here logarithms of the probabilities), one row. It draws from torch's own generator, so
    `check_verifier` samples it. Where nothing is proposed, `generate` does not call it and samples from the
    target; so does this.

    Args:
        draft: of one row.
        target_probs: [1, K+1, V].
        rng: not used.

    Returns:
        As in `Verifier`.

    Raises:
        ValueError: if there are several rows; transformers takes one.
        ImportError: if transformers is missing, or has no such function any more.
    """
    if draft.tokens.shape[0] != 1:
        raise ValueError(f"transformers verifies one row at a time, not {draft.tokens.shape[0]}")
    function, extra = speculative_sampling()
    n = int(draft.lengths[0])
    target_logits = target_probs[:, : n + 1].float().log()
    if n == 0:
        token = torch.multinomial(target_logits[:, 0].softmax(-1), num_samples=1)[:, 0]
        return Verdict(torch.zeros_like(token), token)
    draft_logits = draft.probs[:, :n].float().log()
    tokens, matches = function(draft.tokens[:, :n], draft_logits, n, target_logits, **extra)
    return Verdict(matches.reshape(1), tokens[:, -1])


def speculative_sampling() -> tuple[Callable[..., tuple[Tensor, Tensor]], dict[str, Any]]:
    """Returns transformers' function, and what else its version wants to be told.

    It takes ids [1, n+K] and logits [1, K, V] and [1, K+1, V], and returns the ids that it keeps, [1, m].

    Raises:
        ImportError: if it cannot be had.
    """
    try:
        from transformers.generation.utils import _speculative_sampling
    except ImportError as error:
        raise ImportError(NEEDS) from error
    # Up to 5.17 it is told whether the candidates already end the text; here they never do.
    wants = inspect.signature(_speculative_sampling).parameters
    return _speculative_sampling, {"is_done_candidate": False} if "is_done_candidate" in wants else {}
