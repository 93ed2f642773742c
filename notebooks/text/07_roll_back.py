# %% [markdown]
# # 7. Roll back
#
# **You'll do**: take rejected tokens out of a cache made of two lists, and out of the real ones,
# see which cache lacks a token, and break rollback on purpose.
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
from minispec.classroom import check, goal, hint, predict, wrote
from minispec.core.basic import catch_up, read  # you wrote them in notebook 2

pair = minispec.load_pair("stories")
target = pair.target
draft = pair.draft
prompt = pair.tokenizer.encode(pair.walkthrough)
print(pair.walkthrough, "…")

# %% [markdown]
# ## The caches hold rejected tokens
#
# The target checks a draft by reading it. So after its forward, the cache holds keys and values of
# tokens that have just been rejected. The draft has read them too. They have to be removed: the
# next token must not look at a token that is not in the text.
#
# What does that cost?

# %% tags=["predict"]
predict("cost-of-rollback", guess=None)

# %% [markdown]
# Here are the first rounds of a recorded run on the story, and one of them, which ends in a
# correction, at four moments. Follow the two lower lines from top to bottom.

# %% tags=["claim-A5", "claim-C3"]
from minispec.io.walkthrough import load_walkthrough
from minispec.show.plots.caches import cache_grid

recording = load_walkthrough("greedy")
trace = recording.trace
words = recording.words
for r in trace.rounds[:4]:
    print(f"round {r.index}: {r.accepted(0)} of {r.drafted(0)} accepted, a {r.kind(0)}")
r = next(r for r in trace.rounds if r.kind(0) == "correction")
moments = ["before", "drafted", "verified", "rolled back"]
cache_grid(trace, words, r.index, moments)

# %% [markdown]
# The correction is in the text now, and in neither cache. It is the next round's pending token.
#
# ## Roll back two lists
#
# Take one head of the target's first layer again, with two lists for a cache. It reads a token as
# in notebook 2. To roll back is to cut both lists.


# %% tags=["written"]
size = target.config.head_dim
attention = target.layers[0].self_attn
projections = attention.q_proj, attention.k_proj, attention.v_proj
Wq, Wk, Wv = (each.weight[:size].T for each in projections)


def look(token, keys, values):
    """Reads one token: keeps its key and value, and looks at all that are kept."""
    x = target.embed_tokens.weight[token]
    keys.append(x @ Wk)
    values.append(x @ Wv)
    weights = (torch.stack(keys) @ (x @ Wq) / size**0.5).softmax(0)
    return weights @ torch.stack(values)


# %% tags=["written"]
def truncate(length, keys, values):
    """Forgets what stands after the first `length` tokens."""
    del keys[length:], values[length:]


# %% [markdown]
# Is what stays still right? It was computed together with tokens that are gone. But a position
# looks only at what comes *before* it. Read the prompt and the draft, roll back, read the
# correction, and compare with a head that reads the true text from the start.

# %% tags=["written", "nbval-check-output"]
drafted = r.draft.tokens[0].tolist()
emitted = list(r.emitted[0])
kept = len(prompt) + r.accepted(0)
keys = []
values = []
for token in [*prompt, *drafted]:
    look(token, keys, values)
print("after the forward the lists hold", len(keys), "tokens")
truncate(kept, keys, values)
print("after rollback", len(keys))
rolled_back = look(emitted[-1], keys, values)  # the correction
fresh = [], []
assert torch.equal(rolled_back, [look(token, *fresh) for token in [*prompt, *emitted]][-1])

# %% [markdown]
# ## Rollback changes one number
#
# The real cache does not even delete. It is memory for keys and values, and a length: how
# much of it counts. `truncate` sets the length; what lies after it is overwritten later. (That
# works for attention. State-space and linear-attention layers keep one running state, and must save
# it to go back.)

# %% tags=["claim-A5", "claim-C3", "nbval-check-output"]
cache = target.new_cache(rows=1)
read(target, cache, [*prompt, *drafted])
print("after the forward the cache holds", int(cache.lengths), "tokens")
cache.truncate([kept])
print("after rollback", int(cache.lengths))
rolled_back = read(target, cache, emitted[-1:])  # the correction: [1, V]
from_the_start = target(torch.tensor([[*prompt, *emitted]]))[0, -1:]
assert torch.allclose(rolled_back, from_the_start, rtol=0, atol=1e-3)

# %% [markdown]
# ### Try it: change a value and run the cell again
#
# Cut one token too few (`kept + 1`) or too many (`kept - 1`), then read the correction. What would
# the target emit next, and is it still what it emits after the true text?

# %% tags=["try-it"]
keep = kept
spoiled = target.new_cache(rows=1)
read(target, spoiled, [*prompt, *drafted])
spoiled.truncate([keep])
best = read(target, spoiled, emitted[-1:])[-1].softmax(-1).topk(3)
for token, p in zip(best.indices.tolist(), best.values.tolist(), strict=True):
    print(f"{p:6.1%} {words[token]!r}, from the start {from_the_start[0].softmax(-1)[token]:6.1%}")

