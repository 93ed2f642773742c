"""Assignment 4: where drafting pays. What is wanted, and how it is graded, stands in the statement."""

# A setting, drawn for you: "target" and "draft" are models, each with its weights ("parameters"), "layers",
# "heads", "kv_heads" and "head_dim"; "bytes" of a weight or of a number in a cache; "bandwidth" in bytes and
# "arithmetic" in operations a second; "window": the draft keeps so many tokens in its cache at most; "alpha".
PARAMETERS: dict = {}


def forward_seconds(setting, model, rows, new, context):
    """Returns the seconds of a forward: `new` tokens for each row, after `context` tokens in each cache.

    model: "target" or "draft".
    """
    ...


def gain(setting, rows, context, k):
    """Returns how many times faster drafting k tokens is than the target alone."""
    ...


def best_k(setting, rows, context, most):
    """Returns the k from 0 to `most` that gains most; the smallest of equals, and 0 where nothing gains."""
    ...


def break_even(setting, rows, k, contexts):
    """Returns the first of the contexts, which ascend, where drafting k tokens gains; −1 if none."""
    ...
