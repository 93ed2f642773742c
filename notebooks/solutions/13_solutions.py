# %% [markdown]
# # 13. Solutions: grow a tree

# %%
from minispec.classroom import check
from minispec.core.verify import residual

# %% [markdown]
# ## Say what each token of a tree sees
#
# The pending token sees itself. Each other token sees what its parent sees, and itself. Parents
# come before their children, so a parent's row is always there when it is needed.


# %% tags=["exercise"]
def tree_mask(parents):
    mask = [[True] + [False] * len(parents)]
    depths = [0]
    for i, parent in enumerate(parents, start=1):
        mask.append([sees or j == i for j, sees in enumerate(mask[parent])])
        depths.append(depths[parent] + 1)
    return mask, depths


check("tree-mask", tree_mask, strict=True)

# %% [markdown]
# ## Try candidates one after another
#
# After a rejection the residual is what still has to come out. So it takes the place of p, for the
# next candidate or for the last draw. Each candidate is tested with its own q.


# %% tags=["exercise"]
def try_candidates(tokens, dists, p, rng):
    remaining = p
    for n, (x, q) in enumerate(zip(tokens, dists, strict=True)):
        if rng.uniform() < remaining[x] / q[x]:
            return n, x
        remaining = residual(remaining, q)
    return len(tokens), rng.draw(remaining)


check("try-candidates", try_candidates, strict=True)

# %% [markdown]
# ## Say which slots stay
#
# Parents lead from the last kept token back to the pending one. Number i was read into slot cached
# + i.


# %% tags=["exercise"]
def slots_to_keep(cached, parents, last):
    path = []
    while last:
        path.insert(0, cached + last)
        last = parents[last - 1]
    return [*range(cached + 1), *path]


check("slots-to-keep", slots_to_keep, strict=True)