# %% tags=["hide-input"]
embedded = target.embed_tokens.weight[[*prompt, *drafted]]
real = minispec.KVCache(layers=1, rows=1, kv_heads=1, capacity=64, head_dim=size)
real.begin(len(embedded))
real.append(0, (embedded @ Wk)[None, None], (embedded @ Wv)[None, None])
real.advance()
real.truncate([kept])
real.begin(1)
both = real.append(0, keys[-1][None, None, None], values[-1][None, None, None])
for cached, listed in zip(both, (keys, values), strict=True):  # [1, 1, kept + 1, size]
    assert torch.allclose(cached[0, 0], torch.stack(listed), atol=1e-4)

# %% [markdown]
# The same logits: nothing was copied, and nothing was read again. You already have a function that
# truncates: `catch_up`, in notebook 2. It makes a cache hold all of the text but its last token.
# After a round, that is rollback. The correction is pending.

# %%
from inspect import getsource

print(getsource(catch_up))
cache = target.new_cache(rows=1)
print("the forward has read", len(read(target, cache, [*prompt, *drafted])), "tokens")
catch_up(target, cache, [*prompt, *emitted])
print("the cache holds", int(cache.lengths), "tokens; the text has", len([*prompt, *emitted]))
assert int(cache.lengths) == kept

# %% [markdown]
# Compare with the alternative: drop the whole cache, and read what stays once more.

# %%
seconds = {"roll back": [], "read again": []}
for _ in range(20):
    read(target, cache, drafted[r.accepted(0) :])  # what was rejected
    started = perf_counter()
    cache.truncate([kept])
    cut = perf_counter()
    again = read(target, target.new_cache(rows=1), [*prompt, *drafted][:kept])
    seconds["roll back"].append(cut - started)
    seconds["read again"].append(perf_counter() - cut)
times = {what: 1e6 * median(samples) for what, samples in seconds.items()}
print(*(f"to {what}: {time:,.1f} µs" for what, time in times.items()), sep="\n")
assert len(again) == int(cache.lengths) == kept

# %% [markdown]
# ## What rejected guesses cost
#
# Rolling back is cheap. The wasted work is not: the draft has guessed, and the target has checked.
# Run the story and count positions. A position *stays* if it is in the cache when its round ends.

# %% tags=["claim-A5", "claim-E3"]
drafter = minispec.ModelDrafter(draft)
greedy = minispec.Warp(temperature=0)
rng = minispec.SeededRng(0)
settings = dict(verifier=minispec.verify_greedy, warp=greedy, rng=rng, max_new_tokens=48)
package_run = minispec.record(target, drafter, [prompt], k=5, **settings)
cuts = [r.target_cache for r in package_run.rounds]
new = len(package_run.tokens())
passed = sum(cut.verified[0] - cut.before[0] for cut in cuts)
stayed = sum(cut.after[0] - cut.before[0] for cut in cuts)
print(f"the target read {passed} positions for {new} new tokens:")
print(f"{stayed} stayed, {passed - stayed} were wasted, {stayed - new} were read twice")
assert (stayed, cuts[0].before) == (new, (len(prompt) - 1,))

# %% [markdown]
# Each token of the text was read once. None that stayed is ever computed again. The cost of wrong
# guesses is the other number, and it grows with K.

# %% tags=["claim-C5", "claim-E3"]
prompts = pair.info["prompts"][:8]
wasted = {}  # eight stories in a batch
for k in (1, 2, 4, 8, 12):
    run = minispec.record(target, drafter, prompts, k=k, **settings).statistics()
    wasted[k] = (run.drafted - run.accepted) / run.emitted
    per_call = run.tokens_per_target_call
    print(f"K = {k:2}: {per_call:.2f} tokens a target call, {wasted[k]:.2f} wasted guesses a token")
assert wasted[1] < wasted[4] < wasted[12]

# %% [markdown]
# Too few guesses save little. With too many, most come after a wrong one. Notebook 10 measures
# where the best K lies.
#
# ## One cache lacks a token
#
# So far, caches held too much. There is one case in which a cache holds too little.

# %% tags=["predict"]
predict("whose-cache-lacks", guess=None)

# %% tags=["claim-C1"]
full = next(r for r in trace.rounds if r.kind(0) == "bonus")
cache_grid(trace, words, full.index, ["verified", "rolled back", "caught up"])

# %% [markdown]
# The target has read the pending token and all guesses. The draft never read its last guess: it had
# nothing more to guess after it. Had that guess been rejected, nothing would be missing. Now it is
# part of the text, and the draft reads it. This is *catch-up*, one small forward.
#
# In notebook 2 you wrote one function for both: `catch_up` reads what a cache lacks and forgets
# what is wrong. Use it on the recorded drafts of the first rounds. The target reads the pending
# token and all guesses; the draft has read all but its last guess.

