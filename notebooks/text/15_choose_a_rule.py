# %% [markdown]
# # 15. Choose a rule
#
# **You'll do**: work out two rules for the same draft on paper, write the number that the better
# one uses, find out how much any rule can accept, and weigh damage against accepted tokens.
#
# **You'll learn**: which rules keep the target's distribution, why one that looks at the whole
# draft accepts more, what several candidates add, and what to ask before you choose.
#
# **You'll need**: notebooks 6 and 9. (Notebook 13 has more on several candidates.)
#
# **Time**: 40 minutes, and some ten seconds of computing.

# %%
from fractions import Fraction
from itertools import combinations, product
from math import prod

import torch

import minispec
from minispec.classroom import check, goal, hint, predict, wrote
from minispec.core.basic import accept_rejection  # you wrote it in notebook 6

p = torch.tensor([1, 2]).double() / 3  # of the tokens a and b: the target's distribution
q = torch.tensor([2, 1]).double() / 3  # the draft's; both are the same at each position
drafts = [*product((0, 1), repeat=2)]  # K = 2: aa, ab, ba, bb


def names(tokens):
    return "".join("ab"[x] for x in tokens)


# %% [markdown]
# An engine has a target, a drafter, and a choice of rules. You should know three things about each
# rule:
#
# 1. which text is emitted: the target's distribution, or which other one;
# 2. how many drafted tokens are accepted;
# 3. what it needs: q, random numbers, arithmetic.
#
# The first two have exact answers, for any p and q that are small enough to enumerate. Here is a
# pair that you can do on paper.

# %% tags=["nbval-check-output"]
for text in drafts:
    in_draft, in_target = (prod(float(of[x]) for x in text) for of in (q, p))
    print(f"{names(text)}: drafted in {9 * in_draft:.0f} of 9 cases,", end=" ")
    print(f"the target's text begins with it in {9 * in_target:.0f}")

# %% [markdown]
# ## Token by token
#
# The rejection rule of notebook 6 keeps a token with probability min(1, p/q), and stops at the
# first rejection. The first token is kept with 1/3 + 1/3 = 2/3. (Σ min(p, q), do you remember?) The
# second one is tested only then, and is kept with 2/3 as well. In all, 2/3 + 4/9 = 10/9 tokens are
# accepted of two.
#
# Go through every branch, as in notebook 9. After a rejection the round has fewer tokens. Let the
# target add what is missing, so that texts of three tokens are compared.


# %% tags=["written"]
from minispec.classroom.trials import enumerate_row


def judged(rule):
    """Returns which texts of three tokens come out, and how many drafted tokens are accepted."""
    texts = dict.fromkeys(product((0, 1), repeat=3), 0.0)
    accepted = 0.0
    for draft in drafts:
        drawn = prod(float(q[x]) for x in draft)
        given = [*draft], [q, q], torch.stack([p, p, p])
        for emitted, share in enumerate_row(lambda rng, given=given: tuple(rule(*given, rng))):
            accepted += drawn * share * (len(emitted) - 1)
            for rest in product((0, 1), repeat=3 - len(emitted)):
                texts[emitted + rest] += drawn * share * prod(float(p[x]) for x in rest)
    return texts, accepted


# %% tags=["claim-D1", "nbval-check-output"]
def damage(texts):
    """The total variation between what is emitted and the target's texts."""
    return sum(abs(n - prod(float(p[x]) for x in text)) for text, n in texts.items()) / 2


texts, token = judged(accept_rejection)
accepted = Fraction(token).limit_denominator(99)
print(f"token by token: accepted {accepted}, damage {damage(texts):.3f}")
assert damage(texts) < 1e-12 and abs(token - 10 / 9) < 1e-12

# %% [markdown]
# ## A draft as a whole
#
# For one token nothing better exists. (You will see why below.) But look at the table once more.

# %% tags=["predict"]
predict("whole-draft", guess=None)

