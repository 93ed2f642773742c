"""Stateful tests: whatever is done to a cache, in whatever order, it holds what it should and nothing else.

`CacheMachine` reads, truncates and rolls back at random. `RoundMachine` plays whole rounds of `speculate`
with verdicts of all kinds. Both compare with forwards from scratch.
"""

import pytest
import tiny
import torch
from examples import examples
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from minispec import ModelDrafter, SeededRng, Verdict
from minispec.core.prefill import pad
from minispec.core.rollback import rollback
from minispec.verifiers.fixed_width import FixedWidth

CAPACITY = 12
CONTEXT = 20  # of the models that play rounds
CPU = torch.device("cpu")


class CacheMachine(RuleBasedStateMachine):
    """One to three rows; after each step, the logits of a next token equal those from scratch.

    Attributes:
        model: whose cache is driven.
        plain: the same model, whose forward without a cache is the truth.
        rows: per row, the tokens that the cache should hold.
    """

    model = plain = None

    @initialize(rows=st.integers(1, 3))
    def begin(self, rows):
        self.rows = [[] for _ in range(rows)]
        with torch.inference_mode():
            self.cache = self.model.new_cache(rows)

    @rule(data=st.data(), width=st.integers(1, 6))
    def read(self, data, width):
        """All rows read a block; rows past their end keep what fits."""
        self.append(self.block(data, width))

    @rule(data=st.data(), width=st.integers(1, 6))
    def read_padded(self, data, width):
        """Rows read different numbers of tokens: the block is padded, and padding is truncated away."""
        real = [data.draw(st.integers(0, width)) for _ in self.rows]
        wanted = [len(row) + n for row, n in zip(self.rows, real, strict=True)]
        if self.append(self.block(data, width)):
            self.forget([min(n, CAPACITY) for n in wanted])

    @precondition(lambda self: any(self.rows))
    @rule(data=st.data())
    def truncate(self, data):
        """Each row forgets an end of its own, or nothing."""
        self.forget([data.draw(st.integers(0, len(row))) for row in self.rows])

    @precondition(lambda self: any(self.rows))
    @rule(cut=st.integers(0, 4))
    def level(self, cut):
        """All rows are cut to one length, so that plain slices serve again."""
        self.forget([max(0, min(map(len, self.rows)) - cut)] * len(self.rows))

    @rule(data=st.data(), pending=st.integers(0, 4))
    def roll_back(self, data, pending):
        """Rows keep a prefix, and get a pending token that the cache must not hold."""
        kept = [data.draw(st.integers(0, len(row))) for row in self.rows]
        self.rows = [row[:n] for row, n in zip(self.rows, kept, strict=True)]
        ids = torch.full((len(kept),), pending)
        rollback(self.cache, Verdict(ids, ids), self.cache.row_lengths, kept)

    @invariant()
    def lengths_are_those_of_the_texts(self):
        """The cache counts exactly what was read and not forgotten."""
        assert self.cache.row_lengths == tuple(map(len, self.rows))

    @invariant()
    @torch.inference_mode()
    def the_next_token_sees_exactly_the_texts(self):
        """Every row that has space reads one more token, which is forgotten again."""
        lengths = [len(row) for row in self.rows]
        if min(lengths) == CAPACITY:
            return
        probe = [[n % 5] for n in lengths]
        logits = self.model(torch.tensor(probe), self.cache)
        self.cache.truncate(lengths)
        texts = [(row + more)[:CAPACITY] for row, more in zip(self.rows, probe, strict=True)]
        self.agree(logits, texts, lengths)

    def block(self, data, width):
        ids = st.lists(st.integers(0, 4), min_size=width, max_size=width)
        return [data.draw(ids) for _ in self.rows]

    @torch.inference_mode()
    def append(self, block):
        """Reads a block and checks its logits; returns False if it fits no row, which is an error."""
        lengths = [len(row) for row in self.rows]
        tokens = torch.tensor(block)
        if min(lengths) + tokens.shape[1] > CAPACITY:
            with pytest.raises(ValueError, match="the context is full"):
                self.model(tokens, self.cache)
            return False
        logits = self.model(tokens, self.cache)
        self.rows = [(row + more)[:CAPACITY] for row, more in zip(self.rows, block, strict=True)]
        self.agree(logits, self.rows, lengths)
        return True

    def forget(self, lengths):
        self.cache.truncate(lengths)
        self.rows = [row[:n] for row, n in zip(self.rows, lengths, strict=True)]

    def agree(self, logits, texts, starts):
        """Asserts that row b's logits are those of texts[b] from starts[b] on; padding is not looked at."""
        truth = self.plain(pad(texts, max(map(len, texts)), CPU))
        for row, (text, start) in enumerate(zip(texts, starts, strict=True)):
            tiny.same(logits[row, : len(text) - start], truth[row, start : len(text)])


