# %% [markdown]
# # 9. Solutions: prove it

# %%
import torch

from minispec import Draft, SeededRng
from minispec.classroom import check

# %% [markdown]
# ## Write a test that finds bugs
#
# Two drafted tokens from distributions that differ by position, and many rows. What comes first,
# second where something was kept, and third where all was kept must each have the target's
# distribution, up to a few standard errors.


# %% tags=["exercise"]
def my_test(verifier):
    p = torch.tensor([[3, 2, 1], [1, 1, 4], [2, 3, 1]]).double() / 6  # of tokens 1, 2 and 3
    q = torch.tensor([[1, 1, 4], [3, 1, 2]]).double() / 6
    rows = 20_000
    rng = SeededRng(1)
    probs = q.expand(rows, 2, 3)
    tokens = torch.stack([rng.categorical(probs[:, i]) for i in range(2)], 1)
    verdict = verifier(Draft(tokens, probs), p.expand(rows, 3, 3), rng)

    text = torch.cat([tokens, tokens[:, :1]], 1)  # [B, 3]; after verdict.token it means nothing
    text[torch.arange(rows), verdict.accepted] = verdict.token
    for i in range(3):
        outcomes = text[verdict.accepted >= i, i]
        share = torch.bincount(outcomes, minlength=3) / len(outcomes)
        if (share - p[i]).abs().max() > 5 * 0.5 / len(outcomes) ** 0.5:
            return False
    return True


check("write-a-test", my_test, strict=True)
