"""The backends: found by name, lossless by enumeration and by samples, the same tokens from the same seed."""

from dataclasses import replace
from functools import partial

import pytest
import tiny
import torch
from native_models import assert_same, decided, needs_compiler, small_pair

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
from minispec.native.model import NativeGPT

FALSE_ALARM = 1e-6
*CASES, LARGEST = family_cases("gpt", seed=0, longer=0)
TEMPERATURES = [0.0, 0.05, 0.3, 0.7, 1.0, 1.5]
TEXT = [[3], [1, 4, 1, 0], [2, 0, 3, 1, 4, 4, 0, 2, 1], [10, 9], [5, 5, 5], [0], [7, 8, 6], [1, 2, 3, 4, 5]]


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
    "case", [*CASES, pytest.param(LARGEST, marks=pytest.mark.evidence)], ids=lambda case: case.name
)
@pytest.mark.parametrize("rule", ["greedy", "rejection"])
def test_it_is_lossless_branch_by_branch(case, rule):
    """Every branch of the loop in float64, against the exact distribution of the torch backend's target."""
    warp = Warp(0.0) if rule == "greedy" else case.warp
    plain = replace(case, warp=warp, verifier=TORCH.verifiers[rule])
    ours = plain.on(NATIVE)
    assert isinstance(ours.target, NativeGPT) and isinstance(ours.draft, NativeGPT)
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


# The same tokens from the same seed.


def both(target, draft):
    """Returns the two sides that are compared: a backend, a target, and what makes a drafter."""
    return [
        (backend, backend.model(target), partial(backend.drafter, backend.model(draft)))
        for backend in (TORCH, NATIVE)
    ]


@pytest.fixture(scope="module")
def small():
    """A target and a draft that is often right, V = 11, float64."""
    return both(*tiny.gpt_pair())


@pytest.fixture(scope="module")
def shipped():
    """The shipped pair in float64."""
    pair = load_pair("stories", dtype=torch.float64)
    return both(pair.target, pair.draft), pair


def alone(side, prompts, temperature, seed):
    """Returns the texts of the target alone, and the numbers that the generator would give next."""
    backend, target, _ = side
    rng = backend.rng(seed)
    warp = backend.warp(temperature)
    texts = tiny.alone(target, prompts, max_new_tokens=24, warp=warp, rng=rng, eos=[8, 6])
    return texts, rng.bernoulli(torch.full((20,), 0.5)).tolist()


@needs_compiler
@pytest.mark.parametrize("temperature", TEMPERATURES)
@pytest.mark.parametrize("rows", range(1, 9))
def test_the_same_seed_gives_the_same_tokens(rows, temperature, small):
    """Ragged prompts of 1 to 8 rows, some of which end early: every draft, verdict and token is the same.

    At temperature 0 both rules of both backends emit what the target alone emits.
    """
    ends = set()
    kept = set()
    for seed in range(3):
        prompts = [TEXT[(seed + row) % 8] for row in range(rows)]
        settings = {"temperature": temperature, "seed": seed, "k": 1 + (seed + rows) % 5, "eos": [8, 6]}
        for rule in ("rejection",) if temperature else ("rejection", "greedy"):
            rounds = assert_same(small, prompts, rule=rule, max_new_tokens=24, **settings)
            if temperature == 0:
                wanted = [tiny.greedy(small[0][1], prompt, 24, (8, 6))[0] for prompt in prompts]
                assert tiny.outcome(rounds, rows)[0] == wanted
        ends |= {sum(r.live) for r in rounds}
        kept |= {r.accepted(row) for r in rounds for row in range(rows) if r.live[row]}
        plain, ours = (alone(side, prompts, temperature, seed) for side in small)
        assert plain == ours
    assert len(kept) > 1
    assert rows == 1 or len(ends) > 1  # rows have ended at different times


@needs_compiler
@pytest.mark.parametrize("rows", range(1, 9))
def test_the_shipped_pair_gives_the_same_tokens(rows, shipped):
    """In float64, on held-out prompts cut to different lengths, to the end of the shortest stories."""
    sides, pair = shipped
    prompts = [prompt[: 32 - 3 * row] for row, prompt in enumerate(pair.info["prompts"][:rows])]
    end = pair.tokenizer.end_of_text
    assert_same(sides, prompts, rule="greedy", temperature=0.0, seed=0, eos=end, k=5)
    temperature = TEMPERATURES[rows % len(TEMPERATURES)]
    assert_same(sides, prompts, temperature=temperature, seed=rows, eos=end, k=5)


@needs_compiler
@pytest.mark.parametrize("temperature", [0.05, 0.3, 1.0])
def test_a_draft_that_is_the_target_gives_the_same_tokens(temperature, small):
    """p/q is 1 but for rounding: on both backends that counts as certain, and uses up no number."""
    same = [(backend, target, partial(backend.drafter, target)) for backend, target, _ in small]
    for seed in range(5):
        rounds = assert_same(same, TEXT[:3], temperature=temperature, seed=seed)
        assert all(r.accepted(row) == r.drafted(row) for r in rounds for row in range(3))
