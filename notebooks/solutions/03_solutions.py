# %% [markdown]
# # 3. Solutions: train two models

# %%
from minispec.classroom import check

# %% [markdown]
# ## Measure how far apart two distributions are
#
# Where p has more than q at some tokens, it has less at others, so each difference is counted twice
# in the sum. Half of it is the share of draws that must differ.


# %% tags=["exercise"]
def total_variation(p, q):
    return (p - q).abs().sum() / 2


check("total-variation", total_variation, strict=True)
