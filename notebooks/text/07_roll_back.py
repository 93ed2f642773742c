# %% [markdown]
# # 7. Roll back
#
# **You'll do**: take rejected tokens out of two caches, see which cache lacks one, and break
# rollback on purpose.
#
# **You'll learn**: why rollback is nearly free, what *catch-up* is, and why a stale cache is easy
# to miss.
#
# **You'll need**: notebook 2 (caches and the pending token) and notebook 5 (correction and bonus).
#
# **Time**: 25 minutes, and some ten seconds of computing.

# %%
from statistics import median
from time import perf_counter

import torch

import minispec
from minispec.classroom import check, goal, hint, predict
from minispec.io.walkthrough import load_walkthrough

pair = minispec.load_pair("stories")
target, draft = pair.target, pair.draft
recording = load_walkthrough("greedy")  # a recorded run on the story that you know
print(f"{pair.walkthrough} …\n")
for r in recording.trace.rounds[:4]:
    print(f"round {r.index}: {r.drafted(0)} drafted, {r.accepted(0)} accepted, then a {r.kind(0)}")

# %% [markdown]
# ## The caches hold rejected tokens
#
# The target checks a draft by reading it. So after its pass, the cache holds keys and values of
# tokens that have just been rejected. The draft has read them too. They have to be removed: the
# next token must not look at a token that is not in the text.
#
# What does that cost?

# %% tags=["predict"]
predict(
    "cost-of-rollback",
    {
        "a": "a number is changed",
        "b": "996 tokens are copied",
        "c": "996 tokens are read again",
    },
    guess=None,
)

# %% [markdown]
# Here is the first round of the story that ends in a correction, at four moments. Follow the two
# lower lines from top to bottom.

# %% tags=["claim-A5", "claim-C3"]
from minispec.show.plots.caches import cache_grid

trace, words = recording.trace, recording.words
r = next(r for r in trace.rounds if r.kind(0) == "correction")
layers = {"target": target.config.layers, "draft": draft.config.layers}
cache_grid(trace, words, r.index, ["before", "drafted", "verified", "rolled back"], layers=layers)

# %% [markdown]
# The correction is in the text now, and in neither cache. It is the next round's pending token.
#
# ## Rollback changes one number
#
# A cache is memory for keys and values, and a length that says how much of it counts. `truncate`
# sets the length. What lies after it is overwritten later. (That works for attention. State-space
# and linear-attention layers keep one running state, and must save it to go back.)
#
# Is what stays still right? It was computed together with tokens that are gone. But a position
# looks only at what comes *before* it. Read the same draft, roll back, read the correction, and
# compare with a target that reads the true text from the start.

# %% tags=["claim-A5", "claim-C3"]
before = [*trace.prompts[0], *(t for past in trace.rounds[: r.index] for t in past.emitted[0])]
block = [before[-1], *r.draft.tokens[0].tolist()]  # the pending token and the draft
cache = target.new_cache(rows=1)
with torch.inference_mode():
    target(torch.tensor([before[:-1]]), cache)
    target(torch.tensor([block]), cache)  # [1, K+1, V]
    print("after the pass the cache holds", cache.row_lengths[0], "tokens")
    cache.truncate([len(before) + r.accepted(0)])
    print("after rollback", cache.row_lengths[0])
    rolled_back = target(torch.tensor([[r.emitted[0][-1]]]), cache)  # the correction: [1, 1, V]
    from_the_start = target(torch.tensor([[*before, *r.emitted[0]]]))[:, -1:]
torch.testing.assert_close(rolled_back, from_the_start, rtol=0, atol=1e-3)

# %% [markdown]
# The same logits: nothing was copied, and nothing was read again. Compare with the alternative:
# drop the whole cache, and read what stays once more.

