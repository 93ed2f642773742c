"""Assignment 2: distil by three divergences. What is wanted stands in the statement."""

# Drawn for you, for your report: "temperature" of the target, "steps" of training, "k" drafted tokens.
PARAMETERS: dict = {}

# Models are modules: model(tokens [B, n]) returns logits [B, n, V]; [:, i] belong to the token after
# tokens[:, i].


def divergence(kind, target_logits, draft_logits):
    """Returns the mean over all positions, a scalar: of logits [..., V] and [..., V].

    kind: "kl", KL(p ‖ q) in nats; "reverse", KL(q ‖ p); "tv", the total variation.
    """
    ...


def write(policy, target, draft, prompts, tokens):
    """Returns texts [B, n + tokens]: prompts [B, n] that go on, drawn from a model at temperature 1.

    policy: "off", the target writes; "on", the draft does.
    """
    ...


def acceptance(target, draft, texts, prompt):
    """Returns α: the mean of Σ min(p, q) after the first `prompt` tokens of texts [B, n]."""
    ...


def distil(kind, policy, target, draft, prompts, tokens, steps):
    """Trains the draft, in place, for so many steps; the target stays as it is."""
    ...
