# %% [markdown]
# # 9. Prove it
#
# **You'll do**: enumerate every branch of the loop, sample with a known risk of error, plant bugs,
# and write a test that finds some.
#
# **You'll learn**: what "lossless" means, how to show it, and how a test that passes can still be
# worthless.
#
# **You'll need**: notebooks 6 to 8.
#
# **Time**: 45 minutes, and about half a minute of computing.

# %%
import torch

import minispec
from minispec.classroom import check, goal, hint, predict, wrote

pair = minispec.load_pair("stories")
target = pair.target
draft = pair.draft
tokenizer = pair.tokenizer
drafter = minispec.ModelDrafter(draft)
prompts = pair.info["prompts"][:8]
print(*(tokenizer.decode(prompt)[:76] + "…" for prompt in prompts), sep="\n")

# %% [markdown]
# ## The same text
#
# In short introductions the output is "provably identical" to the target's own. At temperature 0
# that means the same tokens. Here are eight stories, each decoded twice.

# %% tags=["claim-A7"]
cold = dict(max_new_tokens=60, warp=minispec.Warp(temperature=0), rng=minispec.SeededRng(0))
steps = list(minispec.generate(target, prompts, **cold))
run = minispec.record(target, drafter, prompts, k=5, verifier=minispec.verify_greedy, **cold)
alike = [run.tokens(row) == [step[row] for step in steps] for row in range(8)]
print(f"{sum(alike)} of 8 texts are the same; {len(steps)} calls against {len(run.rounds)}")
assert all(alike)

# %% [markdown]
# There is a catch, and it is not in the method. A computer rounds, and a forward over six tokens
# adds its numbers in a different order from six forwards over one. Read the same text in both ways,
# with three number formats. How far apart are logits at most, and distributions on average (total
# variation)? And where does another token become the best one?

# %% tags=["claim-A7"]
texts, off = torch.tensor(prompts), {}  # [8, n]
for dtype in (torch.float64, torch.float32, torch.bfloat16):
    model = minispec.load_pair("stories", dtype=dtype).target
    cache = model.new_cache(rows=8)
    with torch.inference_mode():
        together = model(texts).double()  # [8, n, V]
        singly = torch.cat([model(column[:, None], cache) for column in texts.T], 1).double()
    off[dtype] = float((together - singly).abs().max())
    tv = float((together.softmax(-1) - singly.softmax(-1)).abs().sum(-1).mean()) / 2
    flips = f"{int((together.argmax(-1) != singly.argmax(-1)).sum())} of {texts.numel()}"
    print(f"{str(dtype)[6:]:9} logits {off[dtype]:.0e}, a token {tv:.0e}, another best at {flips}")
assert off[torch.float64] < 1e-9

# %% [markdown]
# Where the logits of the two best tokens lie closer together than that, a greedy text may change,
# with or without a draft: the coarser the numbers, the more often. (`minispec.FixedWidth` gives
# every forward the same shape, which removes this difference.)
#
# ## The same distribution
#
# Above temperature 0 the text is drawn. What is "the same" then?

# %% tags=["predict"]
predict("same-seed", guess=None)

# %% tags=["claim-A7", "misconception-same-seed"]
warm = dict(max_new_tokens=24, warp=minispec.Warp())
rule = minispec.verify_rejection
same = []
for seed in (1, 2, 3):
    rngs = (minispec.SeededRng(seed), minispec.SeededRng(seed))
    steps = list(minispec.generate(target, prompts, rng=rngs[0], **warm))
    run = minispec.record(target, drafter, prompts, k=5, verifier=rule, rng=rngs[1], **warm)
    same.append(sum(run.tokens(row) == [step[row] for step in steps] for row in range(8)))
    print(f"seed {seed}: {same[-1]} of 8 texts are the same")
assert max(same) < 8

# %% [markdown]
# The seed is the same, the texts are not. A speculative run spends its random numbers on other
# decisions: on guesses, on tests, on corrections. "Lossless" is a statement about *probabilities*:
# each text is as probable as it would be without a draft.
#
# One rule does more. Let each position in the text have its own noise, fixed by the seed, and let
# draft and target both pick with it. Then the target picks the same token with or without a draft.
# (The cost: slightly fewer guesses are accepted.)

# %% tags=["misconception-same-seed"]
rule = minispec.verify_coupled
same = []
for seed in (1, 2, 3):
    noise = minispec.KeyedRng(seed)  # fixed for each row, position and token: nothing is used up
    steps = list(minispec.generate(target, prompts, rng=noise, **warm))
    run = minispec.record(target, drafter, prompts, k=5, verifier=rule, rng=noise, **warm)
    same.append(sum(run.tokens(row) == [step[row] for step in steps] for row in range(8)))
    print(f"seed {seed}: {same[-1]} of 8 texts are the same, in {len(run.rounds)} rounds")