# %% [markdown]
# *Block verification* (Sun and others 2024) follows one number along the draft: how probable the
# draft so far is in the target's text, compared with how often it is drafted. Whatever is above 1
# is cut off at once. It is the share of this beginning that may be kept. Write it. If you are
# stuck: `hint("block-ratios", 1)`, and then 2.

# %%
goal("block-ratios")


# %% tags=["exercise"]
def block_ratios(tokens, dists, target_dists):
    """Returns w [K]: after each token, the ratio of p and q for all of the draft so far.

    It starts from 1. Each token multiplies it by its own p/q, and then it is cut: to at most 1.
    tokens: K drafted ids; dists: K distributions q, [V] each; tokens[i] was drawn from dists[i].
    target_dists: K + 1 distributions p, [V] each.
    """
    ...


check("block-ratios", block_ratios)

# %% [markdown]
# Here is ours, for the four drafts. The rule below takes yours if it is right.


# %% tags=["written", "nbval-check-output"]
def running(tokens, dists, target_dists):
    """Returns after each token the ratio of p and q for the draft so far, cut at 1."""
    w = 1.0
    ratios = []
    for x, q, p in zip(tokens, dists, target_dists, strict=False):
        w = min(1.0, w * float(p[x] / q[x]))
        ratios.append(w)
    return ratios


for text in drafts:
    ratios = running(text, [q, q], [p, p, p])
    print(f"{names(text)}: w =", *(Fraction(w).limit_denominator(99) for w in ratios))
weigh = block_ratios if check("block-ratios", block_ratios).passed else running

# %% [markdown]
# Now a coin for *every* token. A rejection ends nothing: the last coin that accepts counts. The
# coins are such that at least i tokens are kept with probability w_i.
#
# After the last token the coin accepts with probability w. Before that, later coins help: on
# average over the next token they keep Σ min(w·p, q) = w − S, with S = Σ max(0, w·p − q). Let h be
# the probability that this coin accepts. With it, at least i tokens are kept with probability (w −
# S) + (1 − w + S)·h. This equals w for **h = S / (S + 1 − w)**. The correction is drawn from the
# excess, max(0, w·p − q).


# %% tags=["written"]
def excess(w, p, q):
    """Returns the mass that p, scaled by w, has above q."""
    return (w * p - q).clamp(min=0)


def coins(tokens, dists, target_dists):
    """Returns the ratio w and the coin h after each token; where the draft has ended, q is 0."""
    w, after = weigh(tokens, dists, target_dists), [*dists[1:], torch.zeros_like(target_dists[0])]
    masses = [float(excess(*of).sum()) for of in zip(w, target_dists[1:], after, strict=True)]
    return w, [1.0 if a == 1 else s / (s + 1 - a) for a, s in zip(w, masses, strict=True)]


def accept_block(tokens, dists, target_dists, rng):
    """Keeps the longest beginning whose coin accepts, and draws from the excess there."""
    w, h = coins(tokens, dists, target_dists)
    yes = [i for i in range(1, len(tokens) + 1) if rng.uniform() < h[i - 1]]
    kept = max(yes, default=0)
    q = dists[kept] if kept < len(tokens) else 0
    rest = excess([1.0, *w][kept], target_dists[kept], q)
    return [*tokens[:kept], rng.draw(rest / rest.sum())]


# %% tags=["claim-D6", "nbval-check-output"]
texts, block = judged(accept_block)
print(f"as a block: accepted {Fraction(block).limit_denominator(99)}, damage {damage(texts):.3f}")
starts = [start for i in (1, 2) for start in product((0, 1), repeat=i)]
# of each beginning, such as ab, the smaller probability: in the target's text, or in the draft
most = sum(min(prod(float(of[x]) for x in start) for of in (p, q)) for start in starts)
print(f"the bound by single beginnings: {9 * most:.0f}/9")
assert damage(texts) < 1e-12 and abs(block - 11 / 9) < 1e-12

