# %% [markdown]
# # 16. Draft from features
#
# **You'll do**: let heads guess from one state, write the draft of a feature layer in ten lines,
# and find out what a drafter should read.
#
# **You'll learn**: what the target's last hidden state tells a drafter, what it cannot tell, and
# how an ablation is made fair.
#
# **You'll need**: notebook 12. (This one has the last number, and is read after 12, before 13.)
#
# **Time**: 40 minutes, and some ten seconds of computing.

# %%
from textwrap import fill

import torch

import minispec
from minispec.classroom import check, goal, hint, predict, wrote
from minispec.classroom.trials import enumerate_row
from minispec.core.basic import accept_rejection  # of notebook 6
from minispec.io.heads import load_heads

pair = minispec.load_pair("stories")
target, tokenizer, prompts = pair.target, pair.tokenizer, pair.info["prompts"][:8]
prompt = tokenizer.encode(pair.walkthrough)
words = [tokenizer.piece(token) for token in range(target.vocab_size)]
print(fill(pair.walkthrough, 84))


# %%
def settings(temperature):
    ends = dict(max_new_tokens=80, eos=tokenizer.end_of_text)
    return ends | dict(warp=minispec.Warp(temperature), rng=minispec.SeededRng(1))


def run_with(drafter, prompts, temperature, target=target):
    """A run of the package's loop with a drafter, K = 4."""
    rule = minispec.verify_rejection if temperature else minispec.verify_greedy
    return minispec.record(target, drafter, prompts, k=4, verifier=rule, **settings(temperature))


def likely(p, most=2):
    return " or ".join(f"{words[x]!r} {p[x]:.2f}" for x in p.topk(most).indices.tolist())


# %% [markdown]
# ## What a feature knows
#
# The target's last hidden state is called its *feature*. There is one after each token that the
# target has read, and its head makes p of it. So verification leaves a feature behind for every
# token that it accepts. All of the target's layers have made it, and for the draft it is free.

# %%
state = target.hidden(torch.tensor([prompt]))[:, -1]  # [1, D], the feature after "cat"
p = target.head(state)[0].softmax(-1)  # [V]
print(f"after {words[prompt[-1]]!r} the target emits {likely(p)}")
two = p.topk(2).indices.tolist()
after = target(torch.tensor([[*prompt, x] for x in two]))[:, -1].softmax(-1)  # [2, V]
for x, p_next in zip(two, after, strict=True):
    print(f"  and after {words[x]!r} {likely(p_next)}")
assert p[two].sum() > 0.95 and after.argmax(-1).unique().numel() == 2

# %% [markdown]
# The token that follows "cat" is drawn from p; then it is pending. The feature was there before: it
# knows p, and not which token was drawn. What comes after that depends on the token.
#
# ## Heads: several positions at once
#
# *Medusa* puts more heads on the last feature. The target's own head has given the pending token.
# From the same feature head 1 guesses the token after that one, head 2 the next, and so on. It
# takes no further forward. Here "cat" is pending, and the feature is that after "The".

# %% tags=["claim-D2"]
heads, _ = load_heads(pair, "medusa")
last = target.hidden(torch.tensor([prompt[:-1]]))[:, -1]  # [1, D], after "The"
for i, q in enumerate(heads(last)[0, :2].softmax(-1), start=1):  # [heads, V]
    print(f"head {i} guesses", likely(q))
assert {*heads(last)[0, 0].topk(2).indices.tolist()} == {*two}

# %% [markdown]
# After "sat" the target emits "on", and after "lost" it emits "the". So head 2 would have to know
# what head 1 has drawn. It does not: both have read "The", and no more. Suppose now that nothing
# else ever came, and that the heads were as good as heads can be.

# %% tags=["predict"]
predict("pairs-of-heads", guess=None)

# %% [markdown]
# So half of the drafts cannot be kept whole. Is the text still right? Go through every branch of a
# round, with the rule of notebook 6: both draws, each test, each correction.


