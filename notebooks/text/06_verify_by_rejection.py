# %% [markdown]
# # 6. Verify by rejection
#
# **You'll do**: take a vocabulary of three tokens, work out by hand the distribution that each of
# four rules gives, run each, and write the one that is right and fast.
#
# **You'll learn**: why min(1, p/q) and the residual give exactly the target's distribution, and
# what goes wrong with rules that look simpler.
#
# **You'll need**: notebook 5. Fractions, a pencil and paper.
#
# **Time**: 45 minutes, and a few seconds of computing.

# %%
import torch

import minispec
from minispec import Verdict
from minispec.classroom import check, goal, hint, predict

pair = minispec.load_pair("stories")  # for later; we begin smaller
target, draft = pair.target, pair.draft
prompt = pair.tokenizer.encode(pair.walkthrough)
p = [3 / 6, 2 / 6, 1 / 6]  # of the tokens a, b, c: the target's distribution
q = [1 / 6, 1 / 6, 4 / 6]  # the draft's distribution
print("target: a 3/6, b 2/6, c 1/6\ndraft:  a 1/6, b 1/6, c 4/6")

# %% [markdown]
# ## A vocabulary of three tokens
#
# Text is often sampled: the next token is drawn from the target's distribution p. That must stay so
# with a draft: a has to come up in 3 of 6 cases, b in 2, c in 1. But the draft proposes from its
# own distribution q, which overweights c.
#
# So a rule is needed. It sees one drafted token, and keeps it or takes another. You will meet four.
# Work out on paper the distribution that each gives, in twelfths, before you run it.
#
# **Rule 1** is that of notebook 5. Keep the drafted token if it is the target's most probable one,
# else take that one.

# %% tags=["predict"]
top_match = predict("law-of-top-match", guess=None)
top_match

# %% [markdown]
# `first_token` hands every possible draft to a rule, enumerates every branch, and adds up the
# probabilities. Nothing is sampled, so the result is exact.

# %% tags=["misleads-top-1-sampled"]
from minispec.evidence.proof.first_token import first_token
from minispec.show.plots.distributions import rule_distribution

found = first_token(minispec.verify_greedy, p, q)
assert torch.allclose(12 * torch.tensor(found.distribution), torch.tensor([12.0, 0, 0]))
rule_distribution(found, p, "abc", guess=top_match.distribution)

# %% [markdown]
# Always a. The draft was sampled, the text is not. Requiring agreement with the most probable token
# gives greedy text.
#
# **Rule 2**: let the target draw a token of its own from p. If it is the drafted one, keep the
# draft. Else take the target's.

# %% tags=["predict"]
fresh_draw = predict("law-of-fresh-draw", guess=None)
fresh_draw

# %%
found = first_token(minispec.verify_coupled, p, q)  # its name is explained in notebook 9
assert torch.allclose(12 * torch.tensor(found.distribution), torch.tensor([6.0, 4, 2]))
assert abs(found.acceptance - sum(a * b for a, b in zip(p, q, strict=True))) < 1e-12
rule_distribution(found, p, "abc", guess=fresh_draw.distribution)

# %% [markdown]
# The distribution is right: what comes out is the target's own draw, whatever the draft says. But
# the rule keeps a guess only if two independent draws agree. That is Σ p·q, a quarter of the time
# here. A guess that is kept saves time, so more would be better.
#
# How much can be kept? The draft says a in 1 of 6 cases, and the target wants it in 3 of 6. So
# every drafted a may stay. It says c in 4 of 6 cases, four times too often. So one in four may
# stay. In short: **keep x with probability min(1, p(x)/q(x))**.

# %% tags=["predict"]
predict("acceptance-by-hand", guess=None)

# %% [markdown]
# Twice as much as rule 2. What is left open is what to take after a rejection. **Rule 3**: draw
# from p. It is the target's distribution, after all.

# %% tags=["predict"]
predict(
    "resample-from-p",
    {
        "a": "(6, 4, 2): it is drawn from p, after all",
        "b": "(4, 3, 5): half way between q and p",
        "c": "(5, 4, 3): too little a, too much c",
    },
    guess=None,
)

# %%
from minispec.classroom.rules import rule_with

found = first_token(rule_with("correction-from-p"), p, q)
assert torch.allclose(12 * torch.tensor(found.distribution), torch.tensor([5.0, 4, 3]))
assert abs(found.acceptance - 1 / 2) < 1e-12
rule_distribution(found, p, "abc")

