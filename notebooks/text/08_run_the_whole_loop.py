# %% [markdown]
# # 8. Run the whole loop
#
# **You'll do**: put the pieces together, decode a story greedily and sampled, step through a
# sampled run, measure a gain and a loss, and write the sampled loop with both caches.
#
# **You'll learn**: how the phases fit together, how long both caches are at each moment, how many
# tokens a round yields, which K is fastest on your machine, and how a run ends.
#
# **You'll need**: notebooks 5 and 6. (What 2, 4 and 7 wrote is printed here.)
#
# **Time**: 70 minutes, 30 of them for the last exercise, and some fifteen seconds of computing.

# %%
from inspect import getsource
from textwrap import fill

import torch

import minispec
from minispec.classroom import check, goal, hint, predict, wrote
from minispec.core.basic import accept_greedy, accept_rejection  # of notebooks 5 and 6

pair = minispec.load_pair("stories")
target, drafter, tokenizer = pair.target, pair.draft, pair.tokenizer
prompt = tokenizer.encode(pair.walkthrough)
greedy, rng = minispec.Warp(temperature=0), minispec.SeededRng(0)
settings = dict(max_new_tokens=100, warp=greedy, rng=rng, eos=tokenizer.end_of_text)
print(fill(pair.walkthrough, 84))

# %%
alone = [step[0] for step in minispec.generate(target, [prompt], **settings)]
print(fill("…" + tokenizer.decode(alone), 84))
print(f"\nthe target alone: {len(alone)} tokens, {len(alone)} target calls")

# %% [markdown]
# ## The loop in words
#
# ```
# prefill        both models read the prompt but its last token: pending
# repeat
#     draft      the draft model guesses up to K tokens
#     verify     one target call judges them; a rule keeps some, adds one
#     commit     accepted tokens and the added one are appended
#     roll back  both caches forget the rest; the last token is pending
#     catch up   if all was accepted, the draft model reads its last guess
# ```
#
# Here is the first round of the recorded run. After verifying, the target's cache holds all five
# guesses, whereas the draft model's holds four, because a model does not read its own last guess.
# After rollback both hold the same: all of the text but the pending token.

# %%
from minispec.io.walkthrough import load_walkthrough
from minispec.show.plots.pictures import draw_round

draw_round(load_walkthrough("greedy"))

# %% [markdown]
# ## The pieces
#
# `read` reads tokens after what a cache holds. `catch_up` makes a cache hold all of the text but
# its last token: prefill, rollback and catch-up in one. `draft` draws K tokens, and keeps the
# distribution q that each was drawn from.

# %% tags=["nbval-check-output"]
from minispec.core.basic import catch_up, draft, generate_basic, read

print(getsource(read), getsource(catch_up), getsource(generate_basic), getsource(draft), sep="\n")
once = dict(max_new_tokens=len(alone), warp=greedy, rng=rng)
with torch.inference_mode():
    print("the same text:", generate_basic(target, prompt, **once) == alone)

# %% [markdown]
# The two rules are `accept_greedy` of notebook 5 and `accept_rejection` of notebook 6. Both return
# the tokens that a round emits.
#
# ## Exercise: the loop
#
# Write the order of the phases, and what happens between them. Here the phases are given as
# `parts`, for temperature 0. (`rollback` also lets the draft model catch up.) Hints:
# `hint("write-the-loop", 1)`, and then 2.

# %%
goal("write-the-loop")


# %% tags=["exercise"]
def my_loop(parts, prompt, k, n):
    """Returns the n token ids that follow the prompt, k of them drafted at a time.

    parts.prefill(prompt)                      both models read the prompt but its last token
    parts.draft(pending, k) -> draft           k guesses: draft.tokens [1, k]
    parts.score(pending, draft) -> probs       one target call: [1, k + 1, V]
    parts.verify(draft, probs)                 -> (accepted, token): a number, a correction or bonus
    parts.rollback(length)                     both caches keep their first `length` tokens
    """
    ...


check("write-the-loop", my_loop)

# %% [markdown]
# Here is the loop with the pieces from above. How many target calls will the story take? The draft
# is decent, and K is 5.

# %% tags=["predict"]
target_calls = predict("target-calls", guess=None)
target_calls


