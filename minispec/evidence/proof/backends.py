"""The same case on another backend: what is proved of the code to read is proved of the fast one."""

from __future__ import annotations

from dataclasses import replace

from minispec.core.draft import ModelDrafter
from minispec.core.model import GPT, LanguageModel
from minispec.core.rng import SeededRng
from minispec.core.verify import verify_greedy, verify_rejection
from minispec.core.warp import Warp
from minispec.evidence.proof.distributions import Case
from minispec.evidence.proof.sampling import Experiment
from minispec.native.backend import TORCH, Backend


def case_on(case: Case, backend: Backend) -> Case:
    """Returns a case whose GPTs, warps, rules and drafter are a backend's; table models stay as they are."""
    if backend is TORCH:
        return case
    rules = {verify_greedy: backend.rules["greedy"], verify_rejection: backend.rules["rejection"]}
    return replace(
        case,
        name=f"{case.name}, {backend.name}",
        target=model_on(case.target, backend),
        draft=model_on(case.draft, backend),
        warp=warp_on(case.warp, backend),
        draft_warp=None if case.draft_warp is None else warp_on(case.draft_warp, backend),
        verifier=rules.get(case.verifier, case.verifier),
        drafter=backend.drafter if case.drafter is ModelDrafter else case.drafter,
    )


def experiment_on(experiment: Experiment, backend: Backend) -> Experiment:
    """Returns an experiment whose case and random numbers are a backend's; keyed noise stays what it is."""
    chance = backend.rng if experiment.chance is SeededRng else experiment.chance
    return replace(experiment, case=case_on(experiment.case, backend), chance=chance)


def model_on(model: LanguageModel, backend: Backend) -> LanguageModel:
    """Returns a GPT as a backend computes it; another model stays what it is."""
    return backend.model(model) if isinstance(model, GPT) else model


def warp_on(warp: Warp, backend: Backend) -> Warp:
    """Returns a backend's warp with the same settings."""
    return backend.warp(warp.temperature, warp.top_k, warp.top_p)
