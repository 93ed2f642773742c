# %% [markdown]
# # 4. Solutions: draft K tokens

# %%
import torch

from minispec import Draft
from minispec.classroom import check

# %% [markdown]
# ## Draft k tokens of one row
#
# Each turn reads the last id, draws the next one, and keeps the distribution that it was drawn
# from.


# %% tags=["exercise"]
def draft_one_row(model, cache, pending, k, warp, rng):
    tokens = [pending]
    dists = []
    for _ in range(k):
        logits = model(torch.tensor([[tokens[-1]]]), cache)  # [1, 1, V]
        dists.append(warp(logits)[0, 0])  # [V]
        tokens.append(rng.draw(dists[-1]))
    return tokens[1:], dists


check("draft-one-row", draft_one_row, strict=True)

# %% [markdown]
# ## Draft tokens, and remember their distributions
#
# Each token is drawn from a distribution, and exactly that distribution is kept. The drawn token is
# read next, so the last one is drawn and not read.


# %% tags=["exercise"]
def draft_tokens(model, cache, pending, k, warp, rng):
    token = pending
    tokens = []
    probs = []
    for _ in range(k):
        q = warp(model(token[:, None], cache)[:, -1])  # [B, V]
        token = rng.categorical(q)  # [B]
        tokens.append(token)
        probs.append(q)
    return Draft(torch.stack(tokens, 1), torch.stack(probs, 1))


check("remember-q", draft_tokens, strict=True)
