# %% [markdown]
# # 10. Measure it
#
# **You'll do**: measure on your own machine when speculation wins (part a), and look at
# measurements of when it loses (part b).
#
# **You'll learn**: which two numbers decide, how to predict a speed-up before you run it, and what
# a wrong draft size, a wrong K or a large batch costs.
#
# **You'll need**: notebooks 5, 6 and 8.
#
# **Time**: 35 minutes, and half a minute of computing. Close other busy programs on your machine.

# %%
from statistics import fmean

import torch

import minispec
from minispec.classroom import check, goal, hint, predict, wrote
from minispec.evidence.bench.measure import bench_prompts, measure_acceptance

pair = minispec.load_pair("stories")
target = pair.target
draft = pair.draft
prompts = bench_prompts(pair)[:4]
print(f"{len(prompts)} openings of stories, {len(prompts[0])} tokens each. The first:")
print(pair.tokenizer.decode(prompts[0]))

# %% [markdown]
# ## Part a: when it wins
#
# Two numbers decide. The *acceptance rate* α is the probability that a guess is accepted. c is what
# a guess costs: the time of a draft step over the time of a target step.
#
# In notebook 6 you computed by hand that a guess is accepted with probability Σ min(p, q). α is the
# mean of that, here wherever a guess was tested.


# %%
def acceptance_probabilities(run):
    """Returns Σ min(p, q) at every position where a guess was tested."""
    shares = []
    for r in run.rounds:
        shared = torch.minimum(r.target_probs[:, :-1], r.draft.probs).sum(-1)  # [B, K]
        shares += [a for row, each in enumerate(shared.tolist()) for a in each[: r.tested(row)]]
    return shares


# %% [markdown]
# A run only counts: *accepted of tested* estimates α. Engines print two other numbers: accepted of
# *drafted*, though what comes after a rejection was never tested, and 1 + accepted / rounds, the
# *mean acceptance length*.

# %% tags=["claim-D3"]
run = measure_acceptance(pair, prompts, k=4)  # temperature 1, the rejection verifier
counts = run.statistics()
expected = acceptance_probabilities(run)
standard_error = sum(a * (1 - a) for a in expected) ** 0.5 / len(expected)  # of the counted α
print(f"α from p and q: {fmean(expected):.3f}; accepted of tested: {counts.acceptance:.3f}")
print(f"accepted of drafted: {counts.accepted_over_drafted:.3f};", end=" ")
print(f"mean acceptance length: {counts.mean_acceptance_length:.2f}")
assert abs(counts.acceptance - fmean(expected)) < 5 * standard_error

# %% [markdown]
# ## From α to tokens
#
# Suppose that every guess is accepted with the same probability α, given the text before it. Then a
# target call yields 1 + α + α² + … + α^K tokens on average. The first token is the target's own.
# The second needs one accepted guess, the third needs two in a row.
#
# Real guesses are not all alike. The last column takes a separate α for each position of the draft.
# Both are estimated from what was accepted of what was tested.

# %% tags=["claim-A6", "claim-D3"]
from minispec.evidence.bench.interleaved import by_position
from minispec.evidence.theory.formulas import expected_tokens, expected_tokens_by_position

print("  K  measured  one α for all  α per position   (tokens a target call)")
off, rates = [], {}
for k in (1, 2, 4, 8, 16):
    run = measure_acceptance(pair, prompts, k)
    measured, alpha = run.statistics().tokens_per_target_call, run.statistics().acceptance
    rates[k] = [kept / tested for tested, kept in by_position(run.rounds)]
    each = expected_tokens_by_position(rates[k])
    print(f"{k:3}  {measured:8.2f}  {expected_tokens(alpha, k):13.2f}  {each:14.2f}")
    off.append(abs(measured / each - 1))
assert max(off) < 0.15

# %% [markdown]
# Each further guess yields less than the one before it. (The last round of a text has few tokens
# left to emit, so a large K measures a little below its column.)
#
# ## What guessing and checking cost
#
# Now time. How long does a target forward take over 1, 2, 3, … new tokens, and a draft forward over
# one? Medians of 10 interleaved measurements, on your machine.

# %%
from minispec.evidence.bench.measure import forward_ratio, measure_latency
from minispec.show.plots.speed import latency

times = measure_latency(target, [1, 2, 3, 5, 9, 17], repeats=10)
draft_times = measure_latency(draft, [1, 2, 3, 5, 9, 17], repeats=10, name="draft")
c = forward_ratio(times, draft_times)
print(f"a draft's forward pass takes {c:.2f} of the target's: c = {c:.2f}, if each is called alone")
latency([*times, *draft_times], at=5)