# %% tags=["written", "basic"]
def speculate_basic(target, drafter, prompt, *, k, accept, max_new_tokens, warp, rng):
    """The same distribution in fewer target calls: draft, verify, commit, roll back."""
    text, end, models = list(prompt), len(prompt) + max_new_tokens, (target, drafter)
    caches = [model.new_cache(1) for model in models]
    while len(text) < end:
        for model, cache in zip(models, caches, strict=True):  # prefill; later rollback, catch-up
            catch_up(model, cache, text)
        # draft, verify (read and accept), commit
        tokens, dists = draft(drafter, caches[1], text[-1], min(k, end - len(text) - 1), warp, rng)
        target_dists = warp(read(target, caches[0], [text[-1], *tokens]))  # [K+1, V] in one forward
        text += accept(tokens, dists, target_dists, rng)
    return text[len(prompt) :]


# %% [markdown]
# Near the end a round drafts fewer than K tokens. If 3 tokens are still wanted it drafts 2, because
# the target always adds one. Run the loop, and note for each round how many tokens it drafts and
# how many it emits:


# %% tags=["claim-A6", "claim-A7", "nbval-check-output"]
def noted(tokens, dists, target_dists, rng):
    emitted = accept_greedy(tokens, dists, target_dists, rng)
    notes.append((len(tokens), len(emitted)))
    return emitted


notes = []
given = dict(k=5, max_new_tokens=len(alone), warp=greedy, rng=rng)
with torch.inference_mode():
    tokens = speculate_basic(target, drafter, prompt, accept=noted, **given)
print("accepted, of drafted:", *(f"{emitted - 1}/{drafted}" for drafted, emitted in notes))
print(f"{len(tokens)} tokens, {len(notes)} target calls: {len(tokens) / len(notes):.2f} a call")
assert tokens == alone
target_calls.against(len(notes), {len(alone): "That is one call a token: the target alone."})

# %% [markdown]
# Each round emits what it accepts, plus one. And not one token differs from what the target emits
# alone.
#
# The package's `speculate` is this loop for many rows at once. It yields a record of each round.
# Give it the same random numbers, and it must emit the same texts, greedy and sampled.

# %% tags=["claim-A6", "claim-B3"]
same = []
sampled = (minispec.Warp(temperature=1), accept_rejection, minispec.verify_rejection)
for warp, accept, verifier in ((greedy, accept_greedy, minispec.verify_greedy), sampled):
    given = dict(k=5, max_new_tokens=len(alone), warp=warp, rng=minispec.SeededRng(2))
    with torch.inference_mode():
        basic_tokens = speculate_basic(target, drafter, prompt, accept=accept, **given)
    given |= dict(rng=minispec.SeededRng(2), verifier=verifier)
    rounds = minispec.speculate(target, minispec.ModelDrafter(drafter), [prompt], **given)
    tokens = [token for r in rounds for token in r.emitted[0]]
    same.append(tokens == basic_tokens)
    print(f"{verifier.name}: {len(tokens)} tokens, the same: {same[-1]}")
assert all(same)

# %% [markdown]
# ## A sampled run, step by step
#
# A recording at temperature 1. Use the slider, the buttons or the arrow keys. When p and q are
# known, predict which guesses are likely to be rejected, *before* you step on to the tests.

# %% tags=["claim-A1", "claim-A2", "claim-A3", "claim-A4", "claim-A5"]
from minispec.show.stepper import Stepper

recording = load_walkthrough("rejection")
kinds = [r.kind(0) for r in recording.trace.rounds]
shown = 1 + max(kinds.index("correction"), kinds.index("bonus"))
Stepper(recording, rounds=shown, title="A sampled run, up to a correction and a bonus")

# %% [markdown]
# ## From one round to the next
#
# A round may end in a correction. It was drawn from the residual (at temperature 0 it is simply the
# target's most probable token), and it is in the text.

# %% tags=["predict"]
predict("next-round-reads", guess=None)

# %% tags=["claim-A5", "misleads-whole-sequence"]
widths = []  # positions that go through the target, one number for each forward
hook = target.embed_tokens.register_forward_pre_hook(
    lambda _, given: widths.append(given[0].shape[1])
)
rule = minispec.verify_greedy
package = minispec.ModelDrafter(drafter)
trace = minispec.record(target, package, [prompt], k=5, verifier=rule, **settings)
hook.remove()
print("positions read, forward by forward:", *widths[1:])
assert widths[1:] == [1 + r.drafted(0) for r in trace.rounds]

# %% [markdown]
# The pending token goes in together with the new draft. So a correction costs no extra call.
# (Prefill is not counted, here or in any count of target calls.)
#
# Here are the lengths of both caches. The target reads 1 + K tokens. The draft model reads K: it
# never reads its last guess. Rollback leaves the old length, plus 1 for the pending token, plus
# what was accepted. After full acceptance that is one more than the draft model has read, so it
# reads its last guess now: *catch-up*.

