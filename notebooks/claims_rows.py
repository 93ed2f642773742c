"""What the notebooks must show, row by row, and the planted bugs that make their cells fail.

A row is named by the tag of the cells that show it. Misconceptions also name the questions that
bring them up. What is not built yet says so.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from minispec.evidence.zoo.mutation import Mutant


@dataclass(frozen=True)
class Row:
    """Something to show.

    Attributes:
        tag: of the cells that show it.
        words: what is so.
        questions: predictions that ask for it.
        not_yet: what is still to be built, or nothing.
    """

    tag: str
    words: str
    questions: tuple[str, ...] = field(default=())
    not_yet: str = ""


@dataclass(frozen=True)
class Case:
    """A planted bug that must make a tagged cell fail.

    Attributes:
        notebook: its number.
        tag: of the cell.
        mutant: the bug's name, in the zoo or below.
        nth: which of the notebook's cells with this tag, from 0.
    """

    notebook: int
    tag: str
    mutant: str
    nth: int = 0


CLAIMS = (
    Row(
        "claim-A1", "Prefill reads the prompt once and fills the caches; its last token is pending."
    ),
    Row("claim-A2", "The draft guesses several tokens one by one, with a cache of its own."),
    Row("claim-A3", "One pass of the target scores all guesses."),
    Row("claim-A4", "Guesses are kept from left to right, up to the first one that differs."),
    Row("claim-A5", "The next round starts from what was kept; nothing is computed again."),
    Row("claim-A6", "A target call gains several tokens."),
    Row(
        "claim-A7",
        "The text is the target's: greedy token for token, sampled from the same distribution.",
    ),
    Row("claim-B1", "Many tokens are easy, and a small model gets them right."),
    Row("claim-B2", "One new token is bound by memory, not by arithmetic; more are nearly free."),
    Row("claim-B3", "After the kept guesses comes the target's token: a correction or a bonus."),
    Row("claim-B4", "Two models and two caches take memory; in large batches the gain shrinks."),
    Row("claim-C1", "Both models read the same prompt, each into its own cache."),
    Row("claim-C2", "Drafts of many lengths, greedy or sampled: all are lossless."),
    Row("claim-C3", "Roll back, commit, repeat until the cap or the end of the sequence."),
    Row("claim-C4", "A recipe without correction and bonus wastes target calls."),
    Row("claim-C5", "Too many guesses are rolled back, too few gain little."),
    Row("claim-C6", "Rows of a batch accept different numbers of guesses."),
    Row("claim-C7", "The target is not trained again: its weights stay the same."),
    Row(
        "claim-C8",
        "Grouped heads, fused attention, text as it comes.",
        not_yet="CUDA graphs, and handing a pair to vLLM",
    ),
    Row("claim-C9", "A draft that was trained to be like the target is accepted more often."),
    Row("claim-D1", "Rejection sampling has exactly the target's distribution."),
    Row(
        "claim-D2",
        "A draft may come from another model, or from none.",
        not_yet="early exit, and heads that guess ahead",
    ),
    Row("claim-D3", "α = 1 − TV(p, q) governs the tokens per target call."),
    Row("claim-D4", "The speed-up, measured beside what α and c predict."),
    Row("claim-E1", "It is speculative execution: work done ahead, kept if it was right."),
    Row(
        "claim-E2",
        "The best draft is neither the smallest nor the largest.",
    ),
    Row("claim-E3", "Wrong guesses cost work that is thrown away."),
    Row("claim-E4", "Draft and target must share a vocabulary; else there is a clear error."),
    Row(
        "claim-E5",
        "Other methods make decoding faster too: kernels, batching, quantization.",
    ),
)

MISLEADS = (
    Row("misleads-correction-emitted", "The correction is gained too, not only what was accepted."),
    Row("misleads-own-cache", "The draft has its own cache; it does not read the target's."),
    Row("misleads-whole-sequence", "To verify, only the pending token and the draft are read."),
    Row(
        "misleads-second-pass", "Correction and bonus come out of the same pass, not a second one."
    ),
    Row(
        "misleads-left-to-right",
        "Scoring is parallel; accepting is not: nothing counts after a rejection.",
    ),
    Row("misleads-offset", "Without the offset of the prompt, the rows judge the wrong tokens."),
    Row("misleads-no-bonus", "Cutting off the last row loses the bonus; caps and ends need care."),
    Row(
        "misleads-top-1-sampled",
        "Agreement with the favourite token gives greedy text, at any temperature.",
    ),
    Row("misleads-one-shot", "A draft model guesses one after another, not in one shot."),
    Row("misleads-negligible-draft", "Guessing takes time: K·c target steps a round."),
    Row(
        "misleads-single-pass", "With a separate draft, a round is K small passes and a large one."
    ),
    Row("misleads-batch", "Batches raise tokens a second and lower the gain of speculation."),
)

MISCONCEPTIONS = (
    Row("misconception-bad-draft", "A bad draft does not spoil the text.", ("bad-draft",)),
    Row(
        "misconception-same-seed",
        "The same seed gives another text, unless draws are coupled.",
        ("same-seed",),
    ),
    Row(
        "misconception-keep-later", "Nothing after a rejection is kept.", ("keep-after-rejection",)
    ),
    Row(
        "misconception-correction-again",
        "The correction is never the rejected token.",
        ("correction-again",),
    ),
    Row(
        "misconception-higher-acceptance",
        "More acceptance is not more correct.",
        ("higher-acceptance",),
    ),
    Row(
        "misconception-sample-again",
        "Drawing from p after a rejection is wrong.",
        ("resample-from-p",),
    ),
    Row("misconception-larger-draft", "A larger draft is not always better.", ("larger-draft",)),
    Row(
        "misconception-always-pays",
        "Speculation can be slower than none.",
        ("always-pays", "k-of-fifty"),
    ),
)

TABLES = {
    "Claims": CLAIMS,
    "Where short introductions mislead": MISLEADS,
    "Misconceptions": MISCONCEPTIONS,
}

PROPOSE = "minispec.core.draft:ModelDrafter.propose"
THEORY = "minispec.evidence.theory.formulas"
BUGS = (
    Mutant(
        "draft-in-one-shot",
        "all guesses are drawn from the first distribution",
        PROPOSE,
        "logits = self.model(token[:, None], self.cache)[:, -1]",
        "logits = logits if position else self.model(token[:, None], self.cache)[:, -1]",
        "a slip that a document suggests",
    ),
    Mutant(
        "whole-text-read-again",
        "to verify, the target reads the whole text without its cache, to the same effect",
        "minispec.core.loop:speculate",
        "logits = target(torch.cat([pending[:, None], draft.tokens], dim=1), cache)  # [B, K+1, V]",
        "whole = torch.cat([torch.tensor(rows.committed, device=device), draft.tokens], dim=1)\n"
        "logits = target(whole)[:, -draft.k - 1 :]\n"
        "target.hidden(whole[:, -draft.k - 1 :], cache)  # what rollback is about to cut",
        "a slip that a document suggests",
    ),
    Mutant(
        "correction-dropped",
        "the target's token is committed only if nothing was accepted",
        "minispec.core.commit:commit",
        "[*drafted[row][: accepted[row]], token[row]]",
        "drafted[row][: accepted[row]] or [token[row]]",
        "a recipe that circulates",
    ),
    Mutant(
        "everything-accepted",
        "the greedy rule keeps all that was drafted",
        "minispec.core.verify:verify_greedy",
        "agrees.long().cumprod(-1).sum(-1)",
        "inside.sum(-1).expand(len(best)).contiguous()",
        "a slip of the pen",
    ),
    Mutant(
        "correction-from-the-next-row",
        "the greedy rule takes the token after the accepted ones from the row after theirs",
        "minispec.core.verify:verify_greedy",
        "best.gather(1, accepted[:, None])",
        "best.gather(1, (accepted[:, None] + 1).clamp(max=draft.k))",
        "a slip of the pen",
    ),
    Mutant(
        "vocabulary-unchecked",
        "any draft is taken",
        "minispec.core.loop:check_settings",
        "if k > 0 and vocab_size != target.vocab_size:",
        "if False:",
        "a slip of the pen",
    ),
    Mutant(
        "drafting-free",
        "the formula forgets the draft's time",
        f"{THEORY}:speed_up",
        "/ (k * c + 1)",
        "/ 1",
        "a slip that a document suggests",
    ),
    Mutant(
        "keys-without-values",
        "the cache is counted without its values",
        f"{THEORY}:kv_cache_bytes",
        "return 2 * config.layers",
        "return config.layers",
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
        "parameters * bytes_each, 2",
        "parameters * bytes_each * tokens, 2",
        "a slip of the pen",
    ),
    Mutant(
        "one-token-ahead",
        "each token also sees the next",
        "minispec.train.attention:attention_written_out",
        ".triu(1)",
        ".triu(2)",
        "a slip of the pen",
    ),
)

CASES = (
    Case(1, "misleads-single-pass", "draft-in-one-shot"),
    Case(1, "claim-A7", "greedy-counts-all-matches"),
    Case(1, "claim-B2", "reading-per-token"),
    Case(2, "claim-A1", "last-prompt-token-read-twice", nth=1),
    Case(2, "misleads-whole-sequence", "whole-text-read-again"),
    Case(2, "claim-A3", "whole-text-read-again"),
    Case(3, "claim-E4", "vocabulary-unchecked"),
    Case(4, "misleads-one-shot", "draft-in-one-shot"),
    Case(4, "claim-B3", "correction-from-the-next-row"),
    Case(4, "claim-D1", "correction-from-p"),
    Case(5, "claim-A3", "positions-not-rolled-back"),
    Case(5, "misleads-correction-emitted", "correction-from-the-next-row"),
    Case(6, "misleads-top-1-sampled", "everything-accepted"),
    Case(6, "claim-D1", "correction-from-p"),
    Case(6, "claim-D1", "ratio-inverted", nth=1),
    Case(6, "claim-D3", "residual-with-an-epsilon"),
    Case(6, "claim-A7", "drafts-support-for-p"),
    Case(7, "claim-A5", "rollback-one-too-far", nth=2),
    Case(7, "claim-C3", "token-missing-in-the-drafts-cache", nth=2),
    Case(8, "misleads-no-bonus", "overshoot"),
    Case(8, "misleads-whole-sequence", "whole-text-read-again"),
    Case(8, "claim-A5", "whole-text-read-again", nth=1),
    Case(8, "claim-A6", "everything-accepted"),
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
)