# %% tags=["written"]
names = ["sat", "lost", "on", "the", "."]
first = torch.tensor([1, 1, 0, 0, 0]) / 2  # p after "The cat"
second = torch.eye(5)[[2, 3]]  # p after "sat": always "on"; after "lost": always "the"


def round_of(head_2):
    """Returns all that a round may emit, with probabilities; head_2(x) is q after the draft x."""

    def once(rng):
        x = rng.draw(first)
        q = head_2(x)
        p = torch.stack([first, second[x], torch.eye(5)[4]])
        return tuple(accept_rejection([x, rng.draw(q)], [first, q], p, rng))

    return enumerate_row(once)


# %% tags=["claim-D2", "nbval-check-output"]
heads_only = round_of(lambda x: second.mean(0))
reading = round_of(lambda x: second[x])
texts = {}
for name, branches in (("two heads", heads_only), ("a draft that reads x", reading)):
    print(name)
    for emitted, share in branches:
        print(f"  {share:.2f}  {' '.join(names[token] for token in emitted)}")
        texts[name, emitted[:2]] = texts.get((name, emitted[:2]), 0) + share
    print(f"  kept of 2: {sum(share * (len(emitted) - 1) for emitted, share in branches):.1f}")
assert sorted(texts.values()) == [0.5] * 4  # sat on, lost the: half of the time each, in both

# %% [markdown]
# The text is right, and less is kept. `on` was drawn from (1/2, 1/2), that is the q which was
# reported, and rejection asks for no more. (The paper on Medusa also proposes to keep what is
# *typical* of the target. That is faster, and the text has another distribution: `minispec zoo
# typical-acceptance`.)
#
# A round makes a feature for each token that the target reads. From which of them may the heads
# guess next?

# %%
goal("medusa-states")


# %% tags=["exercise"]
def medusa_states(k, accepted):
    """Returns (start, stale) after a round that accepted some of k drafted tokens.

    The target has read k + 1 tokens: number 0 is the pending one, 1 to k are the draft.
    State i is its hidden state after token i.
    start: the number of the state that the heads guess from in the next round.
    stale: a list of the numbers of all states that have read a rejected token.
    """
    ...


check("medusa-states", medusa_states)

# %% [markdown]
# ## A layer on the target's features
#
# Can a draft read what was drawn, and still know what the target knows? *EAGLE* has a layer or two
# of its own. For each token they read two things: the token, and the feature *before* it. What
# comes out is a guess of the next feature. The target's head makes q of it, and the next token is
# read with it. Here the draft takes the most probable token; else it draws one from q.


# %% tags=["written"]
def draft_from_feature(layer, pending, feature, k, cache):
    """Drafts k tokens after the pending one, from the feature before it, [1, 1, D]."""
    tokens = [pending]
    for _ in range(k):
        last = torch.tensor([tokens[-1:]])
        feature = layer(last, feature, target, cache)  # [1, 1, D], a guess of the next feature
        tokens.append(int(target.head(feature).argmax()))
    return tokens[1:]


# %% [markdown]
# Before the first draft the layer reads the prompt. Each token comes with the feature before it:
# features stand one place to the left of their tokens, and the first token has none.

# %% tags=["claim-D2"]
layer, _ = load_heads(pair, "eagle")
read = torch.tensor([prompt[:-1]])
features = target.hidden(read)  # [1, n, D], from prefill
before = torch.cat([torch.zeros_like(features[:, :1]), features[:, :-1]], dim=1)
cache = target.cache_of(len(layer.layers), rows=1)
layer(read, before, target, cache)
drafted = draft_from_feature(layer, prompt[-1], features[:, -1:], 4, cache)
print(tokenizer.decode(prompt[-2:]), "…", *(repr(words[token]) for token in drafted))
assert len(drafted) == 4 and cache.row_lengths == (len(prompt) + 3,)

# %% tags=["claim-D2"]
from minispec.drafters.eagle import FeatureDrafter

