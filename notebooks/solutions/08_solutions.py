# %% [markdown]
# # 8. Solutions: run the whole loop

# %%
import torch

from minispec.classroom import check

# %% [markdown]
# ## Write the loop
#
# Each round drafts, scores, verifies and rolls back, and the last token of the text is pending. The
# last round may emit more than is wanted, so the result is cut at n.


# %% tags=["exercise"]
def my_loop(parts, prompt, k, n):
    parts.prefill(prompt)
    text = list(prompt)
    while len(text) < len(prompt) + n:
        draft = parts.draft(text[-1], k)
        probs = parts.score(text[-1], draft)
        accepted, token = parts.verify(draft, probs)
        text += [*draft.tokens[0, :accepted].tolist(), token]
        parts.rollback(len(text) - 1)
    return text[len(prompt) :][:n]


check("write-the-loop", my_loop, strict=True)

# %% [markdown]
# ## Write the sampled loop with both caches
#
# The rule is that of notebook 6. After it, the draft model may lack its last guess, and reads it.
# Then both caches are cut to all of the text but its last token, which is pending.


# %% tags=["exercise"]
def my_sampled_loop(target, draft, prompt, k, n, rng):
    def read(model, cache, ids):
        return torch.softmax(model(torch.tensor([ids]), cache)[0], -1)  # [len(ids), V]

    text = list(prompt)
    end = len(prompt) + n
    caches = [target.new_cache(1), draft.new_cache(1)]
    if len(prompt) > 1:  # prefill
        read(target, caches[0], prompt[:-1])
        read(draft, caches[1], prompt[:-1])
    while len(text) < end:
        block = [text[-1]]
        dists = []
        for _ in range(min(k, end - len(text) - 1)):  # draft
            dists.append(read(draft, caches[1], block[-1:])[0])
            block.append(rng.draw(dists[-1]))
        target_dists = read(target, caches[0], block)  # verify: [K + 1, V] in one target call
        last = target_dists[-1]  # of a bonus, if nothing is rejected
        for x, q, p in zip(block[1:], dists, target_dists, strict=False):
            if not rng.uniform() < p[x] / q[x]:
                last = (p - q).clamp(min=0) / (p - q).clamp(min=0).sum()
                break
            text.append(x)
        text.append(rng.draw(last))  # commit
        if caches[1].row_lengths[0] == len(text) - 2:  # catch up
            read(draft, caches[1], text[-2:-1])
        for cache in caches:  # roll back
            cache.truncate([len(text) - 1])
    return text[len(prompt) :]


check("write-the-sampled-loop", my_sampled_loop, strict=True)
