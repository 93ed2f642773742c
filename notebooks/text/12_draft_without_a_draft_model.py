# %% [markdown]
# # 12. Draft without a draft model
#
# **You'll do**: write a look-up that finds what followed the same words before, leave the target
# after its second layer and go on from there later, and compare both with a draft model.
#
# **You'll learn**: where guesses can come from if there is no draft model, what each way adds to
# the target, and why all of them keep its distribution.
#
# **You'll need**: notebooks 6 to 8. (The page *The field* in the book places these methods.)
#
# **Time**: 30 minutes, and some five seconds of computing.

# %%
from math import ceil
from textwrap import fill

import torch

import minispec
from minispec.classroom import check, goal, hint, predict, wrote
from minispec.core.rng import RoundPlan, RoundRng
from minispec.io.heads import load_heads

pair = minispec.load_pair("stories")
target, tokenizer, prompts = pair.target, pair.tokenizer, pair.info["prompts"][:8]
prompt = tokenizer.encode(pair.walkthrough)
print(fill(pair.walkthrough, 84))


# %%
def settings(temperature):
    ends = dict(max_new_tokens=80, eos=tokenizer.end_of_text)
    return ends | dict(warp=minispec.Warp(temperature), rng=minispec.SeededRng(1))


def run_with(drafter, prompts, temperature, target=target):
    """A run of the package's loop with a drafter, K = 4."""
    rule = minispec.verify_rejection if temperature else minispec.verify_greedy
    return minispec.record(target, drafter, prompts, k=4, verifier=rule, **settings(temperature))


def round_rng(rows):  # what a drafter draws from in a round
    return RoundRng(minispec.SeededRng(0), RoundPlan.unlimited(rows, target.device))


words = [tokenizer.piece(token) for token in range(target.vocab_size)]
alone = [token for (token,) in minispec.generate(target, [prompt], **settings(0))]
print(fill("…" + tokenizer.decode(alone), 84))

# %% [markdown]
# This is what the target decodes alone at temperature 0. A drafter has to guess these words. Must
# it be a model?
#
# ## Look it up
#
# A text repeats itself: names, sentences, lines of code. So look for the last few tokens earlier in
# the text, and propose what followed them there.

# %% tags=["predict"]
look_up_yield = predict("look-up-yield", guess=None)
look_up_yield

# %% [markdown]
# And how many will it be at temperature 1, where the story repeats itself less? Note a number too,
# and then write the look-up. The loop below takes yours if it is right. If you are stuck:
# `hint("longest-match", 1)`, and then 2.

# %%
goal("longest-match")


# %% tags=["exercise"]
def longest_match(text, most):
    """Returns (n, end): the longest end of the text that also stands earlier in it.

    n: how many tokens it has, `most` at most; 0 if the last token never stood earlier.
    end: where it stood last before: so many tokens of the text come before what followed it
    there, which is text[end:]. If n is 0, end is 0 too.
    """
    ...


check("longest-match", longest_match)

# %% [markdown]
# Here is ours. It tries the longest match first, and of its places the latest.


# %% tags=["written", "nbval-check-output"]
def matched(text, most):
    """Returns the size of the longest end that stands earlier, and where it ended there last."""
    for n in range(min(most, len(text) - 1), 0, -1):
        for end in range(len(text) - 1, n - 1, -1):
            if text[end - n : end] == text[-n:]:
                return n, end
    return 0, 0


text = [*prompt, *alone[:17]]
n, end = matched(text, most=3)
print("the text ends in:        ", tokenizer.decode(text[-n:]))
print("there it was followed by:", tokenizer.decode(text[end : end + 4]))

# %% [markdown]
# The package asks little of a look-up: that it takes each token of a row's text, and proposes up to
# k more. (`what_followed` copies them. A copy that comes to the end of the text goes on with what
# it has copied.)

# %% tags=["written"]
from minispec.drafters.lookup import LookupDrafter, what_followed

look_up = longest_match if check("longest-match", longest_match).passed else matched


