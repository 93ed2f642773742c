# %% [markdown]
# # 11. Map the field
#
# **You'll do**: try other methods that make decoding fast, next to the one you know, and decode
# with a drafter that has no model at all.
#
# **You'll learn**: what each method makes smaller, which of them change the text, and where
# speculative decoding stands among them.
#
# **You'll need**: notebooks 2, 6 and 8.
#
# **Time**: 35 minutes, and a few seconds of computing.

# %%
from dataclasses import replace

import torch

import minispec
from minispec.classroom import check, goal, hint, predict, wrote

pair = minispec.load_pair("stories")
target, draft = pair.target, pair.draft
prompt = pair.tokenizer.encode(pair.walkthrough)
greedy, rng = minispec.Warp(temperature=0), minispec.SeededRng(0)
settings = dict(max_new_tokens=40, warp=greedy, rng=rng)
speculative = settings | dict(k=4, verifier=minispec.verify_greedy)
alone = [token for (token,) in minispec.generate(target, [prompt], **settings)]
print(pair.walkthrough, "…", pair.tokenizer.decode(alone))

# %% [markdown]
# A token takes the time of reading all weights and all keys and values, and of some arithmetic.
# Each method below makes one of these smaller, or shares it among more tokens.
#
# ## Grouped-query attention: a smaller cache
#
# Several query heads share one head of keys and values. This is a choice made before training.
# Nothing else in the method changes: the cache only gets smaller.

# %% tags=["claim-C8", "nbval-check-output"]
from minispec.evidence.theory.formulas import kv_cache_bytes

sizes = dict(vocab_size=32_000, layers=32, width=4096, heads=32, ffn=11_008, max_length=4096)
for kv_heads in (32, 8, 1):
    config = minispec.GPTConfig(kv_heads=kv_heads, **sizes)
    size = kv_cache_bytes(config, tokens=4096, dtype_bytes=2)
    print(f"{kv_heads:2} key heads for 32 query heads: {size / 2**20:6.0f} MiB a text")
small = [replace(draft.config, width=32, heads=4, kv_heads=number) for number in (4, 2, 1)]
predicted = [kv_cache_bytes(config, tokens=config.max_length) for config in small]
caches = [minispec.GPT(config).new_cache(rows=1) for config in small]
for cache in caches:
    cache.reserve(cache.capacity)  # memory is taken in steps, here all at once
assert predicted == [cache.bytes for cache in caches]

# %% [markdown]
# ## Fused kernels: fewer trips to memory
#
# Written out, attention makes a table of scores, one for each pair of positions, and reads it
# again. A fused kernel such as FlashAttention never writes that table. It computes the same thing,
# up to rounding.

# %% tags=["claim-C8"]
from torch.nn.functional import scaled_dot_product_attention

from minispec.train.attention import attention_written_out

generator = torch.Generator().manual_seed(0)
q = torch.randn(1, 4, 64, 16, generator=generator)  # [B, heads, n, head_dim]
k, v = torch.randn(2, 1, 2, 64, 16, generator=generator)  # [B, kv_heads, n, head_dim] each
fused = scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
written_out = attention_written_out(q, k, v)
torch.testing.assert_close(fused, written_out, rtol=0, atol=1e-5)
print("largest difference below 1e-5:", bool((fused - written_out).abs().max() < 1e-5))

# %% [markdown]
# The torch backend decodes with PyTorch's fused attention, and training takes the written-out one.
# Another technique is a CUDA graph. A forward launches hundreds of small kernels, and a graph
# replays them all with one call. It needs fixed shapes, so engines record one graph for a width of
# K + 1.
#
# ## Quantization: fewer bytes per weight
#
# Weights of 8 or 4 bits are read faster than weights of 32. For a *target* that is another model,
# with another distribution. For a *draft* it is harmless: the text stays the target's. The draft's
# file has 16 bits a weight (bfloat16). Here its weights are rounded to 8 bits too.

# %% tags=["claim-E5"]
from copy import deepcopy