# %%
kept, seconds = len(before) + r.accepted(0), {"roll back": [], "read again": []}
with torch.inference_mode():
    for _ in range(20):
        cache.truncate([len(before) - 1])
        target(torch.tensor([block]), cache)
        started = perf_counter()
        cache.truncate([kept])
        seconds["roll back"].append(perf_counter() - started)
        cut = perf_counter()
        target(torch.tensor([[*before, *block[1:]][:kept]]), target.new_cache(rows=1))
        seconds["read again"].append(perf_counter() - cut)
print(*(f"to {what}: {1e6 * median(taken):,.1f} µs" for what, taken in seconds.items()), sep="\n")

# %% [markdown]
# ## What rejected guesses cost
#
# Rolling back is cheap. The wasted work is not: the draft has guessed, and the target has checked.
# Run the story and count positions. *Kept* are those that are in the cache when their round ends.

# %% tags=["claim-A5", "claim-E3"]
drafter = minispec.ModelDrafter(draft)
greedy, rng = minispec.Warp(temperature=0), minispec.SeededRng(0)
settings = dict(verifier=minispec.verify_greedy, warp=greedy, rng=rng, max_new_tokens=48)
mine = minispec.record(target, drafter, trace.prompts, k=5, **settings)
cuts, new = [run.target_cache for run in mine.rounds], len(mine.tokens())
read = sum(cut.verified[0] - cut.before[0] for cut in cuts)
kept = sum(cut.after[0] - cut.before[0] for cut in cuts)
print(f"the target read {read} positions for {new} new tokens: {kept} kept, {read - kept} wasted")
print(f"kept, and read once more later: {kept - new}")
assert kept == new and cuts[0].before == (len(trace.prompts[0]) - 1,)

# %% [markdown]
# Each token of the text was read once. None that was kept is ever computed again. The cost of wrong
# guesses is the other number, and it grows with K.

# %% tags=["claim-C5", "claim-E3"]
prompts, wasted = pair.info["prompts"][:8], {}  # eight stories in a batch
for k in (1, 2, 4, 8, 12):
    run = minispec.record(target, drafter, prompts, k=k, **settings).statistics()
    wasted[k] = (run.drafted - run.accepted) / run.emitted
    gained = run.tokens_per_target_call
    print(f"K = {k:2}: {gained:.2f} tokens a target call, {wasted[k]:.2f} wasted guesses a token")
assert wasted[1] < wasted[4] < wasted[12]

# %% [markdown]
# Too few guesses gain little. With too many, most come after a wrong one. Notebook 10 measures
# where the best lies.
#
# ## One cache lacks a token
#
# So far, caches held too much. There is one case in which a cache holds too little.

# %% tags=["predict"]
predict(
    "whose-cache-lacks",
    {
        "a": "neither",
        "b": "the target's",
        "c": "the draft's",
    },
    guess=None,
)

# %% tags=["claim-C1"]
full = next(r for r in trace.rounds if r.kind(0) == "bonus")
cache_grid(trace, words, full.index, ["verified", "rolled back", "caught up"], layers=layers)

# %% [markdown]
# The target has read the pending token and all guesses. The draft never read its last guess: it had
# nothing more to guess after it. Had that guess been rejected, nothing would be missing. Now it is
# part of the text, and the draft reads it. This is *catch-up*, one small forward.
#
# After that, one sentence holds for both caches after every round: **they hold all committed tokens
# but the pending one**. Check it on a run of your own.

# %% tags=["claim-C1", "claim-C3"]
mine = minispec.record(target, drafter, trace.prompts, k=5, **settings)
committed = len(mine.prompts[0])
for run in mine.rounds:
    committed += len(run.emitted[0])
    ours, drafts = run.target_cache, run.draft_cache
    caught_up = max(0, drafts.after[0] - drafts.verified[0])
    if run.index < 4:
        print(f"{run.kind(0):10}: both caches hold {ours.after[0]}, {caught_up} caught up")
    assert ours.after == drafts.after == (committed - 1,)
    assert caught_up == (run.accepted(0) == run.drafted(0) == len(run.emitted[0]) - 1)

