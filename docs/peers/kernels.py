"""Decisions of serving engines as verifiers: vLLM's and SGLang's, in Triton, and vLLM Ascend's, in torch.

They take the tokens of all rows in one list. Their kernels run in Triton's interpreter: milliseconds a row.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import torch
import torch.nn.functional as F
from torch import Tensor

from minispec.core.verify import Decide
from minispec.evidence.checker.adapter import verdict_of
from peers.rules import load_file


def triton_utils() -> SimpleNamespace:
    """Returns what vLLM's files import of its `triton_utils`."""
    os.environ.setdefault("TRITON_INTERPRET", "1")
    language = import_module("triton.language")
    device = SimpleNamespace(log1p=lambda x: language.log(1 + x))  # the interpreter has no libdevice
    return SimpleNamespace(triton=import_module("triton"), tl=language, tldevice=device, HAS_TRITON=True)


def rule_of_list(sample: Callable[..., Tensor]) -> Decide:
    """Makes a rule of vLLM's `rejection_sample` or its like, which draws from torch: p [B, K+1, V]."""

    def verify(draft, target_probs, rng):
        rows = len(draft.tokens)
        bonus = torch.multinomial(target_probs[torch.arange(rows), draft.lengths], 1)
        drafted = torch.arange(draft.k) < draft.lengths[:, None]
        if not bool(drafted.any()):
            return verdict_of(bonus, draft)
        emitted = sample(
            draft.tokens[drafted].int(),
            draft.lengths.tolist(),
            int(draft.lengths.max()),
            draft.lengths.cumsum(0).int(),
            draft.probs[drafted].float(),
            target_probs[:, :-1][drafted].float().log(),
            bonus,
            SimpleNamespace(all_greedy=False, all_random=True, generators={}, temperature=torch.ones(rows)),
        )
        return verdict_of(emitted.long(), draft)

    return verify


def vllm_files(folder: Path, *names: str) -> Any:
    """Loads files of vLLM that import one another, in this order, and returns the last one."""
    given: dict[str, Any] = {"triton_utils": triton_utils()}
    for name in names:
        path = folder / "vllm" / f"{name}.py"
        given[path.stem] = load_file(path, **given)
    return given[path.stem]


def vllm_rule(folder: Path) -> Decide:
    """`rejection_sample` of vLLM's first model runner."""
    warmup = "model_executor/warmup/jit_warmup"
    names = (warmup, f"{warmup}_triton_helper", "v1/spec_decode/fly", "v1/sample/rejection_sampler")
    return rule_of_list(vllm_files(folder, *names).rejection_sample)


def vllm_second_rule(folder: Path, **how: Any) -> Decide:
    """`rejection_sample` of vLLM's second model runner, which is told how; rows' seeds come from torch."""
    runner = "v1/worker/gpu"
    names = ("v1/spec_decode/fly", f"{runner}/sample/gumbel", f"{runner}/spec_decode/rejection_sampler_utils")
    vllm = vllm_files(folder, *names)

    def verify(draft, target_probs, rng):
        rows = len(draft.tokens)
        steps = torch.arange(draft.k + 1)
        real = steps <= draft.lengths[:, None]  # [B, K+1]: the pending token and the draft
        row, step = real.nonzero().T
        emitted, kept = vllm.rejection_sample(
            target_probs[real].float().log(),
            draft.probs.float().log(),
            F.pad(draft.tokens, (1, 0))[real],
            F.pad((draft.lengths + 1).cumsum(0), (1, 0)).int(),  # where each row begins and ends
            step + 7,  # positions, as after a text of seven tokens
            torch.arange(rows),
            row,
            step,
            torch.ones(rows),  # temperatures
            torch.randint(2**62, (rows,)),
            draft.k,
            **how,
        )
        return verdict_of(emitted.where(steps < kept[:, None], -1), draft)

    return verify


def sglang_rule(folder: Path, **how: Any) -> Decide:
    """`chain_speculative_sampling_triton` of SGLang, which is told how; its caller draws uniform numbers."""
    triton_utils()
    sglang = load_file(folder / "sglang/kernels/ops/speculative/reject_sampling.py")

    def verify(draft, target_probs, rng):
        rows = len(draft.tokens)
        emitted = torch.full((rows, draft.k + 1), -1)
        sglang.chain_speculative_sampling_triton(
            emitted.view(-1),
            torch.zeros_like(emitted),
            torch.zeros(rows).int(),
            F.pad(draft.tokens, (1, 0)),
            torch.arange(emitted.numel()).view(emitted.shape),
            None,
            None,
            torch.rand(emitted.shape),
            torch.rand(rows),
            target_probs.float().contiguous(),
            draft.probs.float().contiguous(),
            1.0,
            1.0,
            True,
            **how,
        )
        return verdict_of(emitted, draft)

    return verify


def ascend_rule(checkout: Path, block: bool) -> Decide:
    """`rejection_sample` of vLLM Ascend without Triton; a block is a draft of three tokens and more."""

    def unpinned(name):
        return lambda *args, pin_memory=False, **more: getattr(torch, name)(*args, **more)

    how = MagicMock(enable_block_verify=block, enable_entropy_verify=False)
    # Memory is pinned for an accelerator only.
    unpinned_torch = SimpleNamespace(
        **vars(torch) | {name: unpinned(name) for name in ("tensor", "arange", "ones", "full")}
    )
    vllm = load_file(
        checkout / "vllm_ascend/sample/rejection_sampler.py",
        torch=unpinned_torch,
        HAS_TRITON=False,
        PLACEHOLDER_TOKEN_ID=-1,
        GREEDY_TEMPERATURE=0,
        get_ascend_config=lambda: MagicMock(rejection_sampler_config=how, enable_reduce_sample=True),
        generate_uniform_probs=lambda count, *_: torch.rand(count, dtype=torch.float64),
    )

    def sample(*given):
        *drafts, logits, bonus, sampling = given
        ids = torch.arange(logits.shape[-1]).expand(logits.shape).contiguous()
        return vllm.rejection_sample(*drafts, (logits, ids), bonus, sampling)

    return rule_of_list(sample)
