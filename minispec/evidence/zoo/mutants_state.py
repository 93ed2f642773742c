"""Bugs of random number generators, of the ends of rows, of both caches, and of counts."""

from minispec.evidence.zoo.mutation import Mutant

SEEDED = "minispec.core.rng:SeededRng"
BLOCK = "minispec.core.rng:BlockRng._place"
COMMIT = "minispec.core.commit:Rows.append"
ROLLBACK = "minispec.core.rollback:rollback"
DRAFTER = "minispec.core.draft:ModelDrafter"
VIEW = "minispec.core.model:GPT.view"

RANDOMNESS = (
    Mutant(
        name="seed-reset",
        title="the generator is seeded anew before every draw",
        function=f"{SEEDED}._uniforms",
        old="count = int(wanted.sum())",
        new="count = int(wanted.sum())\nself._generator.manual_seed(self._generator.initial_seed())",
        seen="feifeibear/LLMSpeculativeSampling, by reading",
    ),
    Mutant(
        name="one-number-for-all-rows",
        title="all rows of a batch get the same uniform number",
        function=f"{SEEDED}._uniforms",
        old="count = int(wanted.sum())",
        new=(
            "count = int(wanted.sum())\n"
            "return torch.rand(1, generator=self._generator, dtype=torch.float64) * wanted"
        ),
        effect="breaks",
        harm="each row has the right distribution, but the rows of a batch copy each other",
    ),
    Mutant(
        name="chance-zero-passes",
        title="yes where the number is at most the probability, not below it",
        function=f"{SEEDED}.bernoulli",
        old="yes = uniform < probs",
        new="yes = uniform <= probs",
    ),
    Mutant(
        name="probability-zero-is-picked",
        title="the first id whose sum reaches the number, not the first whose sum exceeds it",
        function=f"{SEEDED}.categorical",
        old="torch.searchsorted(cumulative, threshold, right=True)",
        new="torch.searchsorted(cumulative, threshold, right=False)",
    ),
    Mutant(
        name="id-beyond-the-vocabulary",
        title="a distribution that sums to less than 1 is not rescaled: a number above the sum picks id V",
        function=f"{SEEDED}.categorical",
        old="picked = torch.searchsorted(",
        new="threshold = threshold / total  # as it came, not rescaled\npicked = torch.searchsorted(",
        seen="vLLM advisory GHSA-8wr5-jm2h-8r4f: an id at or beyond V in a padded kernel",
        effect="breaks",
        harm="an id that no model knows, about once in 10 million draws from float32 distributions",
    ),
    Mutant(
        name="rows-draw-beyond-their-room",
        title="rows that are done, or have less budget left, draw all the same",
        function=BLOCK,
        old="live = inside if live is None else live & inside",
        new="pass",
        effect="breaks",
        harm="with the same seed, a row's text depends on its neighbours",
        crosses_rows=True,
    ),
    Mutant(
        name="noise-starts-anew-each-round",
        title="positions count from the round's start, not from the text's: keyed noise repeats",
        function=BLOCK,
        old="positions = None if offsets is None else start + offsets",
        new="positions = None if offsets is None else start * 0 + offsets",
        effect="breaks",
        harm="with keyed noise, each round repeats the noise of the last; other generators ignore positions",
    ),
    Mutant(
        name="noise-without-position",
        title="keyed noise depends on seed and row, and not on the position",
        function="minispec.rules.coupled:KeyedRng.categorical",
        old=") + position)",
        new="))",
        effect="breaks",
        harm="with keyed noise, every position meets the same noise, with and without a draft",
    ),
)

ENDS = (
    Mutant(
        name="stop-inside-the-draft-ignored",
        title="end-of-sequence is looked for in the last token of a round only",
        function=COMMIT,
        old="if token in self._eos:",
        new="if token in self._eos and len(kept) == len(tokens):",
        seen="sgl-project/sglang #23802, with stop strings",
    ),
    Mutant(
        name="cap-hides-a-stop",
        title="a block that reaches the cap is not searched for end-of-sequence",
        function=COMMIT,
        old="if token in self._eos:",
        new="if token in self._eos and len(tokens) < self.budget(row):",
        seen="sgl-project/sglang #31599",
    ),
    Mutant(
        name="overshoot",
        title="where one more token fits, a draft of one and its bonus are committed",
        function="minispec.core.commit:Rows.budget",
        old="return min(self._cap[row], self._max_length) - len(self.committed[row])",
        new=(
            "left = min(self._cap[row], self._max_length) - len(self.committed[row])\n"
            "return max(left, 2) if left > 0 else left"
        ),
        seen="feifeibear/LLMSpeculativeSampling, by reading",
    ),
    Mutant(
        name="cap-counted-in-rounds",
        title="the cap counts rounds, not tokens",
        function=COMMIT,
        old="self.committed[row].extend(kept)",
        new="self.committed[row].extend(kept)\nself._cap[row] += len(kept) - 1",
    ),
    Mutant(
        name="least-room-for-all",
        title="a round drafts no more than the smallest remaining budget of any row, done rows included",
        function="minispec.core.draft:draft_within",
        old="width = min(k, max(rng.budgets))",
        new="width = min(k, min(rng.budgets))",
        effect="slower",
        crosses_rows=True,
    ),
)

