# %% [markdown]
# # 16. Solutions: draft from features

# %%
from minispec.classroom import check

# %% [markdown]
# ## Say which states are of use
#
# State 0 follows the pending token, state i the i-th drafted one. The last accepted token is the
# last that the text still has and that the target has read: its state knows all that is true. Each
# later state has read the token that was rejected.


# %% tags=["exercise"]
def medusa_states(k, accepted):
    return accepted, list(range(accepted + 1, k + 1))


check("medusa-states", medusa_states, strict=True)