# %% [markdown]
# The same text, and 11/9 tokens instead of 10/9. By hand: both tokens are kept with (4·1/4 + 2·1 +
# 2·1/2 + 1·1)/9 = 5/9. After a the first coin is 0, after b 1. So one token alone is kept in a
# drafted ba whose second coin fails: 2/9 · 1/2 = 1/9. And 2 · 5/9 + 1/9 = 11/9.
#
# No rule reaches 12/9. **Block verification accepts the most tokens a round on average**, among
# all lossless rules that keep a prefix, add one token and leave the rest to p. "Losslessness" in
# the book has the proof.


# %% tags=["hide-input", "claim-D6"]
from minispec.classroom.parts import RowRng
from minispec.evidence.atlas.family import recorded
from minispec.verifiers.block import verify_block

real = recorded()
same = []
for row, (ps, qs) in enumerate(zip(real.target_probs, real.draft.probs, strict=True)):
    draft = minispec.Draft(real.draft.tokens[[row]], qs[None])
    for seed in range(5):
        ids = accept_block(draft.tokens[0].tolist(), [*qs], ps, RowRng(minispec.SeededRng(seed)))
        verdict = verify_block(draft, ps[None], minispec.SeededRng(seed))
        same.append(ids == [*draft.tokens[0, : int(verdict.accepted)].tolist(), int(verdict.token)])
assert all(same) and len(same) >= 200

# %% [markdown]
# The package's `verify_block` emits the same tokens.
#
# ## More on the pair?
#
# `family` are ten chains of eight tokens whose p and q differ much, `recorded` drafts of the pair.


# %% tags=["claim-D6", "nbval-check-output"]
from minispec.evidence.atlas.atlas import chain_means

means = chain_means()
for of in means:
    print(f"{of.name:9} K = {of.k}: token {of.token:.3f}, block {of.block:.3f} accepted")
assert all(of.block > of.token for of in means)

# %% [markdown]
# On average block verification accepts the most, whatever p and q are. (For a single draft it may
# accept less than token by token: of aa it accepts 2 · 1/4 = 1/2 tokens on average, and token by
# token it is 1/2 + 1/4 = 3/4.) With K = 1, or a one-hot q, as for a look-up, both accept the same.
# Now eight stories, at temperature 1.

# %%
from minispec.verifiers.block import verify_block

pair = minispec.load_pair("stories")
settings = dict(max_new_tokens=40, warp=minispec.Warp(1), rng=minispec.SeededRng(1))
rules = {"token": minispec.verify_rejection, "block": verify_block}
runs = {}
for k, (name, rule) in product((4, 8), rules.items()):
    given = settings | dict(k=k, verifier=rule)
    drafter = minispec.ModelDrafter(pair.draft)
    run = runs[k, name] = minispec.record(pair.target, drafter, pair.info["prompts"][:8], **given)
    print(f"K = {k}, {name}: {run.statistics().tokens_per_target_call:.2f} tokens a target call")

# %% [markdown]
# These differ at random as well: two runs decode two texts. So take both rules for the same drafts,
# and average over the coins. Token by token, i tokens are kept if the first i coins accept; as a
# block, if any coin from the i-th on does.


# %% tags=["written", "claim-D6"]
def kept_on_average(tokens, dists, target_dists):
    """Returns how many tokens of a draft each rule accepts, on average over its coins."""
    single = [
        min(1.0, float(p[x] / q[x])) for x, q, p in zip(tokens, dists, target_dists, strict=False)
    ]
    no = [1 - h for h in coins(tokens, dists, target_dists)[1]]
    ends = range(1, len(tokens) + 1)
    return sum(prod(single[:i]) for i in ends), sum(1 - prod(no[i - 1 :]) for i in ends)


for k in (4, 8):
    means = []
    for r in runs[k, "token"].rounds:
        for row in [row for row in range(8) if r.drafted(row) == k]:
            dists, target_dists = r.draft.probs[row].double(), r.target_probs[row].double()
            means.append(kept_on_average(r.draft.tokens[row].tolist(), [*dists], target_dists))
    single, whole = (sum(of) / len(means) for of in zip(*means, strict=True))
    print(f"K = {k}, {len(means)} drafts: token {single:.3f}, block {whole:.3f} accepted")

