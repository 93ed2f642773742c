# %% [markdown]
# # 13. Grow a tree
#
# **You'll do**: lay a tree of candidates beside its mask, write the rule that tries one candidate
# after another, enumerate what comes out of it, and let a chain and a tree draft the same stories.
#
# **You'll learn**: how one forward checks several candidates for one position, why the text keeps
# the target's distribution, and what the extra tokens cost.
#
# **You'll need**: notebooks 5 to 8.
#
# **Time**: 40 minutes, and half a minute of computing.

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

# %%
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

# %% tags=["written", "claim-D5", "nbval-check-output"]
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

# %% tags=["claim-D5"]
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
# with another text in its cache than on the page.
#
# ## Chain or tree, on stories
#
# Now the package. Its draft model grows a tree level by level: all tokens of a depth in one small
# forward. So a chain of K and a tree that is K deep take as many draft forwards. Eight stories, and
# trees of 16 tokens:

# %% tags=["written", "claim-D5"]
from minispec.drafters.tree import TreeDrafter, common_tree, grow
from minispec.verifiers.tree import verify_tree


def run_with(drafter, k, T):
    """A run of the package's loop on eight stories, at temperature T."""
    rule = verify_tree if isinstance(drafter, TreeDrafter) else minispec.verify_rejection
    given = ends | dict(verifier=rule, warp=minispec.Warp(T), rng=minispec.SeededRng(1))
    return minispec.record(target, drafter, prompts, k=k, **given)


runs = {}
print("K  T   tokens a call: chain, tree   milliseconds of a target's forward: chain, tree")
for k, T in [(2, 0), (2, 1), (5, 0), (5, 1)]:
    grown = TreeDrafter(pair.draft, common_tree(16, k))
    both = runs[k, T] = [run_with(of, k, T) for of in (minispec.ModelDrafter(pair.draft), grown)]
    counts = [run.statistics() for run in both]
    gains = "  ".join(f"{of.tokens_per_target_call:.2f}" for of in counts)
    times = "  ".join(f"{1000 * of.seconds['verify'] / of.target_calls:2.0f}" for of in counts)
    print(f"{k}  {T}   {gains:25}   {times}")

# %% tags=["hide-input", "claim-D5"]
cold = [run for (_, T), both in runs.items() for run in both if T == 0]
assert all(run.tokens(row) == cold[0].tokens(row) for run in cold for row in range(8))
gains = [run.statistics().tokens_per_target_call for run in cold]  # a chain, a tree, a chain, …
assert all(tree > chain for chain, tree in zip(gains[::2], gains[1::2], strict=True))
forwards = []
round_rng = RoundRng(minispec.SeededRng(1), RoundPlan.unlimited(1, target.device))
counting = pair.draft.layers.register_forward_hook(lambda *_: forwards.append(1))
for drafter in (minispec.ModelDrafter(pair.draft), TreeDrafter(pair.draft, common_tree(16, 4))):
    drafter.start([prompt], torch.empty(1, 0, target.hidden_size))  # one forward
    drafter.propose(torch.tensor(prompt[-1:]), 4, minispec.Warp(), round_rng)
counting.remove()
assert len(forwards) == 2 * (1 + 4)

# %% [markdown]
# The tree emits more, for as many draft forwards. But the target reads up to 17 tokens instead of K
# + 1. On a laptop, with eight rows, that mostly costs more than it saves. A tree pays where more
# tokens in a forward are nearly free, as on a GPU with one text. Where the draft is often sure, a
# chain of 16 uses them better: see the last table of notebook 12.
#
# ### Try it: change a value and run the cell again
#
# Now give both the same number of tokens to verify. Does the tree still emit more? Try a smaller
# tree, a shallower one, other temperatures.

