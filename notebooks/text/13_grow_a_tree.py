# %% [markdown]
# # 13. Grow a tree
#
# **You'll do**: lay a tree of candidates beside its mask, write the rule that tries one candidate
# after another, enumerate what comes out of it, and compare a chain and trees of the same size.
#
# **You'll learn**: how one forward checks several candidates for one position, why the text keeps
# the target's distribution, when a tree is better than a chain, and what may prune it.
#
# **You'll need**: notebooks 5 to 8.
#
# **Time**: 60 minutes, and a minute of computing.

# %%
import torch

import minispec
from minispec.classroom import check, goal, hint, predict, wrote
from minispec.core.basic import catch_up, read  # you wrote them in notebook 2
from minispec.core.rng import RoundPlan, RoundRng

pair = minispec.load_pair("stories")
target, tokenizer = pair.target, pair.tokenizer
prompts = pair.info["prompts"][:8]
words = [tokenizer.piece(token) for token in range(target.vocab_size)]
ends = dict(max_new_tokens=48, eos=tokenizer.end_of_text)
prompt = tokenizer.encode(pair.walkthrough + " sat on the")
print("…" + tokenizer.decode(prompt[-16:]))

# %% [markdown]
# A chain of K tokens ends at its first rejection, and what comes after it is lost. So what if the
# draft is in doubt about the next position, and proposes two tokens for it?

# %% tags=["predict"]
predict("chain-or-tree", guess=None)

# %% [markdown]
# A token counts if it and all before it on its branch are right. So the chain emits 1 + 0.5 · (1 +
# 0.9 + … + 0.9⁵) = 3.34 tokens, and the two branches emit 1 + (0.5 + 0.4) · (1 + 0.9 + 0.9²) =
# 3.44.
#
# Here is such a place in the story. The draft's two most probable tokens are followed up, and so is
# the chain, all greedily.


# %% tags=["written", "nbval-check-output"]
def followed(model, text, n):
    """The n most probable tokens after a text, one after the other."""
    for _ in range(n):
        text = [*text, int(model(torch.tensor([text]))[0, -1].argmax())]
    return text[-n:]


q = pair.draft(torch.tensor([prompt]))[0, -1].softmax(-1)
branches = [[x, *followed(pair.draft, [*prompt, x], 2)] for x in q.topk(2).indices.tolist()]
chain = followed(pair.draft, prompt, 6)
true = followed(target, prompt, 4)
for name, some in (("chain", chain), ("branch", branches[0]), ("branch", branches[1])):
    print(f"{name:8} q = {q[some[0]]:.2f}:", *(repr(words[token]) for token in some))
print("the target emits: ", *(repr(words[token]) for token in true))
assert chain[0] != true[0] and branches[1] == true[:3]

# %% [markdown]
# The cat slept on the floor, and the draft has forgotten it. The chain emits one token here, the
# correction. The second branch is right, and would emit four. But how can one forward read both?
#
# ## One forward for a tree
#
# Each branch is a text of its own. So each token may see its own ancestors only: that takes a mask.
# Give a tree by its *parents*. Number 0 is the pending token, then come the drafted ones, parents
# before their children. If you are stuck: `hint("tree-mask", 1)`, and then 2.

# %%
goal("tree-mask")


# %% tags=["exercise"]
def tree_mask(parents):
    """Returns (mask, depths) for a pending token and the K tokens of a tree after it.

    parents: of each token in the tree its parent: 0 is the pending token, i + 1 is token i.
    A parent always comes before its children.
    mask: K + 1 lists of K + 1 each: mask[i][j] is True if number i sees number j.
    Each sees itself, its parent, the parent's parent, and so on; nothing else.
    depths: K + 1 numbers: how far each is from the pending token, which is number 0.
    """
    ...


check("tree-mask", tree_mask)

# %% [markdown]
# Here is ours. A row of the mask is its parent's row, and one True more.


# %% tags=["written", "claim-D5"]
from minispec.core.model import Tree
from minispec.show.plots import masks


def seen_from(parents):
    """Returns what each of K + 1 tokens sees, and its depth; number 0 is the pending token."""
    mask = [[True] + [False] * len(parents)]
    depths = [0]
    for i, parent in enumerate(parents, start=1):
        mask.append([sees or j == i for j, sees in enumerate(mask[parent])])
        depths.append(depths[parent] + 1)
    return mask, depths


