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
# **Time**: 25 minutes, and a few seconds of computing.

# %%
import torch

import minispec
from minispec.classroom import check, goal, hint, predict
from minispec.classroom.parts import Limited

pair = minispec.load_pair("stories")
target, draft = pair.target, pair.draft
prompt = pair.tokenizer.encode(pair.walkthrough)
words = [pair.tokenizer.piece(token) for token in range(target.vocab_size)]
print(pair.walkthrough)

# %% [markdown]
# ## Guess ahead
#
# The draft continues the story by K tokens. It is a language model like any other, only small.

# %% tags=["predict"]
draft_forwards = predict("draft-forwards", guess=None)
draft_forwards

# %% [markdown]
# `ModelDrafter` makes a drafter of a model. `start` reads the prompt, all but its last token, which
# is pending. `propose` guesses.

# %% tags=["claim-A2", "misleads-one-shot", "nbval-check-output"]
counted = Limited(draft, most=100)  # the draft, and a counter
drafter = minispec.ModelDrafter(counted)
drafter.start([prompt])
before, calls = drafter.cache_lengths[0], counted.calls
warp, rng = minispec.Warp(temperature=1), minispec.SeededRng(3)
with torch.inference_mode():
    guesses = drafter.propose(torch.tensor(prompt[-1:]), k=4, warp=warp, rng=rng)
print(f"{guesses.k} guesses, {counted.calls - calls} forwards of the draft")
print(f"its own cache: {before} tokens before, {drafter.cache_lengths[0]} after")
assert counted.calls - calls == drafter.cache_lengths[0] - before == guesses.k

# %% [markdown]
# One forward a guess. The first reads the pending token, and each of the others the guess before
# it. Nothing has read the last guess yet.
#
# Now and then one reads that a draft comes "in one shot". From a model that writes token by token,
# it cannot. Take another first guess, and see how the second changes:

# %% tags=["misleads-one-shot"]
with torch.inference_mode():
    first = draft(torch.tensor([prompt]))[0, -1].topk(2).indices.tolist()  # its two best guesses
    second = draft(torch.tensor([[*prompt, token] for token in first]))[:, -1].softmax(-1)  # [2, V]
for token, probs in zip(first, second, strict=True):
    print(f"after {words[token]!r}: {words[int(probs.argmax())]!r} with {probs.max():.1%}")
assert not torch.allclose(second[0], second[1], atol=0.1)

# %% [markdown]
# (Other drafters do guess all K tokens in one pass: extra heads on the target, as in Medusa, or
# models trained for it, as in PARD and DFlash. Then a draft costs one pass and not K steps.
# Notebook 11 names them.)
#
# ## What is handed over
#
# A drafter hands over a `Draft`: the tokens, and for each of them the distribution that it was
# drawn from. That distribution is called q. In the figure, ◀ marks what was drawn. It need not be
# the most probable token.

# %% tags=["claim-A2"]
from minispec.show.plots.drafts import draft_bars

settings = dict(k=4, max_new_tokens=12)
sampled = dict(verifier=minispec.verify_rejection, warp=warp)
drafter = minispec.ModelDrafter(draft)
run = minispec.record(target, drafter, [prompt], rng=minispec.SeededRng(3), **sampled, **settings)
handed = run.rounds[0].draft
assert handed.tokens.tolist() == guesses.tokens.tolist()
torch.testing.assert_close(handed.probs, guesses.probs, rtol=0, atol=1e-3)  # [1, 4, V]
draft_bars(run.rounds[0], words)

# %% [markdown]
# Its cache has grown on the way. It holds the guesses as if they were text. If a guess is rejected,
# it has to be removed again; that is notebook 7.

# %% tags=["claim-A2", "claim-C1"]
from minispec.show.plots.caches import cache_grid

layers = {"target": target.config.layers, "draft": draft.config.layers}
lengths = run.rounds[0].draft_cache
assert lengths.verified[0] - lengths.before[0] == handed.k  # nothing else has changed it
assert run.rounds[0].target_cache.before == lengths.before
cache_grid(run, words, 0, ["before", "drafted"], layers=layers)

# %% [markdown]
# ## Greedy or sampled
#
# A drafter may warp its distributions in any way: flatter, sharper, or with all mass on the most
# probable token. How much is in common with the target's distribution p at temperature 1? Measured
# at every token of the story:

# %% tags=["claim-C2"]
with torch.inference_mode():
    p = warp(target(torch.tensor([prompt])))[0]  # [n, V]
    logits = draft(torch.tensor([prompt]))[0]  # [n, V]
rate = {}
for temperature in (0, 0.5, 1, 2, 4):
    q = minispec.Warp(temperature)(logits)  # [n, V]
    rate[temperature] = float(torch.minimum(p, q).sum(-1).mean())
    print(f"draft at temperature {temperature:3}: {rate[temperature]:.2f} of the guesses accepted")
assert rate[1] > max(rate[0], rate[4])

# %% [markdown]
# The closer q is to p, the better, so the draft should be warped like the target. That is what
# `ModelDrafter` does unless it is told otherwise.
#
# ## How many?
#
# The longer the draft, the fewer passes of the target, and the more guesses are wasted.

# %% tags=["claim-C2", "claim-C5", "claim-E3"]
greedy = dict(verifier=minispec.verify_greedy, warp=minispec.Warp(temperature=0))
passes, wasted = [], []
for k in (1, 2, 4, 8, 16):
    drafter = minispec.ModelDrafter(draft)
    run = minispec.record(target, drafter, [prompt], k=k, rng=rng, max_new_tokens=64, **greedy)
    counts = run.statistics()
    passes.append(counts.target_calls)
    wasted.append(counts.drafted - counts.accepted)
    print(f"K = {k:2}: {passes[-1]:2} passes of the target, {wasted[-1]:3} wasted guesses")
