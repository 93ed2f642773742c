"""Checks of what is kept: both caches, the ends of rows, and the random number generators.

Each looks at one case, and says what is wrong, or None. All are exact but the part of `check_randomness` that
looks at generators.
"""

from collections.abc import Sequence
from copy import copy
from dataclasses import replace

import torch
from torch import Tensor

from minispec.core.cache import KVCache
from minispec.core.model import LanguageModel
from minispec.core.rng import RoundPlan, SeededRng
from minispec.drafters.exit import ExitCache
from minispec.evidence.proof.cases import Case
from minispec.evidence.proof.distributions import branches
from minispec.evidence.proof.enumeration import EnumeratingRng, enumerate_branches
from minispec.evidence.zoo.check_distributions import EXACT
from minispec.verifiers.block import verify_block
from minispec.verifiers.coupled import KeyedRng

ROWS = 64  # yes-or-no draws that are compared at once: all alike with probability 2^-63


def record_caches(model: LanguageModel) -> tuple[LanguageModel, list[KVCache]]:
    """Returns a copy of a model that shares its weights, and the list of all caches that the copy makes."""
    caches: list[KVCache] = []

    def new_cache(rows: int) -> KVCache:
        caches.append(model.new_cache(rows))
        return caches[-1]

    recorded = copy(model)
    vars(recorded)["new_cache"] = new_cache
    return recorded, caches


def check_invariant(case: Case) -> str | None:
    """After each round both caches hold exactly all committed tokens but the pending one, row by row.

    A drafter that chooses its own K may rest while it drafts nothing; its cache then counts for nothing.
    """

    def run(rng: EnumeratingRng, keys: Sequence[int]) -> list[str | None]:
        prompts = [case.prompts[key] for key in keys]
        texts = [list(prompt) for prompt in prompts]
        target, target_caches = record_caches(case.target)
        draft, draft_caches = record_caches(case.draft)
        if case.draft is case.target:  # such a drafter has a cache that is no model's, or none
            draft = case.draft
        fault = None
        for r in replace(case, target=target, draft=draft).rounds(prompts, rng):
            for prompt_id, emitted in zip(r.prompt_ids, r.emitted, strict=True):
                texts[prompt_id].extend(emitted)
            committed = [texts[prompt_id] for prompt_id in r.prompt_ids]
            checked = [("target", case.target, target_caches)]
            if r.draft.k > 0 or case.drafts_all:
                checked.append(("draft", case.draft, draft_caches))
            for name, model, caches in checked:
                if caches and fault is None:
                    cache = caches[0 if case.waiting else -1]  # later ones are of prompts that waited
                    fault = find_cache_fault(name, model, cache, committed)
        return [fault] * len(keys)

    faults = enumerate_branches(run, range(len(case.prompts)), case.rows, case.rng)
    return next((fault for _, fault, _ in faults if fault), None)


@torch.inference_mode()
def find_cache_fault(
    name: str, model: LanguageModel, cache: KVCache, texts: Sequence[Sequence[int]]
) -> str | None:
    """Compares a model's cache with fresh ones that have read each row's text but its last token."""
    lengths = [len(text) - 1 for text in texts]
    for row, (actual, expected) in enumerate(zip(cache.row_lengths, lengths, strict=True)):
        if actual != expected:
            return f"after {list(texts[row])} the {name}'s cache holds {actual} tokens, not {expected}"
    for length in set(lengths) - {0}:
        rows = [row for row, n in enumerate(lengths) if n == length]
        fresh = model.new_cache(len(rows))  # all of one length: no padding, no ragged rows
        model.hidden(torch.tensor([texts[row][:length] for row in rows]), fresh)
        for stored, fresh_tensor in zip(keys_and_values(cache), keys_and_values(fresh), strict=True):
            differences = stored[:, rows, :, :length] - fresh_tensor[:, :, :, :length]
            max_differences = differences.abs().amax((0, 2, 3, 4))  # [rows]
            if not bool((max_differences <= EXACT).all()):
                row = rows[int(max_differences.argmax())]
                return f"after {list(texts[row])} the {name}'s cache holds something else"
    return None