# %% tags=["written", "nbval-check-output"]
text = list(prompt)
held = []
caches = {target: target.new_cache(rows=1), draft: draft.new_cache(rows=1)}
for recorded in trace.rounds[:4]:
    guesses = recorded.draft.tokens[0].tolist()
    for model, cache in caches.items():
        catch_up(model, cache, text)  # prefill; after each round rollback and catch-up
        read(model, cache, [text[-1], *(guesses if model is target else guesses[:-1])])
    text += recorded.emitted[0]
    held.append([int(cache.lengths) for cache in caches.values()])
    print(f"{recorded.kind(0):10}: the caches hold {held[-1]}, and need {len(text) - 1}")
assert all(target_length == draft_length + 1 for target_length, draft_length in held)

# %% [markdown]
# After a correction both hold too much, or just enough; after a bonus the draft lacks one. And once
# both have caught up, one sentence holds after every round: **both caches hold all committed tokens
# but the pending one**. Check it on a run of the package.

# %% tags=["claim-C1", "claim-C3"]
package_run = minispec.record(target, drafter, [prompt], k=5, **settings)
committed, caught_up, holds = len(prompt), 0, []
for r in package_run.rounds:
    committed += len(r.emitted[0])
    target_lengths = r.target_cache
    draft_lengths = r.draft_cache
    holds.append(target_lengths.after[0] == draft_lengths.after[0] == committed - 1)
    caught_up += max(0, draft_lengths.after[0] - draft_lengths.verified[0])
bonuses = sum(r.kind(0) == "bonus" for r in package_run.rounds)
print(f"it holds after {sum(holds)} of {len(holds)} rounds")
print(f"{bonuses} rounds ended in a bonus, and {caught_up} tokens were caught up")
assert all(holds) and caught_up == bonuses

# %% tags=["hide-input"]
assert held == [
    [r.target_cache.verified[0], r.draft_cache.verified[0]] for r in package_run.rounds[:4]
]
assert [r.emitted for r in package_run.rounds[:4]] == [r.emitted for r in trace.rounds[:4]]

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
    target_verified: the target's length after the verification forward, before rollback.
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
runs = {}
bugs = ["token-missing-in-the-drafts-cache", "rejected-stay-in-the-drafts-cache"]
shipped = minispec.record(target, drafter, prompts, k=5, **settings)
for bug in [*bugs, "rollback-one-too-far"]:
    with planted(mutant_named(bug)):
        runs[bug] = minispec.record(target, drafter, prompts, k=5, **settings)
for bug, run in {"as shipped": shipped, **runs}.items():
    same = sum(run.tokens(row) == shipped.tokens(row) for row in range(8))
    counts = run.statistics()
    print(f"{bug}: {counts.accepted / counts.tested:.0%} of those tested accepted,", end=" ")
    print(f"{same} of 8 texts right")

# %% tags=["hide-input"]
spoiled = {bug for bug in runs for row in range(8) if runs[bug].tokens(row) != shipped.tokens(row)}
assert spoiled == {"rollback-one-too-far"}
assert runs[bugs[1]].statistics().acceptance < shipped.statistics().acceptance

# %% [markdown]
# A stale *target* cache changes the text. A stale *draft* cache does not: bad guesses are rejected,
# and the text stays the target's own. It only gets slower. That is why such bugs are easy to miss.
# No test of the output finds them; a look at the acceptance or at the cache lengths does.
#
# ## Each row rolls back by itself
#
# In a batch, one row may keep its whole draft and its neighbour nothing. `truncate` takes a length
# for each row. From then on the rows are *ragged*: they have different lengths.

# %% tags=["claim-C6"]
run = next(r for r in shipped.rounds if len({r.accepted(row) for row in range(8)}) > 1)
cut = run.target_cache
print("accepted       ", *(f"{run.accepted(row):3}" for row in range(8)))
for moment, lengths in (
    ("before", cut.before),
    ("verified", cut.verified),
    ("rolled back", cut.after),
):
    print(f"{moment:15}", *(f"{length:3}" for length in lengths))
assert all(cut.after[row] == cut.before[row] + 1 + run.accepted(row) for row in range(8))

# %%
measured = f"to roll back takes {times['roll back']:.0f} µs, to read again"
measured += f" {times['read again']:,.0f} µs, on this machine."
wrote(look, truncate, catch_up, measured=measured)

# %% [markdown]
# ## Recap
#
# - Rollback sets a length. What stays is right, because no position looks ahead. Nothing is copied,
#   nothing is read twice.
# - One function, `catch_up`, does all three: prefill, rollback and catch-up.
# - After every round, both caches hold all committed tokens but the pending one.
# - After full acceptance the draft lacks its own last guess, and reads it: catch-up.
# - Wrong guesses cost draft steps and checked positions, and more so with a larger K.
# - A stale draft cache never spoils the text. It only makes it slow, so it is easy to miss.
#
# Next, notebook 8: all of it, round after round.
