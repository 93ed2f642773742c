# %% [markdown]
# # 4. Draft K tokens, and remember q
#
# **You'll do**: let the small model guess ahead, look at the distribution of every guess, and write
# the drafting loop.
#
# **You'll learn**: why a draft is made token by token, what it costs, and why each guess must come
# with the distribution that it was drawn from.
#
# **You'll need**: notebooks 1 to 3.
#
# **Time**: 30 minutes, and a few seconds of computing.

# %%
from fractions import Fraction

import torch

import minispec
from minispec.classroom import check, goal, hint, predict, wrote
from minispec.core.basic import catch_up, read  # you wrote them in notebook 2

pair = minispec.load_pair("stories")
target = pair.target
draft_model = pair.draft
prompt = pair.tokenizer.encode(pair.walkthrough)
words = [pair.tokenizer.piece(token) for token in range(target.vocab_size)]
print(pair.walkthrough)

# %% [markdown]
# ## Guess ahead
#
# The draft model continues the story by K tokens. It is a language model like any other, only
# small.

# %% tags=["predict"]
draft_forwards = predict("draft-forwards", guess=None)
draft_forwards

# %% [markdown]
# Guess two tokens by hand. The draft model has a cache of its own, with all of the prompt but its
# last token, which is pending. q is the distribution that a guess is drawn from.

# %% tags=["written", "claim-A2", "nbval-check-output"]
warp = minispec.Warp(temperature=1)
rng = minispec.SeededRng(3)
cache = draft_model.new_cache(rows=1)
catch_up(draft_model, cache, prompt)  # prefill
print("tokens in its cache:", int(cache.lengths))
q1 = warp(read(draft_model, cache, prompt[-1:]))[0]  # [V]: one forward, of the pending token
first = int(rng.categorical(q1[None]))
q2 = warp(read(draft_model, cache, [first]))[0]  # [V]: a second forward, of the first guess
second = int(rng.categorical(q2[None]))
for token, q in ((first, q1), (second, q2)):
    print(f"guessed {words[token]!r}, which had q = {q[token]:.2f}")
print("tokens in its cache:", int(cache.lengths))
assert int(cache.lengths) == len(prompt) + 1  # the pending token and the first guess were read

# %% [markdown]
# One forward a guess. Nothing has read the last guess yet.
#
# Some introductions claim that a draft is made "in one shot". A model that guesses token by token
# cannot do that. Take another first guess, and see how the second changes:

# %% tags=["misleads-one-shot"]
likely = draft_model(torch.tensor([prompt]))[0, -1].topk(2).indices.tolist()  # its two best guesses
following = draft_model(torch.tensor([[*prompt, token] for token in likely]))[:, -1].softmax(-1)
for token, probs in zip(likely, following, strict=True):
    print(f"after {words[token]!r}: {words[int(probs.argmax())]!r} with {probs.max():.1%}")
assert not torch.allclose(following[0], following[1], atol=0.1)

# %% [markdown]
# (*Parallel drafters* do guess all K tokens at once. Models trained for it, such as PARD and
# DFlash, take one forward pass for a draft and not K steps. Medusa's extra heads run inside the
# target's own forward pass, so a draft takes no extra forward pass at all. Notebook 11 names them.)
#
# ## Write it
#
# Now for any K. `goal` shows what is wanted. Replace the `...` with your answer and run the cell;
# `hint("draft-one-row", 1)` in a cell of your own helps. `check` tries every outcome of every draw.

# %%
goal("draft-one-row")


# %% tags=["exercise"]
def draft_one_row(model, cache, pending, k, warp, rng):
    """Returns (tokens, dists): k drafted ids, and the k distributions [V] they were drawn from.

    The cache holds all of the text but its last id, `pending`.
    model(torch.tensor([[id]]), cache) reads one id and gives logits [1, 1, V].
    warp(logits) turns logits into distributions of the same shape.
    rng.draw(distribution [V]) draws an id.
    """
    ...


check("draft-one-row", draft_one_row)

# %% [markdown]
# Here are our lines. `rng.categorical` is the package's `draw`: it takes a row for each text of a
# batch, so a single distribution gets one more dimension.