assert min(same) == 8

# %% [markdown]
# ## Every branch
#
# How can you show that two distributions are the same? Not by looking at texts. Go through every
# branch, and add up the probabilities. For one drafted token that is a few lines. The draft draws
# x, and x is accepted, or rejected and y drawn in its place.


# %%
def every_branch(p, q):
    """Returns the distribution of the first token under the rejection rule, K = 1."""
    out = [0.0] * len(p)
    excess = [max(0, a - b) for a, b in zip(p, q, strict=True)]
    for x in range(len(q)):  # the draft draws x with probability q[x]
        keep = min(1, p[x] / q[x])
        out[x] += q[x] * keep  # accepted
        for y in range(len(p)):  # rejected: the correction is y
            out[y] += q[x] * (1 - keep) * excess[y] / sum(excess)
    return out


# %% [markdown]
# p and q of notebook 6 once more. `first_token` asks the package's own rule.

# %% tags=["nbval-check-output"]
from minispec.evidence.proof.first_token import first_token, first_token_counts

P = (3 / 6, 2 / 6, 1 / 6)
Q = (1 / 6, 1 / 6, 4 / 6)
by_hand = every_branch(P, Q)
shipped = first_token(minispec.verify_rejection, P, Q).distribution
print("p:      ", *(f"{x:.4f}" for x in P))
print("by hand:", *(f"{x:.4f}" for x in by_hand))
assert all(abs(a - b) + abs(a - c) < 1e-12 for a, b, c in zip(P, by_hand, shipped, strict=True))

# %% [markdown]
# The whole loop has more branches: several rounds, several tokens. `EnumeratingRng` replaces the
# random number generator, takes each branch once, and multiplies the probabilities. Take models so
# small that all of them can be listed: two tokens, 0 and 1, K = 1, two tokens to emit. The loop is
# the one that you have just run.

# %% tags=["claim-D1", "nbval-check-output"]
from minispec.evidence.proof.cases import Case
from minispec.evidence.proof.distributions import branches
from minispec.evidence.proof.models import table_pair

small = Case("two tokens", *table_pair(vocab_size=2), prompts=((0,),), k=1, max_new_tokens=2)
listed = list(branches(small))
for branch in listed:
    story = [
        f"{'kept' if s.accepted else 'rejected'} {s.drafted[0]}" for s in branch.steps if s.drafted
    ]
    print(f"{branch.weight:.4f}  {', '.join(story):10}  text {branch.tokens}")
print(f"{sum(branch.weight for branch in listed):.4f}  all {len(listed)} branches together")

# %% [markdown]
# A text that begins with 1 comes out of several branches: 1 drafted and kept, or 0 drafted,
# rejected and corrected. Add up the branches of each text, and compare with the target alone: the
# probability of the first token times that of the second.

# %% tags=["claim-D1", "nbval-check-output"]
from minispec.evidence.proof.distributions import (
    exact_distributions,
    largest_error,
    speculative_distributions,
)

(loop,), (exact,) = speculative_distributions(small).distributions, exact_distributions(small)
for text, end in sorted(exact):
    print(f"text {text}: {loop[text, end]:.4f}, and {exact[text, end]:.4f} without a draft")
assert largest_error(loop, exact) < 1e-12

# %% [markdown]
# For each of the four texts the two probabilities agree. Does that hold for larger K, for other
# warps, at the end of a text, in ragged batches, with a real cache? `minispec prove` enumerates all
# of that, for every drafter, and keeps a list of events that must have occurred. Here is its part
# for a draft model, which takes a quarter of a minute.

# %% tags=["claim-D1"]
from minispec.evidence.proof.prove import few_cases, prove

proof = prove(few_cases(), sampled=list, tell=lambda name: None, drafters=["model"])
print(f"{len(proof.cases)} settings, {proof.branches:,} branches")
print(f"largest error of a probability: {proof.largest_error:.0e}")
for what in ("correction", "bonus", "EOS in an accepted draft", "the cap ends a row"):
    print(f"occurred {proof.coverage[what]:,} times: {what}")
assert proof.passed and proof.branches > 10_000

# %% [markdown]
# That is a proof for these models: no branch is left out. But they are small. A trained model has
# more branches than could ever be enumerated. There we must sample.
#
# ## Samples, and what they can detect