# %% [markdown]
# ## Exercise
#
# `goal` shows what is wanted. Replace the `...` with your answer and run the cell: `check` looks at
# it. If you are stuck, ask in a cell of your own: `hint("cache-lengths", 1)`, and then 2.

# %%
goal("cache-lengths")


# %% tags=["exercise"]
def cache_lengths(cached, k, accepted):
    """Returns (target_verified, draft_drafted, after, catch_up) for one round.

    Both caches hold `cached` tokens when the round begins. Then k tokens are drafted, k >= 1.
    target_verified: the target's length after the verification pass, before rollback.
    draft_drafted: the draft's length after drafting.
    after: the length of both caches when the round has ended.
    catch_up: how many tokens the draft must read to have that length: 0 or 1.
    """
    ...


check("cache-lengths", cache_lengths)

# %% [markdown]
# ## A stale cache
#
# What if this goes wrong? minispec keeps known bugs as patches, and `planted` puts one into the
# running code for the duration of a `with`. (Notebook 9 has the whole zoo.) This one was shipped by
# a real project: after full acceptance, the draft never reads its last token.

# %%
from minispec.evidence.zoo.mutants import mutant_named
from minispec.evidence.zoo.mutation import diff, planted

print(diff(mutant_named("token-missing-in-the-drafts-cache")))

# %% [markdown]
# Plant three bugs, one after the other: two in the draft's cache, one in the target's. Before you
# run the cell: which of them spoil the text?

# %% tags=["misconception-bad-draft"]
runs, bugs = {}, ["token-missing-in-the-drafts-cache", "rejected-stay-in-the-drafts-cache"]
shipped = minispec.record(target, drafter, prompts, k=5, **settings)
for bug in [*bugs, "rollback-one-too-far"]:
    with planted(mutant_named(bug)):
        runs[bug] = minispec.record(target, drafter, prompts, k=5, **settings)
for bug, run in {"as shipped": shipped, **runs}.items():
    same = sum(run.tokens(row) == shipped.tokens(row) for row in range(8))
    print(f"{bug}: {run.statistics().acceptance:.0%} accepted, {same} of 8 texts right")
    assert (same == 8) == (bug != "rollback-one-too-far")
assert runs[bugs[1]].statistics().acceptance < shipped.statistics().acceptance

# %% [markdown]
# A stale *target* cache writes another text. A stale *draft* cache does not: bad guesses are
# rejected, and the text stays the target's own. It only gets slower. That is why such bugs are easy
# to miss. No test of the output finds them; a look at the acceptance or at the cache lengths does.
#
# ## Each row rolls back on its own
#
# In a batch, one row may keep its whole draft and its neighbour nothing. `truncate` takes a length
# for each row. From then on the rows are *ragged*: they have different lengths.

# %% tags=["claim-C6"]
run = next(r for r in shipped.rounds if len({r.accepted(row) for row in range(8)}) > 1)
cut = run.target_cache
print("accepted       ", *(f"{run.accepted(row):3}" for row in range(8)))
for moment, lengths in (
    ("before", cut.before),
    ("after the pass", cut.verified),
    ("rolled back", cut.after),
):
    print(f"{moment:15}", *(f"{length:3}" for length in lengths))
for row in range(8):
    assert cut.after[row] == cut.before[row] + 1 + run.accepted(row)

# %% [markdown]
# ## Recap
#
# - Rollback sets a length. What stays is right, because no position looks ahead. Nothing is copied,
#   nothing is read twice.
# - After every round, both caches hold all committed tokens but the pending one.
# - After full acceptance the draft lacks its own last guess, and reads it: catch-up.
# - Wrong guesses cost draft steps and checked positions, and more so with a larger K.
# - A stale draft cache never spoils the text. It only makes it slow, so it is easy to miss.
#
# Next, notebook 8: all of it, round after round.
