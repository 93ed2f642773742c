# %% [markdown]
# # 2. Fill a KV cache
#
# **You'll do**: decode the same tokens without a cache and with one, make the cache of one
# attention head from two lists, and write the loop that decodes with a cache.
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
from torch.nn.functional import scaled_dot_product_attention

import minispec
from minispec.classroom import check, goal, hint, predict, wrote

pair = minispec.load_pair("stories")
target = pair.target
draft = pair.draft
prompt = pair.tokenizer.encode(pair.walkthrough)
print(f"{pair.walkthrough}\n\n{len(prompt)} tokens")

# %% [markdown]
# ## Without a cache, everything is read again
#
# A language model reads a text and gives a distribution of what may come next. For the token after
# that it reads the text again, now one token longer. Nothing is remembered in between.
#
# How much reading is that? Guess before you run on: put a number in place of `None`.

# %% tags=["predict"]
positions_without_cache = predict("positions-without-cache", guess=None)
positions_without_cache

# %% [markdown]
# Now count. The target reads the first ten tokens of the story, takes the most probable next token,
# and starts over.

# %% tags=["written", "nbval-check-output"]
text = prompt[:10]
computed = []
for _ in range(20):
    logits = target(torch.tensor([text]))  # [1, n, V]: all n positions, every time
    computed.append(len(text))
    text.append(int(logits[0, -1].argmax()))
print("positions, step by step:", *computed)
print("in all:", sum(computed))

# %% [markdown]
# ## What a cache keeps
#
# In every layer, each position computes a *key* and a *value*. Later positions look at them, and
# they never change again. So they can be kept: that is the KV cache.
#
# Here is one head of the target's first layer, with two lists for a cache. (Its rotation by
# position is left out.) Each token adds one key and one value, and looks at all that are there.

# %% tags=["written", "nbval-check-output"]
layer = target.layers[0]
size = target.config.head_dim
projections = layer.self_attn.q_proj, layer.self_attn.k_proj, layer.self_attn.v_proj
Wq, Wk, Wv = (each.weight[:size].T for each in projections)  # of the first head: [D, size]
keys = []
values = []
outputs = []
for x in layer.input_layernorm(target.embed_tokens(torch.tensor(prompt[:10]))):  # [D]
    keys.append(x @ Wk)
    values.append(x @ Wv)
    weights = (torch.stack(keys) @ (x @ Wq) / size**0.5).softmax(0)  # one for each token so far
    outputs.append(weights @ torch.stack(values))
print(f"{len(keys)} keys and {len(values)} values of {size} numbers, each computed once")

# %% tags=["hide-input"]
x = layer.input_layernorm(target.embed_tokens(torch.tensor(prompt[:10])))  # [10, D]
fused = scaled_dot_product_attention(*((x @ W)[None] for W in (Wq, Wk, Wv)), is_causal=True)[0]
assert torch.allclose(torch.stack(outputs), fused, atol=1e-4)

# %% [markdown]
# `new_cache` makes such a cache for all layers and heads. `read` hands the model some tokens and
# its cache: `hidden` runs the layers, and `head` turns the result into logits. From here on, every
# forward goes through `read`.


# %% tags=["written", "basic"]
def read(model, cache, tokens):
    """Reads tokens after what the cache holds; returns logits [n, V] and extends the cache by n."""
    return model.head(model.hidden(torch.tensor([tokens]), cache))[0]


# %% [markdown]
# The target reads ten tokens in two parts. For the last three it gives the same logits as without a
# cache, up to rounding: a forward over three positions adds its numbers in a different order from
# one over ten.

# %% tags=["nbval-check-output"]
cache = target.new_cache(rows=1)
read(target, cache, prompt[:7])  # leaves 7 tokens in the cache
rest = read(target, cache, prompt[7:10])  # [3, V]
whole = target(torch.tensor([prompt[:10]]))[0]  # [10, V]: without a cache
print("computed last:", len(rest), "positions; in the cache now:", int(cache.lengths))
assert torch.allclose(rest, whole[7:], rtol=0, atol=1e-3)

# %% [markdown]
# ## One token is pending
#
# Reading the prompt in one forward is called *prefill*. Then the first round begins. (A *round*, in
# short: the draft guesses a few tokens, and the target checks them in one forward. Notebooks 4 and
# 5 write it; here only the caches matter.)