# %% tags=["written", "basic"]
def draft(model, cache, pending, k, warp, rng):
    """Draws k tokens one by one; returns them and the distribution that each was drawn from."""
    tokens, dists = [pending], []
    for _ in range(k):
        dists.append(warp(read(model, cache, tokens[-1:]))[0])
        tokens.append(int(rng.categorical(dists[-1][None])))
    return tokens[1:], dists


# %% [markdown]
# The package's drafter is `ModelDrafter`. `start` is prefill (it is also given the target's hidden
# states of the prompt, which some drafters use); `propose` guesses, for many texts at once.
# `RoundRng` binds the random numbers to a round's plan: which prompts, which positions, how many
# tokens. From the same seed it gives the same tokens and the same distributions.

# %% tags=["claim-A2", "misleads-one-shot", "nbval-check-output"]
from minispec.core.rng import RoundPlan, RoundRng

cache = draft_model.new_cache(rows=1)
catch_up(draft_model, cache, prompt)
tokens, dists = draft(draft_model, cache, prompt[-1], 4, warp, minispec.SeededRng(3))

drafter = minispec.ModelDrafter(draft_model)
drafter.start([prompt], target.hidden(torch.tensor([prompt[:-1]])))
round_rng = RoundRng(minispec.SeededRng(3), RoundPlan.unlimited(rows=1, device=target.device))
package_draft = drafter.propose(torch.tensor(prompt[-1:]), k=4, warp=warp, rng=round_rng)
print("drafted:", *(repr(words[token]) for token in tokens))
print("tokens in the two caches:", *cache.row_lengths, *drafter.cache_lengths)
same_q = torch.equal(torch.stack(dists), package_draft.probs[0])
assert tokens == package_draft.tokens[0].tolist() and same_q

# %% tags=["hide-input", "claim-A2"]
calls = []
hook = draft_model.embed_tokens.register_forward_pre_hook(lambda *given: calls.append(given))
drafter.propose(torch.tensor(prompt[-1:]), k=4, warp=warp, rng=round_rng)
hook.remove()
assert len(calls) == 4 and tokens[:2] == [first, second] and torch.equal(dists[1], q2)

# %% [markdown]
# ### Try it: change a value and run the cell again
#
# Another K, temperature or seed. At temperature 0.2 nearly all q are 1, at 3 they are small. Where
# is the draft model unsure at temperature 1?

# %% tags=["try-it"]
K = 6
temperature = 1.0
seed = 3
memory = draft_model.new_cache(rows=1)
catch_up(draft_model, memory, prompt)
sampling = minispec.Warp(temperature), minispec.SeededRng(seed)
guesses, q_of_each = draft(draft_model, memory, prompt[-1], K, *sampling)
for token, q in zip(guesses, q_of_each, strict=True):
    print(f"{words[token]!r:10} drawn with q = {q[token]:.3f}")

# %% [markdown]
# ## What is handed over
#
# A drafter hands over a `Draft`: the tokens, and for each of them its q. In the figure, ◀ marks
# what was drawn. It need not be the most probable token. (The target decodes greedily here. The
# drafter may draw all the same.)

# %% tags=["claim-A2"]
from minispec.show.plots.drafts import draft_bars

greedy = dict(verifier=minispec.verify_greedy, warp=minispec.Warp(temperature=0))
settings = dict(k=4, max_new_tokens=12, rng=minispec.SeededRng(3), **greedy)
run = minispec.record(target, minispec.ModelDrafter(draft_model, warp), [prompt], **settings)
assert run.rounds[0].draft.tokens[0].tolist() == tokens
draft_bars(run.rounds[0], words)

# %% [markdown]
# Its cache has grown on the way. It holds the guesses as if they were text. If a guess is rejected,
# it has to be removed again; that is notebook 7.

# %% tags=["claim-A2", "claim-C1"]
from minispec.show.plots.caches import cache_grid

lengths = run.rounds[0].draft_cache
assert lengths.verified[0] - lengths.before[0] == len(tokens)  # nothing else has changed it
cache_grid(run, words, 0, ["before", "drafted"])

# %% [markdown]
# ## Greedy or sampled
#
# A drafter may warp its distributions in any way: flatter, sharper, or with all mass on the most
# probable token. Which is best for a target at temperature 1? α is the mean of Σ min(p, q), as in
# notebook 3. There it was measured over 60 stories, here over the tokens of this one prompt.