# %% [markdown]
# One often reads that the draft takes negligible time. Ours guesses token by token, so K guesses
# cost K times c. (A parallel drafter guesses all of them in one forward: notebook 11.) Compare.

# %% tags=["misleads-negligible-draft"]
from minispec.evidence.theory.formulas import refined_speed_up, speed_up

steps = {point.width: point.seconds / times[0].seconds for point in times}
for k in (2, 4, 8, 16):
    print(f"K = {k:2}: guessing {k * c:.2f}, checking {steps[k + 1]:.2f} target steps")
more = next((k for k in (2, 4, 8, 16) if k * c > 0.25 * steps[k + 1]), None)
print("Guessing takes more than a quarter of the time of checking", end=" ")
print(f"from K = {more} on." if more else "for none of these K.")
free = speed_up(alpha=0.8, k=8, c=0)
paid = speed_up(alpha=0.8, k=8, c=0.1)
print(f"α = 0.8, K = 8: {free:.1f} times as fast if guesses were free, {paid:.1f} if c = 0.1")
assert abs(free / paid - (8 * 0.1 + 1)) < 1e-9  # a round takes Kc + 1 target steps

# %% [markdown]
# ## How large should K be?
#
# Tokens per round over the time of a round, Kc + 1, is the gain. (This is theorem 3.8 of Leviathan,
# Kalman and Matias, 2023. It assumes that checking costs one step, whatever K.)

# %% tags=["predict"]
fifty = predict("k-of-fifty", guess=None)
fifty

# %% tags=["claim-C5", "misconception-always-pays", "nbval-check-output"]
print("α = 0.8, c = 0.1")
for k in (1, 2, 3, 5, 10, 20, 50):
    gain = speed_up(0.8, k, 0.1)
    print(f"K = {k:2}: {expected_tokens(0.8, k):.2f} tokens a round, {gain:.2f} times as fast")
gain_1, gain_5, gain_20, gain_50 = (speed_up(0.8, k, 0.1) for k in (1, 5, 20, 50))
assert gain_1 < gain_5 > gain_20 > gain_50 and abs(gain_50 - fifty.truth) < 1e-3 and gain_50 < 1

# %% [markdown]
# Too few guesses gain little. Too many are rejected, and cost their time. In between there is a
# best K, and you can compute it. (`minispec generate --k auto` does so while it decodes: from the
# costs that it has measured, and from what was accepted so far.)
#
# ## Exercise
#
# Replace the `...` with your answer and run the cell: `check` looks at it. A wrong answer stops
# nothing. If you are stuck: `hint("choose-k", 1)`, and then 2.

# %%
goal("choose-k")


# %% tags=["exercise"]
def best_k(alpha, c, most):
    """Returns the K from 0 to most with the largest gain; 0 means: do not speculate.

    alpha: the probability that a drafted token is accepted, from 0 to 1.
    c: the time of one draft step, in target steps.
    A round takes K * c + 1 target steps and emits 1 + alpha + ... + alpha**K tokens.
    """
    ...


check("choose-k", best_k)

# %% [markdown]
# ## Measure the speed-up
#
# Now decode with and without a draft, interleaved, both on the torch backend. The speed-up is
# seconds per token of the target alone over seconds per token with a draft, prefill included on
# both sides.

# %% tags=["claim-C2", "claim-D4"]
from minispec.evidence.bench.interleaved import Setting, interleave, speed_up_of, total_of
from minispec.native.backend import on_backend

models = on_backend(pair, "torch")
alone, *drafted = (Setting(models, k, "rejection", temperature=1.0) for k in (0, 1, 2, 4, 8))
sides = {setting.k: (alone, setting) for setting in drafted}  # they take turns, prompt by prompt
runs = interleave(sides, [[p] for p in prompts[:2] * 2], seed=0, new_tokens=40)
gains = {k: speed_up_of(*both) for k, both in runs.items()}  # lower quartile, median, upper
for k, (low, gain, high) in gains.items():
    print(f"K = {k}: {gain:.2f} times as fast ({low:.2f} to {high:.2f})")
wins, loses = any(low > 1 for low, _, _ in gains.values()), max(max(g) for g in gains.values()) < 1
print("Just now it", "wins." if wins else "loses." if loses else "neither wins nor loses clearly.")
assert all(0 < low <= gain <= high for low, gain, high in gains.values())

# %% [markdown]
# Could you have known? The figure holds two predictions against what was measured. One is theorem
# 3.8. The other takes your measured time for checking K + 1 tokens, and the acceptance rate of each
# position of the draft.

