"""Recordings of random runs, chains, trees and queues: each field of each round comes back."""

import random
from collections import Counter
from dataclasses import fields

import pytest
import torch
from tiny import gpt_pair, table_pair

from minispec import (
    KeyedRng,
    ModelDrafter,
    NgramDrafter,
    Warp,
    verify_coupled,
    verify_greedy,
    verify_rejection,
)
from minispec.drafters.eagle import FeatureDrafter, FeatureLayer
from minispec.drafters.tree import TreeDrafter, common_tree, with_replacement
from minispec.evidence.proof.models import with_normals
from minispec.io.recording import LoggingRng, record_run
from minispec.io.recording_file import load_recording, save_recording
from minispec.verifiers.block import verify_block
from minispec.verifiers.tree import verify_k_sequential, verify_tree, verify_tree_greedy

MODELS = [table_pair(), gpt_pair(), gpt_pair(dtype=torch.float32)]
CHAINS = [verify_rejection, verify_block, verify_coupled, verify_greedy]
TREES = [verify_tree, verify_k_sequential, verify_tree_greedy]


def random_run(seed):
    """Returns a recording of a random run, and what kind of draft it has."""
    choose = random.Random(seed)
    kind = choose.choice(["chain", "chain", "lookup", "features", "tree", "nothing"])
    target, draft = choose.choice({"tree": MODELS[1:], "features": MODELS[1:2]}.get(kind, MODELS))
    verifier = choose.choice(TREES if kind == "tree" else CHAINS)
    size = target.vocab_size
    k = choose.randint(1, 4)
    drafters = {
        "chain": lambda: ModelDrafter(draft, choose.choice([None, Warp(1.3)])),
        "lookup": lambda: NgramDrafter(size),
        "features": lambda: FeatureDrafter(with_normals(FeatureLayer(target.config), 4), target),
        "tree": lambda: TreeDrafter(draft, common_tree(choose.randint(1, 6), k), with_replacement),
        "nothing": lambda: None,
    }
    prompts = [
        [choose.randrange(size) for _ in range(choose.choice([1, 2, 5, 38, 40]))]
        for _ in range(choose.randint(1, 4))
    ]
    recording = record_run(
        target,
        drafters[kind](),
        prompts,
        [chr(97 + token) for token in range(size)],
        rng=KeyedRng(seed) if verifier is verify_coupled else LoggingRng(seed),
        k=0 if kind == "nothing" else k,
        verifier=verifier,
        max_new_tokens=choose.randint(0, 7),
        warp=Warp(0 if verifier.greedy else choose.choice([0, 0.7, 1.0])),
        eos=choose.choice([None, 3, [1, 2]]),
        batch_size=choose.choice([None, 1, 2]),
    )
    return recording, kind


def equal(name, left, right):
    """Whether a field comes back: numbers to nine digits; of logits the largest, and all as one number."""
    if name in ("probs", "target_probs"):
        scale = 1e-8 if right.dtype == torch.float64 else 1e-6  # what is loaded sums to 1 in float64
        return torch.allclose(left.double(), right.double(), rtol=scale, atol=1e-7)
    if name == "target_logits":
        left = left.double()
        right = right.double()
        best = right.topk(min(8, right.shape[-1])).indices
        return torch.allclose(left.gather(-1, best), right.gather(-1, best), rtol=1e-8) and torch.allclose(
            left.logsumexp(-1), right.logsumexp(-1), rtol=1e-7
        )
    if name == "target_hidden":  # is not stored
        return left.shape[:2] == right.shape[:2]
    if isinstance(left, torch.Tensor):
        return left.dtype == right.dtype and torch.equal(left, right)
    return left == (pytest.approx(dict(right)) if name == "seconds" else right)


def differences(one, other):
    """Returns the names of a round's fields, and of its records' fields, that are not equal."""
    found = []
    for name in (field.name for field in fields(one)):
        left = getattr(one, name)
        right = getattr(other, name)
        if left is None or right is None:
            found += [] if left is right else [name]
        elif hasattr(left, "__dataclass_fields__"):
            found += [f"{name}.{inner}" for inner in differences(left, right)]
        elif not equal(name, left, right):
            found.append(name)
    return found


@pytest.mark.parametrize("runs", [60, pytest.param(300, marks=pytest.mark.evidence)])
def test_each_field_of_random_runs_comes_back(runs, tmp_path):
    """Integers and texts are equal, numbers to nine digits; every kind of run is among them."""
    counts = Counter()
    for seed in range(runs):
        before, kind = random_run(seed)
        save_recording(before, tmp_path / "run.json")
        after = load_recording(tmp_path / "run.json")
        assert (after.words, after.info) == (before.words, before.info)
        assert (after.trace.prompts, after.trace.config) == (before.trace.prompts, before.trace.config)
        assert len(after.trace.rounds) == len(before.trace.rounds)
        for one, other in zip(after.trace.rounds, before.trace.rounds, strict=True):
            assert differences(one, other) == [], (seed, one.index)
            assert torch.allclose(one.target_probs.sum(-1), torch.ones(()).double())
        assert after.draws == before.draws
        for prompt in range(len(before.trace.prompts)):
            assert after.trace.statistics(prompt).acceptance == before.trace.statistics(prompt).acceptance
            assert after.trace.finish(prompt) == before.trace.finish(prompt)
        rounds = before.trace.rounds
        counts[kind] += len(rounds) > 0
        counts["queue"] += len({r.prompt_ids for r in rounds}) > 1
        counts["looks beyond"] += any(not r.stops_at_first_rejection for r in rounds)
        counts["branches"] += any(r.draft.parents is not None for r in rounds)
        counts["ragged draft"] += any(len(set(r.draft.lengths.tolist())) > 1 for r in rounds)
        counts["no round"] += not rounds
    assert min(counts.values()) >= runs // 20, counts