# %% tags=["claim-C2"]
p = warp(target(torch.tensor([prompt])))[0]  # [n, V]
logits = draft_model(torch.tensor([prompt]))[0]  # [n, V]
alpha = {}
for temperature in (0, 0.5, 1, 2, 4):
    q = minispec.Warp(temperature)(logits)  # [n, V]
    alpha[temperature] = float(torch.minimum(p, q).sum(-1).mean())
    print(f"draft at temperature {temperature:3}: α = {alpha[temperature]:.2f}")
assert alpha[1] == max(alpha.values())

# %% [markdown]
# The closer q is to p, the better, so the draft should be warped like the target. That is what
# `ModelDrafter` does unless it is told otherwise.
#
# ## How many?
#
# The longer the draft, the fewer forwards of the target, and the more guesses are wasted. Another
# story of the pair shows it.

# %% tags=["claim-C2", "claim-C5", "claim-E3"]
settings = dict(max_new_tokens=64, rng=rng, **greedy)
target_calls = []
wasted = []
story = pair.info["prompts"][0]
for k in (1, 2, 4, 8, 16):
    run = minispec.record(target, minispec.ModelDrafter(draft_model), [story], k=k, **settings)
    counts = run.statistics()
    target_calls.append(counts.target_calls)
    wasted.append(counts.drafted - counts.accepted)
    print(f"K = {k:2}: {target_calls[-1]:2} forwards of the target, {wasted[-1]:3} wasted guesses")
assert target_calls[-1] < target_calls[0] and wasted[-1] > wasted[0]

# %% [markdown]
# Do wasted guesses matter? It is often said that drafting takes negligible time. Measure it.

# %% tags=["misleads-negligible-draft"]
run = minispec.record(target, minispec.ModelDrafter(draft_model), [prompt], k=8, **settings)
seconds = run.statistics().seconds
share = seconds["draft"] / (seconds["draft"] + seconds["verify"])
print(f"drafting {1e3 * seconds['draft']:.1f} ms, verifying {1e3 * seconds['verify']:.1f} ms")
print(f"the draft takes {share:.0%} of both")

# %% [markdown]
# A tenth would be too much to ignore. K steps of the draft come before each forward of the target,
# and no two of them run at once. Call c the time of a draft step, counted in steps of the target.
# Then each round pays K · c on top of its forward. Notebook 10 looks for the best K.
#
# ## Why q is remembered

# %% tags=["predict"]
predict("why-remember-q", guess=None)

# %% [markdown]
# Three tokens, a, b and c. The target's distribution is p = (3, 2, 1)/6. The draft's softmax is (1,
# 1, 4)/6, and its drafter always takes c. Notebook 6 derives the rule; in short: keep a token with
# probability min(1, p/q), and after a rejection draw from what p has more than q. What comes out
# can be computed by hand, in fractions.


# %% tags=["written", "nbval-check-output"]
def first_token_by_hand(p, q, drawn_from):
    """Returns how probable each token is to come out, and the drafted one to be kept."""
    kept = [d * min(1, x / y) if d else 0 for d, x, y in zip(drawn_from, p, q, strict=True)]
    more = [max(x - y, 0) for x, y in zip(p, q, strict=True)]  # what p has more than q
    rejected = 1 - sum(kept)
    return [k + rejected * x / (sum(more) or 1) for k, x in zip(kept, more, strict=True)], sum(kept)


p, softmax, certain = ([Fraction(n, 6) for n in six] for six in ((3, 2, 1), (1, 1, 4), (0, 0, 6)))
for name, q in (("one-hot", certain), ("softmax", softmax)):
    comes_out, accepted = first_token_by_hand(p, q, drawn_from=certain)
    print(f"q = {name}: gives ({', '.join(str(12 * x) for x in comes_out)})/12, keeps {accepted}")

# %% [markdown]
# p is (6, 4, 2)/12. With the softmax for q, c is emitted too often, and no error is raised. The
# verifier even accepts more, so it looks better. A well-known library has shipped this bug.
#
# `first_token` enumerates every branch of the package's verifier, and finds the same. Green is what
# was kept, and the bars should end at the blue lines.

