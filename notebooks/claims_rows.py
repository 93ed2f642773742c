"""What the notebooks must show, and the planted bugs that make their cells fail.

Each sentence has a tag, which the cells that show it carry too.
"""

from typing import NamedTuple

from minispec.evidence.zoo.mutation import Mutant

CLAIMS = {
    "claim-A1": "Prefill reads the prompt once and fills the caches; its last token is pending.",
    "claim-A2": "The draft guesses several tokens one by one, with a cache of its own.",
    "claim-A3": "One pass of the target scores all guesses.",
    "claim-A4": "Guesses are kept from left to right, up to the first one that differs.",
    "claim-A5": "The next round starts from what was kept; nothing is computed again.",
    "claim-A6": "A target call gains several tokens.",
    "claim-A7": "The text is the target's: greedy token for token, sampled in distribution.",
    "claim-B1": "Many tokens are easy, and a small model gets them right.",
    "claim-B2": "One new token is bound by memory, not by arithmetic; more are nearly free.",
    "claim-B3": "After the kept guesses comes the target's token: a correction or a bonus.",
    "claim-B4": "Two models take memory, and two caches; large batches of short texts gain less.",
    "claim-C1": "Both models read the same prompt, each into its own cache.",
    "claim-C2": "Drafts of many lengths, greedy or sampled: all are lossless.",
    "claim-C3": "Roll back, commit, repeat until the cap or the end of the sequence.",
    "claim-C4": "A recipe without correction and bonus wastes target calls.",
    "claim-C5": "Too many guesses are rolled back, too few gain little.",
    "claim-C6": "Rows of a batch accept different numbers of guesses.",
    "claim-C7": "The target is not trained again: its weights stay the same.",
    "claim-C8": "Grouped heads, fused attention, text as it comes.",
    "claim-C9": "A draft that was trained to be like the target is accepted more often.",
    "claim-D1": "Rejection sampling has exactly the target's distribution.",
    "claim-D2": "A draft may come from another model, or from none.",
    "claim-D3": "α = 1 − TV(p, q) governs the tokens per target call.",
    "claim-D4": "The speed-up, measured and compared with what α and c predict.",
    "claim-D5": "A tree has several guesses for a position; one pass checks it, and p stays.",
    "claim-D6": "Block verification keeps p, and accepts as much as rejection or more, on average.",
    "claim-D7": "What a lossless rule can accept has an exact limit; more costs as much damage.",
    "claim-E1": "It is speculative execution: work done ahead, kept if it was right.",
    "claim-E2": "The best draft is neither the smallest nor the largest.",
    "claim-E3": "Wrong guesses waste work: the draft's, and the target's.",
    "claim-E4": "With these rules, both models share a vocabulary; else there is a clear error.",
    "claim-E5": "Other methods make decoding faster too: kernels, batching, quantization.",
}
MISLEADS = {
    "misleads-correction-emitted": "The correction is gained too, not only what was accepted.",
    "misleads-own-cache": "The draft has its own cache; it does not read the target's.",
    "misleads-whole-sequence": "To verify, only the pending token and the draft are read.",
    "misleads-second-pass": "Correction and bonus come out of the same pass, not a second one.",
    "misleads-left-to-right": "Scoring is parallel; accepting stops at the first rejection.",
    "misleads-offset": "Without the offset of the prompt, the rows judge the wrong tokens.",
    "misleads-no-bonus": "Cutting off the last row loses the bonus; caps and ends need care.",
    "misleads-top-1-sampled": "Agreement with the best token gives greedy text at any temperature.",
    "misleads-one-shot": "A draft model that writes token by token does not draft in one shot.",
    "misleads-negligible-draft": "Guessing takes time: K·c target steps a round.",
    "misleads-single-pass": "With a separate draft, K small passes and a large one make a round.",
    "misleads-batch": "Batches give more tokens a second and, of short texts, less gain.",
}
MISCONCEPTIONS = {
    "misconception-bad-draft": "A bad draft does not spoil the text.",
    "misconception-same-seed": "The same seed gives another text, unless draws are coupled.",
    "misconception-keep-later": "Nothing after a rejection is kept.",
    "misconception-correction-again": "The correction is never the rejected token.",
    "misconception-higher-acceptance": "More acceptance is not more correct.",
    "misconception-sample-again": "Drawing from p after a rejection is wrong.",
    "misconception-larger-draft": "A larger draft is not always better.",
    "misconception-always-pays": "Speculation can be slower than none.",
}
TABLES = {
    "Claims": CLAIMS,
    "Where short introductions mislead": MISLEADS,
    "Misconceptions": MISCONCEPTIONS,
}
QUESTIONS = {  # the predictions that ask for a misconception
    "misconception-bad-draft": ("bad-draft",),
    "misconception-same-seed": ("same-seed",),
    "misconception-keep-later": ("keep-after-rejection",),
    "misconception-correction-again": ("correction-again",),
    "misconception-higher-acceptance": ("higher-acceptance",),
    "misconception-sample-again": ("resample-from-p",),
    "misconception-larger-draft": ("larger-draft",),
    "misconception-always-pays": ("always-pays", "k-of-fifty"),
}
NOT_YET = {  # what a claim speaks of and minispec has not built
    "claim-C8": "CUDA graphs, and handing a pair to vLLM",
}