# %% [markdown]
# This pair agrees so well that little more can be accepted. With a longer draft, and one that
# agrees less, block verification accepts more of it.
#
# Tokens are not seconds. Block verification looks at all K positions, each time. `minispec bench
# --section rules` measures it, and the page of results has other pairs. A rule that costs more wins
# only where the target's forward takes most of the time.
#
# ## A bug
#
# Let us plant one.

# %% tags=["predict"]
predict("first-no", guess=None)

# %% tags=["claim-D6"]
from minispec.evidence.checker.instances import standard_instances
from minispec.evidence.zoo.mutants import mutant_named
from minispec.evidence.zoo.mutation import planted

of_size = {n: [i for i in standard_instances() if (i.k, i.vocab_size) == (2, n)] for n in (2, 3, 5)}
with planted(mutant_named("block-ends-at-the-first-no")):
    report = minispec.check_verifier(verify_block, instances=of_size[2])
print(report)
assert not report.passed and abs(report.damage.low - 1 / 6) < 1e-12

# %% [markdown]
# Do it by hand. The draft is always 0 0, and p is (1/2, 1/2). So w = 1/2 and then 1/4. After the
# first token S = 1/4, and the coin is (1/4) / (1/4 + 1/2) = 1/3; the second coin is 1/4. If both
# reject, with 2/3 · 3/4 = 1/2, then 1 is emitted, as often as it should be. With the bug one
# rejection is enough, and 1 is emitted with 2/3.
#
# Another bug, which was seen in vLLM Ascend (#7807): the correction is drawn from p − q, without w.

# %% tags=["nbval-check-output"]
with planted(mutant_named("block-residual-of-a-token")):
    for n, instances in of_size.items():
        report = minispec.check_verifier(verify_block, instances=instances)
        result = "passed" if report.passed else f"failed, damage {report.damage.largest:.3f}"
        print(f"K = 2, {n} tokens, {len(instances)} instances: {result}")

# %% [markdown]
# The smaller instances do not show it. A check covers what it has tried, and no more. (The zoo has
# four bugs of this rule, and `check_verifier` finds all of them among its own instances.)
#
# ## Several candidates
#
# A drafter may propose several tokens for one position. The target reads them all in one forward,
# as a tree (notebook 13). Recursive rejection tries one after another.

# %% tags=["predict"]
predict("rule-or-candidates", guess=None)

# %% [markdown]
# To answer, you need the best that is possible. Take a set H of tokens. Whenever all candidates lie
# in H, what is accepted lies in H too. Let this have probability D(H). But tokens of H may be
# emitted only with P(H), the sum of p over H. So at least D(H) − P(H) is not accepted. Look for the
# worst H. Write it: `hint("most-accepted", 1)` helps.

# %%
goal("most-accepted")


# %% tags=["exercise"]
def most_accepted(p, drawn):
    """Returns the most that a lossless rule can accept of the candidates for one position.

    It is 1 + the least of P(H) - D(H), over all sets H of tokens, also the empty one.
    P(H): the sum of p over H. D(H): how probable it is that all candidates lie in H.
    p: [V] probabilities, of the ids 0 to V - 1.
    drawn: pairs (candidates, probability). Candidates are a tuple of ids, such as (0, 2).
    """
    ...


check("most-accepted", most_accepted)

# %% [markdown]
# Here is ours, for p and q from above.


# %% tags=["written", "nbval-check-output"]
def limit(p, drawn):
    """Returns what no lossless rule can exceed: 1 + the least of P(H) - D(H)."""
    ids = range(len(p))
    spare = []
    for chosen in (c for n in range(len(p) + 1) for c in combinations(ids, n)):
        inside = sum(share for candidates, share in drawn if {*candidates} <= {*chosen})
        spare.append(sum(float(p[x]) for x in chosen) - inside)
    return 1 + min(spare)


candidates_drawn = {
    "one": [((x,), float(q[x])) for x in (0, 1)],
    "two": [((x, y), float(q[x] * q[y])) for x, y in drafts],
    "both tokens": [((0, 1), 1.0)],
}
for name, drawn in candidates_drawn.items():
    print(f"{name}: at most {Fraction(limit(p, drawn)).limit_denominator(99)}")