# %% tags=["claim-D1"]
from minispec.evidence.proof.first_token import first_token
from minispec.show.plots.distributions import rule_distribution

by_hand, _ = first_token_by_hand(p, q=softmax, drawn_from=certain)
numbers = {"p": p, "q": softmax, "drawn_from": certain}
numbers = {name: [float(x) for x in of] for name, of in numbers.items()}
wrong = first_token(minispec.verify_rejection, **numbers)
assert max(abs(x - y) for x, y in zip(wrong.distribution, by_hand, strict=True)) < 1e-9
rule_distribution(wrong, numbers["p"], "abc", q=numbers["drawn_from"])

# %% tags=["hide-input"]
honest = first_token(minispec.verify_rejection, **{**numbers, "q": numbers["drawn_from"]})
assert max(abs(x - y) for x, y in zip(honest.distribution, p, strict=True)) < 1e-9
assert wrong.acceptance > honest.acceptance

# %% [markdown]
# So q is not the model's softmax. It is the distribution that the token was *really* drawn from,
# after temperature, top-k and top-p. A drafter must note it when it draws, because it cannot be
# recovered later.
#
# ## And if the draft is bad?

# %% tags=["predict"]
predict("bad-draft", guess=None)

# %% [markdown]
# Here is a draft that knows nothing: the same model before any training. Let it guess for the
# target, greedily, and compare the texts.

# %% tags=["claim-B3"]
from minispec.train.initialise import draw_weights

torch.manual_seed(0)
untrained = draw_weights(minispec.GPT(draft_model.config)).eval()
settings = dict(k=4, rng=rng, max_new_tokens=40, **greedy)
texts = {}
for name, model in (("trained", draft_model), ("untrained", untrained)):
    run = minispec.record(target, minispec.ModelDrafter(model), [prompt], **settings)
    texts[name], counts = run.tokens(), run.statistics()
    accepted = f"{counts.accepted} of {counts.tested} accepted"
    print(f"{name:9} {counts.target_calls:2} forwards, {accepted}")
print("\nboth:", pair.tokenizer.decode(texts["untrained"]))
assert texts["trained"] == texts["untrained"]

# %% [markdown]
# And sampled? Let the draft guess a, b and c with equal probabilities, or nearly always c.

# %% tags=["claim-D1", "nbval-check-output"]
outcomes = []
for name, parts in (("like p", (3, 2, 1)), ("at random", (1, 1, 1)), ("nearly all c", (1, 1, 98))):
    q = [Fraction(n, sum(parts)) for n in parts]
    comes_out, accepted = first_token_by_hand(p, q, drawn_from=q)
    outcomes.append(comes_out)
    twelfths = ", ".join(str(12 * x) for x in comes_out)
    print(f"draft {name:12} is accepted with {float(accepted):.3f}, gives ({twelfths})/12")
assert outcomes == [p, p, p]

# %% [markdown]
# ## A second step: rows
#
# If you have time: the same loop for a batch. Every tensor gets a first dimension of B rows.

# %%
goal("remember-q")


# %% tags=["exercise"]
def draft_tokens(model, cache, pending, k, warp, rng):
    """Returns a Draft of k tokens a row, and the distribution that each was drawn from.

    The cache holds all of the text but the pending tokens [B].
    model(ids [B, 1], cache) reads one token a row and gives logits [B, 1, V];
    warp(logits) is a distribution; rng.categorical(probs [B, V]) draws one id a row.
    The result is Draft(tokens [B, k], probs [B, k, V]).
    """
    ...


check("remember-q", draft_tokens)

# %%
measured = f"with K = 8, drafting takes {share:.0%} of the time of drafting and verifying, here."
wrote(draft, first_token_by_hand, measured=measured)

# %% [markdown]
# ## Recap
#
# - A draft model that guesses token by token needs K forwards for K guesses. It has a cache of its
#   own.
# - Drafting costs K · c steps of the target per round, and that is not always little.
# - A draft is tokens *and* distributions. q is the distribution that a token was really drawn from.
#   With any other q the text has the wrong distribution, and nothing warns you.
# - A bad draft does not spoil the text. It only wastes time.
#
# Next, notebook 5: the target looks at all guesses in one forward.
