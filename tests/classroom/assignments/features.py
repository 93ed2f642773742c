"""Assignment 5, solved from its statement."""

import torch
from torch import nn

PARAMETERS: dict = {}


def inputs(kind, tokens, hidden, embed):
    """The token after a feature, the feature, or both; in EAGLE's order or side by side."""
    parts = {
        "token": [embed(tokens[:, 1:])],
        "feature": [hidden],
        "both": [embed(tokens[:, :-1]), hidden],
        "shifted": [embed(tokens[:, 1:]), hidden],
    }
    return torch.cat(parts[kind], -1)


def network(reads, width):
    """Two layers; where less is read the first one is wider, so that all have about the same size."""
    inner = round(8 * width * 3 * width / (reads + width))
    return nn.Sequential(nn.Linear(reads, inner), nn.GELU(), nn.Linear(inner, width))


def train(kind, target, texts, steps):
    """Adam on the divergence of what the target's head makes of the feature."""
    with torch.no_grad():
        hidden = target.hidden(texts)
        read = inputs(kind, texts, hidden[:, :-1], target.embed)
        p = target.head(hidden[:, 1:]).softmax(-1)
    module = network(read.shape[-1], hidden.shape[-1])
    optimizer = torch.optim.Adam(module.parameters(), lr=0.01)
    for _ in range(steps):
        guessed = module(read)
        loss = -(p * target.head(guessed).log_softmax(-1)).sum(-1).mean()
        loss = loss + (guessed - hidden[:, 1:]).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return module


@torch.no_grad()
def draft(kind, module, target, tokens, hidden, k):
    """Each guess is appended, and so is the feature that it came from."""
    for _ in range(k):
        feature = module(inputs(kind, tokens, hidden, target.embed))[:, -1:]
        tokens = torch.cat([tokens, target.head(feature).argmax(-1)], 1)
        hidden = torch.cat([hidden, feature], 1)
    return tokens[:, -k:]
