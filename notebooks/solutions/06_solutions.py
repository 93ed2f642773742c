# %% [markdown]
# # 6. Solutions: verify by rejection

# %%
import torch

from minispec import Verdict
from minispec.classroom import check

# %% [markdown]
# ## Write the residual
#
# The mass that q lacks is the positive part of p − q; divided by its sum it is a distribution.
# Where p = q it is empty, and p is as good as anything, because nothing is rejected there.


# %% tags=["exercise"]
def residual(p, q):
    excess = (p - q).clamp(min=0)
    return excess / excess.sum() if excess.sum() > 0 else p


check("residual", residual, strict=True)

# %% [markdown]
# ## Accept and correct one row
#
# The number u lies below p/q with probability min(1, p/q). The first id that fails is replaced by
# a draw from the residual, and the round is over.


# %% tags=["exercise"]
def accept_one_row(tokens, dists, target_dists, rng):
    for i, x in enumerate(tokens):
        p = target_dists[i]
        q = dists[i]
        u = rng.uniform()
        if not u < p[x] / q[x]:
            return tokens[:i] + [rng.draw(residual(p, q))]
    return tokens + [rng.draw(target_dists[-1])]


check("accept-one-row", accept_one_row, strict=True)

# %% [markdown]
# ## Write the verifier
#
# Each drafted token is kept with probability min(1, p/q), but it is tested only in rows that have
# kept everything before it. Then each row draws once: from the residual where it rejected, else
# from the last p.


# %% tags=["exercise"]
def my_verifier(draft, target_probs, rng):
    p = target_probs.double()
    q = draft.probs.double()
    rows = range(len(p))
    accepted = torch.zeros(len(p), dtype=torch.long)
    testing = draft.lengths > 0
    for i in range(draft.k):
        x = draft.tokens[:, i, None]  # [B, 1]
        ratio = (p[:, i].gather(1, x) / q[:, i].gather(1, x))[:, 0]
        kept = rng.bernoulli(ratio.clamp(max=1).nan_to_num(0), live=testing)
        accepted += kept
        testing = kept & (i + 1 < draft.lengths)

    final = []
    for b, a in zip(rows, accepted.tolist(), strict=True):
        rejected = a < draft.lengths[b]
        final.append(residual(p[b, a], q[b, a]) if rejected else p[b, a])
    return Verdict(accepted, rng.categorical(torch.stack(final)))


check("write-the-verifier", my_verifier, strict=True)
