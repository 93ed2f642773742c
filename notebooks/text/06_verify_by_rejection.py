# %% [markdown]
# # 6. Verify by rejection
#
# **You'll do**: compute by hand which distribution each of four rules gives for a vocabulary of
# three tokens, run each rule 10,000 times and count, and prove that one of them is exact.
#
# **You'll learn**: why min(1, p/q) and the residual give exactly the target's distribution, and
# what goes wrong with rules that look simpler.
#
# **You'll need**: notebook 5, fractions, pencil and paper.
#
# **Time**: 55 minutes, 20 of them for the last exercise, and a few seconds of computing.

# %%
from random import Random

import torch

import minispec
from minispec import Verdict  # for the last exercise
from minispec.classroom import check, goal, hint, predict, wrote

p = [3 / 6, 2 / 6, 1 / 6]  # of the tokens a, b, c: the target's distribution
q = [1 / 6, 1 / 6, 4 / 6]  # the draft's distribution
numbers = Random(1)
uniform = numbers.random  # uniform() is a random number u between 0 and 1


def draw(distribution):
    return numbers.choices(range(len(distribution)), distribution)[0]


print("target: a 3/6, b 2/6, c 1/6\ndraft:  a 1/6, b 1/6, c 4/6")

# %% [markdown]
# ## A vocabulary of three tokens
#
# Text is often sampled: the next token is drawn from the target's distribution p. That must stay so
# with a draft: `a` has to come up in 3 of 6 cases, `b` in 2, `c` in 1. But the draft proposes from
# its own distribution q, which overweights `c`.
#
# So a rule is needed. It gets one drafted token x, and keeps it or emits another. You will meet
# four. Compute on paper the distribution that each gives, in twelfths, before you run it.
#
# **Rule 1** is that of notebook 5. Keep the drafted token if it is the target's most probable one.
# Otherwise emit the target's most probable token.

# %% tags=["predict"]
top_match = predict("distribution-of-top-match", guess=None)
top_match

# %% [markdown]
# The rule is one line of code. Below it, the same by hand: for each token, the probability that it
# is drafted and *kept*, and the probability that it is *emitted instead*.

# %% tags=["written", "misleads-top-1-sampled"]
from minispec.evidence.proof.first_token import FirstToken
from minispec.show.plots.distributions import rule_distribution


def rule_1(x, p, q):
    return p.index(max(p))  # the most probable token, whatever x is


kept = [q[0], 0, 0]  # x is kept if it is a
instead = [1 - q[0], 0, 0]  # else the rule emits a
exact_1 = FirstToken(kept, instead)
rule_distribution(exact_1, p, "abc", q=q, name="Rule 1", guess=top_match.distribution)

# %% [markdown]
# Always `a`. The draft was sampled, the text is not. Requiring agreement with the most probable
# token gives greedy text.
#
# **Rule 2**: let the target draw a token of its own from p. If it is the drafted one, keep the
# draft. Otherwise emit the target's.

# %% tags=["predict"]
fresh_draw = predict("distribution-of-fresh-draw", guess=None)
fresh_draw


# %% tags=["written"]
def rule_2(x, p, q):
    return draw(p)  # x is kept if this is x


kept = [a * b for a, b in zip(p, q, strict=True)]  # two draws agree
exact_2 = FirstToken(kept, [a - k for a, k in zip(p, kept, strict=True)])
print(f"kept with probability {exact_2.acceptance:.2f}")
rule_distribution(exact_2, p, "abc", q=q, name="Rule 2", guess=fresh_draw.distribution)

# %% [markdown]
# The distribution is right: what is emitted is the target's own draw, whatever was drafted. But
# the rule keeps a guess only if two independent draws agree. A guess that is kept saves time, so
# more would be better.
#
# How much can be kept? The draft proposes `a` in 1 of 6 cases, and the target wants it in 3 of 6.
# So each drafted `a` may stay. It proposes `c` in 4 of 6 cases, four times too often. So one in
# four may stay. In short: **keep x with probability min(1, p(x)/q(x))**.

# %% tags=["predict"]
predict("acceptance-by-hand", guess=None)

# %% [markdown]
# To do something with probability 1/4, draw a number u between 0 and 1, and do it if u < 1/4. So
# the test is `u < p[x] / q[x]`. (If the ratio is 1 or more, the test always passes.)
#
# What is left open is what to emit after a rejection. **Rule 3**: draw from p. It is the target's
# distribution, after all.

# %% tags=["predict"]
predict("resample-from-p", guess=None)


# %% tags=["written"]
def rule_3(x, p, q):
    u = uniform()
    if u < p[x] / q[x]:
        return x
    return draw(p)


