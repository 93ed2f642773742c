# %% [markdown]
# # 8. Solutions: run the whole loop

# %%
from minispec.classroom import check

# %% [markdown]
# ## Write the loop
#
# Each round drafts, scores, verifies and rolls back, and the last token of the text is pending. The
# last round may gain more than is wanted, so the result is cut at n.


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
