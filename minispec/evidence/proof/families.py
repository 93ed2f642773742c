"""The cases of the proof, by family: which models, drafters, rules and settings are enumerated.

Each family is made from the seed of its models, and from how many more tokens than the least are emitted.
"""

from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from typing import Any

from minispec.core.model import GPT, LanguageModel
from minispec.core.verify import verify_greedy
from minispec.core.warp import Warp
from minispec.evidence.proof.cases import ENUMERATED, TREE_SHAPES, Case
from minispec.evidence.proof.models import early_exit, table_pair, tiny_gpt_pair
from minispec.verifiers.block import verify_block
from minispec.verifiers.coupled import verify_compare, verify_coupled
from minispec.verifiers.tree import verify_k_sequential, verify_tree, verify_tree_greedy

PROMPTS = ((0,), (1, 0), (0, 1, 1))  # of different lengths: their branches are rows of ragged batches
REPEATING = ((0,), (1, 0), (0, 1, 0, 1, 0))  # a look-up finds nothing, or much
LOOK_UPS = ("ngram", "suffix")
CHAINS = ("exit", "eagle", "parallel")
COLD = Warp(temperature=0)
COOL = Warp(temperature=0.7)
WARPS = (
    COLD,
    COOL,
    Warp(temperature=1.5),
    Warp(top_k=2),
    Warp(top_p=0.8),
    Warp(temperature=1.3, top_k=2, top_p=0.9),
)


def describe(warp: Warp) -> str:
    """Names a warp by its settings."""
    parts = [f"T {warp.temperature:g}"]
    parts += [f"top-k {warp.top_k}"] if warp.top_k is not None else []
    parts += [f"top-p {warp.top_p:g}"] if warp.top_p is not None else []
    return ", ".join(parts)


def table_cases(seed: int, longer: int) -> Iterator[Case]:
    """Yields cases of table models."""
    base = Case(f"table {seed}", *table_pair(3, seed), PROMPTS, 2, 3 + longer, eos=(2,))
    for k in (2, 1, 3):
        yield base.but(f"K {k}", k=k)
    binary = Case(f"two tokens {seed}", *table_pair(2, seed), PROMPTS, 4, 5 + longer, eos=(1,))
    yield binary.but("K 4")
    yield binary.but("no end, K 3", k=3, eos=())
    for warp in WARPS:
        yield base.but(f"warp {describe(warp)}", warp=warp)
    yield base.but("greedy", warp=COLD, verifier=verify_greedy)
    yield base.but("greedy after sampled drafts", warp=COLD, verifier=verify_greedy, draft_warp=Warp())
    yield base.but("the draft hotter", draft_warp=Warp(temperature=2))
    yield base.but("a greedy draft", draft_warp=COLD)
    yield base.but("coupled", verifier=verify_coupled)
    target, draft = table_pair(3, seed, max_length=5 + longer)
    yield base.but("short context", target=target, draft=draft, max_new_tokens=9)


def gpt_cases(seed: int, longer: int) -> Iterator[Case]:
    """Yields cases of tiny GPTs, with their real cache."""
    base = Case(f"GPT {seed}", *tiny_gpt_pair(seed), PROMPTS, 2, 3 + longer, eos=(2,))
    for k in (2, 1, 3):
        yield base.but(f"K {k}", k=k)
    yield base.but("a warp", warp=WARPS[-1])
    short = tiny_gpt_pair(seed, vocab_size=2, max_length=7 + longer)
    yield Case(f"GPT {seed}, short context, K 4", *short, PROMPTS, 4, 9, eos=(1,))


def length_cases(seed: int, longer: int) -> Iterator[Case]:
    """Yields cases of drafters that choose how many tokens they draft.

    An automatic K learns from all rows of a batch, so its branches run one by one.
    """
    tables = table_pair(2, seed)
    gpts = tiny_gpt_pair(seed, vocab_size=2)
    automatic = ENUMERATED["automatic"]
    stopping = ENUMERATED["stopping"]
    yield Case(f"two tokens {seed}, automatic K", *tables, PROMPTS[:1], 3, 5, drafter=automatic, rows=1)
    yield Case(f"GPT {seed}, automatic K", *gpts, PROMPTS[:1], 3, 4, drafter=automatic, rows=1)
    stops = Case(f"two tokens {seed}, stop rule", *tables, PROMPTS, 3, 5 + longer, drafter=stopping)
    yield stops
    yield stops.but("EOS", eos=(1,), warp=COOL)
    yield Case(f"GPT {seed}, stop rule", *gpts, PROMPTS, 3, 5 + longer, drafter=stopping)


def lookup_cases(seed: int, longer: int) -> Iterator[Case]:
    """Yields cases of drafters that look the draft up in the text, with every rule."""
    binary = Case(f"two tokens {seed}", *table_pair(2, seed), REPEATING, 3, 6 + longer)
    gpts = Case(f"GPT {seed}", *tiny_gpt_pair(seed, vocab_size=2), REPEATING, 3, 4)
    wide = Case(f"table {seed}", *table_pair(3, seed), REPEATING, 3, 4 + longer, eos=(2,))
    for name in LOOK_UPS:
        drafter = ENUMERATED[name]
        for base in (binary, gpts, wide):
            yield base.but(name, drafter=drafter)
        yield binary.but(f"{name}, EOS", drafter=drafter, eos=(1,), warp=COOL)
        yield wide.but(f"{name}, coupled", drafter=drafter, verifier=verify_coupled)
        yield wide.but(f"{name}, greedy", drafter=drafter, warp=COLD, verifier=verify_greedy)