class Case(NamedTuple):
    """A planted bug that must make a tagged cell fail: the nth one of this tag in the notebook."""

    notebook: int
    tag: str
    mutant: str  # its name, in the zoo or below
    nth: int = 0


PROPOSE = "minispec.core.draft:ModelDrafter.propose"
THEORY = "minispec.evidence.theory.formulas"
BUGS = (
    Mutant(
        "draft-in-one-shot",
        "all guesses are drawn from the first distribution",
        PROPOSE,
        "$logits = self.model($token[:, None], self.cache)[:, -1]",
        "if $token is pending:\n    $logits = self.model($token[:, None], self.cache)[:, -1]",
        "a slip that a document suggests",
    ),
    Mutant(
        "whole-text-read-again",
        "to verify, the target reads the whole text without its cache, to the same effect",
        "minispec.core.loop:speculate",
        "$draft = draft_within(drafter, $pending, $k, warp, $drafting, $target)\n"
        "$logits = score(target, $pending, $draft, $cache)\n"
        "$probs = warp($logits)\n"
        "$verdict = verifier($draft, $probs, $rng)\n"
        "$emitted = commit($rows, $draft, $verdict)",
        "$draft = draft_within(drafter, $pending, $k, warp, $drafting, $target)\n"
        "whole = torch.cat([torch.tensor($rows.committed), $draft.tokens], dim=1)\n"
        "$logits = target(whole)[:, -$draft.k - 1 :]\n"
        "target.hidden(whole[:, -$draft.k - 1 :], $cache)  # what rollback is about to cut\n"
        "$probs = warp($logits)\n"
        "$verdict = verifier($draft, $probs, $rng)\n"
        "$emitted = commit($rows, $draft, $verdict)",
        "a slip that a document suggests",
    ),
    Mutant(
        "correction-dropped",
        "the target's token is committed only if nothing was accepted",
        "minispec.core.commit:commit",
        "[*($token for $i in $kept), $next]",
        "[$token for $i in $kept] or [$next]",
        "a recipe that circulates",
    ),
    Mutant(
        "everything-accepted",
        "the greedy rule keeps all that was drafted",
        "minispec.core.verify:verify_greedy",
        "$agrees.long().cumprod(-1).sum(-1)",
        "draft.inside.sum(-1).expand(len(target_probs)).contiguous()",
        "a slip of the pen",
    ),
    Mutant(
        "correction-from-the-next-row",
        "the greedy rule takes the token after the accepted ones from the row after theirs",
        "minispec.core.verify:verify_greedy",
        "$best.gather(1, $accepted[:, None])",
        "$best.gather(1, ($accepted[:, None] + 1).clamp(max=draft.k))",
        "a slip of the pen",
    ),
    Mutant(
        "vocabulary-unchecked",
        "any draft is taken",
        "minispec.core.loop:check_settings",
        "k > 0 and $vocab_size != target.vocab_size",
        "False",
        "a slip of the pen",
    ),
    Mutant(
        "drafting-free",
        "the formula forgets the draft's time",
        f"{THEORY}:speed_up",
        "expected_tokens(alpha, k) / $seconds",
        "expected_tokens(alpha, k)",
        "a slip that a document suggests",
    ),
    Mutant(
        "keys-without-values",
        "the cache is counted without its values",
        f"{THEORY}:kv_cache_bytes",
        "2 * config.layers",
        "config.layers",
        "a slip of the pen",
    ),
    Mutant(
        "grouping-forgotten",
        "the cache is counted as if each query head had its own key head",
        f"{THEORY}:kv_cache_bytes",
        "config.kv_heads",
        "config.heads",
        "a slip of the pen",
    ),
    Mutant(
        "arithmetic-free",
        "a forward takes the time of reading, whatever it computes",
        f"{THEORY}:ForwardCost.seconds",
        "max(self.moving, self.computing)",
        "self.moving",
        "a slip that a document suggests",
    ),
    Mutant(
        "reading-per-token",
        "each token reads all weights again",
        f"{THEORY}:forward_cost",
        "parameters * bytes_each",
        "parameters * bytes_each * tokens",
        "a slip of the pen",
    ),
    Mutant(
        "one-token-ahead",
        "each token also sees the next",
        "minispec.train.attention:attention_written_out",
        "$later.triu(1)",
        "$later.triu(2)",
        "a slip of the pen",
    ),
    Mutant(
        "look-up-with-a-uniform-q",
        "a look-up reports that it could have proposed any token",
        "minispec.drafters.lookup:LookupDrafter.propose",
        "one_hot($tokens, self.vocab_size, $dtype)",
        "torch.full_like(one_hot($tokens, self.vocab_size, $dtype), 1 / self.vocab_size)",
        "a slip of the pen",
    ),
    Mutant(
        "first-layers-read-twice",
        "verification begins at the first layer again, whatever was read ahead",
        "minispec.drafters.exit:EarlyExitGPT",
        "$ahead, $all[$cache] = $all[$cache], []",
        "$ahead, $all[$cache] = [], []",
        "a slip of the pen",
    ),
    Mutant(
        "guessed-features-stay",
        "after verification the feature drafter goes on from what it guessed",
        "minispec.drafters.eagle:FeatureDrafter.commit",
        "[min($n, $before) for $row, $n in $lengths]",
        "[min($n, self.cache.row_lengths[$row]) for $row, $n in $lengths]",
        "a slip of the pen",
    ),
    Mutant(
        "parents-alone-are-seen",
        "a token of a tree sees its parent and none of the tokens before that",
        "minispec.core.model:Tree.after",
        "$mask[:, $i + 1] |= $mask[$each, parents[:, $i]]",
        "$mask[$each, $i + 1, parents[:, $i]] = True",
        "a slip of the pen",
    ),
    Mutant(
        "left-over-forgotten",
        "after a rejection the next candidate is tested as if nothing had been rejected",
        "minispec.rules.tree:verify_tree",
        "torch.where($rejected, residual($left, $q), $left)",
        "$left",
        "a slip of the pen",
    ),
    Mutant(
        "path-not-moved",
        "a cache gets the path's length, and keeps the first slots instead of the path's",
        "minispec.core.cache:KVCache.gather",
        "$kept[:, :, $to] = $kept[:, :, $slots]",
        "pass",
        "a slip of the pen",
    ),
    Mutant(
        "limit-by-single-tokens",
        "of all sets of tokens only those of one token are looked at",
        "minispec.evidence.atlas.optimum:by_subsets",
        "1 + (over_subsets($single) - over_subsets($sets)).min(-1).values",
        "1 + ($single - $sets)[:, 2 ** torch.arange(p.shape[1])].min(-1).values",
        "a slip of the pen",
    ),
    Mutant(
        "mixture-forgotten",
        "the rule says p itself, not the mixture of p and q",
        "minispec.rules.lossy:verify_mixture",
        "weight * $p[:, :-1] + (1 - weight) * $q",
        "$p[:, :-1]",
        "a slip of the pen",
    ),
)

