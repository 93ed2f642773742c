"""Drafts of a text, from each of its places on: what a drafter says where it has drafted the text itself."""

import torch

from minispec import SeededRng, Warp
from minispec.core.rng import RoundPlan, RoundRng


class Says(SeededRng):
    """Draws the tokens of a text."""

    def __init__(self, text):
        self.text = text

    def categorical(self, probs, place):
        return torch.tensor([self.text[place.positions]])


def drafts_along(drafter, hidden, text, k):
    """Yields, for each draft that follows a text, its pending token's place and its distributions [n, V]."""
    for place in range(len(text)):
        drafter.start([text[: place + 1]], hidden[:, :place])
        rest = text[place : place + k]
        rng = RoundRng(Says(rest[1:] + rest[:1]), RoundPlan.unlimited(1, torch.device("cpu")))
        yield place, drafter.propose(torch.tensor([text[place]]), len(rest), Warp(), rng).probs[0]