# %% tags=["claim-D4"]
from minispec.evidence.bench.measurements import SpeedPoint
from minispec.show.plots.speed import predicted_measured

t = {point.width: point.seconds for point in times}  # of a target forward, by its new tokens
points = []
for k, (low, gain, high) in gains.items():
    alpha = total_of(runs[k][1]).acceptance
    simple = speed_up(alpha, k, c)
    refined = refined_speed_up(rates[k], t[1], draft_times[0].seconds, t.__getitem__)
    points.append(SpeedPoint(k, alpha, c, gain, low, high, simple, refined))
assert all(abs(p.simple * (p.k * c + 1) - expected_tokens(p.alpha, p.k)) < 1e-9 for p in points)
predicted_measured(points)

# %% [markdown]
# Points above the diagonal were faster than predicted, points below it slower. No formula here
# includes the time outside the models: in Python, in the verifier, in rollback.
#
# ### Try it: change a value and run the cell again
#
# A worse draft (a smaller α), or a slower one: which K is best, and from where on is there none?
# What checking costs is what you measured above.

# %% tags=["try-it"]
alpha = 0.8
slower = 1.0  # accepted of tested; how many times as long a draft step takes
for k in (1, 2, 4, 8, 16):
    cost = k * c * slower + steps[k + 1]  # target steps: K draft steps, one check
    gain = expected_tokens(alpha, k) / cost
    print(f"K = {k:2}: {expected_tokens(alpha, k):.2f} tokens, {gain:.2f} times as fast")

# %% [markdown]
# ## A draft at another temperature
#
# The draft need not use the target's temperature. At 0 it always proposes its most probable token;
# at 1.5 it proposes unlikely ones more often. The text has the target's distribution in any case,
# because q is the distribution that was really drawn from. Only α changes.

# %% tags=["claim-C2"]
settings = dict(k=4, verifier=minispec.verify_rejection, max_new_tokens=80, warp=minispec.Warp(1.0))
rates = {}
off = []
for temperature in (0, 0.5, 1, 1.5):
    drafter = minispec.ModelDrafter(draft, warp=minispec.Warp(temperature))
    run = minispec.record(target, drafter, prompts, rng=minispec.SeededRng(0), **settings)
    rates[temperature], expected = run.statistics().acceptance, acceptance_probabilities(run)
    standard_error = sum(a * (1 - a) for a in expected) ** 0.5 / len(expected)
    print(f"draft at temperature {temperature}: α = {fmean(expected):.2f}", end=", ")
    print(f"accepted of tested: {rates[temperature]:.2f}")
    off.append(abs(rates[temperature] - fmean(expected)) - 5 * standard_error)
assert max(off) <= 1e-6

# %% [markdown]
# ## Wasted work
#
# Wrong guesses were computed and then discarded: once by the draft, once by the target. Here is the
# run with K = 4 again, counted.

# %% tags=["claim-E3"]
from minispec.evidence.theory.formulas import expected_tokens

wasted = counts.drafted - counts.accepted
computed = counts.row_rounds + counts.drafted  # pending tokens and drafts
print(f"{counts.emitted} tokens came out; {counts.drafted} were drafted, {wasted} of them wasted")
print(f"the target computed {computed / counts.emitted:.2f} positions a token; alone it computes 1")
c_hat = draft.parameters_count / target.parameters_count  # a draft step's arithmetic
growth = (4 * c_hat + 4 + 1) / expected_tokens(counts.acceptance, 4)
print(f"with the draft's own work, theorem 3.11 says {growth:.2f} times the arithmetic")
assert computed - counts.emitted == wasted

# %% [markdown]
# More arithmetic and less time: that is the exchange. It needs a machine with arithmetic to spare.
#
# ## Part b: when it loses

# %% tags=["predict"]
predict("always-pays", guess=None)

# %% [markdown]
# What follows takes longer than you want to wait, so it was measured before, on the native backend.
# Each figure says on which machine and when. Other machines give other numbers.
#
# First K. Curves are theorem 3.8 for several α; the points were measured. The hatched part is loss.
# Here c is smaller than yours above: in the loop of the native backend one call makes all K draft
# steps, and c is the time of such a step over that of a target step.

# %% tags=["claim-C5"]
from minispec.evidence.bench.measurements import saved
from minispec.show.plots.speed import speed_up_curves

