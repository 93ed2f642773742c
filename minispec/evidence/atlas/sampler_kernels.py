"""Decisions of serving engines as rules: vLLM's and SGLang's, in Triton, and vLLM Ascend's, in torch.

They take the tokens of all rows in one list. An engine need not be importable here: files of it are loaded,
unchanged, and what else they import of it is a stand-in. Without a GPU their kernels run in Triton's
interpreter, if TRITON_INTERPRET=1 is set: milliseconds a row.
"""

import ast
import os
import sys
from collections.abc import Callable
from importlib import import_module, metadata
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import torch
from torch import Tensor

from minispec.core.records import Draft, Verdict
from minispec.core.rng import Rng
from minispec.core.verify import Verifier
from minispec.evidence.atlas.sampler_rules import functions_of, unpinned_torch
from minispec.evidence.checker.adapter import verdict_of

GPU = "cuda" if torch.cuda.is_available() else "cpu"
SHARED = "vllm.v1.spec_decode.fly"  # what both of vLLM's samplers import


def folder_of(package: str) -> Path:
    """Returns where a package stands, without importing it; RuntimeError: its kernels cannot run here."""
    if GPU == "cpu" and os.environ.get("TRITON_INTERPRET") != "1":
        raise RuntimeError(f"kernels of {package} need a GPU, or TRITON_INTERPRET=1")
    return Path(str(metadata.distribution(package).locate_file("")))


def modules_of(folder: Path, *names: str, **given: Any) -> ModuleType:
    """Loads modules of a package from a folder, in this order, and returns the last one.

    What they import of the package is one of them, or what is `given` for its last name, or a stand-in.
    """
    package = names[0].partition(".")[0]
    try:
        for name in names:
            path = folder / f"{name.replace('.', '/')}.py"
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                needed = (isinstance(node, ast.ImportFrom) and node.module) or ""
                if needed.startswith(f"{package}."):
                    sys.modules.setdefault(needed, given.get(needed.rpartition(".")[2], MagicMock()))
            spec: Any = spec_from_file_location(name, path)
            module = sys.modules[name] = module_from_spec(spec)
            spec.loader.exec_module(module)
    finally:
        for name in [one for one in sys.modules if one.startswith(f"{package}.")]:
            del sys.modules[name]
    return module


def triton_utils() -> Any:
    """Returns what vLLM's files import of its `triton_utils`."""
    language = import_module("triton.language")
    device: Any = SimpleNamespace(log1p=lambda x: language.log(1 + x))  # the interpreter has no libdevice
    if GPU != "cpu":
        device = import_module("triton.language.extra.libdevice")
    return SimpleNamespace(triton=import_module("triton"), tl=language, tldevice=device, HAS_TRITON=True)


def rule_of_list(sample: Callable[..., Tensor], device: str = GPU) -> Verifier:
    """Makes a rule of vLLM's `rejection_sample` or its like, which draws from torch: p [B, K+1, V]."""

    def rule(draft: Draft, target_probs: Tensor, rng: Rng) -> Verdict:
        bonus = torch.multinomial(target_probs[torch.arange(len(draft.tokens)), draft.lengths], 1)
        real = torch.arange(draft.k) < draft.lengths[:, None]
        if not bool(real.any()):
            return verdict_of(bonus, draft)
        temperature = torch.ones(len(draft.tokens), device=device)
        said = sample(
            draft.tokens[real].int().to(device),
            draft.lengths.tolist(),
            int(draft.lengths.max()),
            draft.lengths.cumsum(0).int().to(device),
            draft.probs[real].float().to(device),
            target_probs[:, :-1][real].float().log().to(device),
            bonus.to(device),
            SimpleNamespace(all_greedy=False, all_random=True, generators={}, temperature=temperature),
        )
        return verdict_of(said.long().cpu(), draft)

    return rule


def vllm_rule(folder: Path) -> Verifier:
    """`rejection_sample` of vLLM's first model runner."""
    warmup = "vllm.model_executor.warmup.jit_warmup"
    names = (warmup, f"{warmup}_triton_helper", SHARED, "vllm.v1.sample.rejection_sampler")
    return rule_of_list(modules_of(folder, *names, triton_utils=triton_utils()).rejection_sample)


