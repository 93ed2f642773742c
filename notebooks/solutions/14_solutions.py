# %% [markdown]
# # 14. Solutions: serve a batch

# %%
from minispec.classroom import check

# %% [markdown]
# ## Give free rows to waiting prompts
#
# Prompts without space leave the queue first. Then free rows and prompts pair up in their orders,
# and the shorter of the two lists ends it.


# %% tags=["exercise"]
def refill_rows(done, waiting, space):
    waiting = [prompt_id for prompt_id in waiting if space[prompt_id] > 0]
    free = [row for row, ended in enumerate(done) if ended]
    placed = list(zip(free, waiting, strict=False))
    return placed, waiting[len(placed) :]


check("refill-rows", refill_rows, strict=True)

# %% [markdown]
# ## Count what a block's slots do
#
# The widest row decides for all. What is neither useful nor in an idle row is padding.


# %% tags=["exercise"]
def block_slots(live, lengths):
    width = 1 + max(lengths)
    useful = sum(lengths) + live.count(True)
    idle = width * live.count(False)
    return useful, width * len(live) - useful - idle, idle


check("block-slots", block_slots, strict=True)