parents = [0, 0, 1, 2, 3, 4]
cached = len(prompt) - 1
block = [prompt[-1], *sum(zip(*branches, strict=True), ())]  # the pending token, and level by level
package = Tree.after(torch.tensor([0]), torch.tensor([parents]))
assert seen_from(parents) == (package.mask[0].tolist(), package.positions[0].tolist())
masks.tree_mask(parents, [words[token] for token in block], first=cached)

# %% [markdown]
# On the left, columns are positions in the text.

# %% tags=["predict"]
predict("sibling-position", guess=None)

# %% [markdown]
# A token's position is the number of tokens of its text that come before it. So siblings share one.
#
# Let the target read the tree, in one forward. Is each token's row what it would be if its branch
# were read as a plain text? And what if each token's position is its slot in the cache?


# %% tags=["written", "claim-D5"]
def score_tree(block, parents, cache, places=None):
    """Reads a pending token and a tree in one forward: the target's logits [K + 1, V]."""
    mask, depths = seen_from(parents)
    positions = torch.tensor([[int(cache.lengths) + place for place in places or depths]])
    tree = Tree(positions, torch.tensor([mask]))
    return target.head(target.hidden(torch.tensor([block]), cache, tree=tree))[0]


texts = [[x for x, sees in zip(block, row, strict=True) if sees] for row in seen_from(parents)[0]]
plain = [target(torch.tensor([[*prompt[:-1], *text]]))[0, -1] for text in texts]
for name, places in (("slot", range(7)), ("depth", None)):
    cache = target.new_cache(rows=1)
    catch_up(target, cache, prompt)  # prefill: all but the pending token
    logits = score_tree(block, parents, cache, places)
    apart = [float((a - b).abs().max()) for a, b in zip(logits, plain, strict=True)]
    print(f"position by {name:5}: logits are off by", *(f"{far:.4f}" for far in apart))
assert max(apart) < 1e-3

# %% [markdown]
# By depth each row is right, up to rounding: one forward gives the target's distribution after
# every token of the tree.
#
# ## One candidate after another
#
# Greedily it is simple: from the pending token on, keep the child that the target wants. With
# sampling, a rule is needed for several candidates. Take the distributions of notebook 6, and draw
# two candidates.

# %% tags=["predict"]
predict("two-from-one-q", guess=None)

# %% [markdown]
# The first candidate is tested as in notebook 6. If it is rejected, then the residual has to come
# out, not p any more. So the second candidate is tested against the residual, and so on. That is
# *recursive rejection* (SpecInfer, Miao and others 2024). Write it.

# %%
goal("try-candidates")


# %% tags=["exercise"]
def try_candidates(tokens, dists, p, rng):
    """Returns (n, id): how many candidates for one position are rejected, and which id is emitted.

    tokens: ids of the candidates. dists[i] is the distribution [V] that tokens[i] was drawn
    from, given those before it. p: the target's distribution [V].
    The first candidate that is accepted is emitted. If none is, an id is drawn.
    rng.uniform() is a new number between 0 and 1, to be compared: u < 0.3.
    rng.draw(distribution [V]) draws an id.
    """
    ...


check("try-candidates", try_candidates)

# %% [markdown]
# Here is ours, for the distributions of notebook 6.

# %% tags=["written"]
from minispec.core.verify import residual  # you wrote it in notebook 6

p, q = (torch.tensor(parts).double() / 6 for parts in ([3, 2, 1], [1, 1, 4]))


def try_one(tokens, dists, p, rng):
    """Emits the first accepted candidate, or draws from the last residual."""
    remaining = p
    for n, (x, q) in enumerate(zip(tokens, dists, strict=True)):
        if rng.uniform() < remaining[x] / q[x]:
            return n, x
        remaining = residual(remaining, q)
    return len(tokens), rng.draw(remaining)


# %% [markdown]
# What is emitted? Go through every branch: both draws, each test, the last draw. `drawn` gives what
# the next candidate is drawn from, after those before it, and `reported` the q with which it is
# tested.


# %% tags=["written"]
from minispec.classroom.trials import enumerate_row
from minispec.evidence.proof.first_token import FirstToken, parts
from minispec.evidence.theory.formulas import total_variation