# %% tags=["predict"]
how_many = predict("how-many-samples", guess=None)
how_many

# %% [markdown]
# A test of samples can be wrong in two ways: a *false alarm* at right code, or a bug that it
# *misses*. Fix both risks first. Then it follows from the number of samples how small a shift the
# test will detect. How many throws tell a fair coin from one with heads at 0.51?

# %% tags=["nbval-check-output"]
from bisect import bisect_left

import numpy as np
from scipy.stats import binom

from minispec.evidence.theory.statistics import detected_distance

coin = {"heads": 0.5, "tails": 0.5}
throws = np.arange(1, 400_000)
for risk in (0.05, 1e-6):
    bound = bisect_left(throws, -0.01, key=lambda n: -detected_distance(coin, n, risk, risk))
    most_heads = binom.isf(risk, throws, 0.5)  # the fair coin throws more with this risk at most
    least = throws[binom.cdf(most_heads, throws, 0.51) <= risk][0]
    print(f"both risks {risk:g}: {throws[bound]:,} by the bound, at least {least:,}")

# %% [markdown]
# The larger number is what the bound of this test (Hoeffding's) guarantees for any distribution,
# not what is needed. The smaller one suffices for the best test of these two coins, which counts
# heads and knows to which side the second coin is off.

# %% tags=["nbval-check-output"]
for samples in (100, 10_000, 1_000_000):
    print(f"{samples:,} samples detect a shift of {detected_distance(coin, samples, 1e-6):.3f}")
if guess := how_many.value:
    print(f"your {guess:,.0f} detect a shift of {detected_distance(coin, int(guess), 1e-6):.3f}")

# %% [markdown]
# A hundred times the samples detect a tenth of the shift. A test that states neither risk does not
# tell what it can detect.
#
# Here is one with its limits drawn in, for a risk of one in a million: p and q as above, the first
# token of 20,000 texts. The mutant draws from p itself after a rejection.

# %% tags=["claim-D1", "misconception-sample-again"]
from minispec.evidence.zoo.mutants import MUTANTS, mutant_named
from minispec.evidence.zoo.mutation import planted
from minispec.show.plots.distributions import envelope, sampled_shares

shipped = first_token_counts(minispec.verify_rejection, P, Q, 20_000)
with planted(mutant_named("correction-from-p")):
    mutant = first_token_counts(minispec.verify_rejection, P, Q, 20_000)
bounds = envelope(P, 20_000)  # of the shares, if the rule is right
within = [low <= n / 20_000 <= high for n, (low, high) in zip(shipped, bounds, strict=True)]
assert all(within) and mutant[0] / 20_000 < bounds[0][0]
sampled_shares({"verify_rejection": shipped, "correction-from-p": mutant}, P, "abc")

# %% [markdown]
# Now the pair that you have been using: 2,000 times, three tokens of a story through the whole
# loop, against the target's exact distribution.

# %% tags=["claim-D1", "claim-A7"]
from minispec.evidence.proof.sampling import trained_experiments

test = trained_experiments(2_000)[0].check(seed=0, false_alarm=1e-6)
print(f"{test.samples:,} texts, {test.cells} outcomes told apart")
print(f"distance {test.distance:.3f}; right code stays below {test.threshold:.3f}")
print(f"code that is off by {test.detects:.2f} would have been caught; less than that may hide")
assert test.passed

# %% [markdown]
# Enumeration is exact, on small models. Samples test the real pair, and detect only large errors.
# Each covers what the other cannot.
#
# ## The bug zoo
#
# A test that has never failed proves little. So minispec keeps dozens of bugs as patches to its own
# code: some were seen in real projects, the others are easy to make. Each is planted, and each must
# be found.
#
# Plant a few on a small model, and enumerate: how far off is the distribution, and how often are
# drafted tokens accepted?

# %% tags=["misconception-higher-acceptance"]
from minispec.evidence.proof.distributions import total_variation

case = Case("table", *table_pair(3), prompts=((0,), (1, 0)), k=2, max_new_tokens=3)
right, acceptance = exact_distributions(case), speculative_distributions(case).acceptance
print(f"shipped code: distribution off by 0, accepted of tested {acceptance:.3f}")
off = {}
rates = {}
for bug in ("ratio-inverted", "greedy-draft-soft-q", "correction-from-p", "pending-read-again"):
    with planted(mutant_named(bug)):
        faulty = speculative_distributions(case)
    off[bug] = max(map(total_variation, faulty.distributions, right))
    rates[bug] = faulty.acceptance
    print(f"{bug}: distribution off by {off[bug]:.3f}, accepted of tested {rates[bug]:.3f}")

