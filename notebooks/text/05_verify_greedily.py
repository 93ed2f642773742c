# %% [markdown]
# # 5. Verify greedily
#
# **You'll do**: check a draft in one forward of the target, change one of its tokens and see which
# answers that changes, and write the greedy rule.
#
# **You'll learn**: what a cache holds and which token is pending, why one forward is enough, which
# answer judges which token, and where the correction and the bonus come from.
#
# **You'll need**: notebook 1. (If you have read 2 and 4, skip the first section.)
#
# **Time**: 35 minutes, and a few seconds of computing.

# %%
import torch

import minispec
from minispec.classroom import check, goal, hint, predict, wrote
from minispec.io.walkthrough import load_walkthrough

pair = minispec.load_pair("stories")
target, draft = pair.target, pair.draft
prompt = pair.tokenizer.encode(pair.walkthrough)
words = [pair.tokenizer.piece(token) for token in range(target.vocab_size)]
recording = load_walkthrough("greedy")  # a recorded run, with K = 5
rounds = recording.trace.rounds
drafted = rounds[0].draft.tokens[0].tolist()
print(f"{pair.walkthrough}\n\nThe draft goes on: {''.join(words[token] for token in drafted)}")

# %% [markdown]
# ## The cache, and the pending token
#
# In notebook 1 every forward read the whole text again. That is not needed. For each position a
# model computes *keys* and *values*, which later positions look at. A position never looks ahead,
# so its keys and values never change. They are kept: that is the *KV cache*.
#
# *Prefill* reads all of the prompt but its last token. That token is *pending*: it is in the text,
# and no model has read it yet. A step reads the pending token and chooses the next one, which is
# then pending.

# %% tags=["nbval-check-output"]
cache, text = target.new_cache(rows=1), list(prompt)
with torch.inference_mode():
    target(torch.tensor([text[:-1]]), cache)  # prefill: the cache holds these positions now
    for _ in range(4):
        logits = target(torch.tensor([text[-1:]]), cache)  # [1, 1, V]: reads one position
        text.append(int(logits[0, -1].argmax()))
        print(f"text {len(text)} tokens, cache {cache.row_lengths[0]}, pending {words[text[-1]]!r}")
    again = target(torch.tensor([text[:-1]]))[0, -1].argmax()  # without a cache: reads all of it
n = len(prompt)
print(f"positions computed with a cache: {n - 1} in prefill, then 1 a step: {n - 1 + 4}")
print(f"without a cache: {' + '.join(str(n + i) for i in range(4))} = {4 * n + 6}")
assert text[-1] == int(again)

# %% [markdown]
# So whenever a step begins, the cache holds one token less than the text: the last one, which is
# pending. With a cache each position is computed once. Without one, every step reads the whole text
# so far.
#
# The target and the draft model have a cache each. Neither can read the other's: their keys and
# values come from different weights. Here are both when a round begins.

# %%
from minispec.show.plots.caches import cache_grid

cache_grid(recording.trace, words, 0, ["before"])

# %% [markdown]
# One more operation: `cache.truncate([n])` keeps the first n positions and forgets the rest. It
# only sets a length.
#
# ## Six steps, or one forward
#
# The story has two friends, and the draft model has guessed five tokens. Which of them would the
# target have emitted too? Temperature is 0: the target always emits its most probable token.
#
# The slow way: let the target read the pending token, look at its answer, let it read the first
# guess, look again, and so on. That is six target calls. The fast way: hand it all six tokens at
# once.

# %% tags=["written", "claim-A3", "claim-D1"]
block = [prompt[-1], *drafted]  # the pending token and the draft: K + 1 tokens
cache = target.new_cache(rows=1)
with torch.inference_mode():
    target(torch.tensor([prompt[:-1]]), cache)
    one_by_one = [target(torch.tensor([[token]]), cache)[0, -1] for token in block]  # K + 1 calls
    cache.truncate([len(prompt) - 1])  # forget them again
    logits = target(torch.tensor([block]), cache)[0]  # [K + 1, V] in one call
apart = (logits - torch.stack(one_by_one)).abs().max()
print(f"{len(block)} target calls and 1 target call give the same {len(logits)} distributions")
print(f"largest difference of a logit: {apart:.0e}")
assert apart < 1e-3