def two_candidates(drawn, reported):
    """Enumerates what comes out of two candidates: as one of them, or drawn after both."""

    def once(rng):
        tokens, dists = [], []
        for _ in range(2):
            dists.append(reported(tokens))
            tokens.append(rng.draw(drawn(tokens)))
        return try_one(tokens, dists, p, rng)

    kept = [0.0] * 3
    added = [0.0] * 3
    for (n, x), share in enumerate_row(once):
        (kept if n < 2 else added)[x] += share
    return FirstToken(tuple(kept), tuple(added))


# %% tags=["claim-D5", "nbval-check-output"]
def others(before):
    rest = q * torch.tensor([token not in before for token in range(3)])
    return rest / rest.sum()  # q without the candidates before, renormalised


fixed = torch.eye(3).double()[[2, 0]]  # one-hot: c, and then a
ways = {"both from q": lambda before: q, "the second from the others": others}
ways["c, then a, always"] = lambda before: fixed[len(before)]
print(f"p is {parts(p, 12)}. One candidate from q is kept in 6/12 of all cases.")
outcomes = {name: two_candidates(way, reported=way) for name, way in ways.items()}
for name, of in outcomes.items():
    print(f"{name:27} kept {12 * of.acceptance:2.0f}/12, emits {parts(of.distribution, 12)}")
assert all(total_variation(of.distribution, p.tolist()) < 1e-12 for of in outcomes.values())

# %% [markdown]
# All three have distribution p. Drawn *with replacement*, the second candidate may be the first
# once more, which is a waste. *Without replacement* (Jeon and others 2024) more is kept. *Fixed*
# candidates, such as the most probable ones, are certain: q is one-hot, as for a look-up in
# notebook 12, and each is kept with the probability that is left on it.
#
# Does it matter which q is reported?

# %% tags=["predict"]
predict("which-q", guess=None)

# %% tags=["hide-input"]
from minispec.show.plots.distributions import rule_distribution

wrong = two_candidates(others, reported=lambda before: q)
away = total_variation(wrong.distribution, p.tolist())
print(f"kept {wrong.acceptance:.2f}, and the total variation from p is {away:.3f}")
assert abs(away - 1 / 12) < 1e-12
rule_distribution(wrong, p.tolist(), "abc", name="With q for both, the rule")

# %% [markdown]
# It keeps everything, and the text is another one: b too often, a too seldom. After a rejected c,
# each of a and b is proposed half of the time, and the test believes that they are rare.
#
# ## The whole tree
#
# A tree has such candidates at each position. Go through its tokens in their order. Only children
# of the last token that was kept are tested. A kept one brings its own p, and its children.


# %% tags=["written"]
def accept_path(tokens, parents, dists, target_dists, rng):
    """Keeps a path of a tree, from the pending token on, and adds the target's next token."""
    remaining = target_dists[0]
    at = 0
    path = []
    for i, (x, q) in enumerate(zip(tokens, dists, strict=True), start=1):
        if parents[i - 1] != at:
            continue  # it follows a token that was not kept
        if rng.uniform() < remaining[x] / q[x]:
            remaining = target_dists[i]
            at = i
            path = [*path, x]
        else:
            remaining = residual(remaining, q)
    return [*path, rng.draw(remaining)]


# %% [markdown]
# Here are all branches of a round with the tree of the story, at temperature 1. (So that there are
# not too many, the target's warp keeps the three most probable tokens.) The candidates are fixed.

# %% tags=["hide-input", "claim-D5", "nbval-check-output"]
dists = torch.eye(target.vocab_size).double()[list(block[1:])]  # one-hot
target_dists = minispec.Warp(top_k=3)(logits.double())  # [K + 1, V]
round_of = enumerate_row(
    lambda rng: tuple(accept_path(block[1:], parents, dists, target_dists, rng))
)
for emitted, share in sorted(round_of, key=lambda of: -of[1])[:4]:
    print(f"{share:.3f} ", *(repr(words[token]) for token in emitted))
first = [sum(share for emitted, share in round_of if emitted[0] == x) for x in range(len(words))]
assert total_variation(first, target_dists[0].tolist()) < 1e-12

# %% tags=["hide-input", "claim-D5"]
from minispec.classroom.parts import RowRng
from minispec.drafters.tree import TreeDrafter
from minispec.verifiers.tree import verify_tree