# %% tags=["claim-C1", "nbval-check-output"]
for kind in ("correction", "bonus"):
    r = next(r for r in trace.rounds if r.kind(0) == kind)
    print(f"{r.accepted(0)} of {r.drafted(0)} accepted, then a {kind}")
    for name, held in (("target", r.target_cache), ("draft ", r.draft_cache)):
        before = held.before[0]
        verified = held.verified[0]
        after = held.after[0]
        print(f"  {name} cache: {before} before, {verified} after the forward, {after} at the end")
assert r.target_cache.after == r.draft_cache.after > r.draft_cache.verified

# %% [markdown]
# What if the draft model never caught up? The text would stay right, because the target judges
# every guess. But the guesses would get worse, and fewer would be accepted. No test of the text
# finds such a bug.
#
# ## Easy words and hard ones
#
# Let the pair decode 16 stories at temperature 1. For each drafted word, how probable was it that
# it would be accepted?

# %% tags=["claim-B1"]
from statistics import fmean

from minispec.show.plots.verification import positions_of

warp = minispec.Warp(temperature=1)
sampled = settings | dict(warp=warp, rng=minispec.SeededRng(1), verifier=minispec.verify_rejection)
stories = minispec.record(target, package, pair.info["prompts"][:16], k=5, **sampled)
tests = [x for row in range(16) for x in positions_of(stories, recording.words, row)]
rates = {word: [x.acceptance for x in tests if x.word == word] for word in {x.word for x in tests}}
often = sorted((fmean(each), word) for word, each in rates.items() if len(each) >= 12)
print("hardest:", *(f"{word!r} {rate:.2f}" for rate, word in often[:6]))
print("easiest:", *(f"{word!r} {rate:.2f}" for rate, word in often[:-7:-1]))
assert often[0][0] < 0.9 < often[-1][0]

# %% [markdown]
# Words such as "the" and "was" are easy: most sentences need them. Words such as "mat" and "river"
# are hard: they depend on an earlier sentence.
#
# ## How many tokens a round yields
#
# Let each tested guess be accepted with probability α. The i-th is tested only if all before it
# were kept, with probability α^(i−1). With the target's own token, a round yields 1 + α + α² + … +
# α^K = (1 − α^(K+1)) / (1 − α) tokens on average.
#
# The unit of time is one target step. A draft step costs c units, and a forward pass over K + 1
# positions v units: 1 if verification were free. You will measure both. The gain is the yield
# divided by K · c + v.

# %% tags=["claim-D3"]
counts = stories.statistics()
c = 0.1
α = counts.acceptance
print(f"measured: α = {α:.3f}, {counts.tokens_per_target_call:.2f} tokens a target call with K = 5")
for K in (1, 2, 5, 10, 20, 40):
    tokens = (1 - α ** (K + 1)) / (1 - α)
    print(f"K = {K:2}: {tokens:.2f} tokens; gain {tokens / (K * c + 1):.2f}, if c = {c} and v = 1")
print(f"without end: {1 / (1 - α):.2f} tokens")
assert abs(sum(α**i for i in range(K + 1)) - tokens) < 1e-9

# %% [markdown]
# A longer draft always yields more, and costs more. So the gain has a peak. (The measured yield
# differs a little: guesses are not equally hard, and the last round of a text is cut.) Here c = 0.1
# and v = 1 were assumed, as in notebook 1.
#
# ## How a run ends
#
# `speculate_basic` stops only at its limit. The package's loop also stops at an end-of-sequence
# token. It may come up *inside* an accepted draft. Then the end token is emitted and nothing after
# it: neither what was accepted after it, nor the bonus. Below, the second token of the story is
# declared to be an end.

# %% tags=["claim-C3", "misleads-no-bonus", "nbval-check-output"]
ends = [{"max_new_tokens": cap} for cap in (1, 2, 6, 7)] + [{"eos": alone[1]}]
finished = []
for end in ends:
    run = minispec.record(target, package, [prompt], k=5, verifier=rule, **settings | end)
    last = run.rounds[-1]
    count = len(run.tokens())
    print(f"{[*end][0]}: the last of {len(run.rounds)} rounds drafts {last.drafted(0)}", end=", ")
    print(f"accepts {last.accepted(0)}, emits {len(last.emitted[0])}; ended by {run.finish(0)}")
    finished.append(run.tokens() == alone[:count] and count == end.get("max_new_tokens", 2))
assert all(finished)