# %% tags=["predict", "claim-A1"]
predict("after-prefill", guess=None)

# %% [markdown]
# Prefill could read all of the prompt, and hand its last logits to the first step. Here prefill
# stops one token short, in both models. The last token is *pending*: part of the text, but not yet
# in a cache.

# %%
from minispec.io.walkthrough import load_walkthrough
from minispec.show.plots.pictures import draw_prefill

draw_prefill(load_walkthrough("greedy"))

# %% [markdown]
# Each step reads the pending token and adds the next, which is pending then. Here are the same
# twenty tokens as above, with a cache. In the figure, blue is what a step computes, and grey is
# what it finds in the cache. (Its first step is prefill and the first token together.)

# %% tags=["written", "claim-A1"]
from minispec.show.plots.caches import recomputation, steps_with_cache, steps_without_cache

cache = target.new_cache(rows=1)
story = prompt[:10]
counts = []
counts.append(len(read(target, cache, story[:-1])))  # prefill: all but the pending token
for _ in range(20):
    logits = read(target, cache, story[-1:])  # [1, V]: the pending token, and nothing else
    counts.append(len(logits))
    story.append(int(logits[-1].argmax()))  # now this one is pending
print("positions, prefill and then step by step:", *counts)
print("in all:", sum(counts))
assert story == text
recomputation(steps_without_cache(10, 20), steps_with_cache(10, 20), positions_without_cache.value)

# %% [markdown]
# Why keep one token back? Later every round ends with a token that the target has just chosen and
# not yet read: a correction or a bonus. With a pending token, the first round is like all others:
# a cache holds all of the text but its last token.
#
# The next function sees to that, whatever the cache holds. With an empty one it is prefill. (That
# it also forgets becomes important in notebook 7.)


# %% tags=["written", "basic"]
def catch_up(model, cache, text):
    """Makes the cache hold all of the text but its last token: reads or cuts what it must."""
    cached = int(cache.lengths)
    if cached < len(text) - 1:
        read(model, cache, text[cached:-1])
    cache.truncate([len(text) - 1])


# %% tags=["claim-A1", "nbval-check-output"]
from minispec.core.prefill import prefill

cache = target.new_cache(rows=1)
catch_up(target, cache, prompt)
package_cache, _ = prefill(target, [prompt])  # the package's, for any number of rows
print("your cache holds", *cache.row_lengths, "tokens, the package's", *package_cache.row_lengths)
assert torch.equal(read(target, cache, prompt[-1:]), read(target, package_cache, prompt[-1:]))

# %% [markdown]
# With these two, the loop of the target alone has four lines. It draws the next token from the
# distribution that the warp makes of the logits. At temperature 0 that is the most probable one.


# %% tags=["written", "basic"]
def generate_basic(target, prompt, *, max_new_tokens, warp, rng):
    """The target alone: one forward a token."""
    text, cache = list(prompt), target.new_cache(1)
    for _ in range(max_new_tokens):
        catch_up(target, cache, text)
        text.append(int(rng.categorical(warp(read(target, cache, text[-1:])))))
    return text[len(prompt) :]


# %% [markdown]
# The package's `generate` does this for many rows at once, and it is the reference in all
# notebooks: whatever we do to be faster, this is the text that must come out.

# %% tags=["nbval-check-output"]
alone = {}
package = {}
for temperature in (0, 1):
    settings = dict(max_new_tokens=20, warp=minispec.Warp(temperature))
    alone[temperature] = generate_basic(target, prompt, rng=minispec.SeededRng(1), **settings)
    steps = minispec.generate(target, [prompt], rng=minispec.SeededRng(1), **settings)
    package[temperature] = [token for (token,) in steps]
    print(f"temperature {temperature}:{pair.tokenizer.decode(alone[temperature])}")
assert alone == package

# %% [markdown]
# ### Try it: change a value and run the cell again
#
# Another temperature (0, 0.5, 3), another seed, another beginning. At which temperature does the
# story stop making sense?

# %% tags=["try-it"]
temperature = 1.0
seed = 7
beginning = "Once there were two friends. Rue the cat had a kite."
sampling = dict(warp=minispec.Warp(temperature), rng=minispec.SeededRng(seed))
start = pair.tokenizer.encode(beginning)
print(pair.tokenizer.decode(generate_basic(target, start, max_new_tokens=40, **sampling)))

