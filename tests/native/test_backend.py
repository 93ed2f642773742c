"""The backends: found by name, lossless by enumeration and samples; `test_same.py` has their rounds."""

from dataclasses import replace
from functools import partial

import pytest
import tiny
from native_models import decided, needs_compiler, small_pair

from minispec import Warp, load_pair
from minispec.evidence.proof.cases import Case
from minispec.evidence.proof.distributions import (
    exact_distributions,
    largest_error,
    speculative_distributions,
    target_only_distributions,
)
from minispec.evidence.proof.families import family_cases
from minispec.evidence.proof.prove import LARGEST_ERROR
from minispec.evidence.proof.sampling import Experiment
from minispec.native.backend import BACKENDS, NATIVE, TORCH, Models, on_backend
from minispec.native.exit import NativeExitGPT
from minispec.native.model import NativeGPT

FALSE_ALARM = 1e-6
*CASES, LARGEST = family_cases("gpt", seed=0, longer=0)
EXITS = [case for family in ("self_drafting", "waiting") for case in family_cases(family, 0, 0)]
EXITS = [case for case in EXITS if case.drafts_with == "exit"]


# By name.


def test_backends_by_name():
    """The torch backend computes with the pair itself; unknown names are refused with a list."""
    pair = load_pair("stories")
    models = on_backend(pair, "torch")
    assert models == Models(pair.target, pair.draft, TORCH)
    assert list(BACKENDS) == ["torch", "native"]
    with pytest.raises(ValueError, match="no backend 'fast'; choose torch, native or auto"):
        on_backend(pair, "fast")


@needs_compiler
@pytest.mark.parametrize("name", ["native", "auto"])
def test_native_is_what_auto_chooses(name):
    """With a compiler both names give the native models, and there is nothing to explain."""
    models = on_backend(load_pair("stories"), name)
    assert models.backend is NATIVE and models.note is None
    assert isinstance(models.target, NATIVE.model) and isinstance(models.draft, NATIVE.model)


@pytest.mark.parametrize("backend", BACKENDS.values(), ids=BACKENDS)
def test_every_greedy_rule_is_refused_above_temperature_0(backend):
    """Whatever its name is, a rule that says greedy needs temperature 0; a rejection rule does not."""
    target, draft = tiny.gpt_pair()
    side = backend, target, partial(backend.drafter, draft)
    with pytest.raises(ValueError, match="needs temperature 0"):
        decided(side, [[1, 2]], rule="greedy")
    assert decided(side, [[1, 2]])[0]


# Lossless.


@needs_compiler
@pytest.mark.parametrize(
    "case", [*CASES, *EXITS, pytest.param(LARGEST, marks=pytest.mark.evidence)], ids=lambda case: case.name
)
def test_it_is_lossless_branch_by_branch(case):
    """Every branch of the loop in float64, by both rules, against the torch backend's exact distribution."""
    for plain in (case, replace(case, warp=Warp(0.0), verifier=TORCH.verifiers["greedy"])):
        ours = plain.on(NATIVE)
        assert isinstance(ours.target, NativeGPT | NativeExitGPT)
        exact = exact_distributions(plain)
        for found in (speculative_distributions(ours).distributions, target_only_distributions(ours)):
            errors = [largest_error(one, dist) for one, dist in zip(found, exact, strict=True)]
            assert max(errors) <= LARGEST_ERROR


@needs_compiler
@pytest.mark.parametrize("rows", [256, pytest.param(1, marks=pytest.mark.evidence)])
def test_it_is_lossless_by_samples(rows):
    """20,000 texts of three tokens, side by side or alone; false alarm 1e-6, its power is asserted."""
    case = Case("native", *small_pair(), prompts=((0, 1, 2),), k=2, max_new_tokens=3, rows=rows)
    experiment = Experiment(case, samples=20_000, rows=rows).on(NATIVE)
    result = experiment.check(seed=0, false_alarm=FALSE_ALARM)
    assert result.detects < 0.07  # the least difference in total variation that is all but surely found
    assert result.passed, result