# %% [markdown]
# ## Text comes in bursts
#
# `speculate` yields a round as soon as it is done, and `stream` turns rounds into text. Bars
# separate tokens, and each line is a round.

# %% tags=["claim-C8"]
pieces = []
sampled["rng"] = minispec.SeededRng(2)
for r in minispec.speculate(target, package, [prompt], k=5, **sampled):
    burst = list(minispec.stream([r], tokenizer))
    pieces += burst
    print("|".join(burst))
assert "".join(pieces).strip()

# %% [markdown]
# ### Try it: change a value and run the cell again
#
# Another K, another temperature (0.3, 2), or a text of your own. Look at how many tokens a round
# emits: long bursts where the draft model agrees with the target, single tokens where it does not.

# %% tags=["try-it"]
K = 5
temperature = 1.0
beginning = pair.walkthrough
loop = dict(k=K, verifier=minispec.verify_rejection, max_new_tokens=40, eos=tokenizer.end_of_text)
loop |= dict(warp=minispec.Warp(temperature), rng=minispec.SeededRng(2))
for r in minispec.speculate(target, package, [tokenizer.encode(beginning)], **loop):
    words = "|".join(minispec.stream([r], tokenizer))
    print(f"{r.accepted(0)} of {r.drafted(0)} accepted: {words}")

# %% [markdown]
# ## A batch
#
# Rows of a batch accept different numbers of tokens. Each continues from its own length, and a row
# that is done waits for the others. Does a row's text depend on its neighbours?

# %% tags=["claim-C6"]
prompts = pair.info["prompts"][:4]
short = settings | dict(max_new_tokens=40, k=5, verifier=rule)
batch = minispec.record(target, package, prompts, **short)
for r in batch.rounds:
    print("accepted:", *(f"{r.accepted(row)}" if r.live[row] else " " for row in range(4)))
single = [minispec.record(target, package, [each], **short).tokens() for each in prompts]
print("each row is what it is alone:", [batch.tokens(row) for row in range(4)] == single)
assert [batch.tokens(row) for row in range(4)] == single

# %% [markdown]
# ## A gain and a loss
#
# The loop needs fewer target calls. Does it also need less time? Measure the target alone, the loop
# with the trained draft, and the loop with a useless one: the same model with random weights. All
# three run on the faster of the package's backends that work here, and decode the same text.

# %%
from minispec.native.backend import on_backend

models = on_backend(pair, "auto")  # C++ if there is a compiler, else torch
fast = models.backend
random_draft = models.backend.model(minispec.GPT(drafter.config).eval())


def write_with(model):
    """Returns the tokens of each round with K = 6; without a draft model, of each target step."""
    given = dict(max_new_tokens=100, warp=fast.warp(temperature=0), rng=fast.rng(0))
    if model is None:
        return [[step[0]] for step in minispec.generate(models.target, [prompt], **given)]
    given |= dict(k=6, verifier=fast.verifiers["greedy"])
    rounds = minispec.speculate(models.target, fast.drafter(model), [prompt], **given)
    return [list(r.emitted[0]) for r in rounds]


# %%
from statistics import median
from time import perf_counter

seconds, emitted = {"target alone": [], "trained draft": [], "random draft": []}, {}
for _ in range(9):  # one after the other, so that all see the same machine
    for name, model in zip(seconds, (None, models.draft, random_draft), strict=True):
        started = perf_counter()
        emitted[name] = write_with(model)
        seconds[name].append(perf_counter() - started)
took = {name: median(each) for name, each in seconds.items()}
for name, each in took.items():
    print(f"{name:13}: {100 / len(emitted[name]):.2f} tokens a target call,", end=" ")
    print(f"{100 / each:5.0f} a second, {took['target alone'] / each:.2f} times")

# %% tags=["hide-input"]
texts = [sum(rounds, []) for rounds in emitted.values()]
assert texts[0] == texts[1] == texts[2]

# %% [markdown]
# (Prefill is included in all times.) A round costs the same with both drafts: K draft steps and a
# forward over 7 positions. The trained draft emits several tokens with it. The random one emits
# one, and is slower than no draft at all. Its text is right all the same. So measure before you
# switch it on.
#
# ## The gain against K
#
# Now several K, each against the target alone on the same 8 stories, at temperature 1. And c: how
# long is a draft step, in target steps?

# %%
from minispec.evidence.bench.interleaved import Setting, interleave, speed_up_of
from minispec.evidence.bench.measure import forward_ratio, measure_latency