class Matches:
    def __init__(self):
        self.text = []

    def append(self, token):
        self.text.append(token)

    def propose(self, k):
        n, end = look_up(self.text, most=3)
        return what_followed(self.text, end, k) if n else []


drafter = LookupDrafter(target.vocab_size, Matches)
print("it looks up with", look_up.__name__)
assert look_up([1, 2, 3, 1, 2], most=3) == (2, 2)

# %% [markdown]
# The loop, the verifiers and the rollback are those that you know. There is no second cache.

# %% tags=["claim-D2"]
runs = {}
for temperature in (0, 1):
    runs[temperature] = run = run_with(drafter, [prompt], temperature)
    counts = run.statistics()
    print(fill(f"temperature {temperature}: …{tokenizer.decode(run.tokens())}", 84))
    print(f"{counts.emitted} tokens, {counts.target_calls} target calls:", end=" ")
    print(f"{counts.tokens_per_target_call:.2f} a call, kept {counts.accepted}/{counts.drafted}\n")
assert runs[0].tokens() == alone
look_up_yield.against(runs[0].statistics().tokens_per_target_call)

# %% tags=["hide-input", "claim-D2"]
from minispec.drafters.ngram import NgramDrafter

shipped = NgramDrafter(target.vocab_size, longest=3)
for temperature, written_run in runs.items():
    package_run = run_with(shipped, [prompt], temperature)
    drafts = [[r.draft.tokens.tolist() for r in run.rounds] for run in (written_run, package_run)]
    assert drafts[0] == drafts[1] and written_run.tokens() == package_run.tokens()

# %% [markdown]
# The same look-up on the same story. Where the text repeats itself, a call emits many tokens, and
# elsewhere few. The text is the target's in both cases.
#
# ## Why q is one-hot
#
# A look-up has no probabilities. But it has a distribution: what it proposes, it proposes with
# certainty. So q is 1 at that token x, and 0 elsewhere. The ratio p(x)/q(x) is then p(x) itself,
# and the residual is p without x. These are the first tests of the sampled run.

# %%
for r in [r for r in runs[1].rounds if r.drafted(0)][:4]:
    for i in range(r.tested(0)):
        x = int(r.draft.tokens[0, i])
        sign = "✓" if i < r.accepted(0) else "✗"
        p = float(r.target_probs[0, i, x])
        q = float(r.draft.probs[0, i, x])
        print(f"{sign}{words[x]!r}: q = {q:g}, p/q = {p / q:.3f};", end=" ")
    print(f"then {words[r.emitted[0][-1]]!r}")
lengths = [r.drafted(0) for r in runs[1].rounds]
print("drafted, round by round:", *lengths)
assert {0, 4} <= {*lengths}

# %% tags=["hide-input", "claim-D2"]
from minispec.core.verify import residual

for r in runs[1].rounds:
    for p, q in zip(r.target_probs[0].double(), r.draft.probs[0, : r.drafted(0)], strict=False):
        kept = torch.minimum(p, q)
        torch.testing.assert_close(kept + (1 - kept.sum()) * residual(p, q), p, rtol=0, atol=1e-5)
        assert q.max() == q.sum() == 1

# %% [markdown]
# A token of which the target is certain is always kept, and one with p(x) = 0.1 in a tenth of the
# cases. What is kept and what is corrected add up to p.
#
# In some rounds nothing was drafted: the last token had never stood in the text before. Then K = 0,
# and the round emits one token. In a batch that holds row by row. Here are two rows (a folded cell
# drafts for both):

# %% tags=["hide-input", "nbval-check-output"]
from minispec.core.prefill import prefill

rows = [prompt, tokenizer.encode("Once there were two")]
_, states = prefill(target, rows)
drafter.start(rows, states)
pending = torch.tensor([row[-1] for row in rows])
draft = drafter.propose(pending, 4, minispec.Warp(), round_rng(rows=2))
for row, tokens, length in zip(rows, draft.tokens.tolist(), draft.lengths.tolist(), strict=True):
    ends = tokenizer.decode(row[-2:])
    print(f"after '…{ends}' K = {length}:", tokenizer.decode(tokens[:length]))