# %% [markdown]
# The green parts are all right: none of them goes beyond the target's line. But the red parts do
# not fill them up to the line. Too little is added to a, too much to c. What is missing is
# different for each token: p − q where that is positive, else nothing.
#
# ## Exercise: the residual
#
# That is the *residual*, scaled so that it sums to 1. Replace the `...` with your answer; for hints
# call `hint("residual", 1)` and then 2 in a cell of your own.

# %%
goal("residual")


# %% tags=["exercise"]
def residual(p, q):
    """Returns the distribution [V] to draw a correction from: the mass q lacks, scaled to sum 1.

    p and q are distributions, tensors [V]. Where they are equal nothing is lacking: then return p.
    """
    ...


check("residual", residual)

# %% [markdown]
# **Rule 4**: keep x with probability min(1, p/q). After a rejection draw from the residual.

# %% tags=["predict"]
rejection = predict("law-of-rejection", guess=None)
rejection

# %% tags=["claim-D1"]
found = first_token(minispec.verify_rejection, p, q)
assert torch.allclose(12 * torch.tensor(found.distribution), torch.tensor([6.0, 4, 2]))
assert torch.allclose(12 * torch.tensor(found.kept), torch.tensor([2.0, 2, 2]))
rule_distribution(found, p, "abc", guess=rejection.distribution)

# %% [markdown]
# Now green and red meet the line at every token, and they always do: min(p, q) is kept, and max(0,
# p − q) fills up the rest. Together they are p, whatever q is. This is *modified rejection
# sampling* (Leviathan and others 2023, Chen and others 2023).
#
# Look at c: there is no red in it. Is that an accident?

# %% tags=["predict"]
predict(
    "correction-again",
    {
        "a": "never",
        "b": "yes, if the target gives it some probability",
        "c": "only at temperature 0",
    },
    guess=None,
)

# %% tags=["claim-D3"]
from minispec.core.verify import residual as shipped_residual
from minispec.evidence.theory.formulas import acceptance, total_variation
from minispec.show.plots.overlap import overlap

pairs = torch.rand(1000, 2, 5, generator=torch.Generator().manual_seed(0)).double().softmax(-1)
rejectable = pairs[:, 1] > pairs[:, 0]  # [1000, V]: q above p
assert not shipped_residual(pairs[:, 0], pairs[:, 1])[rejectable].any()
print("1000 pairs of p and q: the residual is 0 at every token that can be rejected")
assert abs(first_token(minispec.verify_rejection, p, q).acceptance - acceptance(p, q)) < 1e-12
assert abs(acceptance(p, q) - (1 - total_variation(p, q))) < 1e-12
overlap(p, q, "abc", drawn=2)

# %% [markdown]
# Never. A token is rejected only where q is above p, and there the residual is 0. The picture shows
# the two halves of the rule. Green is what p and q share, Σ min(p, q): that is kept. The hatched
# part is rejected, and as much is missing in the blue.
#
# The shared part is 1 − TV(p, q), where TV is the total variation, the distance of notebook 3. It
# is the *acceptance rate* α of this rule. Other rules accept less, or more.

# %% tags=["predict"]
predict(
    "higher-acceptance",
    {
        "a": "rule A's: more of its draft was found good",
        "b": "the numbers do not tell",
        "c": "rule B's: it is stricter",
    },
    guess=None,
)

# %% [markdown]
# ## Why q matters
#
# Suppose that our draft does not sample. It takes its most probable token, c, every time. Which q
# should the verifier be told: the softmax (1, 1, 4)/6, or the distribution that c was really drawn
# from, (0, 0, 1)?

# %% tags=["claim-D1"]
from minispec.evidence.proof.first_token import parts

always_c = [0.0, 0.0, 1.0]
honest = first_token(minispec.verify_rejection, p, always_c)
wrong_q = first_token(minispec.verify_rejection, p, q, drawn_from=always_c)
for told, out in (("(0, 0, 1)", honest), ("(1, 1, 4)/6", wrong_q)):
    print(f"told {told:11}: keeps {out.acceptance:.3f}, and gives {parts(out.distribution, 12)}")
assert torch.allclose(12 * torch.tensor(honest.distribution), torch.tensor([6.0, 4, 2]))
assert torch.allclose(12 * torch.tensor(wrong_q.distribution), torch.tensor([6.0, 3, 3]))
assert wrong_q.acceptance > honest.acceptance
rule_distribution(wrong_q, p, "abc")