kept = [b * min(1, a / b) for a, b in zip(p, q, strict=True)]
rejected = 1 - sum(kept)
exact_3 = FirstToken(kept, [rejected * a for a in p])
rule_distribution(exact_3, p, "abc", q=q, name="Rule 3")

# %% [markdown]
# What is kept is right: no green part goes beyond the target's line. But what is emitted instead
# does not fill it up to the line. Too little is added to `a`, too much to `c`. What is missing
# differs from token to token: max(0, p − q). Scaled so that it sums to 1, it is called the
# *residual*.
#
# ## Exercise: the residual
#
# Write it. Replace the `...` with your answer; for hints call `hint("residual", 1)` and then 2 in a
# cell of your own.

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
rejection = predict("distribution-of-rejection", guess=None)
rejection


# %% tags=["written"]
def rule_4(x, p, q):
    u = uniform()
    if u < p[x] / q[x]:
        return x
    excess = [max(0, a - b) for a, b in zip(p, q, strict=True)]  # p - q, where it is positive
    return draw([mass / sum(excess) for mass in excess])  # the residual


excess = [max(0, a - b) for a, b in zip(p, q, strict=True)]
exact_4 = FirstToken(kept, [rejected * mass / sum(excess) for mass in excess])
rule_distribution(exact_4, p, "abc", q=q, name="Rule 4", guess=rejection.distribution)

# %% [markdown]
# Now kept tokens and corrections together reach the target's line at every token. The method is
# called *modified rejection sampling* (Leviathan and others 2023, Chen and others 2023).
#
# These were exact computations. Now run the code: for each rule, draft 10,000 tokens from q and
# count which tokens it emits. The grey bands show random variation: for a rule that emits p, all
# shares stay inside, except in one of a million runs.

# %% tags=["claim-D1"]
from minispec.show.plots.distributions import sampled_shares

counts = {}
for name, rule in (("rule 1", rule_1), ("rule 2", rule_2), ("rule 3", rule_3), ("rule 4", rule_4)):
    first = [rule(draw(q), p, q) for _ in range(10_000)]
    counts[name] = [first.count(token) for token in range(3)]
print(*(f"{name}: {each}" for name, each in counts.items()), sep="\n")
far = {name: max(abs(n / 1e4 - a) for n, a in zip(counts[name], p, strict=True)) for name in counts}
assert max(far["rule 2"], far["rule 4"]) < 0.025 < min(far["rule 1"], far["rule 3"])
sampled_shares(counts, p, "abc")

# %% [markdown]
# ## Why it is exact, in three lines
#
# For any p and q, look at one token x.
#
# 1. x is drafted and kept with probability q · min(1, p/q) = **min(p, q)**.
# 2. The drafted token is rejected with probability 1 − Σ min(p, q). That is Σ (p − min(p, q)),
#    because p sums to 1. So **P(reject) = Σ max(0, p − q)**.
# 3. x is emitted instead with probability P(reject) · max(0, p − q) / Σ max(0, p − q), which is
#    **max(0, p − q)**.
#
# Together: min(p, q) + max(0, p − q) = p. So a token that the draft never proposes (q = 0) still
# is emitted with probability p: as a correction.

# %% tags=["misleads-top-1-sampled", "claim-D1", "hide-input"]
from minispec.classroom.rules import rule_with
from minispec.evidence.proof.first_token import first_token, parts

shipped = (minispec.verify_greedy, minispec.verify_coupled)
shipped += (rule_with("correction-from-p"), minispec.verify_rejection)
same = []
worked_out = (exact_1, exact_2, exact_3, exact_4)
for number, (rule, hand) in enumerate(zip(shipped, worked_out, strict=True), 1):
    exact = first_token(rule, p, q)  # the package's rule, on every branch: nothing is sampled
    print(f"rule {number}: keeps {exact.acceptance:.2f}, gives {parts(exact.distribution, 12)}")
    pairs = zip(exact.accepted + exact.correction, [*hand.accepted, *hand.correction], strict=True)
    same += [abs(a - b) < 1e-12 for a, b in pairs]
assert all(same)

# %% [markdown]
# The package contains all four rules. Rule 2 is `verify_coupled` (notebook 9). Rule 3 is a bug that
# the project plants on purpose, to see that its tests find it. Each was run on every possible draw,
# and gives the distribution that was computed above.
#
# Now for any p and q: a drafted token x was rejected, and a correction is drawn.

# %% tags=["predict"]
predict("correction-again", guess=None)

# %% tags=["claim-D3"]
from minispec.core.verify import residual as shipped_residual
from minispec.show.plots.overlap import overlap

