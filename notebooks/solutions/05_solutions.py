# %% [markdown]
# # 5. Solutions: verify greedily

# %%
import torch

from minispec.classroom import check

# %% [markdown]
# ## Write the greedy verifier
#
# Go left to right while draft and target agree. Where they differ, and after the last guess, comes
# the target's own choice: a correction or a bonus, by the same line.


# %% tags=["exercise"]
def verify_greedily(drafted, best):
    accepted = 0
    while accepted < len(drafted) and drafted[accepted] == best[accepted]:
        accepted += 1
    return accepted, best[accepted]


check("verify-greedily", verify_greedily, strict=True)

# %% [markdown]
# ## Build the mask of a verification forward
#
# Row i is the token at position cached + i of the text, and sees that position and all before it.
# That is a lower triangle, shifted to the right by what is cached.


# %% tags=["exercise"]
def verification_mask(cached, k):
    return torch.ones(k + 1, cached + k + 1, dtype=torch.bool).tril(cached)


check("shift-the-mask", verification_mask, strict=True)