cold = run_with(FeatureDrafter(layer, target), [prompt], 0)
assert cold.rounds[0].draft.tokens[0].tolist() == drafted

# %% [markdown]
# Only the first feature was the target's; after it the layer has read its own guesses. What happens
# to these when verification has accepted some tokens? Watch a round at temperature 1 in which
# something is rejected. One hook keeps each feature that the target computes, the other notes what
# the layers read, and whether the feature is one of these.

# %% tags=["written", "claim-D2"]
true = []
calls = []
how = {True: "the target's feature", False: "its own guess"}


def watch(_, given):
    whose = [how[any(torch.equal(f, t) for t in true)] for f in given[1][0]]
    calls.append([f"{words[x]!r} with {of}" for x, of in zip(given[0][0], whose, strict=True)])


hooks = [target.norm.register_forward_hook(lambda _, given, out: true.extend(out[0].clone()))]
hooks.append(layer.register_forward_pre_hook(watch))
given = settings(1) | dict(k=4, verifier=minispec.verify_rejection)
rounds = minispec.speculate(target, FeatureDrafter(layer, target), [prompt], **given)
r = next(r for r in rounds if 0 < r.accepted(0) < r.drafted(0) == 4)
end = len(calls)
next(rounds)  # the next draft begins with what was kept
draft, again = calls[end - 4 : end], calls[end]
print("draft:", *sum(draft, []), sep="\n  reads ")
print(f"kept {r.accepted(0)}, and once more:", *again, sep="\n  reads ")

# %% tags=["hide-input", "claim-D2"]
for hook in hooks:
    hook.remove()
true_features = [how[True] in read for (read,) in draft]
assert true_features == [True, False, False, False]
assert len(again) == 1 + r.accepted(0) and all(how[True] in read for read in again)

# %% [markdown]
# After verification the true features are there. Before the next draft the layers read the
# accepted tokens once more, with these, and forget what they made of guesses. So each draft
# begins from what the target knows. (*MTP modules* of large models work in the same way.)
#
# ## Which input does the work?
#
# "sat" was drawn after "cat", and is pending. What should a drafter read to guess what comes after
# it? Four that are of one size may differ in that alone:
#
# | name | it reads |
# |---|---|
# | token | "sat" |
# | feature | the feature after "cat" |
# | both | "cat", and the feature after "cat" |
# | shifted | "sat", and the feature after "cat" |
#
# The last one is EAGLE's: the token stands one place ahead of the feature.

# %% tags=["predict"]
predict("what-to-read", guess=None)

# %% [markdown]
# To know what an input is worth, take it away *before* training: a layer that has learned to rely
# on an input is worse without it than one that never had it. So four layers were trained for the
# target of the pair `english`, of one size, on the same texts, with as many steps, from the same
# random weights, each with two seeds. Both inputs were scaled to one size, or the larger would
# drown the other. That takes minutes, so it was recorded: `python -m book features`, in the folder
# docs, does it again. A guess is looked at where all before it were kept. (Li et al. 2024, EAGLE,
# compare the same four.)

# %%
from minispec.evidence.bench.measurements import FOLDER
from minispec.io.files import read_json
from minispec.show.plots import charts
from minispec.show.plots.board import titled
from minispec.show.plots.style import aligned

ablation = read_json(FOLDER / "features-english.json")
trained = {}
for one in ablation["drafters"]:
    trained.setdefault(one["reads"], []).append(one)
inputs = ["token", "feature", "both", "shifted"]
kept = {name: [one["acceptance"] for one in trained[name]] for name in inputs}

# %% tags=["claim-D8"]
lines = [("reads", "seed", *(f"guess {i}" for i in range(1, 5)))]
for name in inputs:
    lines += [(name, str(s), *(f"{x:.3f}" for x in row)) for s, row in enumerate(kept[name])]