# %% [markdown]
# ## Why: the mask
#
# How can the target judge the third guess before it has accepted the second? It can, because each
# token looks only back. In attention, a *mask* hides whatever comes later. The row of a token is
# computed as if the text ended there. So all rows can be computed side by side.
#
# Each row is one of the six tokens, each column a token that it may look at.

# %% tags=["claim-A3"]
from minispec.show.plots.masks import attention_mask

attention_mask(len(prompt) - 1, len(drafted), [words[token] for token in block])

# %% [markdown]
# ## Exercise: the mask
#
# `goal` shows what is wanted. Replace the `...` with your answer and run the cell: `check` looks at
# it. If you are stuck, ask for a hint in a cell of your own: `hint("shift-the-mask", 1)`, and then
# 2.

# %%
goal("shift-the-mask")


# %% tags=["exercise"]
def verification_mask(cached, k):
    """Returns [k + 1, cached + k + 1], bool: True where a new token may look.

    Rows are the pending token and the k drafted ones.
    Columns are the cached tokens, then the new ones.
    """
    ...


check("shift-the-mask", verification_mask)

# %% [markdown]
# ## The shift: a row judges the token after its own
#
# A model that has read a token gives the distribution of the *next*. So the row of the pending
# token judges the first guess, the row of the first guess judges the second, and so on. The row of
# the last guess judges nothing that was drafted: it is there for a bonus.

# %% tags=["claim-A3", "nbval-check-output"]
best = logits.argmax(-1).tolist()  # [K + 1]: the target's own choice after each of the six tokens
for row, judged in enumerate([*(repr(words[token]) for token in drafted), "nothing: the bonus"]):
    read = repr(words[block[row]])
    choice = repr(words[best[row]])
    print(f"row {row} has read {read:8} and predicts {choice:8}: judges {judged}")

# %% [markdown]
# What if one compares each guess with the row of that same guess? Take a target that emits b after
# a, c after b, and a after c, and a draft that does the same.

# %% tags=["misleads-offset", "nbval-check-output"]
follows = {"a": "b", "b": "c", "c": "a"}
guesses = ["b", "c"]  # after the pending token a
rows = [follows[token] for token in ["a", *guesses]]  # b, c, a
for name, shift in (("the row before the guess", 0), ("the row of the guess itself", 1)):
    kept = 0
    while kept < 2 and guesses[kept] == rows[kept + shift]:
        kept += 1
    emitted = [*guesses[:kept], rows[kept + shift]]
    print(f"judged by {name:27}: a {' '.join(emitted)}")
assert emitted == ["c"]

# %% [markdown]
# One row off, right guesses are rejected. Worse, the text is wrong: this target never emits c after
# a.
#
# If a row has read only what comes before, then a drafted token has no influence on the rows before
# it. Predict what happens if one is replaced.

# %% tags=["predict"]
predict("change-one-token", guess=None)

# %% tags=["claim-A3"]
other = [*block[:3], (block[3] + 1) % target.vocab_size, *block[4:]]  # another third guess
with torch.inference_mode():
    cache.truncate([len(prompt) - 1])
    moved = (target(torch.tensor([other]), cache)[0] - logits).abs().amax(-1)  # [K + 1]
for row, change in enumerate(moved.tolist()):
    print(f"row {row}: its logits change by up to {change:.4f}")
assert moved[:3].max() < 1e-3 < moved[3:].min()

# %% [markdown]
# Three of the six change. Row 2 judges the third guess and has not read it. The row of the third
# guess itself has read it, and so have all rows after it.
#
# ## The rule: left to right
#
# Scoring was parallel. Accepting is not. Why should the order matter, if all distributions are
# known?

# %% tags=["predict"]
predict("keep-after-rejection", guess=None)

# %% [markdown]
# Three, and the target's own fourth. Go from left to right, and keep a guess as long as it is the
# target's own choice. At the first difference, stop. The target's choice there is the *correction*.
# If all K guesses are kept, there is nothing to correct. But the last row has computed what comes
# after them all: that token is the *bonus*. Correction and bonus can be the same line of code.
# Write the rule.

# %%
goal("verify-greedily")


# %% tags=["exercise"]
def verify_greedily(drafted, best):
    """Returns (accepted, token): how many drafted ids to keep, and the id that follows them.

    drafted has K ids. best has K + 1: best[i] is the target's own choice at the position of
    drafted[i], and best[K] is its choice after them all.
    """
    ...