def vllm_second_rule(folder: Path, **how: Any) -> Verifier:
    """`rejection_sample` of vLLM's second model runner, which is told how; rows' seeds come from torch."""
    names = ("sample.gumbel", "spec_decode.rejection_sampler_utils")
    modules = (SHARED, *(f"vllm.v1.worker.gpu.{name}" for name in names))
    theirs = modules_of(folder, *modules, triton_utils=triton_utils())

    def rule(draft: Draft, target_probs: Tensor, rng: Rng) -> Verdict:
        count, steps = len(draft.tokens), torch.arange(draft.k + 1)
        here = steps <= draft.lengths[:, None]  # [B, K+1]: the pending token and the draft
        row, step = here.nonzero().T
        ids = torch.cat([torch.zeros(count, 1, dtype=torch.long), draft.tokens], dim=1)[here]
        ends = torch.cat([torch.zeros(1), (draft.lengths + 1).cumsum(0)]).int()
        logits = target_probs[here].float().log(), draft.probs.float().log()
        seeds = torch.ones(count), torch.randint(2**62, (count,))  # with a temperature of 1
        positions = step + 7  # as after a text of seven tokens
        given = *logits, ids, ends, positions, torch.arange(count), row, step, *seeds
        said, kept = theirs.rejection_sample(*(one.to(GPU) for one in given), draft.k, **how)
        return verdict_of(said.cpu().where(steps < kept.cpu()[:, None], -1), draft)

    return rule


def sglang_rule(folder: Path, **how: Any) -> Verifier:
    """`chain_speculative_sampling_triton` of SGLang, which is told how; its caller draws uniform numbers."""
    theirs = modules_of(folder, "sglang.kernels.ops.speculative.reject_sampling")

    def rule(draft: Draft, target_probs: Tensor, rng: Rng) -> Verdict:
        rows, width = len(draft.tokens), draft.k + 1
        said = torch.full((rows, width), -1, device=GPU)
        slots = torch.arange(said.numel(), device=GPU).view(rows, width)
        ids = torch.cat([torch.zeros(rows, 1, dtype=torch.long), draft.tokens], dim=1)
        drawn = torch.rand(rows, width), torch.rand(rows)
        given = (one.float().contiguous().to(GPU) for one in (*drawn, target_probs, draft.probs))
        found = said.view(-1), torch.zeros_like(said), torch.zeros(rows, device=GPU).int()
        theirs.chain_speculative_sampling_triton(
            *found, ids.to(GPU), slots, None, None, *given, 1.0, 1.0, True, **how
        )
        return verdict_of(said.cpu(), draft)

    return rule


def ascend_rule(checkout: Path, block: bool) -> Verifier:
    """`rejection_sample` of vLLM Ascend without Triton; a block is a draft of three tokens and more."""
    names = ("sample_recovered_tokens", "sample_recovered_tokens_pytorch", "rejection_random_sample_pytorch")
    how = MagicMock(enable_block_verify=block, enable_entropy_verify=False)
    theirs = functions_of(
        checkout / "vllm_ascend/sample/rejection_sampler.py",
        *("rejection_sample", "rejection_random_sample_block_verify_pytorch", *names),
        torch=unpinned_torch(),
        HAS_TRITON=False,
        PLACEHOLDER_TOKEN_ID=-1,
        GREEDY_TEMPERATURE=0,
        logger=MagicMock(),
        get_ascend_config=lambda: MagicMock(rejection_sampler_config=how, enable_reduce_sample=True),
        generate_uniform_probs=lambda count, *_: torch.rand(count, dtype=torch.float64),
    )

    def sample(*given: Any) -> Tensor:
        *drafts, logits, bonus, sampling = given
        every = torch.arange(logits.shape[-1]).expand(logits.shape).contiguous()
        return theirs["rejection_sample"](*drafts, (logits, every), bonus, sampling)

    return rule_of_list(sample, "cpu")
