# %% [markdown]
# # 5. Verify greedily
#
# **You'll do**: check a draft in one pass of the target, change one of its tokens and see which
# rows that changes, write the greedy verifier, and compare it with a well-known recipe that gets it
# wrong.
#
# **You'll learn**: why one pass is enough, which row judges which token, and where the correction
# and the bonus come from.
#
# **You'll need**: notebooks 2 and 4: the cache, the pending token, a draft.
#
# **Time**: 35 minutes, and a few seconds of computing.

# %%
from copy import deepcopy

import torch

import minispec
from minispec.classroom import check, goal, hint, predict
from minispec.io.walkthrough import load_walkthrough

pair = minispec.load_pair("stories")
target, draft = pair.target, pair.draft
prompt = pair.tokenizer.encode(pair.walkthrough)
words = [pair.tokenizer.piece(token) for token in range(target.vocab_size)]
rounds = load_walkthrough("greedy").trace.rounds  # a recorded run, with K = 5
pending, drafted = int(rounds[0].pending[0]), rounds[0].draft.tokens[0].tolist()
print(f"{pair.walkthrough}\n\nThe draft goes on: {''.join(words[token] for token in drafted)}")

# %% [markdown]
# ## Six steps, or one pass
#
# The story has two friends, and the draft has guessed five tokens. Which of them would the target
# have written too? Temperature is 0: the target writes its most probable token, always.
#
# The slow way to find out: let the target read the pending token, look at what it says next, let it
# read the first guess, look again, and so on. That is six target calls. The fast way: hand it all
# six tokens at once.

# %% tags=["claim-A3", "claim-D1"]
from minispec.core.prefill import prefill

block = [pending, *drafted]  # K + 1 tokens
cache = prefill(target, [prompt])
with torch.inference_mode():
    serial = [target(torch.tensor([[token]]), cache)[0, -1] for token in block]  # K + 1 times [V]
    cache.truncate([len(prompt) - 1])  # remove them again
    one_pass = target(torch.tensor([block]), cache)[0]  # [K + 1, V]
torch.testing.assert_close(one_pass, torch.stack(serial), rtol=0, atol=1e-3)
print(f"{len(serial)} target calls and 1 target call give the same {len(one_pass)} distributions")
print(f"largest difference of a logit: {(one_pass - torch.stack(serial)).abs().max():.0e}")

# %% [markdown]
# ## Why: the mask
#
# How can the target judge the third guess before it has accepted the second? Because each token
# looks back only. In attention, a *mask* hides whatever comes later. The row of a token is computed
# as if the text ended there. So all rows can be computed side by side.
#
# Each row is one of the six tokens, each column a token that it may look at.

# %% tags=["claim-A3"]
from minispec.show.plots.mask import attention_mask

attention_mask(len(prompt) - 1, len(drafted), [words[token] for token in block])

# %% [markdown]
# ## Exercise: the mask
#
# `goal` shows what is wanted. Replace the `...` with your answer and run the cell: `check` looks at
# it. A wrong answer stops nothing, the rest still runs. If you are stuck, ask for a hint in a cell
# of your own: `hint("shift-the-mask", 1)`, and then 2.

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
# A model that has read a token says what comes *next*. So the row of the pending token judges the
# first guess, the row of the first guess judges the second, and so on. The row of the last guess
# judges nothing that was drafted: it is there for a bonus.


# %% tags=["claim-A3", "nbval-check-output"]
def most_probable(text, model=target):
    """Returns a model's most probable next token after each position of a text, in one call."""
    with torch.inference_mode():
        return model(torch.tensor([text]))[0].argmax(-1).tolist()  # [n]


best = one_pass.argmax(-1).tolist()  # [K + 1]
for row, judged in enumerate([*(repr(words[token]) for token in drafted), "nothing"]):
    read, says = repr(words[block[row]]), repr(words[best[row]])
    print(f"row {row} has read {read:8} and says {says:8}: judges {judged}")
assert best == most_probable([*prompt, *drafted])[-len(best) :]  # the same, without any cache

# %% [markdown]
# If that is so, then a drafted token has no influence on the rows before it. Predict what happens
# if one is replaced.

# %% tags=["predict"]
predict("change-one-token", guess=None)

# %% tags=["claim-A3"]
block_with_another = [*block[:3], (block[3] + 1) % target.vocab_size, *block[4:]]
with torch.inference_mode():
    cache.truncate([len(prompt) - 1])
    other_pass = target(torch.tensor([block_with_another]), cache)[0]
moved = (other_pass - one_pass).abs().amax(-1)  # [K + 1]
for row, change in enumerate(moved.tolist()):
    print(f"row {row}: its logits change by up to {change:.4f}")