pairs = torch.rand(1000, 2, 5, generator=torch.Generator().manual_seed(0)).double().softmax(-1)
rejectable = pairs[:, 1] > pairs[:, 0]  # [1000, V]: q above p
mass = shipped_residual(pairs[:, 0], pairs[:, 1])[rejectable]
print(f"1000 pairs of p and q, {len(mass)} tokens that can be rejected: residual {mass.max():g}")
assert not mass.any()
overlap(p, q, "abc", drawn=2)

# %% [markdown]
# Never. A token is rejected only where q is above p, and there p − q is negative.
#
# What p and q share, Σ min(p, q), is what is kept. It is the *acceptance rate* α of this rule. By
# line 2 of the proof, α = 1 − Σ max(0, p − q) = 1 − TV(p, q), where TV is the *total variation*,
# the distance between two distributions.

# %% tags=["predict"]
predict("higher-acceptance", guess=None)

# %% [markdown]
# ### Try it: change a value and run the cell again
#
# Make q equal to p. Give `c` the weight 0 in p, then in q. How much is kept each time, and does p
# still come out?

# %% tags=["try-it"]
p_weights = (3, 2, 1)
q_weights = (1, 1, 4)  # change these: of a, b and c, any numbers from 0 up
my_p, my_q = ([x / sum(weights) for x in weights] for weights in (p_weights, q_weights))
my_rule = first_token(minispec.verify_rejection, my_p, my_q)
print(f"kept with probability {my_rule.acceptance:.3f}")
rule_distribution(my_rule, my_p, "abc", q=my_q, name="Rule 4")

# %% [markdown]
# ## Why q matters
#
# Suppose that the draft model always proposes its most probable token, `c`. Rule 4 needs a q. Is it
# the draft model's softmax, (1, 1, 4)/6? Or is it (0, 0, 1), the distribution that the proposal was
# drawn from? Compute rule 4 with both:

# %% tags=["claim-D1"]
always_c = [0.0, 0.0, 1.0]
by_q = {}  # the distribution of the emitted token, with this q
for name, used in (("(0, 0, 1)", always_c), ("(1, 1, 4)/6", q)):
    stays = min(1, p[2] / used[2])
    excess = [max(0, a - b) for a, b in zip(p, used, strict=True)]
    a, b, c = ((1 - stays) * mass / sum(excess) for mass in excess)
    by_q[name] = [a, b, c + stays]
    print(f"q = {name:11}: keeps {stays:.3f}, and gives {parts(by_q[name], 12)}")
wrong = first_token(minispec.verify_rejection, p, q, drawn_from=always_c)
assert max(abs(a - b) for a, b in zip(wrong.distribution, by_q["(1, 1, 4)/6"], strict=True)) < 1e-12
rule_distribution(wrong, p, "abc", q=always_c, name="With the wrong q, rule 4")

# %% [markdown]
# With the wrong q, the rule keeps more, and the text no longer has the target's distribution. The
# bug looks like progress. `minispec zoo greedy-draft-soft-q` names a library that had it. So a
# high acceptance rate proves nothing. A rule that keeps everything accepts 100%, and its text has
# the draft's distribution.
#
# ## K tokens
#
# A draft has K tokens. Test them from left to right. At the first rejection, add a correction and
# stop. If all are kept, the target's last distribution adds a bonus. Write it for one text, which
# is one *row* of a batch: `rng.uniform()` gives u, and `rng.draw` draws.

# %%
goal("accept-one-row")


# %% tags=["exercise"]
def accept_one_row(tokens, dists, target_dists, rng):
    """Returns the ids that a round emits: those accepted, then the correction or the bonus.

    tokens: K drafted ids; dists: K distributions q, [V] each; tokens[i] was drawn from dists[i].
    target_dists: K + 1 distributions p, [V] each; the last one is for the token after all K.
    rng.uniform() is a new number between 0 and 1, to be compared: u < 0.3.
    rng.draw(distribution [V]) draws an id.
    """
    ...


check("accept-one-row", accept_one_row)

# %% [markdown]
# Here it is as notebook 8 will use it. `rng.bernoulli` draws a number u of its own and compares it:
# it is the test `u < p[x] / q[x]`. `rng.categorical` draws an id. Ratios above 1 are cut to 1. (And
# a token with p = q = 0, which only rounding could propose, is rejected.)


# %% tags=["written", "basic"]
def accept_rejection(tokens, dists, target_dists, rng):
    """Keeps x ~ q with probability min(1, p(x)/q(x)); adds a correction or a bonus."""
    for i, (x, q, p) in enumerate(zip(tokens, dists, target_dists.double(), strict=False)):
        q = q.double()
        if not rng.bernoulli((p[x] / q[x]).clamp(max=1).nan_to_num(0)[None]):
            excess = (p - q).clamp(min=0)  # the mass that q lacks
            residual = excess / excess.sum() if excess.sum() > 0 else p
            return tokens[:i] + [int(rng.categorical(residual[None]))]
    return tokens + [int(rng.categorical(target_dists[-1:]))]


