# %% [markdown]
# # 2. Solutions: fill a KV cache

# %%
from minispec.classroom import check

# %% [markdown]
# ## Count what is computed, with and without a cache
#
# With a cache every token is read once, except the last one, which nothing needs to read. Without
# one, step i reads the prompt and the i tokens that were made before.


# %% tags=["exercise"]
def positions_computed(prompt, new, cached):
    if cached:
        return prompt + new - 1
    return sum(prompt + i for i in range(new))


check("positions-computed", positions_computed, strict=True)

# %% [markdown]
# ## Count the bytes of a cache
#
# For each token, every layer keeps a key and a value, each of kv_heads · head_dim numbers. The
# query heads do not count: queries are used once and not kept.


# %% tags=["exercise"]
def cache_bytes(config, tokens, bytes_per_number):
    numbers = 2 * config.layers * config.kv_heads * config.head_dim  # for one token
    return numbers * tokens * bytes_per_number


check("cache-bytes", cache_bytes, strict=True)
