# %% [markdown]
# # 7. Solutions: roll back

# %%
from minispec.classroom import check

# %% [markdown]
# ## Say how long both caches are
#
# The target reads the pending token and all k drafted ones, the draft reads the pending token and
# its guesses but the last. What stays is the pending token and what was accepted; after full
# acceptance that is one token more than the draft has read.


# %% tags=["exercise"]
def cache_lengths(cached, k, accepted):
    target_verified = cached + 1 + k
    draft_drafted = cached + 1 + (k - 1)
    after = cached + 1 + accepted
    catch_up = max(0, after - draft_drafted)
    return target_verified, draft_drafted, after, catch_up


check("cache-lengths", cache_lengths, strict=True)