# %% [markdown]
# Told the wrong q, the rule keeps more, and the text no longer has the target's distribution. The
# bug looks like progress: well-known libraries have had it. So a high acceptance rate proves
# nothing. A rule that keeps everything accepts 100%, and its text has the draft's distribution.
#
# ## The real models
#
# A recorded run of the trained pair at temperature 1. Each test draws a number between 0 and 1, and
# keeps the token if it lies below min(1, p/q). Where the ratio is 1 or more, nothing is drawn.
#
# Then the position where a token was rejected, as an example of its own: all branches over the ten
# most probable tokens of both models.

# %% tags=["claim-D1", "claim-A7"]
from minispec.io.walkthrough import load_walkthrough
from minispec.show.plots.verification import verification_strip

run = load_walkthrough("rejection")
r = max((r for r in run.trace.rounds if r.kind(0) == "correction"), key=lambda r: r.accepted(0))
top_ten = minispec.Warp(top_k=10)
here = [top_ten(x[0, r.accepted(0)].log()) for x in (r.target_probs, r.draft.probs)]  # p, q
found = first_token(minispec.verify_rejection, *here)
given = torch.tensor(found.distribution, dtype=torch.float64)
print(f"what comes out is p, up to {(given - here[0]).abs().max():.0e}")
assert torch.allclose(given, here[0], rtol=0, atol=1e-12)
draws = [run.accept_draw(r.index, i) for i in range(r.drafted(0))]
verification_strip(r, run.words, drawn=[draw.number if draw else None for draw in draws])

# %% [markdown]
# Token after token, each is exact given what came before, so the whole text has the target's
# distribution. Notebook 9 enumerates that.
#
# A bad draft only costs time. If its first guess is rejected, K draft steps and a pass have been
# paid for one token: slower than the target alone.
#
# The distribution is the same, the text need not be. Guesses and tests use up random numbers too,
# so the same seed may give another text than the target's own.
#
# How much is kept depends on how far apart p and q are at each position. Let the pair write eight
# texts, and compare what was kept with 1 − TV.

# %% tags=["claim-D3"]
from minispec.show.plots.verification import along_the_text, positions_of

settings = dict(k=5, verifier=minispec.verify_rejection, warp=minispec.Warp(temperature=1.0))
settings |= dict(max_new_tokens=40, rng=minispec.SeededRng(1))
eight = minispec.record(target, minispec.ModelDrafter(draft), [prompt] * 8, **settings)
tests = [test for row in range(8) for test in positions_of(eight, run.words, row)]
kept = sum(test.accepted for test in tests) / len(tests)
expected = sum(1 - test.tv for test in tests) / len(tests)
print(f"{len(tests)} tests: kept {kept:.3f}, expected from p and q {expected:.3f}")
assert abs(kept - expected) < 0.1
along_the_text(positions_of(eight, run.words, 0))

# %% [markdown]
# ## Exercise: the verifier
#
# Now write the whole rule, for K tokens and many rows. `check` hands it to `check_verifier`, which
# enumerates all branches on some 300 small examples. If the rule is wrong anywhere, it shows the
# smallest example in which it fails.

# %%
goal("write-the-verifier")


# %% tags=["exercise"]
def my_verifier(draft, target_probs, rng):
    """Keeps a prefix of each row's draft and draws one more token, in the target's distribution.

    draft.tokens [B, K], draft.probs [B, K, V] (q); draft.lengths [B]: how many of the K are
    proposals. target_probs [B, K + 1, V] (p).
    Draws: rng.bernoulli(probabilities [B], live=which [B]) and rng.categorical(probs [B, V]).
    To take one row after another is fine too: then B is 1.
    Returns Verdict(accepted [B], token [B]).
    """
    ...


check("write-the-verifier", my_verifier)

# %% [markdown]
# ## Recap
#
# - Keep a drafted x with probability min(1, p/q). After a rejection draw from the residual, the
#   mass that q lacks. What is kept and what is drawn instead add up to p.
# - The shortcuts fail: agreement with the best token gives greedy text, and a draw from p after a
#   rejection gives too much of what the draft overweights.
# - q must be the distribution that the token was really drawn from.
# - The acceptance rate is 1 − TV(p, q). It says how fast, never how right.
# - A correction is never the token that was rejected.
#
# Next, notebook 7: what becomes of the caches after a rejection.
