# %% [markdown]
# # 12. Solutions: draft without a draft model

# %%
from math import ceil

from minispec.classroom import check

# %% [markdown]
# ## Find the longest match
#
# Large sizes come before small ones, and late places before early ones. So the first match that is
# found is the longest, and of these the latest. A place before the end of the text has something
# that followed it.


# %% tags=["exercise"]
def longest_match(text, most):
    for n in range(min(most, len(text) - 1), 0, -1):
        for end in range(len(text) - 1, n - 1, -1):
            if text[end - n : end] == text[-n:]:
                return n, end
    return 0, 0


check("longest-match", longest_match, strict=True)

# %% [markdown]
# ## Choose K by the match
#
# Three limits, and the smallest counts. The target adds one token to each round, so the last token
# that has room is never worth a draft.


# %% tags=["exercise"]
def draft_length(match, per_match, k, room):
    return min(ceil(per_match * match), k, room - 1)


check("draft-length", draft_length, strict=True)
