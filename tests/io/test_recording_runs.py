"""Recordings of random runs, chains, trees and queues: each field of each round comes back."""

import random
from collections import Counter

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


def assert_same(name, found, wanted):
    """Asserts that a field comes back: numbers to some digits; of logits the largest, and their sum."""
    if hasattr(wanted, "__dataclass_fields__"):
        for inner, value in vars(wanted).items():
            assert_same(inner, getattr(found, inner), value)
    elif name == "target_hidden":  # is not stored
        assert found is wanted is None or found.shape[:2] == wanted.shape[:2]
    elif name == "target_logits" and wanted is not None:
        best = wanted.topk(min(8, wanted.shape[-1])).indices
        close = {"rtol": 1e-6, "atol": 1e-6}
        for kept in (lambda logits: logits.gather(-1, best), lambda logits: logits.logsumexp(-1)):
            torch.testing.assert_close(kept(found).double(), kept(wanted).double(), **close)
    elif isinstance(wanted, torch.Tensor) and wanted.is_floating_point():
        torch.testing.assert_close(found.double(), wanted.double(), rtol=1e-6, atol=1e-7)
    elif isinstance(wanted, torch.Tensor):
        assert found.dtype == wanted.dtype and torch.equal(found, wanted), name
    else:
        assert found == (pytest.approx(dict(wanted)) if name == "seconds" else wanted), name


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
            assert_same("round", one, other)
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