assert moved[:3].max() < 1e-3 < moved[3:].min()

# %% [markdown]
# Row 2 judges the third guess, and has not seen it. Only the rows that look back at it have
# changed.
#
# ## The rule: left to right
#
# Scoring was parallel. Accepting is not. Why should the order matter, if all distributions are
# known?

# %% tags=["predict"]
predict(
    "keep-after-rejection",
    {
        "a": "four tokens: all but the fourth",
        "b": "three tokens",
        "c": "three tokens, and the target's own fourth",
    },
    guess=None,
)

# %% [markdown]
# Go from left to right and keep a guess as long as it is the target's own choice. At the first
# difference, stop. What the target says there is the *correction*. The pass that rejected the guess
# has computed it already.

# %% tags=["claim-A4", "claim-B3", "misleads-correction-emitted", "misleads-second-pass"]
from minispec.show.plots.verification import verification_strip

greedy, rng = minispec.Warp(temperature=0), minispec.SeededRng(0)
verdict = minispec.verify_greedy(rounds[0].draft, greedy(one_pass)[None], rng)
accepted, token = int(verdict.accepted[0]), int(verdict.token[0])
assert token == best[accepted] != drafted[accepted]  # out of the same pass
gained = [*drafted[:accepted], token]
print(f"{accepted} accepted and 1 correction: {len(gained)} tokens out of 1 target call")
later = sum(a == b for a, b in zip(drafted[accepted + 1 :], best[accepted + 1 : -1], strict=True))
print(f"later guesses that agree as well, and do not count: {later}")
assert gained == list(rounds[0].emitted[0])
verification_strip(rounds[0], words)

# %% [markdown]
# So the pass yields one token more than it accepts. Dropping the correction, and letting the target
# compute it again, wastes a token.
#
# What about the guesses after the rejected one? The distributions there belong to a text that
# contains the rejected token, and there is no such text. Plant the bug that counts those agreements
# too, and ask `check_verifier` whether it does harm.

# %% tags=["misleads-left-to-right", "nbval-check-output"]
from minispec.evidence.checker.instances import greedy_instances
from minispec.evidence.zoo.mutants import mutant_named
from minispec.evidence.zoo.mutation import planted

with planted(mutant_named("greedy-counts-all-matches")):
    report = minispec.check_verifier(minispec.verify_greedy, instances=greedy_instances())
print("all agreements counted:", report.reason)
assert not report.passed
assert minispec.check_verifier(minispec.verify_greedy, instances=greedy_instances()).passed

# %% [markdown]
# The counterexample has a vocabulary of two tokens, 0 and 1. The draft says 0 0. The target wants 1
# first and 0 second. There is one agreement, at the second position. So the bug keeps one token:
# the first, the wrong one.
#
# Now count.

# %% tags=["predict"]
predict("tokens-of-a-round", guess=None)

# %% [markdown]
# ## The bonus
#
# If all K guesses are kept, nothing is to be corrected. But the last row has computed what comes
# after them all. That token is the *bonus*. It too comes out of the same pass.

# %% tags=["claim-B3", "misleads-second-pass"]
full = next(r for r in rounds if r.kind(0) == "bonus")
assert full.accepted(0) == full.drafted(0) and len(full.emitted[0]) == full.drafted(0) + 1
assert full.emitted[0][-1] == int(full.target_logits[0, -1].argmax())  # the last row's choice
verification_strip(full, words)

# %% [markdown]
# ## Exercise: the greedy verifier
#
# Correction and bonus can be the same line of code. Write it.

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
# ## The same text
#
# Every token that comes out is the target's own choice, after a text of its own choices. So the
# whole text is what the target alone would have written. The draft only decides how fast.
#
# That holds in exact arithmetic. Floating point adds in another order in a pass over six tokens
# than in a pass over one, so a near tie can go the other way. With 64 bits the difference all but
# vanishes.

# %% tags=["claim-A7", "claim-A6", "claim-C3"]
settings = dict(max_new_tokens=100, warp=greedy, rng=rng, eos=pair.tokenizer.end_of_text)
speculative = dict(k=5, verifier=minispec.verify_greedy, **settings)
run = minispec.record(target, minispec.ModelDrafter(draft), [prompt], **speculative)
text = [step[0] for step in minispec.generate(target, [prompt], **settings)]
assert run.tokens() == text
print(f"{len(text)} tokens: target alone {len(text)} calls, with the draft {len(run.rounds)}")
with torch.inference_mode():
    exact, whole = deepcopy(target).double(), torch.tensor([[*prompt, *drafted]])
    wide = exact(torch.tensor([block]), prefill(exact, [prompt]))[0]
    apart = (wide - exact(whole)[0, -len(block) :]).abs().max()