CACHES = (
    Mutant(
        name="rollback-one-short",
        title="the target's cache keeps one token too many",
        function=ROLLBACK,
        old="cache.truncate([len(row) - 1 for row in committed])",
        new="cache.truncate([min(len(r), n) for r, n in zip(committed, cache.row_lengths, strict=True)])",
    ),
    Mutant(
        name="rollback-one-too-far",
        title="the target's cache forgets one token too many",
        function=ROLLBACK,
        old="cache.truncate([len(row) - 1 for row in committed])",
        new="cache.truncate([max(len(row) - 2, 0) for row in committed])",
    ),
    Mutant(
        name="rows-cut-to-the-shortest",
        title="all rows roll back to the length of the shortest",
        function=ROLLBACK,
        old="cache.truncate([len(row) - 1 for row in committed])",
        new="cache.truncate([min(len(row) for row in committed) - 1] * len(committed))",
        seen="not seen; how batches without ragged rows are often made to work",
        crosses_rows=True,
    ),
    Mutant(
        name="prompt-padding-stays",
        title="the padding of shorter prompts stays in the cache",
        function="minispec.core.prefill:prefill",
        old="cache.truncate(lengths)",
        new="pass",
        seen="not seen; the usual trouble with padding on the right",
        crosses_rows=True,
    ),
    Mutant(
        name="last-prompt-token-read-twice",
        title="prefill reads the last token of the prompt, and the first round reads it again",
        function="minispec.core.prefill:prefill",
        old="lengths = [len(prompt) - 1 for prompt in prompts]",
        new="lengths = [len(prompt) for prompt in prompts]",
    ),
    Mutant(
        name="leftovers-seen",
        title="in a ragged batch, all rows look as far back as the longest: at what was rolled back, too",
        function="minispec.core.cache:KVCache.begin",
        old="bias = self._bias[positions]",
        new="bias = self._bias[positions.amax(0).expand_as(positions)]",
        crosses_rows=True,
    ),
    Mutant(
        name="positions-not-rolled-back",
        title="positions count all tokens that were ever read, rejected ones too",
        function=VIEW,
        old="cos, sin = cos[positions], sin[positions]",
        new=(
            "read = cache.__dict__.get('read', 0)\n"
            "cache.__dict__['read'] = read + new\n"
            "cos, sin = cos[read : read + new], sin[read : read + new]"
        ),
        seen="huggingface/transformers #30042",
        crosses_rows=True,
    ),
    Mutant(
        name="positions-of-the-longest-row",
        title="in a ragged batch, all rows count positions as the longest does",
        function=VIEW,
        old="cos, sin = cos[positions], sin[positions]",
        new=(
            "if isinstance(positions, Tensor):\n"
            "    positions = positions.amax(0).expand_as(positions)\n"
            "cos, sin = cos[positions], sin[positions]"
        ),
        seen="huggingface/transformers #30042",
        crosses_rows=True,
    ),
)

DRAFT_CACHE = (
    Mutant(
        name="token-missing-in-the-drafts-cache",
        title="after full acceptance, the draft never reads its last token",
        function=f"{DRAFTER}.commit",
        old="self.catch_up(round)\nself.cache.truncate(round.lengths)",
        new=(
            "have = zip(self.cache.row_lengths, round.lengths, strict=True)\n"
            "self.cache.truncate([min(pair) for pair in have])"
        ),
        seen="vllm-project/vllm #5765; #9730 for K > 1",
        effect="slower",
    ),
    Mutant(
        name="rejected-stay-in-the-drafts-cache",
        title="the draft's cache is never rolled back",
        function=f"{DRAFTER}.commit",
        old="self.cache.truncate(round.lengths)",
        new="pass",
        seen="vllm-project/vllm #26498",
        effect="slower",
        crosses_rows=True,
    ),
    Mutant(
        name="drafts-rollback-one-too-far",
        title="the draft's cache forgets one token too many",
        function=f"{DRAFTER}.commit",
        old="self.cache.truncate(round.lengths)",
        new="self.cache.truncate([max(n - 1, 0) for n in round.lengths])",
        effect="slower",
    ),
    Mutant(
        name="pending-read-again",
        title="for K > 1, the draft reads the pending token each time, not what it has just drafted",
        function=f"{DRAFTER}.propose",
        old="logits = self.model(token[:, None], self.cache)[:, -1]",
        new="logits = self.model(pending[:, None], self.cache)[:, -1]",
        effect="slower",
    ),
    Mutant(
        name="stale-after-an-empty-round",
        title="where nothing was drafted, the draft does not read the pending token",
        function=f"{DRAFTER}.catch_up",
        old="if any(have < want",
        new="if round.draft.k and any(have < want",
        seen="vllm-metal #716",
        effect="breaks",
        harm="the next rollback asks for more than the cache holds, and fails",
        crosses_rows=True,
    ),
    Mutant(
        name="padding-counted",
        title="acceptance counts padding after a short draft as tested",
        function="minispec.core.records:Round.tested",
        old="min(self.accepted(row) + 1, self.drafted(row))",
        new="min(self.accepted(row) + 1, self.draft.k)",
        effect="slower",
        crosses_rows=True,
    ),
)