formats = {"bfloat16": torch.bfloat16, "float8": torch.float8_e4m3fn}
drafts = {name: deepcopy(draft) for name in formats}
for name, small in drafts.items():
    for weight in small.parameters():  # computed with as before: only the rounding is different
        weight.copy_(weight.to(formats[name]))
    size = sum(weight.numel() for weight in small.parameters()) * formats[name].itemsize
    print(f"the draft's weights in {name}: {size:,} bytes")
kept = zip(draft.parameters(), drafts["bfloat16"].parameters(), strict=True)
assert all(torch.equal(before, after) for before, after in kept)  # as the file has them

# %% tags=["claim-E5"]
from minispec.evidence.bench.measure import bench_prompts, measure_acceptance

rates = {}
same = []
for name, small in drafts.items():
    counts = measure_acceptance(replace(pair, draft=small), bench_prompts(pair)[:8]).statistics()
    rates[name] = share = counts.acceptance
    standard_error = (share * (1 - share) / counts.tested) ** 0.5
    print(f"{name:8}: accepted of tested {share:.3f}, standard error {standard_error:.3f}")
    trace = minispec.record(target, minispec.ModelDrafter(small), [prompt], **speculative)
    same.append(trace.tokens() == alone)  # whatever the draft
assert all(same) and abs(rates["bfloat16"] - rates["float8"]) < 0.1

# %% [markdown]
# Half the bytes. Compare the change with its standard error: how far a share is off by accident,
# rarely more than three of them. Whether a draft step takes less time depends on the machine and
# its kernels for the format. The bench has measured it for bfloat16, with a draft that the native
# backend keeps in 16 bits and computes in float32.

# %% tags=["claim-E5"]
from minispec.evidence.bench.measurements import saved

measured = saved("drafts")
points = {point.name: point for point in measured.points}
print(f"measured on {measured.where}, {measured.conditions['path']} backend")
for name in ("the pair's", "the pair's, bfloat16"):
    point = points[name]
    print(f"{name:20}: accepted of tested {point.alpha:.3f}, K = {point.k},")
    print(f"{'':20}  a draft forward pass takes {point.c:.3f} of a target's, each called alone,")
    print(f"{'':20}  {point.gain:.2f} times as fast ({point.low:.2f} to {point.high:.2f})")
assert abs(points["the pair's"].alpha - points["the pair's, bfloat16"].alpha) < 0.1

# %% [markdown]
# So small a draft stays in the processor's caches in both formats, so its bytes hardly matter. They
# do where weights come from memory: the results page has models of up to 135 million weights in
# both.
#
# ## Batching: one reading for many texts
#
# Engines put many requests into one forward, and let new ones in whenever one ends.

# %% tags=["predict"]
predict("large-batch", guess=None)

# %% [markdown]
# Take a model of 7 billion weights in 16 bits and a chip that reads 1 TB and computes 100 trillion
# operations a second. What is the least time of a forward over so many positions? One text alone
# needs 1 position, with a draft of 4 it needs 5. First with short texts, whose caches do not
# matter. Then each text has 4,096 tokens, and key heads as in the table above.

# %%
from minispec.evidence.theory.formulas import Hardware, forward_cost

chip = Hardware("1 TB/s, 100 TFLOP/s", bandwidth=1e12, arithmetic=100e12)


def seconds_of(new, rows, context, kv_heads=8):
    """The least time of a forward: so many new tokens in each row, after its context."""
    config = minispec.GPTConfig(kv_heads=kv_heads, **sizes)
    return forward_cost(7e9, 2, chip, new, rows, context, config).seconds


# %% tags=["misleads-batch", "claim-B4", "nbval-check-output"]
ROWS = (1, 8, 64, 256)
print(f"{'texts side by side':30}", *(f"{rows:5}" for rows in ROWS))
throughput = [rows / seconds_of(1, rows, 0) for rows in ROWS]
print(f"{'tokens a second, short texts':30}", *(f"{each:5.0f}" for each in throughput))
ratios = {}
cases = {"short texts": (0, 8), "32 key heads": (4096, 32), "8 key heads": (4096, 8)}
for name, (context, kv_heads) in cases.items():
    both = [[seconds_of(n, rows, context, kv_heads) for n in (1, 5)] for rows in ROWS]
    ratios[name] = [five / one for one, five in both]
    print(f"{f'5 positions: {name}':30}", *(f"{ratio:4.2f}×" for ratio in ratios[name]))