check("verify-greedily", verify_greedily)

# %% [markdown]
# Here it is as notebook 8 will use it. It is given the drafted tokens, the distributions that they
# were drawn from, and the target's K + 1 distributions. (`dists` and `rng` are there because the
# rule of notebook 6 needs them. This one needs neither.)


# %% tags=["written", "basic"]
def accept_greedy(tokens, dists, target_dists, rng):
    """Keeps tokens while they are the target's most probable ones; adds the target's next."""
    best = target_dists.argmax(-1).tolist()  # [K+1]
    accepted = 0
    while accepted < len(tokens) and tokens[accepted] == best[accepted]:
        accepted += 1
    return tokens[:accepted] + [best[accepted]]  # a correction, or a bonus after full agreement


# %% [markdown]
# Use it on the draft of the story. The package's verifier works on many rows at once and returns
# how many tokens it accepts, and the token after them. For this row it decides the same.

# %% tags=["claim-A4", "claim-B3", "misleads-correction-emitted"]
from minispec.show.plots.verification import verification_strip

greedy = minispec.Warp(temperature=0)
rng = minispec.SeededRng(0)
emitted = accept_greedy(drafted, None, greedy(logits), rng)
print(f"{len(emitted) - 1} accepted and 1 correction: {len(emitted)} tokens out of 1 target call")
verdict = minispec.verify_greedy(rounds[0].draft, greedy(logits)[None], rng)
package = [*drafted[: int(verdict.accepted)], int(verdict.token)]
assert emitted == package == list(rounds[0].emitted[0])
verification_strip(rounds[0], words)

# %% [markdown]
# The forward that rejected the guess has also computed the correction.
#
# What about the guesses after the rejected one? Their rows have read the rejected token: they
# belong to a text that does not exist. So they are dropped, even if one happens to be what comes
# next. Both caches forget them, and they have to be drafted again. Count all agreements instead,
# and see.


# %% tags=["misleads-left-to-right", "misconception-keep-later", "nbval-check-output"]
def accept_all_matches(tokens, dists, target_dists, rng):
    best = target_dists.argmax(-1).tolist()
    agreed = sum(token == wanted for token, wanted in zip(tokens, best[:-1], strict=True))
    return tokens[:agreed] + [best[agreed]]


one_hot = torch.tensor([[0.0, 1.0], [1.0, 0.0], [0.0, 1.0]])  # the target wants 1, then 0, then 1
right, wrong = (rule([0, 0], None, one_hot, rng) for rule in (accept_greedy, accept_all_matches))
print(f"drafted [0, 0]; the target wants [1, 0, 1]. Left to right: {right}; all matches: {wrong}")
assert (right, wrong) == ([1], [0, 0])

# %% [markdown]
# There is one match, the second guess. So the faulty rule keeps one guess: the first, which is
# wrong.
#
# Now count.

# %% tags=["predict"]
predict("tokens-of-a-round", guess=None)

# %% [markdown]
# ## The bonus
#
# Each round emits what it accepts, plus one: 25 + 10 tokens. That one need not be a correction.
# Here is a later round of the recorded run: all five guesses are kept, and the last row adds a
# sixth token. It too comes out of the same forward. With K = 5 a round emits 6 tokens at best, 1 at
# worst.

# %% tags=["claim-B3", "misleads-second-pass"]
full = next(r for r in rounds if r.kind(0) == "bonus")
emitted = accept_greedy(full.draft.tokens[0].tolist(), None, full.target_logits[0], rng)
assert emitted == list(full.emitted[0]) and len(emitted) == full.drafted(0) + 1
verification_strip(full, words)

# %% [markdown]
# ### Try it: change a value and run the cell again
#
# Guess yourself how the story goes on, in words of the story. How many of your tokens does the
# target accept in one call?

# %% tags=["try-it"]
continuation = " sat on the mat. Pip the cow"
guesses = pair.tokenizer.encode(continuation)
with torch.inference_mode():
    answers = target(torch.tensor([[*prompt, *guesses]]))[0, -len(guesses) - 1 :]
emitted = accept_greedy(guesses, None, answers, None)
print(f"{len(emitted) - 1} of {len(guesses)} accepted; emitted:", *(words[id] for id in emitted))

