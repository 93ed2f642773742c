"""Bugs of rollback, caches, positions and counts."""

from minispec.evidence.zoo.mutants_rules import COMMON
from minispec.evidence.zoo.mutation import Mutant

ROLLBACK = "minispec.core.rollback:rollback"
DRAFTER = "minispec.core.draft:ModelDrafter"
VIEW = "minispec.core.model:GPT.view"

CACHES = (
    Mutant(
        name="rollback-one-short",
        title="the target's cache keeps one token too many",
        function=ROLLBACK,
        old="cache.truncate([len(row) - 1 for row in committed])",
        new="cache.truncate([min(len(r), n) for r, n in zip(committed, cache.row_lengths, strict=True)])",
        seen=COMMON,
    ),
    Mutant(
        name="rollback-one-too-far",
        title="the target's cache forgets one token too many",
        function=ROLLBACK,
        old="cache.truncate([len(row) - 1 for row in committed])",
        new="cache.truncate([max(len(row) - 2, 0) for row in committed])",
        seen=COMMON,
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
        seen=COMMON,
    ),
    Mutant(
        name="leftovers-seen",
        title="in a ragged batch, all rows look as far back as the longest: at what was rolled back, too",
        function="minispec.core.cache:KVCache.begin",
        old="bias = self._bias[positions]",
        new="bias = self._bias[positions.amax(0).expand_as(positions)]",
        seen=COMMON,
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
        seen="vllm-project/vllm #5765",
        effect="slower",
    ),
    Mutant(
        name="rejected-stay-in-the-drafts-cache",
        title="the draft's cache is never rolled back",
        function=f"{DRAFTER}.commit",
        old="self.cache.truncate(round.lengths)",
        new="pass",
        seen="vllm-project/vllm #9730",
        effect="slower",
        crosses_rows=True,
    ),
    Mutant(
        name="drafts-rollback-one-too-far",
        title="the draft's cache forgets one token too many",
        function=f"{DRAFTER}.commit",
        old="self.cache.truncate(round.lengths)",
        new="self.cache.truncate([max(n - 1, 0) for n in round.lengths])",
        seen=COMMON,
        effect="slower",
    ),
    Mutant(
        name="pending-read-again",
        title="for K > 1, the draft reads the pending token each time, not what it has just drafted",
        function=f"{DRAFTER}.propose",
        old="logits = self.model(token[:, None], self.cache)[:, -1]",
        new="logits = self.model(pending[:, None], self.cache)[:, -1]",
        seen="vllm-project/vllm #9730",
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
        title="acceptance counts padding behind a short draft as tested",
        function="minispec.core.records:Round.tested",
        old="min(self.accepted(row) + 1, self.drafted(row))",
        new="min(self.accepted(row) + 1, self.draft.k)",
        seen="vllm-project/vllm #26498",
        effect="slower",
        crosses_rows=True,
    ),
)