wide, pairs = TreeDrafter(pair.draft, [0, 0, 0, 1, 1, 2, 4]), []
for start, seed in [(start, seed) for start in prompts for seed in range(10)]:
    given = dict(k=9, max_new_tokens=9, warp=minispec.Warp(2), rng=minispec.SeededRng(seed))
    r = next(minispec.speculate(target, wide, [start], verifier=verify_tree, **given))
    drawn, qs, ps = r.draft.tokens[0].tolist(), r.draft.probs[0].double(), r.target_probs[0]
    path = accept_path(drawn, wide.parents, qs, ps.double(), RowRng(minispec.SeededRng(7)))
    verdict = verify_tree(r.draft, r.target_probs, minispec.SeededRng(7))
    pairs.append((path, [*(drawn[i] for i in verdict.kept()[0]), int(verdict.token)]))
assert all(a == b for a, b in pairs) and {len(a) for a, _ in pairs} >= {2, 3, 4}

# %% [markdown]
# The package's rule gives the same verdicts, seed by seed.
#
# ## What stays in the cache
#
# The forward has read seven tokens into the cache, one after the other, whatever their positions.
# Suppose that `floor . Pip` is kept. Which slots stay?

# %%
goal("slots-to-keep")


# %% tags=["exercise"]
def slots_to_keep(cached, parents, last):
    """Returns the slots of a cache that stay after a tree, as an ascending list.

    The cache held `cached` tokens. Then the pending token and the K tokens of a tree were
    read into the next K + 1 slots, in their order.
    parents: of each token in the tree its parent: 0 is the pending token, i + 1 is token i.
    last: the number of the last token that is kept; 0 if only the pending one is.
    """
    ...


check("slots-to-keep", slots_to_keep)

# %% [markdown]
# Go back from the last kept token to the pending one. `gather` moves these slots together. That
# copies something, but only the path. Keys were turned by their positions (notebook 2), and a
# position is where a token ends up: so they stay right.


# %% tags=["written", "claim-D5", "nbval-check-output"]
def path_slots(cached, parents, last):
    """The slots of what was cached, of the pending token, and of the path to the last kept one."""
    path = []
    while last:
        path, last = [cached + last, *path], parents[last - 1]
    return [*range(cached + 1), *path]


cache = target.new_cache(rows=1)
catch_up(target, cache, prompt)
score_tree(block, parents, cache)
slots = path_slots(cached, parents, last=6)
depths = seen_from(parents)[1]
for slot, (x, depth) in enumerate(zip(block, depths, strict=True), start=cached):
    goes = f"stays, in slot {slots.index(slot)}" if slot in slots else "goes"
    print(f"slot {slot}  position {cached + depth}  {words[x]!r:9} {goes}")
cache.gather([slots])
assert cache.row_lengths == (cached + 4,)

# %% [markdown]
# Is it the cache of the text? Read the bonus, ` the`, and compare with a text that was read from
# the start. Then do what would be right for a chain: keep the first slots.

# %% tags=["hide-input", "claim-D5"]
bonus, rolled_back = true[3:], {}
rolled_back["the path"] = read(target, cache, bonus)[0]
cache = target.new_cache(rows=1)
catch_up(target, cache, prompt)
score_tree(block, parents, cache)
cache.truncate([cached + 4])  # the pending token, mat, floor, and a full stop
rolled_back["the first slots"] = read(target, cache, bonus)[0]
fresh = target(torch.tensor([[*prompt, *true]]))[0, -1]
for name, row in rolled_back.items():
    choice = f"{words[int(row.argmax())]!r} with {row.softmax(-1).max():.2f}"
    print(f"{name:15} logits off by {(row - fresh).abs().max():.4f}, then {choice}")
assert (rolled_back["the path"] - fresh).abs().max() < 1e-3

# %% [markdown]
# A sibling that stays is a word that the text does not have. Nothing crashes: the target goes on
# with another text than on the page.
#
# ## Which shape?
#
# Now the package. Its draft model grows a tree level by level: all tokens of a depth in one small
# forward. Which shape should 16 tokens have?


# %% tags=["written"]
from collections import Counter
from copy import deepcopy
from itertools import accumulate, product

from minispec.drafters.tree import TreeDrafter, grow
from minispec.evidence.bench.measure import measure_latency
from minispec.verifiers.tree import verify_tree