assert [round(of_case[-1], 2) for of_case in ratios.values()] == [5, 1, 1.36]

# %% [markdown]
# With short texts the batch uses up the spare arithmetic, and then a drafted position costs what
# any position costs. With long texts each row also reads its own cache. If that takes longer than
# computing its positions, arithmetic stays spare at any batch size (MagicDec, Sadhukhan and others
# 2024).
#
# That is no gain yet, for somebody drafts, and the draft has caches too. MagicDec keeps them small.
# Let a draft have half a billion weights and look back at 512 tokens at most, and let α be 0.8.
# From which context on does a draft of K gain?

# %%
from minispec.evidence.theory.formulas import refined_speed_up

of_draft = minispec.GPTConfig(32_000, layers=8, width=2048, heads=16, kv_heads=8, ffn=5632)


def gain(rows, context, k, kv_heads=8):
    """How many times as fast: the refined formula of notebook 10, with times on paper."""
    one = seconds_of(1, rows, context, kv_heads)
    draft = forward_cost(5e8, 2, chip, 1, rows, min(context, 512), of_draft).seconds
    return refined_speed_up([0.8] * k, one, draft, lambda n: seconds_of(n, rows, context, kv_heads))


# %% tags=["claim-B4", "nbval-check-output"]
CONTEXTS = [2**i for i in range(6, 16)]
print("the first context of", CONTEXTS[0], "to", CONTEXTS[-1], "tokens with a gain")
print(f"{'texts side by side':18}", *(f"{rows:6}" for rows in (*ROWS, 1024)))
even = {}
for k in (1, 2, 4, 8):
    for rows in (*ROWS, 1024):
        even[k, rows] = next((c for c in CONTEXTS if gain(rows, c, k) > 1), "none")
    print(f"{f'K = {k}':18}", *(f"{even[k, rows]:>6}" for rows in (*ROWS, 1024)))
assert even[4, 1] == 64 and even[4, 1024] == 2048

# %% [markdown]
# With few texts every context gains. With 1,024 texts short ones lose, and long ones gain with
# each of these K. A draft of 8 takes a longer context. The same for K = 4, a line a context:

# %% tags=["claim-B4"]
from minispec.show.plots.speed import gain_by_rows

rows_tried = [2**i for i in range(11)]
lines = {
    context: [(rows, gain(rows, context, 4)) for rows in rows_tried]
    for context in (256, 2048, 4096, 16_384)
}
gain_by_rows(lines, k=4)

# %% [markdown]
# ### Try it: change a value and run the cell again
#
# A shorter context, other key heads, a smaller batch: when are K + 1 positions free, and when do
# they gain?

# %% tags=["try-it"]
context = 4096
kv_heads = 32
rows = 256
k = 4
config = minispec.GPTConfig(kv_heads=kv_heads, **sizes)
caches = rows * kv_cache_bytes(config, tokens=context, dtype_bytes=2)
longer = seconds_of(k + 1, rows, context, kv_heads) / seconds_of(1, rows, context, kv_heads)
print(f"{rows} texts of {context} tokens: caches of {caches / 14e9:.1f} times the weights' bytes;")
print(f"{k + 1} positions take {longer:.2f} times as long as 1,", end=" ")
print(f"and drafting gains {gain(rows, context, k, kv_heads):.2f} times")

# %% [markdown]
# Two kinds of layers differ. With a mixture of experts five positions read more experts than one. A
# state-space layer keeps a state, not a cache: to roll back, it must have been saved.
#
# ## Drafting without a draft model
#
# Texts repeat themselves: names, code, quotations. A drafter can look up what followed the last two
# tokens before, and propose it again. No model, no training, no draft cache.

# %% tags=["predict"]
predict("look-up-lossless", guess=None)

# %% [markdown]
# By hand, with the three tokens of notebook 6. The look-up proposes c with certainty. The kept part
# and the rest must add up to p.

# %% tags=["claim-D2", "nbval-check-output"]
from fractions import Fraction

from minispec.core.verify import residual