assert passes[-1] < passes[0] and wasted[-1] > wasted[0]

# %% [markdown]
# Do wasted guesses matter? It is often said that drafting takes negligible time. Measure it.

# %% tags=["misleads-negligible-draft"]
drafter = minispec.ModelDrafter(draft)
run = minispec.record(target, drafter, [prompt], k=8, rng=rng, max_new_tokens=64, **greedy)
seconds = run.statistics().seconds
share = seconds["draft"] / (seconds["draft"] + seconds["verify"])
print(f"drafting {1e3 * seconds['draft']:.1f} ms, verifying {1e3 * seconds['verify']:.1f} ms")
if share > 0.1:
    print(f"Here the draft takes {share:.0%} of the time of both: too much to ignore.")
else:
    print(f"Here the draft takes only {share:.0%} of the time of both.")

# %% [markdown]
# K steps of the draft come before each pass of the target, and no two of them run at once. Call c
# the time of a draft step, counted in steps of the target. Then each round pays K · c on top of its
# pass. Notebook 10 looks for the best K.
#
# ## Why q is remembered

# %% tags=["predict"]
predict(
    "why-remember-q",
    {
        "a": "the one with all mass on that token",
        "b": "the model's softmax",
        "c": "none: the verifier needs only p",
    },
    guess=None,
)

# %% [markdown]
# Three tokens, a, b and c. The target says p = (3, 2, 1)/6, which is (6, 4, 2)/12. The softmax of
# the draft is (1, 1, 4)/6, and the drafter always takes the most probable token: c. `first_token`
# enumerates every branch of the shipped verifier and adds up the probabilities of what comes out.

# %% tags=["claim-D1", "nbval-check-output"]
from minispec.evidence.proof.first_token import first_token, parts

p, softmax, certain = [3 / 6, 2 / 6, 1 / 6], [1 / 6, 1 / 6, 4 / 6], [0, 0, 1]
rule = minispec.verify_rejection
honest = first_token(rule, p, q=certain, drawn_from=certain)
wrong = first_token(rule, p, q=softmax, drawn_from=certain)
for name, found in (("one-hot", honest), ("softmax", wrong)):
    print(f"q = {name}: gives {parts(found.distribution, 12)}, accepts {found.acceptance:.3f}")
torch.testing.assert_close(torch.tensor(honest.distribution), torch.tensor(p), rtol=0, atol=1e-9)
assert parts(wrong.distribution, 12) == "(6, 3, 3)/12"

# %% [markdown]
# With the softmax for q, c comes out too often, and no error is raised. The verifier even accepts
# more, so it looks better. Well-known libraries have shipped this bug. Here it is once more: green
# is what was kept, and the bars should end at the blue lines.

# %% tags=["claim-D1"]
from minispec.show.plots.distributions import rule_distribution

assert wrong.acceptance > honest.acceptance
rule_distribution(wrong, p, "abc")

# %% [markdown]
# So q is not the model's softmax. It is the distribution that the token was *really* drawn from,
# after temperature, top-k and top-p. A drafter must note it when it draws, because it cannot be
# recovered later.
#
# ## Write it
#
# Write the drafting loop. Draw with `rng.categorical`, and keep each distribution. `check`
# enumerates every branch of your loop.

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

# %% [markdown]
# ## And if the draft is bad?

# %% tags=["predict"]
predict(
    "bad-draft",
    {
        "a": "it gets worse: bad guesses slip in",
        "b": "it gets shorter",
        "c": "nothing: the distribution is the same, only slower",
    },
    guess=None,
)

# %% [markdown]
# Here is a draft that knows nothing: the same model before any training. Let it guess for the
# target, greedily, and compare the texts.

# %% tags=["claim-B3"]
from minispec.train.initialise import draw_weights

torch.manual_seed(0)
untrained = draw_weights(minispec.GPT(draft.config)).eval()
texts = {}
for name, model in (("trained", draft), ("untrained", untrained)):
    drafter = minispec.ModelDrafter(model)
    run = minispec.record(target, drafter, [prompt], k=4, rng=rng, max_new_tokens=40, **greedy)
    texts[name], counts = run.tokens(), run.statistics()
    share = f"{counts.acceptance:.0%} of the guesses accepted"
    print(f"{name:9} {counts.target_calls:2} passes, {share}")
assert texts["trained"] == texts["untrained"]
print("\nboth:", pair.tokenizer.decode(texts["untrained"]))

# %% [markdown]
# And sampled? Let the draft guess a, b and c with equal probabilities, or nearly always c.

# %% tags=["claim-D1", "nbval-check-output"]
for name, q in (
    ("as likely as p", p),
    ("at random", [1 / 3] * 3),
    ("nearly always c", [0.01, 0.01, 0.98]),
):
    found = first_token(rule, p, q)
    print(f"draft {name:15} accepts {found.acceptance:.3f}, gives {parts(found.distribution, 12)}")
    torch.testing.assert_close(torch.tensor(found.distribution), torch.tensor(p), rtol=0, atol=1e-9)

# %% [markdown]
# ## Recap
#
# - A draft model that writes token by token needs K forwards for K guesses. It has a cache of its
#   own.
# - Drafting costs K · c steps of the target per round, and that is not always little.
# - A draft is tokens *and* distributions. q is the distribution that a token was really drawn from.
#   With any other q the text has the wrong distribution, and nothing warns you.
# - A bad draft does not spoil the text. It only wastes time.
#
# Next, notebook 5: the target looks at all guesses in one pass.
