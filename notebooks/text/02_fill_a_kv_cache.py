# %% [markdown]
# # 2. Fill a KV cache
#
# **You'll do**: write the same tokens without a cache and with one, count what is computed, and
# look into the caches of a target and its draft.
#
# **You'll learn**: what prefill does, why one token is always *pending*, and why draft and target
# have a cache each.
#
# **You'll need**: notebook 1, and a rough idea of what keys and values are in attention.
#
# **Time**: 25 minutes, and a few seconds of computing.

# %%
from statistics import median
from time import perf_counter

import torch

import minispec
from minispec.classroom import check, goal, hint, predict

pair = minispec.load_pair("stories")
target, draft = pair.target, pair.draft
prompt = pair.tokenizer.encode(pair.walkthrough)
words = [pair.tokenizer.piece(token) for token in range(target.vocab_size)]
print(f"{pair.walkthrough}\n\n{len(prompt)} tokens")

# %% [markdown]
# ## Without a cache, everything is read again
#
# A language model reads a text and says what may come next. For the token after that it reads the
# text again, now one token longer. Nothing is remembered in between.
#
# How much reading is that? Guess before you run on: put a number in place of `None`.

# %% tags=["predict"]
positions_without_cache = predict("positions-without-cache", guess=None)
positions_without_cache

# %% [markdown]
# Now count. The target reads the first ten tokens of the story, takes the most probable next token,
# and starts over.

# %% tags=["nbval-check-output"]
text, computed = prompt[:10], []
with torch.inference_mode():
    for _ in range(20):
        logits = target(torch.tensor([text]))  # [1, n, V]: all n positions, every time
        computed.append(len(text))
        text.append(int(logits[0, -1].argmax()))
print("positions, step by step:", *computed)
print("in all:", sum(computed))

# %% [markdown]
# ## What a cache keeps
#
# In every layer, each position computes a *key* and a *value*. Later positions look at them;
# earlier ones never do. They depend only on what came before, and never change again. So they can
# be kept. That is the KV cache.
#
# Here the target reads ten tokens in two parts, with a cache in between. For the last three tokens
# it gives the same logits as without a cache.

# %% tags=["nbval-check-output"]
cache = target.new_cache(rows=1)
with torch.inference_mode():
    whole = target(torch.tensor([prompt[:10]]))  # [1, 10, V]
    target(torch.tensor([prompt[:7]]), cache)  # leaves 7 positions in the cache
    rest = target(torch.tensor([prompt[7:10]]), cache)  # computes 3 more: [1, 3, V]
torch.testing.assert_close(rest, whole[:, 7:], rtol=0, atol=1e-3)
print("computed last:", rest.shape[1], "positions; in the cache now:", cache.row_lengths[0])

# %% [markdown]
# (Equal up to rounding. A forward over three tokens adds its numbers in another order than one over
# ten.)
#
# `generate` is this package's plain loop, and it has a cache. It writes the same twenty tokens.
# Blue is what each step computes, grey is what it finds in the cache.

# %% tags=["claim-C1"]
from minispec.show.plots.recomputation import recomputation, steps_with_cache, steps_without_cache

greedy, rng = minispec.Warp(temperature=0), minispec.SeededRng(0)
steps = minispec.generate(target, [prompt[:10]], max_new_tokens=20, warp=greedy, rng=rng)
assert [step[0] for step in steps] == text[10:]
recomputation(steps_without_cache(10, 20), steps_with_cache(10, 20), positions_without_cache.value)

# %% [markdown]
# What is that worth in seconds? Take the whole story, and time one more token, with and without the
# cache.

# %%
cache, seconds = target.new_cache(rows=1), {"whole text": [], "one token": []}
with torch.inference_mode():
    target(torch.tensor([prompt[:-1]]), cache)
    for _ in range(30):
        for name, tokens, kept in (("whole text", prompt, None), ("one token", prompt[-1:], cache)):
            started = perf_counter()
            target(torch.tensor([tokens]), kept)
            seconds[name].append(perf_counter() - started)
        cache.truncate([len(prompt) - 1])  # remove the token again
whole_text, one_token = (1e3 * median(taken) for taken in seconds.values())
print(f"the whole text: {whole_text:.2f} ms; one token with a cache: {one_token:.2f} ms")
print(f"positions {len(prompt)} to 1, time {whole_text / one_token:.1f} to 1")

# %% [markdown]
# If the times lie closer together than the positions, there is a reason: either way, all weights of
# the model have to be fetched once. Notebook 1 computed what that means, and verification depends
# on it.
#
# ## One token is pending
#
# Reading the prompt in one pass is called *prefill*. Then the first round begins.

# %% tags=["predict", "claim-A1"]
predict(
    "after-prefill",
    {
        "a": "all of the prompt but its last token",
        "b": "all of the prompt",
        "c": "nothing: the cache fills while tokens are made",
    },
    guess=None,
)

# %% [markdown]
# Two conventions are in use. Both give the same next token.
#
# *Read all.* Prefill reads the whole prompt and hands its last logits to the first step.
#
# *Keep one back.* Prefill reads all but the last token. That one is *pending*: it is part of the
# text, and in no cache yet. The first step reads it.

# %% tags=["claim-A1", "nbval-check-output"]
from minispec.core.prefill import prefill

with torch.inference_mode():
    read_all = target.new_cache(rows=1)
    first = target(torch.tensor([prompt]), read_all)[0, -1].argmax()

    kept_back = prefill(target, [prompt])
    print("caches after prefill:", read_all.row_lengths, "and", kept_back.row_lengths)
    second = target(torch.tensor([prompt[-1:]]), kept_back)[0, -1].argmax()