def lives_on(model: GPT, name: str, seed: int) -> LanguageModel:
    """Returns the target of a drafter without a draft model: early exit gives it an exit."""
    return early_exit(model, seed) if name == "exit" else model


def self_drafting_cases(seed: int, longer: int) -> Iterator[Case]:
    """Yields cases of drafters that live on a tiny GPT which is the target, with its real cache."""
    for vocab_size, tokens in ((2, 4 + longer), (3, 3)):
        for name in ("medusa", *CHAINS):
            model = lives_on(tiny_gpt_pair(seed, vocab_size)[0], name, seed)
            title = f"GPT {seed}, {vocab_size} tokens, {name}"
            least = Case(title, model, model, PROMPTS, 3, tokens, drafter=ENUMERATED[name])
            yield least
            yield least.but("EOS", eos=(1,), warp=COOL)
            yield least.but("greedy", warp=COLD, verifier=verify_greedy)
            yield least.but("hotter", draft_warp=Warp(temperature=2))
    for name in ("exit", "parallel"):
        model = lives_on(tiny_gpt_pair(seed, 2, max_length=6)[0], name, seed)
        short = Case(f"GPT {seed}, short context", model, model, PROMPTS, 4, 9)
        yield short.but(name, drafter=ENUMERATED[name])


def tree_cases(seed: int, longer: int) -> Iterator[Case]:
    """Yields cases of trees on a tiny GPT: every way to choose candidates, with the rules for trees.

    Left out are those with the most branches: some 30,000 and some 15,000.
    """
    narrowed: dict[str, Any] = {"warp": Warp(0.7, top_k=2), "eos": (1,)}
    greedy: dict[str, Any] = {"warp": COLD, "verifier": verify_tree_greedy}
    for vocab_size, name in product((2, 3), TREE_SHAPES):
        pair = tiny_gpt_pair(seed, vocab_size)
        title = f"GPT {seed}, {vocab_size} tokens, {name}"
        cap = 4 + longer if vocab_size == 2 and name != "repeating_tree" else 3
        least = Case(title, *pair, PROMPTS, 4, cap, drafter=ENUMERATED[name], verifier=verify_tree)
        if (vocab_size, name) != (3, "repeating_tree"):
            yield least
        yield least.but("a warp", **narrowed)
        yield least.but("T 0", warp=COLD)
        yield least.but("greedy", **greedy)
        yield least.but("greedy after sampled drafts", **greedy, draft_warp=Warp())
    for vocab_size in (2, 3):
        model, _ = tiny_gpt_pair(seed, vocab_size)
        heads = Case(f"GPT {seed}, {vocab_size} tokens", model, model, PROMPTS, 4, 4 + longer)
        heads = heads.but("medusa-tree", drafter=ENUMERATED["medusa-tree"], verifier=verify_tree)
        if vocab_size == 2:
            yield heads
        yield heads.but("a warp", **narrowed)
        yield heads.but("greedy", **greedy)
    short = Case(f"GPT {seed}", *tiny_gpt_pair(seed, 2, max_length=7 + longer), PROMPTS, 4, 9)
    yield short.but("short context, tree", drafter=ENUMERATED["tree"], verifier=verify_tree)


def rule_cases(seed: int, longer: int) -> Iterator[Case]:
    """Yields cases of rules that look beyond a rejection, or draw the target's token first."""
    binary = Case(f"two tokens {seed}", *table_pair(2, seed), PROMPTS, 2, 3 + longer)
    gpts = Case(f"GPT {seed}", *tiny_gpt_pair(seed, 2), PROMPTS, 2, 3 + longer)
    wide = Case(f"table {seed}", *table_pair(3, seed), PROMPTS, 2, 3, Warp(1.3), (2,))
    for rule in (verify_block, verify_compare):
        yield gpts.but(rule.name, verifier=rule)
        yield binary.but(f"{rule.name}, waiting", verifier=rule, eos=(1,), waiting=True)
    block = binary.but("block", verifier=verify_block, k=3, max_new_tokens=4 + longer)
    yield block.but("K 3")
    yield block.but("stop rule", drafter=ENUMERATED["stopping"])
    yield wide.but("block", verifier=verify_block)
    base = replace(gpts, k=4, max_new_tokens=3, drafter=ENUMERATED["repeating_tree"])
    several = base.but("k-sequential", verifier=verify_k_sequential)
    yield several
    yield several.but("EOS", warp=COOL, eos=(1,))


def waiting_cases(seed: int, longer: int) -> Iterator[Case]:
    """Yields cases in which one of three rows waits for one that is done."""
    base = Case(f"two tokens {seed}", *table_pair(2, seed), PROMPTS, 2, 3 + longer, eos=(1,))
    base = base.but("waiting", waiting=True)
    yield base
    yield base.but("coupled", verifier=verify_coupled)
    big, small = tiny_gpt_pair(seed, 2)
    base = Case(f"GPT {seed}", big, small, PROMPTS, 2, 3 + longer, eos=(1,))
    base = base.but("waiting", waiting=True, rows=64)
    yield base
    yield base.but("tree", drafter=ENUMERATED["tree"], verifier=verify_tree)
    for name in ("ngram", *CHAINS, "medusa"):
        target = lives_on(big, name, seed)
        yield base.but(name, drafter=ENUMERATED[name], target=target, draft=target)


FAMILIES = (length_cases, lookup_cases, self_drafting_cases, tree_cases, rule_cases, waiting_cases)