# %% [markdown]
# This limit is for one position. With one candidate it is 2/3 = Σ min(p, q): the rejection rule is
# the best for one token. With two it is 8/9, since in 4 of 9 cases both are a. With two different
# ones it is 1.
#
# That this limit can be reached is a theorem (optimal transport: Sun and others 2023, Hu and others
# 2025). Now 300 positions with three to six tokens, and three candidates. All numbers are
# enumerated.

# %% tags=["claim-D7", "nbval-check-output"]
from minispec.evidence.atlas.atlas import measure
from minispec.evidence.atlas.family import positions
from minispec.evidence.atlas.rules import RULES

P, Q = positions()  # [300, V] each
three = {rule.name: measure(rule, 3, P, Q) for rule in RULES if 3 in rule.candidates}
for name, of in three.items():
    print(f"{name:30} accepted {of.accepted:.3f}, at most {of.optimum:.3f}")
assert all(of.largest < 1e-12 and of.accepted < of.optimum + 1e-12 for of in three.values())

# %% tags=["hide-input", "claim-D7"]
recursive = {rule.name: rule for rule in RULES}["recursive-with-replacement"]
differences = []
for n in range(8):
    triples = product(range(6), repeat=3)
    drawn = [(triple, prod(float(Q[n, x]) for x in triple)) for triple in triples]
    measured = measure(recursive, 3, P[[n]], Q[[n]])
    differences.append(abs(measured.optimum - limit(P[n], drawn)))
greedy = three["greedy-drafting"]
assert abs(greedy.accepted - greedy.optimum) < 1e-12  # it meets its limit
assert max(differences) < 1e-12

# %% [markdown]
# Two rules for the same candidates (`k-sequential` is SpecTr's) differ by 0.02, and the best
# possible is 0.06 above the first. With candidates without repetition the same rule accepts 0.16
# more. *Greedy drafting* takes the most probable tokens, and draws only the last one: it meets its
# limit. Fixed candidates are kept with the probability that p has for them, which is the least
# here.
#
# ## Lossy rules
#
# All these rules keep p. Some do not, on purpose: they accept more. How much more, and what for?

# %% tags=["predict"]
predict("mixture-by-hand", guess=None)

# %% tags=["claim-D7", "nbval-check-output"]
from minispec.evidence.proof.first_token import first_token
from minispec.verifiers.lossy import verify_mixture

mixed = first_token(verify_mixture, p, q)
off = sum(abs(x - float(y)) for x, y in zip(mixed.distribution, p, strict=True)) / 2
print(f"emits a with {mixed.distribution[0]:.3f}, b with {mixed.distribution[1]:.3f};", end=" ")
print(*(Fraction(x).limit_denominator(99) for x in (mixed.acceptance, off)), sep=" kept, damage ")
assert abs(mixed.acceptance - 5 / 6) + abs(off - 1 / 6) < 1e-12

# %% [markdown]
# One sixth more is accepted, and the damage is one sixth. That is the best price (Wang and others
# 2026, *DIVERSED*, show it of mixtures). For suppose that r is emitted, with damage d = TV(r, p).
# Then the rule is lossless for r, and accepts at most Σ min(r, q). That is at most Σ min(p, q) + Σ
# max(0, r − p), and the last sum is d. So **accepted ≤ optimum + damage**.
#
# Here are all rules for one candidate, on the 300 positions. (Block verification is token
# verification there.)

# %% tags=["claim-D7"]
from minispec.show.plots import charts
from minispec.show.plots.board import titled
from minispec.show.plots.style import aligned
from minispec.show.signs import DRAFTER, TARGET

