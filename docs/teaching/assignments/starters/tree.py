"""Assignment 3: size a tree. What is wanted, and how it is graded, stands in the statement."""

# Drawn for you. "acceptance": the probability that a token's first child is kept, its second one, and so on,
# if the token itself is kept; no two children of a token are. "seconds": t(n) for n = 0, 1, 2, … new tokens
# of the target. "step": seconds to draft a level, however wide. "most": tokens that a tree may have.
PARAMETERS: dict = {}


def rate(parents, acceptance, seconds, step):
    """Returns the tokens a second of rounds with this tree.

    parents: of each token the one that it follows, level by level: 0 is the pending token, i + 1 is token i.
    """
    ...


def grow(acceptance, seconds, step, most):
    """Returns the parents of the tree, of at most so many tokens, whose rate is the highest."""
    ...


def measure(forward, sizes, clock):
    """Returns {n: seconds} for each of the sizes; forward(n) reads n tokens, clock() says what time it is."""
    ...