def keys_and_values(cache: KVCache) -> list[Tensor]:
    """Returns keys and values [layers, B, kv_heads, slots, head_dim], in each part of a cache."""
    parts = [cache.first, cache.later] if isinstance(cache, ExitCache) else [cache]
    return [tensor for part in parts for tensor in (part._keys, part._values)]


def check_ends(case: Case) -> str | None:
    """Nothing follows end-of-sequence; cap and context are kept; ids are in range; the reason is right."""
    for branch in branches(case):
        prompt = case.prompts[branch.prompt]
        tokens = branch.tokens
        if not all(0 <= token < case.target.vocab_size for token in tokens):
            return f"{list(tokens)} has an id outside the vocabulary"
        for n in range(len(tokens)):
            if expected_finish := case.finish(prompt, tokens[:n]):
                return f"{list(tokens)} goes on where {expected_finish} should have ended it, after {n}"
        expected_finish = case.finish(prompt, tokens)
        if expected_finish is None or (branch.steps and branch.finish != expected_finish):
            return f"{list(tokens)} ends for {branch.finish}, not for {expected_finish}"
        if not all(step.emitted for step in branch.steps):
            return f"a row of {list(tokens)} took part in a round that has emitted nothing"
    return None


def check_randomness(case: Case) -> str | None:
    """What is done or certain draws nothing; what has probability 0 never happens; draws do not repeat.

    Every decision shows in what is drafted, kept or emitted, but for the coins of block verification. So two
    branches that are alike come from a decision that nobody should have made. The generators have seeds of
    their own, so the verdict is the same each time. Over seeds, right generators would fail with a
    probability of 2^-60 at most: three comparisons of 64 fair draws each, for two generators. Draws that
    depend on each other in subtler ways are not seen.
    """
    if fault := find_generator_fault():
        return fault
    histories = set()
    for branch in branches(case):
        history = branch.prompt, *((step.drafted, tuple(step.kept), step.token) for step in branch.steps)
        if history in histories and case.verifier is not verify_block:
            return f"{list(branch.tokens)} comes twice in the same way: something drew that should not"
        histories.add(history)
        for step in branch.steps:
            after = [0, *(place + 1 for place in step.kept)]
            for i, token in enumerate(step.emitted):
                if i >= len(after) or step.p[after[i]][token] <= 0:
                    return f"after {list(step.text + step.emitted[:i])} comes {token}, with probability 0"
    return None


class ConstantRng(SeededRng):
    """A generator whose uniform numbers are all the same."""

    def __init__(self, uniform: float) -> None:
        """Takes the number."""
        super().__init__(0)
        self._uniform = uniform

    def _uniforms(self, count_like: Tensor) -> Tensor:
        return count_like.double() * self._uniform


def find_generator_fault() -> str | None:
    """Looks at both generators: uniform numbers next to 0 and 1, and whether draws repeat."""
    dists = torch.tensor([[0, 0.5, 0, 0.5, 0], [0, 0, 1, 0, 0]])
    rounded_probs = torch.tensor([[0.9, 0.1]])  # in float32 these sum to 1 − 2e-8
    for uniform in (0.0, 1 - 2**-53):
        rng = ConstantRng(uniform)
        if rng.categorical(dists).tolist() not in ([1, 2], [3, 2]):
            return f"a uniform number of {uniform} picks an id of probability 0"
        if not int(rng.categorical(rounded_probs)) < 2:
            return f"a uniform number of {uniform} picks an id beyond the vocabulary"
        if rng.bernoulli(torch.tensor([0.0, 1.0])).tolist() != [False, True]:
            return f"a uniform number of {uniform} says yes at a probability of 0, or no at 1"
    fair = torch.full((ROWS, 2), 0.5, dtype=torch.float64)
    seeded = SeededRng(0)
    keyed = KeyedRng(0)
    plan = RoundPlan.unlimited(ROWS, fair.device)
    draws = {
        "seeded": [seeded.bernoulli(fair[:, 0]).long() for _ in range(2)],
        "keyed": [keyed.categorical(fair, plan.at(position)) for position in range(2)],
    }
    for name, (first, second) in draws.items():
        if torch.equal(first, second):
            return f"the {name} generator gives the same {ROWS} draws twice"
        if first.unique().numel() == 1 or second.unique().numel() == 1:
            return f"the {name} generator gives all of {ROWS} rows the same draw"
    return None