alone = {rule.name: measure(rule, 1, P, Q) for rule in RULES if rule.candidates == (1,)}
best = alone["token"].optimum
spots = {name: (of.total_variation, of.accepted) for name, of in alone.items() if name != "block"}
lines = [(name, *(f"{x:.3f}" for x in spot)) for name, spot in spots.items()]
head = "What a rule accepts beyond the optimum, it pays for with damage"
bound = f"without damage at most {best:.3f} are accepted, with damage d at most d more"
shift = {"token": (14, -16), "coupled": (14, -30), "lenient": (-40, -32), "typical": (14, -14)}
assert all(kept < best + far + 1e-12 for far, kept in spots.values())

# %%
figure, axes = charts.chart(13, 8.5, "damage: total variation from p", "accepted")
axes.plot([0, 1 - best], [best, 1], "black", linewidth=2, label="optimum + damage")
for name, of in spots.items():
    look = DRAFTER if of[0] > 1e-9 else TARGET
    on = "mixture" in name
    axes.plot(*of, look.marker, color=look.colour, markersize=14, clip_on=False)
    offset = (-10, 12) if on else shift.get(name, (14, -8))
    charts.note(axes, name, of, offset, ha="right" if on else "left")
charts.keys(axes)
alt = f"Rules as points, accepted against damage, and a line that none exceeds: {bound}."
twin = aligned([("rule", "damage", "accepted"), *lines])
titled("rules", figure, head, alt, f"On 300 positions, {bound}.", twin)

# %% [markdown]
# Squares are lossy. No rule is above the line, and the mixtures lie on it. `typical` does as much
# damage as `mixture`, and accepts less. But it asks for no q. Along a text damage adds up.

# %% [markdown]
# ### Try it: change a value and run the cell again
#
# Other p and q, or another `n` of candidates (2 or 3, for rules that take several): which rule
# comes closest to its limit?

# %% tags=["try-it"]
my_p = [0.5, 0.3, 0.2]
my_q = [0.2, 0.2, 0.6]
n = 1
given = [torch.tensor([dist]).double() for dist in (my_p, my_q)]
for rule in [rule for rule in RULES if n in rule.candidates]:
    of = measure(rule, n, *given)
    print(f"{rule.name:30} accepted {of.accepted:.3f}, limit {of.optimum:.3f},", end=" ")
    print(f"damage {of.total_variation:.3f}")

# %%
result = f"of two tokens {Fraction(block).limit_denominator(99)} are accepted as a block"
result += f" and {accepted} one by one"
wrote(judged, running, accept_block, limit, measured=f"{result}, both without damage.")

# %% [markdown]
# ## What to choose
#
# | you have | take | it needs | here |
# |---|---|---|---|
# | temperature 0 | agreement with the best token | p | `verify_greedy` |
# | one draft, and its q | token by token | p, q; a number u a token | `verify_rejection` |
# | a long draft, a slow target | block | the same of the whole draft | `verify_block` |
# | no q | sample and compare | p; accepts Σ p·q | `verify_compare` |
# | texts that no draft may change | the coupled rule | shared noise | `verify_coupled` |
# | several candidates | recursive rejection, none twice | q of each | `verify_tree` |
# | the same, and q to sort | greedy drafting | q; one draw | `verify_tree` |
# | a text that may differ | a mixture, whose damage is known | p, q, a weight | `verify_mixture` |
#
# Where q is one-hot, as for a look-up, all four rules for one draft above temperature 0 accept the
# same. Then sample and compare is enough.
#
# `minispec atlas` has all rules, with what they emit and accept; `minispec atlas --rule block` has
# one.

# %% [markdown]
# ## Recap
#
# - Ask three things of a rule: what is emitted, how much is accepted, what it needs. The first two
#   can be enumerated.
# - For one token no lossless rule beats rejection. For a draft as a whole block verification does,
#   because a later token makes up for an earlier one, and no rule of its kind beats it.
# - Its coins belong together. Stop at the first rejection, and the text changes.
# - How much any rule can accept of given candidates for one position is known. On these 300
#   positions, more is accepted of candidates drawn without replacement than by the best rule of
#   candidates drawn with replacement. On the pair with two candidates it is less (see the atlas).
# - A lossy rule accepts at most its damage more than a lossless one.
#
# This was the last notebook. Next, check your own rule: `docs/howto/own_verifier.md`.
