# %% [markdown]
# # 1. Generate one token at a time
#
# **You'll do**: step through a run of speculative decoding, write text one token at a time, measure
# how long your machine takes for one token and for five, and write the whole method in a dozen
# lines.
#
# **You'll learn**: why a large model decodes slowly although its computer is mostly idle, and how
# guesses use the idle part.
#
# **You'll need**: Python, and a rough idea of what a language model does.
#
# **Time**: 30 minutes, and a few seconds of computing.

# %%
import torch

import minispec
from minispec.classroom import check, goal, hint, predict, wrote
from minispec.io.walkthrough import load_walkthrough

pair = minispec.load_pair("stories")
target = pair.target
draft = pair.draft
prompt = pair.tokenizer.encode(pair.walkthrough)
recording = load_walkthrough("greedy")  # the same on every machine
print(pair.walkthrough)

# %% [markdown]
# ## The whole method first
#
# Two models continue this story. The small one, the *draft model*, guesses some tokens ahead. The
# large one, the *target*, reads all guesses at once, keeps those that it would have chosen itself,
# and replaces the first that it would not. This is one *round*:

# %%
from minispec.show.plots.pictures import draw_round

draw_round(recording)

# %% [markdown]
# 1. The story ends in "The cat". Its last token is *pending*: no model has read it yet.
# 2. The draft model guesses five tokens, each from those before it.
# 3. The target reads the pending token and all guesses in one pass, and makes its own choice after
#    each.
# 4. Guesses are accepted (✓) until one differs (✗). The target's choice replaces it (↳), and later
#    guesses are never tested (○).
# 5. Accepted tokens and correction join the story, and the last one is pending.
# 6. What each model remembers of the other guesses is removed (⌫).
#
# Now step through this round and the next with **next**, or with the arrow keys. For now, watch
# only the story.

# %%
from minispec.show.stepper import Stepper

Stepper(recording, rounds=2, title="Two rounds of speculative decoding")

# %% [markdown]
# Notebooks 5 and 8 explain the lines about the caches. This notebook asks the question that comes
# first: why would anybody want to guess?
#
# ## What a model computes
#
# A model reads *tokens*: words, or pieces of words. For each token that it has read, it gives every
# token of its vocabulary a score, a *logit*, for coming next. Softmax turns these into
# probabilities that sum to 1: a *distribution*. The model gives one for each position of the story.
# Here are the five most probable tokens after its first eleven.

# %%
with torch.inference_mode():
    logits = target(torch.tensor([prompt]))  # [1, n, V]: a row for each of the n tokens
distribution = torch.softmax(logits[0, 10], dim=-1)  # [V]: what follows token 10, counted from 0
best = distribution.topk(5)
print(pair.tokenizer.decode(prompt[:11]), "…")
for token, probability in zip(best.indices.tolist(), best.values.tolist(), strict=True):
    print(f"{probability:6.1%} {pair.tokenizer.piece(token)!r}")
assert abs(float(distribution.sum()) - 1) < 1e-5

# %% [markdown]
# To *decode greedily* is to take the most probable token. It is appended to the text, and the model
# runs again. Write that loop. `goal` shows what is wanted. Replace the `...` with your answer and
# run the cell: `check` looks at it. A wrong answer stops nothing. If you are stuck, ask in a cell
# of your own: `hint("continue-greedily", 1)`, and then 2.

# %%
goal("continue-greedily")


# %% tags=["exercise"]
def continue_greedily(model, prompt, n):
    """Returns the n token ids that the model finds most probable, one after another.

    model(torch.tensor([ids])) gives logits [1, len(ids), V]: row i is about what follows ids[i].
    """
    ...


check("continue-greedily", continue_greedily)

# %% [markdown]
# ## One forward, one token
#
# Here is the loop in two functions. A run of the model through all of its layers is called a
# *forward* (in papers: a forward pass). It answers for every position of the text. The loop needs
# only the last answer.


# %% tags=["written", "nbval-check-output"]
def most_probable(model, text):
    """Returns, for each position of the text, the token that the model finds most probable next."""
    with torch.inference_mode():
        return model(torch.tensor([text]))[0].argmax(-1).tolist()  # one forward, len(text) answers


def continue_alone(model, prompt, n):
    """Returns n more tokens: one forward for each."""
    text = list(prompt)
    for _ in range(n):
        text.append(most_probable(model, text)[-1])
    return text[len(prompt) :]