# %% [markdown]
# ## What it is worth
#
# Take the whole story, and time one more token, with and without the cache.

# %%
cache, seconds = target.new_cache(rows=1), {"whole text": [], "one token": []}
for _ in range(30):
    catch_up(target, cache, prompt)  # from the second time on: forgets the last token
    started = perf_counter()
    target(torch.tensor([prompt]))
    between = perf_counter()
    read(target, cache, prompt[-1:])
    seconds["whole text"].append(between - started)
    seconds["one token"].append(perf_counter() - between)
whole_text, one_token = (1e3 * median(times) for times in seconds.values())
print(f"the whole text: {whole_text:.2f} ms; one token with a cache: {one_token:.2f} ms")
assert cache.row_lengths == (len(prompt),)

# %% [markdown]
# The times lie closer together than the positions do, 44 to 1. A part of every forward does not
# depend on how many positions go through it. In this small model, run by PyTorch, it is mostly
# starting operations (*dispatch*). In a large one it is reading all weights: notebook 1 has the
# arithmetic. Verification lives on that part. Times of native code, at three sizes, are on the
# results page of the documentation, as t(5)/t(1).
#
# ## Two models, two caches
#
# Does the draft look into the target's cache? It cannot. Keys and values belong to one model: the
# other has different layers, heads and numbers. Let both read the prompt, and let the draft read
# on.

# %% tags=["misleads-own-cache", "claim-C1", "nbval-check-output"]
models = {"target": target, "draft": draft}
caches = {}
for name, model in models.items():
    caches[name] = model.new_cache(rows=1)
    catch_up(model, caches[name], prompt)
read(draft, caches["draft"], prompt[-1:])  # only its own cache grows
for name, model in models.items():
    c = model.config
    held = int(caches[name].lengths)
    print(f"{name}: {held} tokens held; {c.layers} x {c.kv_heads} keys of {c.head_dim} numbers")
assert [int(cache.lengths) for cache in caches.values()] == [len(prompt) - 1, len(prompt)]

# %% [markdown]
# ## What a round reads
#
# Does the whole text go through the target again when a draft is verified? Run the method of
# notebook 1 and watch both caches in its first round. The figure shows the last tokens of the
# prompt, and what comes after them.

# %% tags=["claim-A1", "claim-A3", "claim-C1"]
from minispec.show.plots.caches import cache_grid

words = [pair.tokenizer.piece(token) for token in range(target.vocab_size)]
settings = dict(k=4, max_new_tokens=12, warp=minispec.Warp(0), rng=minispec.SeededRng(0))
settings |= dict(verifier=minispec.verify_greedy)
trace = minispec.record(target, minispec.ModelDrafter(draft), [prompt], **settings)
first = trace.rounds[0]
print("the target's cache grows by", first.target_cache.verified[0] - first.target_cache.before[0])
assert first.target_cache.before == first.draft_cache.before == (len(prompt) - 1,)
cache_grid(trace, words, 0, ["before", "drafted", "verified"])

# %% tags=["hide-input", "misleads-whole-sequence", "claim-A3"]
widths = []  # positions that go through the target, one number for each forward
hook = target.embed_tokens.register_forward_pre_hook(
    lambda _, given: widths.append(given[0].shape[1])
)
again = minispec.record(target, minispec.ModelDrafter(draft), [prompt], **settings)
hook.remove()
assert widths[0] == len(prompt) - 1  # prefill
assert widths[1:] == [1 + r.drafted(0) for r in again.rounds]  # the pending token and the draft

# %% [markdown]
# It reads the pending token and the draft, no more. Do it with your own functions. The logits are
# those of a target that reads the whole text from the start:

# %% tags=["misleads-whole-sequence", "nbval-check-output"]
drafted = first.draft.tokens[0].tolist()
cache = target.new_cache(rows=1)
catch_up(target, cache, prompt)
logits = read(target, cache, [prompt[-1], *drafted])  # [K+1, V]
from_the_start = target(torch.tensor([[*prompt, *drafted]]))[0]  # [n, V]
print(len(logits), "positions instead of", len(from_the_start), "and the same logits")
assert torch.allclose(logits, from_the_start[-len(logits) :], rtol=0, atol=1e-3)

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

# %%
measured = f"{len(prompt)} positions take {whole_text / one_token:.1f} times as long as one"
wrote(read, catch_up, generate_basic, measured=measured + ", on this machine.")

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