# %% tags=["hide-input", "misconception-higher-acceptance"]
assert [bug for bug in off if off[bug] < 0.01] == ["pending-read-again"]
more = [bug for bug in rates if rates[bug] > acceptance]
assert more == ["ratio-inverted", "greedy-draft-soft-q"]

# %% [markdown]
# Two of these bugs make acceptance *better*. They look good if only the speed is measured. The last
# one keeps the distribution and loses speed: the opposite kind, and a test of the distribution does
# not find it. So one check is never enough.
#
# This is the whole matrix, as it was measured: a line for each bug, a column for each check. The
# last three columns are our own reimplementations of how two other projects test, not their tests
# themselves.

# %% tags=["claim-D1"]
from minispec.evidence.bench.measurements import saved
from minispec.show.plots.kill_matrix import kill_matrix

matrix = saved("zoo")
checks, other_projects = matrix.conditions["checks"], matrix.conditions["theirs"]
in_projects = sum(not mutant.seen.startswith("not seen") for mutant in MUTANTS)
print(f"{len(matrix.points)} bugs, {in_projects} of them seen in real projects")
for name in other_projects:
    count = sum(row.marks[checks.index(name)] != "." for row in matrix.points)
    print(f"{name}, our reimplementation, finds {count}")
minispec_checks = [index for index, name in enumerate(checks) if name not in other_projects]
assert all(any(row.marks[index] != "." for index in minispec_checks) for row in matrix.points)
kill_matrix(matrix.points, checks, other_projects)

# %% [markdown]
# `minispec zoo` plants them all again, and takes some minutes.
#
# ### Try it: change a value and run the cell again
#
# Another bug of the rule: `ratio-inverted`, `residual-absolute`, `rounded-ratio` or
# `typical-acceptance`. (Bugs of drafts and caches do not show in one token.) Or other
# distributions. Can you find p and q for which a bug does no harm?

# %% tags=["try-it"]
bug = "correction-from-p"
p = (0.6, 0.3, 0.1)
q = (0.2, 0.3, 0.5)
with planted(mutant_named(bug)):
    out = first_token(minispec.verify_rejection, p, q)
print("p:      ", *(f"{x:.3f}" for x in p))
print("emitted:", *(f"{x:.3f}" for x in out.distribution))
print(f"accepted with probability {out.acceptance:.3f}, with {bug}")

# %% [markdown]
# ## The smallest counterexample
#
# "It is wrong" helps little; "here is the smallest case" helps a lot. `check_verifier` takes any
# acceptance rule, yours too, and tries it on small examples, the smallest first.

# %%
from minispec.classroom.rules import rule_with

print(minispec.check_verifier(minispec.verify_rejection), end="\n\n")
report = minispec.check_verifier(rule_with("going-on-after-a-rejection"))
print(report)
assert not report.passed and report.counterexample.k == 2

# %% [markdown]
# K = 2, because with one drafted token nothing comes after a rejection. The smallest case often
# shows where to look.
#
# ## Exercise: catch a mutant
#
# Now the other way round: *you* write the test. It is given a verifier, and tells whether it seems
# right. Then it meets three right ones and eight with a bug. Find at least six bugs, and call no
# right one wrong. (`Draft` and `SeededRng` are in `minispec`.) Hints: `hint("write-a-test", 1)`,
# and then 2.

# %%
goal("write-a-test")


# %% tags=["exercise"]
def my_test(verifier):
    """Returns True if the verifier seems to keep the target's distribution, else False.

    Choose p and q. Make a draft of many rows, its tokens drawn from q, call
    verifier(draft, target_probs, rng), and count what comes out in each row:
    the drafted tokens that were kept, then verdict.token.
    Draft(tokens [B, K], q [B, K, V]), target_probs [B, K + 1, V], rng = SeededRng(seed),
    rng.categorical(probs [B, V]) -> ids [B].
    """
    ...


check("write-a-test", my_test)

# %%
covered = f"{proof.branches:,} branches; the largest error of a probability was"
wrote(every_branch, measured=f"the whole loop, {covered} {proof.largest_error:.0e}")

# %% [markdown]
# ## Recap
#
# - At temperature 0, lossless means the same tokens, up to rounding. Above it, it means the same
#   distribution.
# - The same seed gives another text, except with the coupled rule.
# - Enumerating every branch is exact, on small models. Samples work for large models, and detect
#   only large errors.
# - A test is worth what it can fail on. State both risks, and plant bugs to see that it does.
# - More acceptance is not more right: some bugs accept more.
#
# Next, notebook 10: how fast is it, and when does it lose?