class TableMachine(CacheMachine):
    model = plain = tiny.table(max_length=CAPACITY)


class GPTMachine(CacheMachine):
    model = plain = tiny.gpt(tiny.config(max_length=CAPACITY), seed=5)


class FixedWidthMachine(CacheMachine):
    """In exact mode, logits also equal those of the same mode from scratch to the last bit."""

    plain = GPTMachine.plain
    model = FixedWidth(plain, 4)

    def agree(self, logits, texts, starts):
        super().agree(logits, texts, starts)
        exact = self.model(pad(texts, max(map(len, texts)), CPU))
        for row, (text, start) in enumerate(zip(texts, starts, strict=True)):
            assert torch.equal(logits[row, : len(text) - start], exact[row, start : len(text)])


class RoundMachine(RuleBasedStateMachine):
    """One run of `speculate` after another, with one drafter; each round is checked by `tiny.watched`.

    The verdicts are Hypothesis's, not a rule's: every row keeps any number of its drafted tokens and goes on
    with any token. After each round both caches hold all committed tokens but the pending one.

    Attributes:
        target: verifies.
        draft: the drafter's model.
        rounds: the run, or None between two runs.
    """

    target = draft = None

    def __init__(self):
        super().__init__()
        self.drafter = ModelDrafter(self.draft)
        self.rounds = None

    @precondition(lambda self: self.rounds is None)
    @rule(
        prompts=st.lists(st.lists(st.integers(0, 4), min_size=1, max_size=9), min_size=1, max_size=3),
        k=st.sampled_from([3, 1, 2, 5, 0]),
        cap=st.sampled_from([CONTEXT, 6, 1]),
        eos=st.sampled_from([(), (4,)]),
        seed=st.integers(0, 9),
    )
    def start(self, prompts, k, cap, eos, seed):
        """A run begins: both models read the prompts."""
        self.row_count = len(prompts)
        self.played = 0
        settings = {"k": k, "max_new_tokens": cap, "eos": eos, "rng": SeededRng(seed)}
        self.rounds = tiny.watched(self.target, self.drafter, prompts, verifier=self.decide, **settings)

    @precondition(lambda self: self.rounds is not None)
    @rule(data=st.data())
    def play(self, data):
        """Draft, verify, commit, rollback, catch up."""
        verdict = st.tuples(st.integers(0, 5), st.integers(0, 4))
        self.verdicts = [data.draw(verdict) for _ in range(self.row_count)]
        self.played += 1
        if next(self.rounds, None) is None:
            self.rounds = None

    @precondition(lambda self: self.rounds is not None and self.played > 3)
    @rule()
    def leave(self):
        """A run may be left in the middle; the next one starts afresh."""
        self.rounds.close()
        self.rounds = None

    def decide(self, draft, target_probs, rng):
        kept = [min(n, have) for (n, _), have in zip(self.verdicts, draft.lengths.tolist(), strict=True)]
        return Verdict(torch.tensor(kept), torch.tensor([token for _, token in self.verdicts]))


class TableRounds(RoundMachine):
    target, draft = tiny.table_pair(max_length=CONTEXT)


class GPTRounds(RoundMachine):
    target, draft = tiny.gpt_pair(max_length=CONTEXT)


class FixedWidthRounds(RoundMachine):
    target, draft = (FixedWidth(model, 4) for model in tiny.gpt_pair(max_length=CONTEXT))


@pytest.mark.parametrize(
    ("machine", "share", "steps"),
    [
        (TableMachine, 5, 20),
        (GPTMachine, 5, 20),
        (FixedWidthMachine, 5, 20),
        (TableRounds, 3, 50),
        (GPTRounds, 3, 50),
        (FixedWidthRounds, 16, 50),
    ],
)
def test_whatever_is_done(machine, share, steps):
    """With a share of the profile's examples: a step here makes tens of forwards.

    Faults planted in the cache are found by the 4th example of a machine that reads, and by the 17th of one
    that plays rounds (exact mode's own by the 2nd).
    """
    run_state_machine_as_test(machine, settings=settings(examples(100 // share), stateful_step_count=steps))
