"""Lossless, sampled: whatever the models, the prompts and the settings, the texts are the target's.

Hypothesis draws tables of logits and a setting; `speculate` samples thousands of texts with a seed; their
distribution is compared with the target's, which is computed here, warp included, from the table alone.

False alarm: an example fails only if two samples with different seeds do. Of right code the first does so
with probability 1e-3 at most and the second, of ten times the texts, with 1e-3/M in a run of M examples;
hence a run fails with probability 1e-6 at most. Shrunk examples pass through both as well. Power: whatever
is `DETECTED` off, in total variation over prompts and texts, passes with probability 2e-6 at most, which
every example asserts; the simplest one alone finds six of nine bugs of the zoo, and the sixth the others.
"""

import math
from collections import Counter
from dataclasses import dataclass
from itertools import product

import pytest
import torch
from examples import PROMPTS, TABLES, examples, how_many
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from native_models import needs_compiler

from minispec import GPT, GPTConfig, ModelDrafter, Warp
from minispec.core.rng import SEEDS
from minispec.evidence.proof.cases import ENUMERATED, REGISTERED, TREE_SHAPES, Case
from minispec.evidence.proof.distributions import outcomes
from minispec.evidence.proof.models import TableModel
from minispec.evidence.theory.statistics import check_sample
from minispec.evidence.zoo.mutants import mutant_named
from minispec.evidence.zoo.mutation import planted
from minispec.native.backend import NATIVE, TORCH
from minispec.verifiers.registry import CHAINS, TREES

TEXTS = 2_000
EXAMPLES = 25  # in profile ci
FIRST_ALARM = 1e-3
DETECTED = 0.22

CHAIN_DRAFTERS = {"model": ModelDrafter} | {
    name: ENUMERATED[name] for name in ("ngram", "suffix", "stopping", "automatic", "auto")
}
GPT_DRAFTERS = {name: ENUMERATED[name] for name in REGISTERED}  # trained on their target: it must be a GPT
DRAFTERS = CHAIN_DRAFTERS | GPT_DRAFTERS | TREE_SHAPES
Table = tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class Setting:
    """What Hypothesis draws. Of a GPT the tables are the rows of the contexts (0, 0), (0, 1), (0, 2)."""

    way: tuple[str, str]  #: what drafts, and the rule
    tables: tuple[Table, Table]  #: of target and draft: logits [12, 3], of row previous·3 + current
    prompts: tuple[tuple[int, ...], ...]
    k: int
    cap: int
    eos: tuple[int, ...]
    context: int  #: in tokens
    temperature: float
    top_k: int | None
    top_p: float | None
    draft_temperature: float | None  #: None: the draft's warp is the target's
    rows: int  #: how many texts are decoded side by side
    waiting: bool  #: whether a third of them wait for a row that is done
    seed: int

    @property
    def is_greedy(self) -> bool:
        """Whether the target is: the greedy rules are for temperature 0 alone."""
        return self.temperature == 0 or self.way[1] == "greedy"

    @property
    def is_table(self) -> bool:
        """Whether the models are `TableModel`s; else they are GPTs."""
        return self.way[0] in CHAIN_DRAFTERS

    def case(self, backend) -> Case:
        """Returns the case on a backend."""
        name, rule = self.way
        make = TableModel if self.is_table and backend is TORCH else table_gpt
        target, draft = (make(torch.tensor(table).double(), self.context) for table in self.tables)
        return Case(
            "drawn",
            target,
            target if name in GPT_DRAFTERS else draft,
            self.prompts,
            self.k,
            self.cap,
            Warp(0) if self.is_greedy else Warp(self.temperature, self.top_k, self.top_p),
            self.eos,
            (TREES if name in TREE_SHAPES else CHAINS)[rule],
            None if self.draft_temperature is None else Warp(self.draft_temperature),
            DRAFTERS[name],
            waiting=self.waiting,
        ).on(backend)


def table_gpt(table, context):
    """Returns a GPT of one layer that adds nothing: its logits are the rows of a table for the last token."""
    config = GPTConfig(table.shape[1], layers=1, width=4, heads=1, kv_heads=1, ffn=4, max_length=context)
    model = GPT(config).double()
    with torch.no_grad():
        model.layers[0].self_attn.o_proj.weight.zero_()
        model.layers[0].mlp.down_proj.weight.zero_()
        model.embed_tokens.weight.copy_(torch.eye(4)[: table.shape[1]])
        # The norm divides a one-hot vector of four by the root of 1/4 + epsilon.
        model.lm_head.weight.zero_()[:, : table.shape[1]] = table[: table.shape[1]].T
        model.lm_head.weight.mul_((1 / 4 + config.norm_eps) ** 0.5)
    return model.eval().requires_grad_(False)


def ways():
    """Returns what may draft, each with the lossless rules for its drafts."""
    yield from product(
        [*CHAIN_DRAFTERS, *GPT_DRAFTERS], [rule.name for rule in CHAINS.values() if rule.lossless]
    )
    for name, rule in product(TREE_SHAPES, TREES.values()):
        if rule.candidates == "any" or name == "repeating_tree":
            yield name, rule.name