warm = dict(verifier="rejection", temperature=1.0)
sides = {K: (Setting(models, 0, **warm), Setting(models, K, **warm)) for K in (1, 2, 4, 6, 8, 12)}
runs = interleave(sides, [[each] for each in pair.info["prompts"][:8]], seed=0, new_tokens=80)
print(f"weights: {pair.draft.parameters_count / target.parameters_count:.3f} of the target's")
for name, two in (("torch", pair), (fast.name, models)):
    times = measure_latency(two.target, [1, 2, 3, 5, 7, 9, 13], repeats=10)
    draft_times = measure_latency(two.draft, [1], repeats=10)
    c = forward_ratio(times, draft_times)
    v = times[5].seconds / times[0].seconds
    print(f"on {name}: a forward pass of the draft takes {c:.2f}, v = {v:.2f} for 9 positions")

# %% [markdown]
# Counted in weights, a draft step would be nearly free. It is not, because every call has a fixed
# part, and in models as small as these that part is most of the time. (In the native loop one call
# makes all K draft steps, so its c is smaller than this ratio of single forward passes.) With
# billions of weights, reading them is most of the time, and c comes near the ratio of the sizes:
# the 0.1 above stands for a draft model of a tenth of the size.
#
# The prediction takes α from above, your own v, and that ratio for c. The dotted curve takes c =
# 0.1 and v = 1, as if verification were free.

# %%
from minispec.evidence.bench.measurements import SpeedPoint
from minispec.evidence.theory.formulas import refined_speed_up, speed_up
from minispec.show.plots.speed import gain_by_k

t = {}
points = []
t |= {time.width: time.seconds for time in times}  # of a target forward, by its positions
for K, both in runs.items():
    low, gain, high = speed_up_of(*both)  # quartiles over the stories
    refined = refined_speed_up([α] * K, t[1], draft_times[0].seconds, t.__getitem__)
    points.append(SpeedPoint(K, α, c, gain, low, high, speed_up(α, K, c), refined))
gain_by_k(points, assumed=0.1)

# %% [markdown]
# Near its peak the curve is flat, so which K is fastest changes from run to run. Where points lie
# below it, the formula leaves something out: prefill, and the work between the forwards.
#
# ## Exercise: the sampled loop, with both caches
#
# The last exercise is all of speculative decoding: your own loop, with nothing given but two models
# and random numbers. Prefill, draft, verify, commit, catch up, roll back; the rule is that of
# notebook 6. Try it without looking above. `check` runs it on every branch of small models beside
# `speculate_basic`: the distribution must be the same, and both caches right after every round.
# Hints: `hint("write-the-sampled-loop", 1)`, and then 2.

# %%
goal("write-the-sampled-loop")


# %% tags=["exercise"]
def my_sampled_loop(target, draft, prompt, k, n, rng):
    """Returns n token ids, distributed as the target's text after the prompt at temperature 1.

    model.new_cache(1)                  an empty cache; target and draft need one each
    model(torch.tensor([ids]), cache)   reads ids after what the cache holds: logits [1, n, V]
    cache.truncate([length])            keeps the first `length` tokens
    cache.row_lengths[0]                how many tokens it holds
    rng.uniform()                       a new number between 0 and 1, to be compared: u < 0.3
    rng.draw(distribution [V])          draws an id
    A round drafts k ids, near the end one less than there is room for, and calls the target
    once. Between rounds both caches hold all of the text but its last token, which is pending.
    """
    ...


check("write-the-sampled-loop", my_sampled_loop)

# %%
gain, loss = (took["target alone"] / took[name] for name in ("trained draft", "random draft"))
measured = f"{gain:.2f} times as fast with K = 6 ({fast.name}); with a useless draft {loss:.2f}."
wrote(speculate_basic, measured=measured)

# %% [markdown]
# ## Recap
#
# - A round is draft, verify, commit, roll back. It costs one target call, and emits at least one
#   token, at most K + 1.
# - The last token of a round is pending. The next round reads it together with the new draft.
# - After each round both caches hold all of the text but the pending token. After full acceptance
#   the draft model reads its own last guess.
# - A round yields (1 − α^(K+1)) / (1 − α) tokens on average, and costs K · c + v. Which K is best
#   depends on α, and on c and v of your machine.
# - Ends and limits cut a round, even inside an accepted draft.
# - Whether it pays is a matter of measuring. The text is the target's in any case.
#
# On the short way, notebook 12 is next: the draft model costs K · c in every round, and 12 shows
# drafts that cost almost nothing. On the long way, notebook 9: is all of this really right?