CASES = (
    Case(1, "misleads-single-pass", "draft-in-one-shot"),
    Case(1, "claim-A7", "greedy-counts-all-matches"),
    Case(1, "claim-B2", "reading-per-token"),
    Case(2, "claim-A1", "last-prompt-token-read-twice", nth=2),
    Case(2, "misleads-whole-sequence", "whole-text-read-again"),
    Case(2, "claim-A3", "whole-text-read-again", nth=1),
    Case(3, "claim-E4", "vocabulary-unchecked"),
    Case(4, "misleads-one-shot", "draft-in-one-shot", nth=1),
    Case(4, "claim-B3", "correction-from-the-next-row"),
    Case(4, "claim-D1", "correction-from-p"),
    Case(5, "claim-A3", "positions-not-rolled-back"),
    Case(5, "misleads-correction-emitted", "correction-from-the-next-row"),
    Case(6, "misleads-top-1-sampled", "everything-accepted", nth=1),
    Case(6, "claim-D1", "correction-from-p", nth=3),
    Case(6, "claim-D1", "ratio-inverted", nth=1),
    Case(6, "claim-D3", "residual-with-an-epsilon"),
    Case(6, "claim-A7", "residual-absolute"),
    Case(7, "claim-A5", "rollback-one-too-far", nth=2),
    Case(7, "claim-C3", "token-missing-in-the-drafts-cache", nth=2),
    Case(8, "misleads-no-bonus", "overshoot"),
    Case(8, "misleads-whole-sequence", "whole-text-read-again"),
    Case(8, "claim-A5", "whole-text-read-again", nth=1),
    Case(8, "claim-A6", "everything-accepted", nth=1),
    Case(8, "claim-C6", "positions-of-the-longest-row"),
    Case(9, "misconception-same-seed", "noise-starts-anew-each-round", nth=1),
    Case(9, "claim-D1", "ratio-inverted", nth=1),
    Case(10, "claim-D3", "accept-if-a-fresh-draw-agrees"),
    Case(10, "claim-C2", "greedy-draft-soft-q", nth=1),
    Case(10, "claim-E3", "correction-dropped"),
    Case(10, "misleads-negligible-draft", "drafting-free"),
    Case(10, "claim-B4", "keys-without-values", nth=1),
    Case(11, "claim-D2", "residual-absolute"),
    Case(11, "misleads-batch", "arithmetic-free"),
    Case(11, "claim-C8", "grouping-forgotten"),
    Case(11, "claim-C8", "one-token-ahead", nth=1),
    Case(11, "claim-E4", "vocabulary-unchecked"),
    Case(11, "misleads-single-pass", "draft-in-one-shot", nth=1),
    Case(12, "claim-D2", "look-up-with-a-uniform-q", nth=2),
    Case(12, "claim-D2", "first-layers-read-twice", nth=4),
    Case(12, "claim-D2", "guessed-features-stay", nth=7),
    Case(13, "claim-D5", "parents-alone-are-seen"),
    Case(13, "claim-D5", "left-over-forgotten", nth=4),
    Case(13, "claim-D5", "path-not-moved", nth=6),
    Case(14, "claim-C6", "predecessors-length-kept", nth=1),
    Case(14, "claim-A7", "row-named-by-its-place"),
    Case(14, "claim-D1", "predecessors-length-kept"),
    Case(15, "claim-D6", "block-ends-at-the-first-no", nth=1),
    Case(15, "claim-D6", "block-residual-of-a-token", nth=1),
    Case(15, "claim-D7", "limit-by-single-tokens", nth=1),
    Case(15, "claim-D7", "mixture-forgotten", nth=2),
)
