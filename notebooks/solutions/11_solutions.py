# %% [markdown]
# # 11. Solutions: map the field

# %%
import torch

from minispec import Draft
from minispec.classroom import check

# %% [markdown]
# ## Write a drafter without a model
#
# The text itself is the model: what followed the last two tokens before is proposed again. A token
# that is looked up is certain, so its distribution is one-hot, and the verifier does the rest.


# %% tags=["exercise"]
class LookUpDrafter:
    cache_lengths = None  # there is no cache
    max_length = 10**6

    def __init__(self, vocab_size):
        self.vocab_size = vocab_size

    def start(self, prompts, hidden):
        self.texts = [list(prompt) for prompt in prompts]

    def propose(self, pending, k, warp, rng):
        matches = [self.look_up(text)[:k] for text in self.texts]
        tokens = torch.tensor([ids + [0] * (k - len(ids)) for ids in matches])  # [B, k]
        probs = torch.nn.functional.one_hot(tokens, self.vocab_size).double()
        return Draft(tokens, probs, torch.tensor([len(ids) for ids in matches]))

    def look_up(self, text):
        for end in range(len(text) - 1, 1, -1):  # the latest position first
            if text[end - 2 : end] == text[-2:]:
                return text[end:]
        return []

    def commit(self, round):
        for text, emitted in zip(self.texts, round.emitted, strict=True):
            text.extend(emitted)


check("look-up-drafter", LookUpDrafter, strict=True)