# %% [markdown]
# ## The real models
#
# A recorded round of the trained pair at temperature 1. With the same random numbers, the package's
# verifier must emit the same tokens. The figure shows each number u that was drawn, and what it was
# compared with. Where the ratio is 1 or more, no number is needed, and the package draws none.

# %% tags=["claim-D1", "claim-A7"]
from minispec.io.walkthrough import load_walkthrough
from minispec.show.plots.verification import verification_strip

run, seeds = load_walkthrough("rejection"), range(200)
r = max((r for r in run.trace.rounds if r.kind(0) == "correction"), key=lambda r: r.accepted(0))
tokens, same = r.draft.tokens[0].tolist(), 0
for seed in seeds:
    given = (tokens, r.draft.probs[0], r.target_probs[0], minispec.SeededRng(seed))
    verdict = minispec.verify_rejection(r.draft, r.target_probs, minispec.SeededRng(seed))
    same += accept_rejection(*given) == [*tokens[: int(verdict.accepted)], int(verdict.token)]
draws = [run.accept_draw(r.index, i) for i in range(r.drafted(0))]
assert same == len(seeds)
verification_strip(r, run.words, drawn=[draw.number if draw else None for draw in draws])

# %% [markdown]
# Each token has exactly the target's distribution, given the tokens before it. So the whole text
# has. Notebook 9 enumerates that.
#
# A bad draft, even a random one, does not change that. It only costs time: K draft steps and a
# forward for one token, if its first guess is rejected.
#
# The distribution is the same, the text need not be. Guesses and tests use random numbers too, so a
# seed gives another text than the target's own. That is no bug. (The same seed, rule and K give the
# same text again. At temperature 0 nothing is random.) To look for a bug, compare distributions:
# how often each text comes over many seeds, or all branches of a model.

# %% tags=["claim-D3"]
from minispec.show.plots.verification import along_the_text, positions_of

pair = minispec.load_pair("stories")
prompt = pair.tokenizer.encode(pair.walkthrough)
settings = dict(k=5, verifier=minispec.verify_rejection, warp=minispec.Warp(temperature=1.0))
settings |= dict(max_new_tokens=40, rng=minispec.SeededRng(1))
eight = minispec.record(pair.target, minispec.ModelDrafter(pair.draft), [prompt] * 8, **settings)
tests = [test for row in range(8) for test in positions_of(eight, run.words, row)]
share = sum(test.accepted for test in tests) / len(tests)
expected = sum(1 - test.tv for test in tests) / len(tests)
print(f"{len(tests)} tests: kept {share:.3f}, expected from p and q {expected:.3f}")
assert abs(share - expected) < 0.1
along_the_text(positions_of(eight, run.words, 0))

# %% [markdown]
# Over eight texts, the share of tokens that were kept agrees with the average of 1 − TV.
#
# ## For engineers: a batch
#
# Write the rule for the rows of a batch, whose drafts may differ in length. `check` tries every
# possible draw on about 300 small examples. If the rule is wrong on one of them, you see the
# smallest.

# %%
goal("write-the-verifier")


# %% tags=["exercise"]
def my_verifier(draft, target_probs, rng):
    """Keeps a prefix of each row's draft and draws one more token, in the target's distribution.

    draft.tokens [B, K], draft.probs [B, K, V] (q); draft.lengths [B]: how many of the K are
    proposals. target_probs [B, K + 1, V] (p).
    Draws: rng.bernoulli(probabilities [B], live=which [B]) and rng.categorical(probs [B, V]).
    To take one row after another is fine too; or one row only, then B is 1.
    Returns Verdict(accepted [B], token [B]).
    """
    ...


check("write-the-verifier", my_verifier)

# %%
wrote(rule_4, accept_rejection, measured=f"{share:.1%} of {len(tests)} tested guesses were kept.")

# %% [markdown]
# ## Recap
#
# - Keep a drafted x if u < p(x)/q(x). After a rejection draw from the residual, the mass that q
#   lacks. What is kept and what is emitted instead add up to p.
# - The shortcuts fail: agreement with the best token gives greedy text, and a draw from p after a
#   rejection gives too much of what the draft overweights.
# - q must be the distribution that the token was really drawn from.
# - The acceptance rate of this rule is α = Σ min(p, q) = 1 − TV(p, q). It measures speed, and never
#   whether the text is right.
# - A correction is never the token that was rejected.
#
# Next, notebook 7: what becomes of the caches after a rejection. (On the short way, notebook 8: the
# whole loop.)