first_kept = {name: [row[0] for row in rows] for name, rows in kept.items()}
knows = first_kept["token"] + first_kept["shifted"]
lacks = first_kept["feature"] + first_kept["both"]
title = "Without the token that was drawn, a drafter guesses worse"
shares = sum(knows) / len(knows), sum(lacks) / len(lacks)
means = "{:.0%} with the drawn token, and {:.0%} without".format(*shares)
alt = f"Kept of first guesses: {means}. A line for each seed; {ablation['pair']}, temperature 1."
assert min(knows) > max(lacks)

# %%
figure, axes = charts.chart(12, 7, "guess of a draft", "share that is kept")
for (colour, style), marker, name in zip(charts.CURVES, "os^D", inputs, strict=False):
    for seed, row in enumerate(kept[name]):
        label = None if seed else name
        axes.plot(range(1, 5), row, style, marker=marker, color=colour, ms=11, lw=2, label=label)
axes.set_xticks(range(1, 5))
charts.keys(axes, 4)
titled("features", figure, title, alt, alt, aligned(lines))

# %% [markdown]
# *Feature* and *both* do not know the token that was drawn, and lose most. *Token* guesses equally
# well at all four positions, for it reads drawn tokens and nothing else. *Shifted* is best at the
# first guess. From the second on it reads its own guesses in place of features, and loses a little.

# %%
for name in inputs:
    rows = trained[name]
    per_call = [[one["tokens_per_target_call"][t] for one in rows] for t in ("0", "1")]
    shown = ["  ".join(f"{x:.2f}" for x in gains) for gains in per_call]
    print(f"{name:8} T = 0: {shown[0]}    T = 1: {shown[1]}   {rows[0]['parameters']:,} weights")
assert min(first_kept["shifted"]) > max(first_kept["token"])

# %% [markdown]
# So the token that was drawn does most of the work, and the feature adds to it. In the paper, too,
# *shifted* is best. This target is small: one layer can do much of what its six do. A table of
# drafters that differ in several things could have told neither.
#
# Why is the feature alone not enough? Without the token a drafter has one q, whichever token was
# drawn. At best training makes it the average of both p. How many guesses are kept then, after
# "cat"?

# %% tags=["claim-D2"]
weights = p[two] / p[two].sum()  # how often "sat" is pending, and how often "lost"
average = weights @ after  # [V]
without = float(weights @ torch.minimum(after, average).sum(-1))
print(f"guesses kept, one q for both: {without:.2f}; with the token q may be p, and all are kept")
assert without < 0.75

# %% [markdown]
# So *feature* and *both* lose, however long they are trained. *Token* need not. But its one layer
# has to do what all layers of the target have done for the feature.
#
# ## All positions in one forward: masks
#
# The feature layer takes a step for each token. *PARD* and *DFlash* read the pending token and
# K − 1 *masks*, a learned vector in the place of each token to come. One forward gives K states,
# and a token is drawn from each. Such tokens do not fit each other, as with heads. So *DSpark*
# corrects each state by the token just drawn, with two small matrices. The package's `parallel` has
# masks and this correction.

# %% tags=["claim-D2"]
from minispec.core.rng import RoundPlan, RoundRng
from minispec.drafters.parallel import ParallelDrafter

masked, _ = load_heads(pair, "parallel")
drafter = ParallelDrafter(masked, target)
widths = []
drafter.start([prompt], target.hidden(torch.tensor([prompt[:-1]])))
hook = masked.layers[0].register_forward_pre_hook(lambda _, given: widths.append(given[0].shape[1]))
rng = RoundRng(minispec.SeededRng(0), RoundPlan.unlimited(1, target.device))
draft = drafter.propose(torch.tensor(prompt[-1:]), 4, minispec.Warp(), rng)
hook.remove()
print(f"{draft.k} tokens drafted in {len(widths)} forward over {widths[0]} places")
assert widths == [4]

# %% [markdown]
# What is the correction worth? The record above has two such drafters too, trained alike but for
# that.