alone = continue_alone(target, prompt, 40)
print(pair.tokenizer.decode(alone))

# %% [markdown]
# The package has this loop too, as `generate`. It is the reference in all notebooks: whatever we do
# to be faster, this is the text that must come out. (`temperature=0` means greedy. At temperature 1
# tokens are drawn at random from the distribution: notebook 6.)

# %%
settings = dict(max_new_tokens=40, warp=minispec.Warp(temperature=0), rng=minispec.SeededRng(0))
reference = [step[0] for step in minispec.generate(target, [prompt], **settings)]
print(f"{len(reference)} tokens, {len(alone)} forwards, the same text: {alone == reference}")
assert alone == continue_alone(target, prompt, 40) == reference

# %% [markdown]
# Each forward needs the token of the one before. So no two of them can run at the same time, on any
# machine. Is the machine at least busy while it runs one?

# %% tags=["predict"]
predict("what-limits", guess=None)

# %% [markdown]
# To make one token, every weight is used once: one multiplication, one addition. And to be used, it
# must come from memory. A chip does both at the same time: while it computes with some weights, it
# fetches the next. So a forward takes about as long as the *longer* of the two bars, not their sum.

# %% tags=["claim-B2"]
from minispec.evidence.theory.formulas import Hardware, forward_cost
from minispec.show.plots.speed import bytes_against_arithmetic

chip = Hardware("a chip with 1 TB/s and 100 Tflop/s", bandwidth=1e12, arithmetic=100e12)
cost_1, cost_5, cost_100 = (forward_cost(7e9, 2, chip, tokens) for tokens in (1, 5, 100))
print(
    f"reading {1e3 * cost_1.moving:.0f} ms, computing {1e3 * cost_1.computing:.2f} ms a position;"
)
print(f"equal at {cost_1.moving / cost_1.computing:.0f} positions")
assert cost_1.moving == cost_5.moving and round(cost_5.computing / cost_1.computing) == 5
bytes_against_arithmetic([cost_1, cost_5, cost_100], chip, "a model of 7 billion weights")

# %% [markdown]
# Weights that have been read can serve any number of positions, so the bar for reading does not
# grow. Five positions take as long as one. At 100 positions the bars are equal, on this chip.
# Beyond that, arithmetic decides, and more positions are no longer cheap.
#
# That is arithmetic on paper. What about your machine?

# %% tags=["predict"]
five_guess = predict("five-positions", guess=None)
five_guess

# %% [markdown]
# The story models are so small that their weights stay in the processor's own caches. So measure a
# model of 62 million weights. They are random, but reading them takes as long. It runs on the C++
# backend. Without a compiler it runs on torch, whose time also holds the start of each operation,
# called *dispatch*.

# %% tags=["nbval-check-output"]
from minispec.native.model import NativeGPT

large = minispec.GPT(minispec.GPTConfig(512, 12, 640, 10, 10, 1792, max_length=256)).eval()
print(f"{large.parameters_count:,} weights of 4 bytes")
try:
    large = NativeGPT(large)
except ValueError as error:
    print("no C++ backend here:", error)

# %% tags=["claim-B2"]
from minispec.evidence.bench.measure import measure_latency
from minispec.show.plots.speed import latency

times = measure_latency(large, widths=(1, 5, 20, 100), repeats=3, name="62 million weights")
latency(times, at=5, guess=five_guess.value)

# %%
t = {time.width: time.seconds for time in times}
ratio = t[5] / t[1]
print(f"5 positions: {ratio:.1f} times as long as 1. 100 positions: {t[100] / t[1]:.1f} times.")
print("Cheaper than five forwards." if ratio < 5 else "Is the machine busy? Run it again.")
five_guess.against(ratio)

# %% [markdown]
# Reading the weights takes the same time for one position and for five, and for a few positions it
# is most of the forward. A processor computes more slowly than the chip above, so the time begins
# to grow at fewer positions.
#
# ## Speculative execution
#
# When a program comes to an `if`, a processor does not wait until the condition is known. It
# guesses and works ahead. If the guess was right, time is saved; if not, the work is wasted.
#
# Here the draft model guesses k tokens. Then one forward of the target reads the text and all
# guesses. For each guess, the forward gives the token that the target would have emitted there.
# This is the whole method:


# %% tags=["written", "nbval-check-output"]
def speculate_greedily(target, draft, prompt, n, k):
    """Returns the n tokens that the target would emit alone, and how many forwards it took."""
    text = list(prompt)
    target_calls = 0
    while len(text) < len(prompt) + n:
        guesses = continue_alone(draft, text, k)  # k forwards of the small model
        best = most_probable(target, text + guesses)[-k - 1 :]  # one forward of the large one
        kept = 0
        while kept < k and guesses[kept] == best[kept]:
            kept += 1
        text += [*guesses[:kept], best[kept]]  # after what is kept, the target's own token
        target_calls += 1
    return text[len(prompt) :][:n], target_calls


tokens, target_calls = speculate_greedily(target, draft, prompt, n=40, k=5)
print(f"{len(tokens)} tokens, {target_calls} forwards of the target;", end=" ")
print("the same text:", tokens == alone)

# %% [markdown]
# Why k + 1 answers? The answer after the last token of the text judges the first guess. The answer
# after the first guess judges the second, and so on. If all are right, the answer after the last
# guess is one more token for free.
#
# The text is the target's own, token for token. Each token was either the target's answer, or a
# guess that equals it. The package's loop does the same, and does not read the text again in every
# forward. Notebook 5 explains how.

# %% tags=["claim-A6", "claim-A7", "claim-B3", "misleads-single-pass"]
drafter = minispec.ModelDrafter(draft)
rule = minispec.verify_greedy
run = minispec.record(target, drafter, [prompt], k=5, verifier=rule, **settings)
counts = run.statistics()
print(f"{counts.emitted} tokens, {counts.target_calls} forwards, as above: {target_calls}")
print(f"{counts.tokens_per_target_call:.2f} tokens a forward, {counts.drafted} guesses", end=" ")
print("(near the limit a round guesses fewer)")
assert (run.tokens(), counts.target_calls) == (tokens, target_calls) and tokens == alone

# %% [markdown]
# ### Try it: change a value and run the cell again
#
# Another k, such as 1 or 15, or another beginning. Look at the number of forwards. Does k change
# the text?

# %% tags=["try-it"]
k = 5
beginning = "Once there were two friends. Rue the cat had a kite."
start = pair.tokenizer.encode(beginning)
emitted, needed = speculate_greedily(target, draft, start, n=30, k=k)
print(beginning + pair.tokenizer.decode(emitted))
print(f"{len(emitted)} tokens, {needed} forwards of the target")

# %% [markdown]
# The draft model runs token by token, and meanwhile the target waits. Then the target has its one
# forward. Here are the first rounds over time, if a step of the draft takes a tenth of a forward.
# Under each forward are the five guesses that it judges, and what it adds.

# %% tags=["claim-E1"]
from minispec.show.plots.timeline import WorkTimes, speculative_spans, timeline

work = WorkTimes(target=1.0, draft=0.1, verify=1.0)
assert speculative_spans(run, work)[-1].end < counts.emitted * work.target
timeline(run, recording.words, work, tokens=11)

# %% [markdown]
# ✓ is a guess that was kept. A guess that was not is ✗, and ↳ is what the target emits in its
# place. Guesses after it (○) are dropped. ★ is the free token after guesses that were all kept.
# Which tokens were easy?

# %% tags=["claim-B1"]
from minispec.show.plots.coloured import coloured_text

print(f"{counts.acceptance:.0%} of the guesses that were tested were kept")
assert counts.accepted > counts.tested / 2  # most tokens are easy, even for a small model
coloured_text(run, recording.words)

# %%
share = f"{counts.tokens_per_target_call:.2f} tokens for each forward of the target"
wrote(most_probable, continue_alone, speculate_greedily, measured=f"{share}, and the same text.")

# %% [markdown]
# ## Recap
#
# - A model emits one token per forward, and each forward needs the token of the one before.
# - Every forward reads all weights. For one token, a large model waits for memory most of the time.
# - So a few more positions in the same forward cost little. Those positions can hold guesses.
# - Speculative decoding does this: a small model guesses ahead, the large one checks all guesses in
#   one forward, and the text is the one that the large model decodes alone.
#
# Next, notebook 2: what a forward leaves in a cache, so that the next one need not read the text
# again. (On the short way, notebook 5: it explains the same in ten lines.)
