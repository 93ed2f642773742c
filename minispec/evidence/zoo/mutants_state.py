"""Bugs of the sources of chance, and of where rows end."""

from minispec.evidence.zoo.mutants_rules import COMMON, SUBTLE
from minispec.evidence.zoo.mutation import Mutant

SEEDED = "minispec.core.rng:SeededRng"
BLOCK = "minispec.core.rng:BlockRng._place"
COMMIT = "minispec.core.commit:Rows.append"

CHANCE = (
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
        seen=SUBTLE,
        effect="breaks",
        harm="each row has the right law, but the rows of a batch copy each other",
    ),
    Mutant(
        name="chance-zero-passes",
        title="yes where the number is at most the chance, not below it",
        function=f"{SEEDED}.bernoulli",
        old="yes = uniform < probs",
        new="yes = uniform <= probs",
        seen=SUBTLE,
    ),
    Mutant(
        name="probability-zero-is-picked",
        title="the first id whose sum reaches the number, not the first whose sum exceeds it",
        function=f"{SEEDED}.categorical",
        old="torch.searchsorted(cumulative, threshold, right=True)",
        new="torch.searchsorted(cumulative, threshold, right=False)",
        seen=SUBTLE,
    ),
    Mutant(
        name="id-beyond-the-vocabulary",
        title="a law that sums to a little less than 1 is not rescaled: a number above the sum picks id V",
        function=f"{SEEDED}.categorical",
        old="picked = torch.searchsorted(",
        new="threshold = threshold / total  # as it came, not rescaled\npicked = torch.searchsorted(",
        seen="vLLM advisory GHSA-8wr5-jm2h-8r4f: an id at or beyond V in a padded kernel",
        effect="breaks",
        harm="an id that no model knows, about once in 10 million draws of float32 laws",
    ),
    Mutant(
        name="rows-draw-beyond-their-room",
        title="rows that are done, or have less room, draw all the same",
        function=BLOCK,
        old="live = inside if live is None else live & inside",
        new="pass",
        seen=COMMON,
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
        seen=SUBTLE,
        effect="breaks",
        harm="with keyed noise, each round repeats the noise of the last; other sources ignore positions",
    ),
    Mutant(
        name="noise-without-position",
        title="keyed noise depends on seed and row, and not on the position",
        function="minispec.rules.coupled:KeyedRng.categorical",
        old=") + position)",
        new="))",
        seen=SUBTLE,
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
        seen="sgl-project/sglang #31599",
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
        title="where there is room for one token, a draft of one and its bonus are committed",
        function="minispec.core.commit:Rows.budget",
        old="return min(self._cap[row], self._max_length) - len(self.committed[row])",
        new=(
            "left = min(self._cap[row], self._max_length) - len(self.committed[row])\n"
            "return max(left, 2) if left > 0 else left"
        ),
        seen="feifeibear/LLMSpeculativeSampling",
    ),
    Mutant(
        name="cap-counted-in-rounds",
        title="the cap counts rounds, not tokens",
        function=COMMIT,
        old="self.committed[row].extend(kept)",
        new="self.committed[row].extend(kept)\nself._cap[row] += len(kept) - 1",
        seen=COMMON,
    ),
    Mutant(
        name="least-room-for-all",
        title="a round drafts no more than the row with the least room has room for, done rows included",
        function="minispec.core.draft:draft_within",
        old="width = min(k, max(rng.budgets))",
        new="width = min(k, min(rng.budgets))",
        seen=COMMON,
        effect="slower",
        crosses_rows=True,
    ),
)