speed = saved("speed")
print(f"measured on {speed.where}")
best = max(speed.points, key=lambda p: p.gain)
print(
    f"best: K = {best.k}, {best.gain:.2f} times as fast; the largest K: {speed.points[-1].gain:.2f}"
)
assert best.k > speed.points[0].k or best.gain < 1  # too few guesses gain little
speed_up_curves([0.3, 0.6, 0.9], best.c, speed.points, most=16)

# %% [markdown]
# ## Too small, too large

# %% tags=["predict"]
larger = predict("larger-draft", guess=None)
larger

# %% [markdown]
# Drafts from one that guesses at random to the target itself, each with the K that suits it best.
# In between are drafts of six sizes that were trained for this, all in as many steps. The pair's
# own draft had more, so it lies higher than its size would suggest.

# %% tags=["claim-E2", "misconception-larger-draft"]
from minispec.show.plots.speed import batch_sweep, draft_sweep

drafts = saved("drafts")
sizes = sorted(drafts.points, key=lambda p: p.parameters)
print(f"measured on {drafts.where}")
best = max(sizes, key=lambda p: p.gain)
least = sizes[0]
most = sizes[-1]
named = {"a": most.name, "b": least.name, "c": sizes[len(sizes) // 2].name}
assert least.alpha < best.alpha < most.alpha and least.gain < best.gain > most.gain
draft_sweep(sizes, guess=named.get(larger.guess))

# %% [markdown]
# The second chart has the ratio of two forward passes that are called one at a time, not the c of
# the loop. The target as its own draft is accepted always and gains nothing: K guesses at full
# price, then a check. With α = 1 and c = 1, theorem 3.8 gives 1 for every K.
#
# ## Many texts at once
#
# Does a large batch help or hurt? You will read both. They mean two different things.

# %% tags=["claim-B4", "misleads-batch"]
batches = saved("batches")
first = batches.points[0]
busiest = max(batches.points, key=lambda point: point.target_only)
print(f"measured on {batches.where}, {batches.conditions['path']} backend, K = 4")
print(f"target alone: {first.target_only:.0f} tokens a second with {first.rows} text,", end=" ")
print(f"{busiest.target_only:.0f} with {busiest.rows}, its most.", end=" ")
print(f"Gain of speculation: {first.gain:.2f} and {busiest.gain:.2f}.")
assert busiest.target_only > first.target_only and busiest.gain < first.gain
batch_sweep(batches.points)

# %% [markdown]
# Both are right here. Many texts share one reading of the weights, so throughput grows until
# arithmetic is the limit. Then the positions of a draft are no longer nearly free. That holds for
# short texts, as these are. Caches are not shared: with long contexts reading them is the limit,
# and large batches still gain (notebook 11).
#
# On a GPU the same happens with larger batches, since it computes hundreds of tokens while it reads
# the weights once. With a mixture of experts further tokens read further experts. (Not measured
# here; the cost model's page has the arithmetic.)
#
# ## What it takes in memory
#
# Two models, two caches. This needs no clock, so it is counted here.

# %% tags=["claim-B4"]
from minispec.evidence.bench.measure import measure_memory
from minispec.evidence.theory.formulas import kv_cache_bytes

sizes = measure_memory(pair)
predicted = {}
for name, model in (("target", target), ("draft", draft)):
    predicted[name, "weights"] = 4 * model.parameters_count  # four bytes each
    predicted[name, "cache"] = kv_cache_bytes(model.config, model.max_length)
for (name, what), size in sizes.items():
    print(f"{name:6}  {what:7}  {size / 1e6:5.2f} MB")
both = {name: sizes[name, "weights"] + sizes[name, "cache"] for name in ("target", "draft")}
print(f"the draft adds {both['draft'] / both['target']:.1%} to what the target takes")
assert all(sizes[part] == predicted[part] for part in predicted)

# %%
best = max(points, key=lambda p: p.gain)
result = f"{best.gain:.2f} times as fast with K = {best.k}, on this machine and the torch backend"
wrote(acceptance_probabilities, measured=result)

# %% [markdown]
# ## Recap
#
# - α and c decide. α is the mean of 1 − TV(p, q), so it follows from the distributions of the two
#   models. Accepted of tested estimates it.
# - K guesses yield at most K + 1 tokens and cost Kc + 1 steps or more. There is a best K.
# - A larger draft is accepted more often and costs more. The best one lies in between.
# - A batch of short texts gives more tokens a second and less gain from speculation: both use the
#   same spare arithmetic. With long contexts large batches still gain.
# - A speed-up belongs to a machine, a pair, a temperature and a batch. Measure your own.
#
# Next, notebook 11: what else makes models fast, and how this method compares.