p = torch.tensor([3, 2, 1]).double() / 6
q = torch.tensor([0, 0, 1]).double()
kept = torch.minimum(p, q)  # accepted with probability p(c)
corrected = (1 - kept.sum()) * residual(p, q)
for name, x in (("kept", kept), ("corrected", corrected), ("together", kept + corrected)):
    print(f"{name:>9}:", *(Fraction(part).limit_denominator(12) for part in x.tolist()))
torch.testing.assert_close(kept + corrected, p)

# %% [markdown]
# ## Exercise
#
# Write that drafter; about 20 lines will do. A drafter is anything with `start`, `propose` and
# `commit` (and `admit`, where prompts wait for a row). If you are stuck: `hint("look-up-drafter",
# 1)`, and then 2.

# %%
goal("look-up-drafter")


# %% tags=["exercise"]
class LookUpDrafter:
    """Proposes what followed the last two tokens when they last stood in the text."""

    cache_lengths = None  # there is no cache
    max_length = 10**6  # no text is too long

    def __init__(self, vocab_size):
        self.vocab_size = vocab_size

    def start(self, prompts, hidden):
        """Begins a run. Takes the prompts: lists of ids, one per row; hidden is not needed."""
        raise NotImplementedError

    def propose(self, pending, k, warp, rng):
        """Returns Draft(tokens [B, k], probs [B, k, V], lengths [B]).

        Row b proposes lengths[b] tokens: those that followed the latest earlier occurrence of its
        last two tokens, at most k; perhaps none.
        """
        raise NotImplementedError

    def commit(self, round):
        """Takes what was emitted: round.emitted[b] is a tuple of ids for row b."""
        raise NotImplementedError


check("look-up-drafter", LookUpDrafter)

# %% [markdown]
# Here is ours on the story, so that you can continue whether or not yours is done. The loop, the
# verifier and the rollback are the ones you know.

# %% tags=["claim-D2"]
from minispec.classroom.exercises.drafting import LookUpDrafter as OurDrafter
from minispec.show.plots.coloured import coloured_text

look_up = OurDrafter(target.vocab_size)
looked_up = minispec.record(target, look_up, [prompt], **speculative)
counts = looked_up.statistics()
print(f"{counts.emitted} tokens in {counts.target_calls} target calls;", end=" ")
print(f"{counts.accepted} of {counts.drafted} guesses kept")
words = [pair.tokenizer.piece(token) for token in range(target.vocab_size)]
assert looked_up.tokens() == alone and not any(r.draft_cache for r in looked_up.rounds)
coloured_text(looked_up, words)

# %% [markdown]
# ## One model or two?

# %% tags=["predict"]
predict("no-draft-model", guess=None)

# %% [markdown]
# One reads that speculation happens "within a single forward pass". That describes Medusa, whose
# extra heads guess in the target's own forward, and not *self-drafting* in general: early exit,
# EAGLE and chained MTP heads draft one token after the other. So does our draft model: K small
# forwards come before the large one. (Parallel drafters such as PARD and DFlash draft a whole block
# in one forward.) Count the forwards of a round.


# %% tags=["misleads-single-pass", "claim-D2"]
def forwards(drafter):
    """Returns which models make a forward in one round, in order."""
    order = []
    names = {target.lm_head: "target", draft.lm_head: "draft"}  # prefill needs no head

    def note(head, given, _):
        order.append(names[head])

    hooks = [head.register_forward_hook(note) for head in names]
    next(minispec.speculate(target, drafter, [prompt], **speculative))
    for hook in hooks:
        hook.remove()
    return order


# %% tags=["misleads-single-pass"]
with_draft_model = forwards(minispec.ModelDrafter(draft))
with_look_up = forwards(look_up)
print("with a draft model:", *with_draft_model)
print("with a look-up:    ", *with_look_up)
assert with_draft_model == ["draft"] * 4 + ["target"] and with_look_up == ["target"]

# %% [markdown]
# A separate draft model must also share the target's vocabulary, because our acceptance rules
# compare p and q token by token. If it does not, the loop refuses. (Methods that go through text do
# without: universal assisted generation in transformers, and string-level verification.)

# %% tags=["claim-E4", "nbval-check-output"]
stranger = minispec.GPT(replace(draft.config, vocab_size=99))
try:
    next(minispec.speculate(target, minispec.ModelDrafter(stranger), [prompt], **speculative))
