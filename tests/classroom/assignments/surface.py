"""Assignment 4, solved from its statement."""

PARAMETERS: dict = {}


def forward_seconds(setting, model, rows, new, context):
    """The longer of reading weights and caches, and of computing."""
    sizes = setting[model]
    cached = 2 * sizes["layers"] * sizes["kv_heads"] * sizes["head_dim"] * context
    moved = setting["bytes"] * (sizes["parameters"] + rows * cached)
    looks = 4 * sizes["layers"] * sizes["heads"] * sizes["head_dim"] * context
    done = rows * new * (2 * sizes["parameters"] + looks)
    return max(moved / setting["bandwidth"], done / setting["arithmetic"])


def gain(setting, rows, context, k):
    """Tokens of a round over its time, in target steps."""
    tokens = sum(setting["alpha"] ** i for i in range(k + 1))
    kept = min(context, setting["window"])
    draft = k * forward_seconds(setting, "draft", rows, 1, kept)
    alone = forward_seconds(setting, "target", rows, 1, context)
    return tokens * alone / (draft + forward_seconds(setting, "target", rows, k + 1, context))


def best_k(setting, rows, context, most):
    """Nothing drafted gains 1."""
    return max(range(most + 1), key=lambda k: gain(setting, rows, context, k) if k else 1.0)


def break_even(setting, rows, k, contexts):
    """One after another."""
    return next((context for context in contexts if gain(setting, rows, context, k) > 1), -1)
