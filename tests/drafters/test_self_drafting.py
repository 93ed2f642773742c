"""Drafters that live on the target itself: an exit, Medusa's heads, a feature layer."""

import pytest
import tiny
import torch
from refusals import refused
from tiny import decode, live_rows, with_texts

from minispec import Warp
from minispec.drafters.eagle import FeatureDrafter, FeatureLayer
from minispec.drafters.exit import EarlyExitGPT, Exit, ExitDrafter, untrained_exit
from minispec.drafters.medusa import Medusa, MedusaDrafter
from minispec.drafters.parallel import ParallelDrafter, ParallelLayers


def drawn(make, seed):
    """Returns a module in float64 whose weights depend on the seed alone; drafts are right now and then."""
    torch.manual_seed(seed)
    module = make().double()
    for weight in module.parameters():
        weight.data += 0.1 * torch.randn(weight.shape, dtype=torch.float64)
    return module.requires_grad_(False).eval()


@pytest.fixture(scope="module")
def model():
    """A GPT of three layers in float64."""
    return tiny.gpt(tiny.config(layers=3), seed=6).requires_grad_(False)


def by_exit(model):
    """Returns a target that can be left after two of its layers, and its drafter."""
    target = EarlyExitGPT(model, drawn(lambda: untrained_exit(model, 2), 1))
    return target, ExitDrafter(target)


def by_heads(model):
    """Returns a target and three heads on it."""
    heads = drawn(lambda: Medusa(model.config.width, model.vocab_size, 3), 8)
    return model, MedusaDrafter(heads, model)


def by_features(model):
    """Returns a target and two layers on its features."""
    return model, FeatureDrafter(drawn(lambda: FeatureLayer(model.config, 2), 7), model)


WAYS = pytest.mark.parametrize("way", [by_exit, by_heads, by_features])


@pytest.mark.parametrize("k", [1, 2, 5])
@WAYS
def test_greedy_text_is_the_targets_own(model, way, k):
    """On ragged rows, one of them a single token, with rows that end early; and not by rejecting all."""
    assert tiny.accepted(tiny.targets_own_text(*way(model), k=k, eos=4, oracle=model))


def test_an_exit_computes_nothing_twice(model):
    """Each of the first layers reads as many tokens as each of the others; and logits are the GPT's own."""
    read = [0] * 3

    def counts(layer):
        def hook(_, inputs, __):
            read[layer] += inputs[0].shape[1]

        return hook

    hooks = [block.register_forward_hook(counts(i)) for i, block in enumerate(model.layers)]
    rounds = list(decode(*by_exit(model), [[1, 2, 3]], k=4))
    for hook in hooks:
        hook.remove()
    assert read[0] == read[1] == read[2]
    for r, (text,) in with_texts(rounds, [[1, 2, 3]]):
        whole = model(torch.tensor([text + r.draft.tokens[0].tolist()]))[0, len(text) - 1 :]
        tiny.same(r.target_logits[0], whole)


@WAYS
def test_a_draft_is_what_its_method_says(model, way):
    """q, from plain forwards of the target without a cache, whatever was accepted before."""
    target, drafter = way(model)
    compared = 0
    for r, row, text, drafted in live_rows(decode(target, drafter)):
        if way is by_heads and r.index == 0:
            assert len(drafted) == (0 if len(text) == 1 else 3)
        for i, logits in enumerate(BY_HAND[way](model, target, drafter, text, drafted)):
            tiny.same(r.draft.probs[row, i], Warp()(logits))
            compared += r.accepted(row) > 0
    assert compared > 10


def exit_by_hand(model, target, drafter, text, drafted):
    """Yields logits of the head, of the exit, of the stream after E layers."""
    for i in range(len(drafted)):
        tokens = torch.tensor([text + drafted[:i]])
        early = model.layers[:2](model.embed_tokens(tokens), model.view(tokens.shape[1], None))
        yield model.head(target.exit(early))[0, -1]


def heads_by_hand(model, target, drafter, text, drafted):
    """Yields logits of head i on the target's state of the last token but one, whatever was drawn."""
    for i in range(len(drafted)):
        yield drafter.heads(model.hidden(torch.tensor([text[:-1]]))[:, -1])[0, i]


def features_by_hand(model, target, drafter, text, drafted):
    """Yields logits from the target's features of all that is committed, and the layer's own after them."""
    tokens = torch.tensor([text])
    features = torch.cat([torch.zeros(1, 1, 16).double(), model.hidden(tokens)[:, :-1]], dim=1)
    for token in drafted:
        out = drafter.model.layer(tokens, features, model)
        yield model.head(out)[0, -1]
        tokens = torch.cat([tokens, torch.tensor([[token]])], dim=1)
        features = torch.cat([features, out[:, -1:]], dim=1)


BY_HAND = {by_exit: exit_by_hand, by_heads: heads_by_hand, by_features: features_by_hand}


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda model: EarlyExitGPT(model, Exit(20, 1)), "16 numbers, and 20 are read"),
        (lambda model: EarlyExitGPT(model, Exit(16, 3)), "it must be from 1 to 2"),
        (lambda model: EarlyExitGPT(model, Exit(16, 0)), "it must be from 1 to 2"),
        (lambda model: MedusaDrafter(Medusa(16, 12, 2), model), "the heads know 12 tokens, the target 11"),
        (
            lambda model: MedusaDrafter(Medusa(20, 11, 2), model).start([[1, 2]], torch.zeros(1, 1, 16)),
            "16 numbers, and 20 are read",
        ),
        (
            lambda model: FeatureDrafter(FeatureLayer(tiny.config(width=24)), model),
            "16 numbers, and 24 are read",
        ),
        (
            lambda model: ParallelDrafter(ParallelLayers(tiny.config(width=24)), model),
            "16 numbers, and 24 are read",
        ),
    ],
)
def test_heads_of_another_target_are_refused(model, make, words):
    """Each in one line."""
    with refused(words):
        make(model)