print(f"in 64 bits, with a cache and without: {apart:.0e} apart")
assert apart < 1e-9

# %% [markdown]
# ## A sampled draft changes nothing
#
# Sometimes the draft is sampled, at temperature 1 say, and checked by this rule all the same. Is
# the text then sampled too? Try three seeds.

# %% tags=["misleads-top-1-sampled"]
sampled_draft = minispec.ModelDrafter(draft, minispec.Warp(temperature=1.0))
for seed in (1, 2, 3):
    speculative["rng"] = minispec.SeededRng(seed)
    run = minispec.record(target, sampled_draft, [prompt], **speculative)
    counts = run.statistics()
    print(f"seed {seed}: kept {counts.accepted} of {counts.tested} tested guesses", end=", ")
    print(f"{counts.target_calls} target calls, the same text: {run.tokens() == text}")
    assert run.tokens() == text

# %% [markdown]
# A rule that keeps only the target's most probable tokens writes the target's greedy text, whatever
# the temperature of the draft. It is not sampled text. For that, another rule is needed: notebook
# 6.
#
# ## A recipe that circulates
#
# Short introductions give a recipe like this one. It takes `logits[i]` for the i-th guess. It hands
# over the draft without its last token. If nothing was accepted, it calls the target again. Where
# does it lose?


# %%
def recipe(text, k, most, offset, target=target, draft=draft):
    made, calls = list(text), 0
    while len(made) < len(text) + most:
        steps = minispec.generate(draft, [made], max_new_tokens=k, warp=greedy, rng=rng)
        drafted = [step[0] for step in steps]
        best = most_probable(made + drafted[:-1], target)
        first = len(made) - 1 if offset else 0
        agreed = next((i for i in range(k) if drafted[i] != best[first + i]), k)
        calls += 1 if agreed else 2
        made += drafted[:agreed] or most_probable(made, target)[-1:]
    return made[len(text) :], calls


# %% tags=["claim-C4", "misleads-no-bonus", "misleads-second-pass"]
wanted = dict(k=4, verifier=minispec.verify_greedy, max_new_tokens=20, warp=greedy, rng=rng)
loop = minispec.record(target, minispec.ModelDrafter(draft), [prompt], **wanted)
made = {"as written": recipe(prompt, 4, 20, False), "with the offset": recipe(prompt, 4, 20, True)}
made["minispec"] = loop.tokens(), len(loop.rounds)
for name, (tokens, calls) in made.items():
    print(f"{name:15}: asked for 20, made {len(tokens)} tokens in {calls} target calls")
assert made["as written"][1] > made["with the offset"][1] > made["minispec"][1]
assert made["minispec"][0] == text[:20] == made["with the offset"][0][:20]
late, _ = recipe([*prompt, *text[:-2]], 4, 1, True)  # two tokens before the end of the story
print("asked for 1, near the end:", " ".join(repr(words[token]) for token in late))
assert len(late) > 1 and pair.tokenizer.end_of_text in late[:-1]

# %% [markdown]
# With the offset the text is right, and calls are wasted. A rejection ends a round without its
# correction, which costs two more calls. With `[:-1]` there is no row for a bonus. The last block
# exceeds the limit, and continues after the end of the story.
#
# As written, `logits[0]` says what follows the *first* token of the text. Mostly no guess agrees,
# and the second call gives the right token. But if one happens to agree, it is kept, right or
# wrong.
#
# Two models with a vocabulary of three tokens: the target says b after a, c after b, a after c. The
# draft says b after b, else the same. The text so far is a b.

# %% tags=["misleads-offset", "nbval-check-output"]
from minispec.evidence.proof.models import TableModel


def follow(*following):
    """Returns a model in which one token follows each of a, b and c."""
    return TableModel(torch.nn.functional.one_hot(torch.tensor(following), 3).repeat(4, 1))


tiny = follow(1, 2, 0), follow(1, 1, 0)  # target and draft
for name, offset in (("as written", False), ("with the offset", True)):
    made, _ = recipe([0, 1], 2, 6, offset, *tiny)
    print(f"{name:15}: a b …", *("abc"[token] for token in made[:6]))
    assert (made[:6] == [2, 0, 1, 2, 0, 1]) == offset

# %% [markdown]
# ## Recap
#
# - One target pass over the pending token and K guesses gives K + 1 distributions. The mask makes
#   each the same as in a serial step.
# - The row of a token judges the token after it: the pending token's row judges the first guess,
#   the last row gives the bonus.
# - Keep guesses from left to right while they are the target's own choice. At the first difference
#   the target's choice is the correction. Nothing after it counts.
# - So a round gains what it accepts, plus one. And the text is the target's greedy text, whatever
#   the draft says.
#
# Next, notebook 6: the same for sampled text.