stories = pair.info["prompts"][:16]


def rounds_with(draft, parents, T):
    """All rounds on 16 stories with a tree of this shape."""
    given = ends | dict(k=len(parents), verifier=verify_tree, warp=minispec.Warp(T))
    drafter, rng = TreeDrafter(draft, parents), minispec.SeededRng(1)
    run = minispec.record(target, drafter, stories, rng=rng, **given)
    return [(r, row) for r in run.rounds for row, live in enumerate(r.live) if live]


# %% [markdown]
# Note how often the first, second and third candidate of a position is kept. If these *rates* were
# the same everywhere, a path would be kept with their product, and a call would emit 1 plus the sum
# over all paths. So always add the most probable path next.


# %% tags=["written"]
def best_first(rates, nodes, depth):
    """Returns [(path, probability)]; rates(path) are those of the candidates after a path."""
    waiting = [(rates(())[0], (0,))]
    tree = []
    while waiting and len(tree) < nodes:
        share, path = max(waiting)
        waiting.remove((share, path))
        tree.append((path, share))
        if len(path) < depth:
            waiting.append((share * rates(path)[0], (*path, 0)))  # its first child
        *before, last = path
        beside = rates(tuple(before))
        if last + 1 < len(beside):  # the next candidate for the same position
            waiting.append((share / beside[last] * beside[last + 1], (*before, last + 1)))
    return tree


# %% [markdown]
# Two drafts: the pair's, and a *doubtful* one, the same with noise in its weights.

# %% tags=["claim-D5"]
doubtful = deepcopy(pair.draft).requires_grad_(False)
generator = torch.Generator().manual_seed(0)
for w in doubtful.parameters():
    w += 0.2 * w.std() * torch.randn(w.shape, generator=generator)
drafts = {"the pair's draft": pair.draft, "a doubtful draft": doubtful}
rates = {}
for name, T in product(drafts, (0, 1)):
    rounds = rounds_with(drafts[name], [0, 0, 0], T)
    kept = [r.verdict.kept()[row] for r, row in rounds if r.drafted(row) == 3]
    rates[name, T] = [kept.count([n]) / len(kept) for n in range(3)]
    print(f"{name}, T = {T}, kept:", *(f"{rate:.3f}" for rate in rates[name, T]))
masks.tree_shapes({name: grow([rates[name, 1]] * 8, 16)[0] for name in drafts})

# %% [markdown]
# Sure drafts go deep, doubtful ones wide. (At most 8 deep, for each level is a draft forward. If
# drafting were free, the best 16 tokens of the pair's draft would be a chain.)
#
# ## Chain or tree, with the same budget
#
# A forward over 17 tokens takes as long for a chain of 16 as for a tree of 16. So give as many to a
# chain, to a *binary* tree, with two candidates everywhere, and to the tree that was grown for the
# rates. A draft forward for each level comes on top. How many tokens does each emit a call, and how
# many in the time of a target step, t(1)?