assert draft.lengths.tolist() == [4, 0]

# %% [markdown]
# `draft.lengths` says how many tokens of each row are proposals. After them is padding, and no
# verifier looks at it.
#
# ## A longer match, a longer draft
#
# Why stop at three tokens? The longest match tells the most. A *suffix automaton* finds it without
# trying sizes and places: it knows all pieces of the text, in at most two entries a token, and
# grows with it. And a text is more likely to go on as before after a long match than after a short
# one. So let a long match draft more.

# %%
goal("draft-length")


# %% tags=["exercise"]
def draft_length(match, per_match, k, room):
    """Returns how many tokens to draft after a match of so many tokens, 0 if there is none.

    per_match: drafted tokens for each token of the match; the product is rounded up.
    k: never draft more.
    room: how many tokens the text may still get, at least 1. The target adds one in any case.
    """
    ...


check("draft-length", draft_length)

# %% [markdown]
# Here is the story where its sentences begin to repeat, with 1.5 drafted tokens for each token of
# the match, and K = 8.


# %% tags=["written"]
from minispec.show.plots.drafts import Found, draft_growth

story = [*prompt, *alone]


def found_after(i):
    """What is found after token i: the match, the draft, and how much of the draft comes next."""
    so_far = story[: i + 1]
    coming = story[i + 1 :]
    n, end = matched(so_far, most=i)
    k = min(8, ceil(1.5 * n))
    draft = what_followed(so_far, end, k) if n else []
    right = next((j for j in range(k) if coming[j : j + 1] != draft[j : j + 1]), k)
    return Found(words[story[i]], n, k, right)


draft_growth([found_after(i) for i in range(52, 67)], k=8)

# %% tags=["hide-input"]
from minispec.drafters.suffix import SuffixAutomaton

automaton = SuffixAutomaton()
for i, token in enumerate(story):
    automaton.append(token)
    assert (automaton.match, automaton.end if automaton.match else 0) == matched(story[: i + 1], i)

# %% [markdown]
# One matching word tells little: many words come after `the`. From the second sentence on, the
# match grows with each word, and the draft with it.
#
# ## Leave the target early
#
# The target itself can draft. Often its first layers know the next word already. So take a token
# through its first E layers only, then through an *exit* (a matrix and a norm, trained for this),
# and through the target's own head.

# %% tags=["predict"]
predict("exit-reads", guess=None)


# %% tags=["written"]
exit, _ = load_heads(pair, "exit")
E = exit.layers


def first_layers(tokens, cache):
    """Takes tokens [1, n] through the first E layers: what comes out, [1, n, D]."""
    view = target.view(tokens.shape[1], cache)  # positions, and the cache of these layers
    x = target.layers[:E](target.embed_tokens(tokens), view)
    cache.advance()
    return x


def other_layers(x, cache):
    """Goes on where those stopped: from [1, n, D] to the target's logits [1, n, V]."""
    view = target.view(x.shape[1], cache)
    x = target.layers[E:](x, view)
    cache.advance()
    return target.head(target.norm(x))


# %% [markdown]
# Each part has a cache, and both together are the target's: the keys and values of the first layers
# are those that verification needs too. What comes out of layer E is kept, and verification takes
# it up there. Here is one round with K = 3, at temperature 0. A hook counts the tokens that go
# through each layer.

# %% tags=["written", "claim-D2"]
reads = dict.fromkeys(target.layers, 0)
first, later = target.cache_of(E, rows=1), target.cache_of(len(reads) - E, rows=1)


def note(layer, given):
    reads[layer] += given[0].shape[1]  # given: x [1, n, D], a view, the layer's number


other_layers(first_layers(torch.tensor([prompt[:-1]]), first), later)  # prefill
hooks = [layer.register_forward_pre_hook(note) for layer in target.layers]
tokens, outs = [prompt[-1]], []
for _ in range(3):  # draft: E layers, the exit, the head
    outs.append(first_layers(torch.tensor([tokens[-1:]]), first))
    tokens.append(int(target.head(exit(outs[-1])).argmax()))