# %% tags=["try-it"]
nodes = 16
depth = 5
T = 1
chain = run_with(minispec.ModelDrafter(pair.draft), nodes, T).statistics()
tree = run_with(TreeDrafter(pair.draft, common_tree(nodes, depth)), depth, T).statistics()
print(f"a chain of {nodes}: {chain.tokens_per_target_call:.2f} tokens a target call,", end=" ")
print(f"{nodes} draft forwards a round")
print(f"a tree of {nodes}:  {tree.tokens_per_target_call:.2f}, {depth} draft forwards a round")

# %% tags=["hide-input"]
assert (nodes, depth, T) != (16, 5, 1) or chain.tokens_per_target_call > tree.tokens_per_target_call

# %% [markdown]
# On stories the chain of 16 emits more: this draft is mostly right. What the tree saves is draft
# forwards, not target positions.
#
# ## Which shape?
#
# Note how often the first, second and third candidate of a position is kept. If that did not depend
# on other positions, a path would be kept with the product of these *rates*, and a call would emit
# 1 plus the sum over all paths. So always add the most probable path next, no deeper than K
# (Sequoia, Chen and others 2024).


# %% tags=["written"]
def best_first(rates, nodes, depth):
    """The most probable paths, each as the candidates along it, from 0, and their probabilities."""
    waiting = [(rates[0], (0,))]
    tree = []
    while len(tree) < nodes:
        share, path = max(waiting)
        waiting.remove((share, path))
        tree.append((path, share))
        if len(path) < depth:
            waiting.append((share * rates[0], (*path, 0)))  # its first child
        *before, last = path
        if last + 1 < len(rates):  # the next candidate for the same position
            waiting.append((share / rates[last] * rates[last + 1], (*before, last + 1)))
    return tree


# %% tags=["claim-D5"]
three = run_with(TreeDrafter(pair.draft, [0, 0, 0]), k=1, T=1)
tested = [(r, row) for r in three.rounds for row in range(8) if r.live[row] and r.drafted(row) == 3]
kept = [r.verdict.kept()[row] for r, row in tested]
rates = [kept.count([n]) / len(kept) for n in range(3)]
print("on stories", *(f"{rate:.3f}" for rate in rates), "are kept at temperature 1")
shapes = {}
gains = []
for name, of in (("rates of stories", rates), ("a draft in doubt", [0.4, 0.25, 0.15])):
    gains.append(1 + sum(share for _, share in best_first(of, 16, depth=6)))
    shapes[name], ranks = grow([of] * 6, 16)
    print(f"{name}: a tree emits {gains[-1]:.2f}, a chain {sum(of[0] ** i for i in range(7)):.2f}")
masks.tree_shapes(shapes)

# %% tags=["hide-input", "claim-D5"]
for given, gain in zip((rates, [0.4, 0.25, 0.15]), gains, strict=True):
    shares = [1.0]
    for parent, rank in zip(*grow([given] * 6, 16), strict=True):
        shares.append(shares[parent] * given[rank])
    assert abs(sum(shares) - gain) < 1e-9

# %% [markdown]
# Sure drafts go deep, doubtful ones wide. (If drafting were free, the stories' best 16 tokens would
# be a chain.)

# %%
measured = run_with(TreeDrafter(pair.draft, shapes["rates of stories"]), k=6, T=1).statistics()
result = f"{measured.tokens_per_target_call:.2f} tokens a target call with the tree for these rates"
result += f", {gains[0]:.2f} predicted."
wrote(seen_from, accept_path, path_slots, best_first, measured=result)

# %% [markdown]
# ## Recap
#
# - A tree has several candidates for one position. One forward checks all of it, because each token
#   sees its own ancestors only, and siblings share a position.
# - Candidates are tried one after another. Each rejection replaces p by its residual. However they
#   are chosen, the text keeps its distribution, if each is tested with the q that it was drawn
#   from.
# - The slots of the path are moved together. A sibling that stays spoils the text.
# - For as many draft forwards a tree emits more tokens a call than a chain. The target reads more:
#   for as many tokens read, on stories, the chain emits more.
# - How often candidates are kept decides the shape: sure drafts go deep, doubtful ones wide.
#
# Next, notebook 14: many prompts on a few rows.
