# %% [markdown]
# # 4. Solutions: draft K tokens

# %%
import torch

from minispec import Draft
from minispec.classroom import check

# %% [markdown]
# ## Draft tokens, and remember their distributions
#
# Each token is drawn from a distribution, and exactly that distribution is kept. The drawn token is
# read next, so the last one is drawn and not read.


# %% tags=["exercise"]
def draft_tokens(model, cache, pending, k, warp, rng):
    token, tokens, probs = pending, [], []
    for _ in range(k):
        q = warp(model(token[:, None], cache)[:, -1])  # [B, V]
        token = rng.categorical(q)  # [B]
        tokens.append(token)
        probs.append(q)
    return Draft(torch.stack(tokens, 1), torch.stack(probs, 1))


check("remember-q", draft_tokens, strict=True)