outs.append(first_layers(torch.tensor([tokens[-1:]]), first))  # verify: first the last guess …
logits = other_layers(torch.cat(outs, dim=1), later)  # … then all four in one forward, [1, K+1, V]
print("drafted by", E, "layers:", *(repr(words[token]) for token in tokens[1:]))
print("the target's own:   ", *(repr(words[token]) for token in logits[0].argmax(-1).tolist()))
print("tokens that went through each layer:", *reads.values())
assert {*reads.values()} == {4}

# %% tags=["hide-input", "claim-D2"]
from minispec.drafters.exit import EarlyExitGPT, ExitDrafter

for hook in hooks:
    hook.remove()
whole = target(torch.tensor([[*prompt, *tokens[1:]]]))[0, -4:]
torch.testing.assert_close(logits[0], whole, rtol=0, atol=1e-3)
leaving = EarlyExitGPT(target, exit)
run = run_with(ExitDrafter(leaving), [prompt], 0, target=leaving)
assert run.rounds[0].draft.tokens[0, :3].tolist() == tokens[1:] and run.tokens() == alone

# %% [markdown]
# Four tokens, and each layer has read each of them once. A separate draft model would have read
# three of them as well. After a rejection both parts of the cache are cut.
#
# ## Side by side
#
# Eight stories, K = 4. How many tokens does a target call emit, beside a draft model's?

# %% tags=["claim-D2"]
from minispec.drafters.registry import DRAFTERS
from minispec.native.backend import on_backend
from minispec.native.drafters import make_drafter

models = on_backend(pair, "torch")
gains, texts = {}, []
for name in ("model", "ngram", "suffix", "exit"):
    model, drafter = make_drafter(DRAFTERS[name], pair, models)
    runs = [run_with(drafter, prompts, t, target=model) for t in (0, 1)]
    gains[name] = [run.statistics().tokens_per_target_call for run in runs]
    print("{:8} T = 0: {:.2f}   T = 1: {:.2f} tokens a call".format(name, *gains[name]))
    texts.append([runs[0].tokens(row) for row in range(8)])
assert all(each == texts[0] for each in texts)

# %% [markdown]
# All decode the same texts at temperature 0. A look-up adds no weights, and helps where a text
# repeats itself: at temperature 1 stories hardly do. The exit reads what it drafts, as the draft
# model does, with layers that the target has anyway.
#
# Tokens a call are not speed. `minispec bench --section drafters` measures it, and notebook 16
# shows a result.

# %% [markdown]
# ### Try it: change a value and run the cell again
#
# Another opening, K or temperature, or a drafter of `DRAFTERS`.

# %% tags=["try-it"]
opening = "Once there were two friends."
name = "suffix"
k = 4
temperature = 0
model, drafter = make_drafter(DRAFTERS[name], pair, models, k)
rule = minispec.verify_rejection if temperature else minispec.verify_greedy
given = dict(k=k, verifier=rule, **settings(temperature))
run = minispec.record(model, drafter, [tokenizer.encode(opening)], **given)
print(fill(f"{opening} …{tokenizer.decode(run.tokens())}", 84))
print(f"{name}: {run.statistics().tokens_per_target_call:.2f} tokens a target call")

# %%
gain = gains["exit"][1]
result = f"{gain:.2f} tokens a target call with two of the target's own layers, at temperature 1."
wrote(matched, first_layers, other_layers, measured=result)

# %% [markdown]
# ## Recap
#
# - Anything may draft that reports the distribution it drew from. A look-up is certain: q is
#   one-hot, the ratio is p(x), and a row without a match drafts nothing.
# - After a longer match more of the draft is right, so it may be longer.
# - An early exit drafts with the target's first layers. Verification goes on where they stopped,
#   and no layer reads a token twice.
#
# Next, notebook 16, though its number is the last: drafts from what the target's *last* layer
# knows. Then notebook 13: several candidates for one position.
