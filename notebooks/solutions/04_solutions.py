# %% [markdown]
# # 4. Solutions: draft K tokens

# %%
import torch

from minispec import Draft
from minispec.classroom import check

# %% [markdown]
# ## Draft tokens, and remember their laws
#
# Each token is drawn from a law, and this very law is kept. The drawn token is read next, so the
# last one is drawn and not read.


# %% tags=["exercise"]
def draft_tokens(model, cache, pending, k, warp, rng):
    token, tokens, laws = pending, [], []
    for _ in range(k):
        law = warp(model(token[:, None], cache)[:, -1])  # [B, V]
        token = rng.categorical(law)  # [B]
        tokens.append(token)
        laws.append(law)
    return Draft(torch.stack(tokens, 1), torch.stack(laws, 1))


check("remember-q", draft_tokens, strict=True)
