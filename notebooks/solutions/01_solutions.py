# %% [markdown]
# # 1. Solutions: generate one token at a time

# %%
import torch

from minispec.classroom import check

# %% [markdown]
# ## Continue a text, one token at a time
#
# Each forward reads the whole text, and the last row of its logits is about what comes next. The
# next forward needs that token, so no two of them can run at once.


# %% tags=["exercise"]
def continue_greedily(model, prompt, n):
    text = list(prompt)  # a copy: the caller's list stays as it is
    for _ in range(n):
        logits = model(torch.tensor([text]))  # [1, len(text), V]
        text.append(int(logits[0, -1].argmax()))
    return text[len(prompt) :]


check("continue-greedily", continue_greedily, strict=True)
