# %% [markdown]
# # 15. Solutions: choose a rule

# %%
from itertools import combinations

from minispec.classroom import check

# %% [markdown]
# ## Weigh a draft as a whole
#
# One number goes along. It is cut before it goes on, so what was above 1 is lost.


# %% tags=["exercise"]
def block_ratios(tokens, dists, target_dists):
    w = 1.0
    ratios = []
    for x, q, p in zip(tokens, dists, target_dists, strict=False):
        w = min(1.0, w * float(p[x] / q[x]))
        ratios.append(w)
    return ratios


check("block-ratios", block_ratios, strict=True)

# %% [markdown]
# ## Find out how much any rule can accept
#
# When all candidates lie in H, what is accepted is in H as well. So at least D(H) - P(H) is lost.
# The worst set decides. (That nothing more is lost is the theorem: a flow as large as the
# narrowest cut.)


# %% tags=["exercise"]
def most_accepted(p, drawn):
    spare = []
    for n in range(len(p) + 1):
        for some in combinations(range(len(p)), n):
            inside = [share for tokens, share in drawn if set(tokens) <= set(some)]
            spare.append(sum(p[x] for x in some) - sum(inside))
    return 1 + min(spare)


check("most-accepted", most_accepted, strict=True)