# %% [markdown]
# ## What the correction is worth
#
# Is the correction needed? A loop can also keep the accepted guesses and nothing else. If none was
# accepted, it calls the target once more, for one token. Some programs do that. Count the target
# calls of such a loop, on another story.

# %% tags=["claim-C4", "misleads-no-bonus"]
settings = dict(warp=minispec.Warp(temperature=0), rng=rng)
story = pair.info["prompts"][0]
text, calls = list(story), 0
with torch.inference_mode():
    while len(text) < len(story) + 60:
        guesses = [x for (x,) in minispec.generate(draft, [text], max_new_tokens=5, **settings)]
        answers = target(torch.tensor([text + guesses]))[0, -6:].argmax(-1).tolist()
        kept = next((i for i in range(5) if guesses[i] != answers[i]), 5)
        text += guesses[:kept] or answers[:1]  # no correction, no bonus
        calls += 1 if kept else 2
new_tokens = len(text) - len(story)
print(f"{new_tokens} tokens in {calls} target calls: {new_tokens / calls:.2f} a call")

# %% [markdown]
# As many tokens with correction and bonus:

# %%
drafter = minispec.ModelDrafter(draft)
loop = dict(k=5, verifier=minispec.verify_greedy, max_new_tokens=new_tokens, **settings)
counts = minispec.record(target, drafter, [story], **loop).statistics()
print(f"{counts.emitted} tokens in {counts.target_calls} target calls", end=": ")
print(f"{counts.tokens_per_target_call:.2f} a call")
assert counts.target_calls < calls

# %% [markdown]
# ## The same text
#
# Every emitted token is the target's own choice, after a text of its own choices. So the
# whole text is what the target alone would have emitted. The draft model only decides how fast.
#
# That holds in exact arithmetic. Floating point adds in another order in a forward over six tokens
# than in a forward over one, so a near tie could go the other way.

# %% tags=["claim-A7", "claim-A6", "claim-C3"]
settings = dict(max_new_tokens=100, warp=greedy, rng=rng, eos=pair.tokenizer.end_of_text)
speculative = dict(k=5, verifier=minispec.verify_greedy, **settings)
run = minispec.record(target, minispec.ModelDrafter(draft), [story], **speculative)
alone = [step[0] for step in minispec.generate(target, [story], **settings)]
print(f"{len(alone)} tokens: target alone {len(alone)} calls, with the draft {len(run.rounds)}")
assert run.tokens() == alone

# %% [markdown]
# ## A sampled draft changes nothing
#
# Sometimes the draft is sampled, at temperature 1 for example, and checked by this rule all the
# same. Is the text then sampled too? Try three seeds.

# %% tags=["misleads-top-1-sampled"]
sampled_draft = minispec.ModelDrafter(draft, minispec.Warp(temperature=1.0))
same = []
for seed in (1, 2, 3):
    again = speculative | dict(rng=minispec.SeededRng(seed))
    other = minispec.record(target, sampled_draft, [story], **again)
    counts = other.statistics()
    same = [*same, other.tokens() == alone]
    print(f"seed {seed}: kept {counts.accepted} of {counts.tested} tested guesses", end=", ")
    print(f"{counts.target_calls} target calls, the same text: {same[-1]}")
assert all(same)

# %% [markdown]
# A rule that keeps only the target's most probable tokens emits the target's greedy text, whatever
# the temperature of the draft. It is not sampled text. For that, another rule is needed: notebook
# 6.

# %%
calls = run.statistics().tokens_per_target_call
wrote(accept_greedy, measured=f"{calls:.2f} tokens for each call of the target, on that story.")

# %% [markdown]
# ## Recap
#
# - A cache keeps what was computed. The last token of the text is pending: in no cache yet, and
#   read first in the next forward.
# - One target forward over the pending token and K guesses gives K + 1 distributions. The mask
#   makes each the same as in a step of its own.
# - The row of a token judges the token after it: the pending token's row judges the first guess,
#   the last row gives the bonus.
# - Keep guesses from left to right while they are the target's own choice. At the first difference
#   the target's choice is the correction. Nothing after it counts.
# - So a round emits what it accepts, plus one. And the text is the target's greedy text, whatever
#   was drafted.
#
# Next, notebook 6: the same for sampled text.
