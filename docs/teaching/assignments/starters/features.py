"""Assignment 5: does EAGLE need features? What is wanted, and how it is graded, stands in the statement."""

# Drawn for you: what your report is about. "layers" of the drafter, "steps" of training, "k" drafted tokens.
PARAMETERS: dict = {}

# A target has hidden(tokens [B, n]) -> [B, n, D], its features; head(features) -> logits [B, n, V]; and
# embed(tokens) -> [B, n, D].


def inputs(kind, tokens, hidden, embed):
    """Returns what the drafter reads, [B, n − 1, D] or [B, n − 1, 2·D].

    Entry i is there to guess what follows tokens[:, i + 1]. tokens: [B, n]. hidden: [B, n − 1, D], of all
    tokens but the last. kind: "token", "feature", "both" or "shifted".
    """
    ...


def train(kind, target, texts, steps):
    """Returns a module: from inputs [B, m, D or 2·D] to features [B, m, D], for the target's head."""
    ...


def draft(kind, module, target, tokens, hidden, k):
    """Returns k guesses a row [B, k], the most probable ids, after tokens [B, n]; hidden: [B, n − 1, D]."""
    ...