# %%
for name in ("masks", "masks, corrected"):
    gains = [one["tokens_per_target_call"]["1"] for one in trained[name]]
    print(f"{name:17}", *(f"{x:.2f}" for x in gains), "tokens a call (T = 1)")
assert min(gains) > max(one["tokens_per_target_call"]["1"] for one in trained["masks"])

# %% [markdown]
# ## All of them in one table
#
# Eight stories, K = 4. How many tokens does a target call emit? Which share of the tested tokens is
# kept at each position (at temperature 1)? What is added to the target?

# %% tags=["claim-D2"]
from minispec.drafters.registry import DRAFTERS
from minispec.native.backend import on_backend
from minispec.native.drafters import make_drafter

parts = {"model": pair.draft, "ngram": None, "suffix": None, "exit": load_heads(pair, "exit")[0]}
parts |= {"medusa": heads, "eagle": layer, "parallel": masked}
models = on_backend(pair, "torch")
table = {}
for name in parts:
    model, drafter = make_drafter(DRAFTERS[name], pair, models)
    table[name] = [run_with(drafter, prompts, t, target=model) for t in (0, 1)]
texts = [[cold.tokens(row) for row in range(8)] for cold, _ in table.values()]
assert all(each == texts[0] for each in texts)


# %%
from minispec.evidence.bench.measurements import drafters_table


def kept_at(run, i):
    accepted = [r.accepted(row) for r in run.rounds for row in range(8) if r.tested(row) > i]
    return sum(n > i for n in accepted) / max(len(accepted), 1)


print("          tokens a call    kept at position      weights")
print("          T = 0   T = 1    1    2    3    4      added")
for name, runs in table.items():
    gains = "   ".join(f"{run.statistics().tokens_per_target_call:5.2f}" for run in runs)
    shares = " ".join(f"{kept_at(runs[1], i):.2f}" for i in range(4))
    size = sum(weight.numel() for weight in parts[name].parameters()) if parts[name] else 0
    print(f"{name:8}  {gains}    {shares}  {size:9,}")
print("\nthe pair english, measured:", drafters_table("english", 0), sep="\n")

# %% [markdown]
# These differ in size, training and beginning too: the table shows what each drafter gains, and not
# why. For that there are the four above.
#
# Tokens a call are not speed. `minispec bench --section drafters` measured the last table, at T 0.
# The last column is the gain if only forward passes are counted. It is no bound.

# %% [markdown]
# ### Try it: change a value and run the cell again
#
# Another opening, K or temperature, or a drafter of `DRAFTERS`.

# %% tags=["try-it"]
opening = "Once there were two friends."
name = "eagle"
k = 4
temperature = 1
model, drafter = make_drafter(DRAFTERS[name], pair, models, k)
rule = minispec.verify_rejection if temperature else minispec.verify_greedy
given = dict(k=k, verifier=rule, **settings(temperature))
run = minispec.record(model, drafter, [tokenizer.encode(opening)], **given)
print(fill(f"{opening} …{tokenizer.decode(run.tokens())}", 84))
print(f"{name}: {run.statistics().tokens_per_target_call:.2f} tokens a target call")

# %%
gain = table["eagle"][1].statistics().tokens_per_target_call
result = f"{gain:.2f} tokens a target call with a layer on the target's features, at temperature 1."
wrote(round_of, draft_from_feature, measured=result)

# %% [markdown]
# ## Recap
#
# - A feature knows the distribution of the next token, and not which token was drawn.
# - Heads on one feature guess several positions at once. None knows what the others have drawn:
#   less is kept, and nothing is lost.
# - A feature layer reads the token that was drawn beside the feature before it, and its own guesses
#   further on. After verification true features take the place of guessed ones.
# - To know what an input is worth, train without it: same size, texts and steps, several seeds. The
#   token that was drawn is worth much. What the feature adds to it depends on target and texts.
# - A parallel drafter reads masks, and guesses all positions in one forward. A correction tells
#   each position what was drawn before it.
#
# Next, notebook 13: several candidates for one position.