assert first == second and read_all.row_lengths == kept_back.row_lengths

# %% [markdown]
# minispec keeps one back. Later every round ends with a token that the target has just chosen and
# not yet read: a correction or a bonus. With a pending token, the first round is like all others.
# Only the text and the caches are carried over.
#
# ## Two models, two caches
#
# Does the draft look into the target's cache? It cannot. Keys and values are a model's own: other
# layers, other heads, other sizes, other numbers. Let both read the prompt, and the draft read on.

# %% tags=["misleads-own-cache", "claim-C1", "nbval-check-output"]
models = {"target": target, "draft": draft}
caches = {name: prefill(model, [prompt]) for name, model in models.items()}
with torch.inference_mode():
    draft(torch.tensor([prompt[-1:]]), caches["draft"])  # only its own cache grows
for name, model in models.items():
    c, held = model.config, caches[name].row_lengths[0]
    print(f"{name}: {held} tokens held; {c.layers} x {c.kv_heads} keys of {c.head_dim} numbers")
assert caches["draft"].row_lengths == (len(prompt),)
assert caches["target"].row_lengths == (len(prompt) - 1,)

# %% [markdown]
# So both models read the prompt, each into its own cache, and from then on each cache is filled and
# cut on its own. Here is where a round begins. (A *round*, in short: the draft guesses a few
# tokens, and the target checks them in one pass. Notebooks 4 and 5 take it apart; now only the
# caches matter.)

# %% tags=["claim-A1", "claim-C1"]
from minispec.show.plots.caches import cache_grid

drafter = minispec.ModelDrafter(draft)
settings = dict(k=4, verifier=minispec.verify_greedy, max_new_tokens=12, warp=greedy, rng=rng)
trace = minispec.record(target, drafter, [prompt], **settings)
layers = {"target": target.config.layers, "draft": draft.config.layers}
first_round = trace.rounds[0]
assert first_round.target_cache.before == first_round.draft_cache.before == (len(prompt) - 1,)
cache_grid(trace, words, 0, ["before"], layers=layers)

# %% [markdown]
# ## What a round reads
#
# Does the whole text go through the target again when the draft is verified? Run it once more, and
# let the target note how many positions each of its passes is given. Watch its cache, too. The
# figure shows the last tokens of the prompt, and what comes after them.

# %% tags=["misleads-whole-sequence", "claim-A3"]
passes = []  # positions that go through the target, one number for each pass
hook = target.register_forward_pre_hook(lambda _, given: passes.append(given[0].shape[1]))
minispec.record(target, drafter, [prompt], **settings)
hook.remove()
read = passes[0]
print(f"{len(prompt)} tokens, and {first_round.drafted(0)} drafted: {read} positions computed")
assert passes == [1 + r.drafted(0) for r in trace.rounds]  # the pending token and the draft
cache_grid(trace, words, 0, ["before", "drafted", "verified"], layers=layers)

# %% [markdown]
# The pending token and the draft, no more. The logits are those of a target that reads the whole
# text from the start:

# %% tags=["misleads-whole-sequence"]
with torch.inference_mode():
    from_the_start = target(torch.tensor([[*prompt, *first_round.draft.tokens[0].tolist()]]))
torch.testing.assert_close(first_round.target_logits, from_the_start[:, -read:], rtol=0, atol=1e-3)
print(f"{from_the_start.shape[1]} positions instead of {read}, and the same logits")

# %% [markdown]
# ## Exercises
#
# `goal` shows what is wanted. Replace the `...` with your answer and run the cell: `check` looks at
# it. A wrong answer stops nothing, the rest still runs. If you are stuck, ask for a hint in a cell
# of your own: `hint("positions-computed", 1)`, and then 2.

# %%
goal("positions-computed")


# %% tags=["exercise"]
def positions_computed(prompt, new, cached):
    """Returns how many positions go through the model to make `new` tokens after `prompt` tokens.

    prompt and new are numbers, at least 1; cached says whether there is a key-value cache.
    """
    ...


check("positions-computed", positions_computed)

# %%
goal("cache-bytes")


# %% tags=["exercise"]
def cache_bytes(config, tokens, bytes_per_number):
    """Returns how many bytes the keys and values of one row of `tokens` tokens take.

    config has layers, width, heads, kv_heads and head_dim.
    """
    ...


check("cache-bytes", cache_bytes)

# %% [markdown]
# With your formula in mind: how large is the cache of a large model? These are the sizes of a model
# of about 7 billion weights, once with a key head for each of its 32 query heads, once with 8 that
# are shared.

# %% tags=["nbval-check-output", "claim-C8"]
from dataclasses import replace

from minispec.evidence.theory.formulas import kv_cache_bytes

large = minispec.GPTConfig(
    vocab_size=32_000, layers=32, width=4096, heads=32, kv_heads=32, ffn=11_008, max_length=4096
)
for config in (large, replace(large, kv_heads=8)):
    size = kv_cache_bytes(config, tokens=4096, dtype_bytes=2)
    print(f"{config.kv_heads:2} key heads: {size / 2**30:.1f} GiB for one text of 4096 tokens")

# %% [markdown]
# ## Recap
#
# - Keys and values of a position never change, so they are kept. A new token then costs one
#   position.
# - Prefill reads all of the prompt but its last token. That one is pending: in the text, in no
#   cache.
# - Draft and target have a cache each. Neither can read the other's.
# - Verification reads the pending token and the draft. Nothing that was read before is read again.
#
# Next, notebook 3: where the two models come from.