SETTINGS = st.builds(
    Setting,
    way=st.sampled_from([("model", "rejection")] * 40 + [*ways()]),
    tables=TABLES,
    prompts=PROMPTS,
    k=st.sampled_from([2, 3, 1, 4]),
    cap=st.sampled_from([3, 4, 2]),
    eos=st.sampled_from([(), (), (2,), (0, 1)]),
    context=st.sampled_from([40, 40, 6]),
    temperature=st.sampled_from([1.0, 0.6, 1.8, 0.0]),
    top_k=st.sampled_from([None, None, 2]),
    top_p=st.sampled_from([None, None, 0.8]),
    draft_temperature=st.sampled_from([None, None, 2.0, 0.0]),
    rows=st.sampled_from([TEXTS, 500]),
    waiting=st.booleans(),
    seed=st.integers(0, SEEDS - 1),
)


def warped(logits, setting):
    """Returns the distribution of a row of the table: temperature, then top-k, then top-p; ties go low."""
    ranked = sorted(range(len(logits)), key=lambda token: (-logits[token], token))
    if setting.is_greedy:
        return {ranked[0]: 1.0}
    ranked = ranked[: setting.top_k]
    weights = {token: math.exp(logits[token] / setting.temperature) for token in ranked}
    if setting.top_p is not None:
        enough = setting.top_p * sum(weights.values())
        ranked = [token for i, token in enumerate(ranked) if sum(weights[t] for t in ranked[:i]) < enough]
    total = sum(weights[token] for token in ranked)
    return {token: weights[token] / total for token in ranked}


def distribution(setting, prompt, is_table):
    """Returns the probability of each text after a prompt: a product of rows of the target's table."""
    texts = {(): 1.0}
    for _ in range(min(setting.cap, setting.context - len(prompt))):
        longer = {}
        for text, p in texts.items():
            previous, current = (3, *prompt, *text)[-2:]
            if text and text[-1] in setting.eos:
                longer[text] = p
                continue
            row = setting.tables[0][(previous if is_table else 0) * 3 + current]
            longer |= {(*text, token): p * share for token, share in warped(row, setting).items()}
        texts = longer
    return texts


def sample(setting, backend, texts, seed, alarm):
    """Samples so many texts, all prompts equally often; returns the comparison, and how many were drafted.

    To draw each prompt at random would scatter the counts more (Hoeffding 1956), so the rates hold.
    """
    case = setting.case(backend)
    counts = Counter()
    drafted = 0
    rng = backend.rng(seed)
    for first in range(0, texts, setting.rows):
        names = [i % len(case.prompts) for i in range(first, min(first + setting.rows, texts))]
        rounds = list(case.rounds([case.prompts[name] for name in names], rng))
        counts.update(zip(names, [text for text, _ in outcomes(rounds, len(names))], strict=True))
        drafted += sum(int(r.draft.lengths.sum()) for r in rounds)
    exact = {
        (name, text): p / len(case.prompts)
        for name, prompt in enumerate(case.prompts)
        for text, p in distribution(setting, prompt, isinstance(case.target, TableModel)).items()
    }
    return check_sample("drawn", counts, exact, alarm), drafted


def is_right(setting, backend, most):
    """Asserts of one of so many examples that its texts are the target's; returns whether it drafted."""
    found, drafted = sample(setting, backend, TEXTS, setting.seed, FIRST_ALARM)
    assert found.detects <= DETECTED
    if not found.passed:
        second = 1e-6 / FIRST_ALARM / most
        found, _ = sample(setting, backend, 10 * TEXTS, (setting.seed + 1) % SEEDS, second)
        assert found.passed, found
    return drafted > 0


def speculates(backend, count, **more):
    """Draws so many examples, and asserts that they are right; returns how many, and how many drafted."""
    seen = Counter()

    @settings(examples(count), report_multiple_bugs=False, **more)
    @given(SETTINGS)
    def texts_are_the_targets(setting):
        seen["examples"] += 1
        seen["speculative"] += is_right(setting, backend, how_many(count))

    texts_are_the_targets()
    return seen


def test_sampled_texts_are_the_targets():
    """Whatever drafts and verifies, on models, prompts and settings that are drawn; nearly all speculate."""
    seen = speculates(TORCH, EXAMPLES)
    assert seen["speculative"] >= 0.9 * seen["examples"] > 0


@needs_compiler
def test_sampled_texts_of_the_native_backend_are_the_targets():
    """The same in C++, where a table is a GPT, and the next token depends on the last alone."""
    seen = speculates(NATIVE, 10)
    assert seen["speculative"] >= 0.9 * seen["examples"] > 0


@pytest.mark.parametrize("bug", ["correction-from-p", "rollback-one-short"])
def test_a_planted_bug_is_found(bug):
    """A wrong residual, and a cache that keeps a rejected token, within the examples of a run."""
    with planted(mutant_named(bug)), pytest.raises(AssertionError, match="Sampled"):
        speculates(TORCH, EXAMPLES, phases=[Phase.generate])