# %% tags=["written", "claim-D5"]
t = {of.width: of.seconds for of in measure_latency(target, [1, 2, 3, 5, 9, 17, 33, 65], repeats=5)}
step = measure_latency(pair.draft, [1], repeats=5)[0].seconds
binary = [i // 2 for i in range(16)]
measured = {}
print("with 16 to verify: tokens a call (and in the time of a target step)")
for (name, T), of in rates.items():
    predicted = 1 + sum(share for _, share in best_first(lambda path, of=of: of, 16, 8))
    print(f"{name}, T = {T}:", end="  ")
    for shape, parents in zip(
        ("chain", "binary", "grown"), (range(16), binary, grow([of] * 8, 16)[0]), strict=True
    ):
        rounds = measured[name, T, shape] = rounds_with(drafts[name], parents, T)
        gain = sum(len(r.emitted[row]) for r, row in rounds) / len(rounds)
        fast = gain * t[1] / (t[17] + seen_from(parents)[1][-1] * step)
        print(f"{shape} {gain:.2f} ({fast:.2f})", end="  ")
    print(f"predicted {predicted:.2f}")

# %% tags=["hide-input", "claim-D5"]
from minispec.evidence.theory.trees import most_tokens


def mean_of(key):
    return sum(len(r.emitted[row]) for r, row in measured[key]) / len(measured[key])


for name, T in rates:
    chain, tree = (mean_of((name, T, shape)) for shape in ("chain", "grown"))
    assert chain > tree if name == "the pair's draft" else tree > chain
cold = [sorted(of, key=lambda of: of[1]) for (_, T, _), of in measured.items() if T == 0]
texts = [[(row, x) for r, row in of for x in r.emitted[row]] for of in cold]
assert all(text == texts[0] for text in texts)  # whatever drafts it

# %% [markdown]
# With the pair's draft the chain emits most: the draft is mostly right, and a token far out on a
# chain is still kept more often than a second candidate. With the doubtful draft the trees emit
# more. In time the chain's lead shrinks, or is gone: it pays for 16 draft forwards.
#
# Why is what was predicted not what was measured? Count in the grown tree's own rounds, and leave
# out those that have no space for 16 tokens.

# %% tags=["hide-input", "written", "claim-D5"]
for key, of in rates.items():
    parents, ranks = grow([of] * 8, 16)
    depths = seen_from(parents)[1][1:]
    edges = [*zip(parents, zip(depths, ranks, strict=True), strict=True)]
    full = [r.verdict.kept()[row] for r, row in measured[*key, "grown"] if r.drafted(row) == 16]
    paths = [{0, *(i + 1 for i in path)} for path in full]
    tested = Counter(kind for path in paths for at, kind in edges if at in path)
    kept = Counter(edges[i - 1][1] for path in paths for i in path if i)
    shares = [1.0]
    for at, kind in edges:
        shares.append(shares[at] * kept[kind] / max(1, tested[kind]))
    emitted = sum(map(len, paths)) / len(paths)
    firsts = [f"{kept[n, 0] / max(1, tested[n, 0]):.2f}" for n in range(1, depths[-1] + 1)]
    print(f"{key[0]}, T = {key[1]}, first candidates kept at depths 1, 2, …:", *firsts)
    print(f"  {sum(shares):.2f} by depth, {emitted:.2f} full, {mean_of((*key, 'grown')):.2f} all")
    assert abs(sum(shares) / emitted - 1) < 0.1

# %% [markdown]
# Two assumptions fail. First, acceptance is not the same at each depth. A round of a deep tree
# mostly begins after a correction, and what follows a hard word is easy; further on come other hard
# words. With rates by rank *and depth* the sum is what these rounds emit, nearly. Second, near its
# end a text has no space for the whole tree, so all rounds together emit less. (And a rate is an
# estimate: here its standard error is about 0.02.)
#
# ### Try it: change a value and run the cell again
#
# Another number of tokens, another temperature, the other draft. From how many tokens on does the
# tree win?

# %% tags=["try-it"]
nodes = 8
T = 1
name = "a doubtful draft"
tree = grow([rates[name, 1]] * 8, nodes)[0]
for shape, parents in (("chain", range(nodes)), ("tree", tree)):
    rounds = rounds_with(drafts[name], parents, T)
    gain = sum(len(r.emitted[row]) for r, row in rounds) / len(rounds)
    print(f"a {shape} of {nodes}: {gain:.2f} tokens a target call")

# %% [markdown]
# ## How large?
#
# Sequoia (Chen and others 2024) finds the best tree of each size by *dynamic programming*. Take
# rates of 0.5 and 0.3. With no drafted token a call emits 1, with one 1 + 0.5 = 1.5. Two stand one
# below the other, 1 + 0.5 · 1.5 = 1.75, or side by side, 1 + 0.5 + 0.3 = 1.8. Of three, the first
# candidate's branch has three, two or one: 1 + 0.5 · 1.8, 1 + 0.5 · 1.5 + 0.3 or 1 + 0.5 + 0.3 ·
# 1.5. The second is best, 2.05. (Best first finds the same where rates fall.)
#
# A chain's curve ends at 1/(1 − α). A tree's goes on, more and more slowly.


# %% tags=["hide-input"]
def drawn(panels_of, y, title):
    figure, panels = charts.panels(2, 2, 13, 6.5)
    twin = []
    for axes, (panel, curves) in zip(panels, panels_of.items(), strict=True):
        charts.prepare(axes, "tokens to verify", y, title=panel)
        for (label, curve), (colour, line) in zip(curves.items(), charts.CURVES, strict=False):
            axes.plot(curve, line, color=colour, linewidth=3, label=label)
            twin.append(f"{panel}, {label}: {curve[4]:.2f}, {curve[16]:.2f}, {curve[64]:.2f}")
    charts.keys_below(figure)
    text = "with 4, 16 and 64 tokens\n" + "\n".join(twin)
    return titled("sizes", figure, title, f"Curves, {text}", f"{y}, by size".capitalize(), text)


assert [round(n, 9) for n in most_tokens([0.5, 0.3], 3)] == [1, 1.5, 1.8, 2.05]

# %% tags=["hide-input"]
from minispec.show.plots import charts
from minispec.show.plots.board import titled

curves = {}
for name in drafts:
    of, shares = rates[name, 1], [1.0]
    for i in range(64):
        shares.append(shares[i // 2] * of[i % 2])
    curves[name] = {"best tree": most_tokens(of, 64), "binary tree": [*accumulate(shares)]}
    curves[name]["chain"] = most_tokens(of[:1], 64)
sure = curves["the pair's draft"]
assert abs(sure["best tree"][16] - sure["chain"][16]) < 1e-9
drawn(curves, "tokens a call", "A doubtful draft needs a tree, a sure one hardly does")

# %% [markdown]
# But tokens are not time. A round takes t(n + 1), the target's forward over n drafted tokens and
# the pending one, and a draft forward a level. Sequoia measures t(n), and takes the size and the
# depth with the most tokens a second. Here for your machine, and for one where 65 tokens in a
# forward take as long as 1, as they nearly do on a GPU. (To find the best of all trees is
# assignment 3 of the course.)

# %% tags=["hide-input", "written"]
from minispec.drafters.costs import Costs

gains = {"t(n) of this machine": t, "t(n) = t(1)": {1: t[1], 65: t[1]}}
for panel, times in gains.items():
    costs, gains[panel] = Costs(step, times), {}
    for name in drafts:
        best, of = [1.0] + [0.0] * 64, rates[name, 1]
        for depth in range(1, 65):
            grown = [share for _, share in best_first(lambda path, of=of: of, 64, depth)]
            for n, m in enumerate(accumulate(grown, initial=1)):
                best[n] = max(best[n], m * t[1] / (costs.call(n + 1) + depth * step))
        tokens = enumerate(most_tokens(of[:1], 64))
        chain = [m * t[1] / (costs.call(n + 1) + n * step) for n, m in tokens]
        gains[panel] |= {f"tree, {name}": best, f"chain, {name}": chain}
        print(f"{panel}, {name}: tree {best.index(max(best))}, chain {chain.index(max(chain))}")
assert all(max(of) >= 1 for panel in gains.values() for of in panel.values())
drawn(gains, "times as fast", "The best size depends on t(n), and on the draft")

# %% [markdown]
# So a chain wins where the draft is mostly right and draft forwards cost little, a tree where the
# draft is in doubt or depth is expensive. Where t(n) rises early, both had better be small.
#
# ## What may prune a tree?
#
# Not all that was drafted need be verified. Here is a tempting way: draw several candidates, and
# verify the one that the draft likes best. Take p and q of notebook 6 again, and two candidates
# that differ. With which q is the one tested that is kept?


# %% tags=["written", "claim-D5", "nbval-check-output"]
def favourite(rng):
    """Draws two that differ, and keeps the one to which the draft gives more."""
    first = rng.draw(q)
    return max(first, rng.draw(others([first])), key=lambda x: q[x])


def emitted_with(reported):
    """The distribution of what is emitted, if a q is reported for what was kept."""

    def once(rng):
        x = favourite(rng)
        return try_one([x], [reported(x)], p, rng)[1]

    return [share for _, share in enumerate_row(once)]


kept = torch.tensor([share for _, share in enumerate_row(favourite)])
print(f"q is {parts(q, 30)}; what is kept has {parts(kept, 30)}")
ways = {"q": lambda x: q, "what is kept": lambda x: kept, "one-hot": lambda x: torch.eye(3)[x]}
away = [total_variation(emitted_with(way), p.tolist()) for way in ways.values()]
print("total variation from p:", dict(zip(ways, (f"{far:.3f}" for far in away), strict=True)))
assert away[0] > 0.05 and max(away[1:]) < 1e-9

# %% [markdown]
# A draw that is dropped for what it is changes the distribution of what stays. Tested with q, the
# text is wrong. It is right with the distribution of what stays, if known; and with one-hot, which
# is true of each token, however it was found, but keeps less. What may prune: distributions, and
# tokens drawn before, ancestors and earlier siblings.
#
# ## A tree for each text
#
# EAGLE-2 (Li, Wei and others 2024) drafts a wide tree of the most probable tokens, and verifies
# those with the highest product of draft probabilities. Nothing is drawn, distributions decide: so
# it is lossless, with one-hot q. It is best first again, with the draft's probabilities after
# *this* text for rates.


# %% tags=["written"]
from functools import lru_cache

from minispec.evidence.theory.acceptance import target_only_texts

eos = [tokenizer.end_of_text]


@torch.inference_mode()
def likely_tree(draft, text, nodes, depth):
    """Returns tokens and parents of the tree whose paths the draft thinks most probable."""

    @lru_cache
    def likely(path):  # the three most probable tokens after a path
        before = [int(likely(path[:i]).indices[rank]) for i, rank in enumerate(path)]
        return draft(torch.tensor([[*text, *before]]))[0, -1].softmax(-1).topk(3)

    tree = best_first(lambda path: likely(path).values.tolist(), nodes, depth)
    paths = sorted((path for path, _ in tree), key=lambda path: (len(path), path))  # by level
    places = {(): 0} | {path: i for i, path in enumerate(paths, start=1)}
    tokens = [int(likely(path[:-1]).indices[path[-1]]) for path in paths]
    return tokens, [places[path[:-1]] for path in paths]


# %% tags=["hide-input", "claim-D5"]
tokens, parents = likely_tree(pair.draft, prompt, 6, 3)
story = target.new_cache(rows=1)
catch_up(target, story, prompt)
dists = torch.eye(target.vocab_size).double()[tokens]
target_dists = minispec.Warp(top_k=3)(score_tree([prompt[-1], *tokens], parents, story).double())
rounds = enumerate_row(lambda rng: tuple(accept_path(tokens, parents, dists, target_dists, rng)))
first = [sum(share for path, share in rounds if path[0] == x) for x in range(len(words))]
print("its tree for the story:", *(repr(words[token]) for token in tokens), "parents", *parents)
assert total_variation(first, target_dists[0].tolist()) < 1e-12

# %% [markdown]
# Enumerated as above, p stays. A candidate that was not drawn is kept exactly if the target's own
# token is this one. So a text that the target has written alone tells how many calls it would have
# taken.


# %% tags=["written", "claim-D5"]
def calls(draft, start, text):
    """How many target calls a text takes after its start, with 16 tokens a round, 8 deep."""
    at = count = 0
    while at < len(text):
        edges = [*zip(*likely_tree(draft, [*start, *text[:at]], 16, 8), strict=True)]
        node, count = 0, count + 1
        while at < len(text) - 1 and (text[at], node) in edges:
            node, at = edges.index((text[at], node)) + 1, at + 1
        at += 1  # the target's own token
    return count


gains = []
for name, T in rates:
    texts = target_only_texts(target, stories, 48, minispec.Warp(T), minispec.SeededRng(0), eos)
    used = sum(calls(drafts[name], *both) for both in zip(stories, texts, strict=True))
    gains.append(f"{sum(map(len, texts)) / used:.2f} ({name}, T = {T})")
wrote(seen_from, accept_path, path_slots, best_first, measured=", ".join(gains))

# %% [markdown]
# ## Recap
#
# - A tree has several candidates for one position. One forward checks all of it, because each token
#   sees its own ancestors only, and siblings share a position.
# - Candidates are tried one after another. Each rejection replaces p by its residual. However they
#   are chosen, the text keeps its distribution, if each is tested with the q that it was drawn
#   from. A draw must not be dropped for what it is.
# - The slots of the path are moved together. A sibling that stays spoils the text.
# - How often candidates are kept decides the shape: sure drafts go deep, doubtful ones wide. With
#   as many tokens to verify a chain emits more where the draft is mostly right, a tree where it is
#   in doubt.
# - A prediction from rates assumes that they are the same at each depth, and that a text has space.
# - t(n) and the draft's time decide the size.
# - A tree for each text emits more at temperature 0 than one for all. With sampling it emits less
#   here: candidates that are certain are kept less often than drawn ones.
#
# Next, notebook 14: many prompts on a few rows.
