"""Assignment 1: block verification for ragged rows. What is wanted stands in the statement."""

# The form that is drawn for you. "layout": "packed" or "right-aligned". "given": "probabilities" or
# "logarithms". "counted": "kept" or "thrown away". "example": three rows in your form, to try it on.
PARAMETERS: dict = {}


def verify(tokens, q, p, lengths, rng):
    """Returns (counts [B], token [B]) of a batch, by block verification.

    tokens: what was drafted. q: of each drafted token the distribution that it was drawn from. p: the
    target's distribution at each drafted token, and of each row one more. lengths [B]: how many tokens a row
    drafts. rng.bernoulli(probs [B]) answers yes or no, rng.categorical(probs [B, V]) draws ids.
    """
    ...