except ValueError as error:
    print(str(error).replace(str(target.vocab_size), "V"))
else:
    raise AssertionError("it should have refused")

# %% [markdown]
# ## Streaming
#
# None of this keeps text from being shown as it comes: `stream` takes rounds as they arrive.

# %% tags=["claim-C8"]
rounds = minispec.speculate(target, minispec.ModelDrafter(draft), [prompt], **speculative)
pieces = minispec.stream(rounds, pair.tokenizer)
first = next(pieces)  # one round has been decoded, and no more
print(repr(first), "can be read by now. The rest:", "".join(rest := list(pieces)))
assert first + "".join(rest) == pair.tokenizer.decode(alone)

# %%
result = f"{counts.emitted} tokens in {counts.target_calls} target calls, without a draft model"
wrote(forwards, measured=result)

# %% [markdown]
# ## All methods in one table
#
# *Not yet* means: not built in minispec.
#
# | method | what gets smaller | the text's distribution | in minispec |
# |---|---|---|---|
# | key-value cache | positions computed again | the same | notebook 2 |
# | grouped-query attention | keys and values | a model trained that way | in the model |
# | fused attention | trips to memory | the same, up to rounding | PyTorch's |
# | CUDA graphs | launches of kernels | the same | not yet |
# | quantized target | bytes per weight | another one | `--dtype int8` |
# | quantized draft | c | the same | rounded, and measured, above |
# | fewer, larger operations | their starts | the same, up to rounding | `--backend native` |
# | batching | readings of weights per text | the same | notebook 14: done rows are refilled |
# | draft model | target calls per token | the same | notebooks 4 to 10 |
# | automatic K | wasted guesses | the same | `--k auto`, and a stop rule |
# | look-up of n-grams | the same, no draft model | the same | notebook 12: `--drafter ngram` |
# | early exit: its first layers guess | the same, and a cache | the same | notebook 12: `exit` |
# | heads: Medusa, EAGLE | the same, and c | the same, if verified | notebook 16: both |
# | parallel drafters (PARD, DFlash) | K·c becomes c | the same, if verified | notebook 16 |
# | trees: several guesses a position | target calls a token | the same | notebook 13: `tree` |
#
# The methods combine, up to a point. A quantized target is read faster, so the same draft is less
# cheap beside it: c rises. While weights dominate what is read, a large batch and a draft use the
# same spare arithmetic.
#
# ## What engines do
#
# - vLLM serves many requests at once. It speculates with draft models, with EAGLE and other heads,
#   and with look-up of n-grams. Its documentation recommends speculation for light and medium load.
#   Its developers have measured losses at high load.
# - Hugging Face transformers calls it assisted generation: a draft model, look-up in the prompt, or
#   an early exit of the target. For different tokenizers it goes through text. `python
#   docs/peers/transformers.py` runs our weights in it, and compares.
# - llama.cpp combines quantized targets with quantized drafts, on laptops. `python
#   docs/peers/llama_cpp.py` times its forwards beside ours, with the same weights.
#
# Handing a pair from here to vLLM is not built yet. (Checkpoints have the layout that it reads.)
#
# When you read a speed-up, ask: which batch, which machine, which text, against how fast a target
# alone? And: the same distribution, or another one? Some acceptance rules accept what is likely
# enough. They are faster, and they change the distribution. The tests of notebook 9 detect that.

# %% [markdown]
# ## Recap
#
# - Grouped heads, fused kernels, quantization, batching and speculation reduce different costs.
# - A batch shares one reading of the weights, and no reading of caches. So large batches of short
#   texts have no arithmetic to spare for a draft, and those of long ones have.
# - A quantized or a bad draft changes the speed. A quantized target changes the text.
# - Anything may draft, a model or a look-up, as long as it reports the distribution that it drew
#   from. For a look-up that distribution is one-hot.
# - With a separate draft that guesses token by token, a round is K small forwards and a large one.
#   Self-drafting needs one model.
#
# Next, the page *The field* in the book, and notebook 12: drafts from the text and the target.
# Or take a drafter of your own, put it into the loop, and measure it as in notebook 10.
