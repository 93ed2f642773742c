"""Drafters that live on the target itself: an exit, Medusa's heads, a feature layer."""

import pytest
import tiny
import torch
from tiny import PROMPTS, outcome

from minispec import SeededRng, Warp, generate, speculate, verify_greedy, verify_rejection
from minispec.drafters.eagle import FeatureDrafter, FeatureLayer
from minispec.drafters.exit import EarlyExitGPT, Exit, ExitDrafter, untrained_exit
from minispec.drafters.medusa import Medusa, MedusaDrafter

RAGGED = PROMPTS  # two have a single token: nothing of it is read before the first round


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


WAYS = [by_exit, by_heads, by_features]


@pytest.mark.parametrize("k", [1, 2, 5])
@pytest.mark.parametrize("way", WAYS)
def test_greedy_text_is_the_targets_own(model, way, k):
    """On ragged rows, one of them a single token, with rows that end early; and not by rejecting all."""
    settings = {"max_new_tokens": 20, "warp": Warp(temperature=0), "eos": 4}
    target, drafter = way(model)
    rounds = list(
        speculate(target, drafter, RAGGED, k=k, verifier=verify_greedy, rng=SeededRng(0), **settings)
    )
    steps = list(generate(model, RAGGED, rng=SeededRng(0), **settings))
    texts, _ = outcome(rounds, len(RAGGED))
    assert texts == [[s[row] for s in steps if s[row] is not None] for row in range(len(RAGGED))]
    assert any(r.accepted(row) for r in rounds for row in range(len(RAGGED)) if r.live[row])


@pytest.mark.parametrize("way", WAYS)
def test_rows_do_not_know_each_other(model, way):
    """What a row drafts in a batch, and with which distributions, is what it drafts alone."""
    warp = Warp(temperature=0)
    settings = {"k": 3, "verifier": verify_greedy, "max_new_tokens": 12, "warp": warp}
    together = list(speculate(*way(model), RAGGED, rng=SeededRng(0), **settings))
    for row, prompt in enumerate(RAGGED):
        alone = list(speculate(*way(model), [prompt], rng=SeededRng(0), **settings))
        ours = [r for r in together if r.live[row]]
        assert [r.emitted[row] for r in ours] == [r.emitted[0] for r in alone]
        for one, other in zip(ours, alone, strict=True):
            n = other.drafted(0)
            assert one.drafted(row) == n
            assert torch.equal(one.draft.tokens[row, :n], other.draft.tokens[0, :n])
            tiny.same(one.draft.probs[row, :n].double(), other.draft.probs[0, :n].double())


def test_an_exit_computes_nothing_twice(model):
    """Each of the first layers reads as many tokens as each of the others; and logits are the GPT's own."""
    read = [0] * 3
    hooks = [
        block.register_forward_hook(
            lambda _, inputs, __, i=i: read.__setitem__(i, read[i] + inputs[0].shape[1])
        )
        for i, block in enumerate(model.layers)
    ]
    try:
        target, drafter = by_exit(model)
        settings = {"k": 4, "verifier": verify_rejection, "max_new_tokens": 15, "warp": Warp()}
        rounds = list(speculate(target, drafter, [[1, 2, 3]], rng=SeededRng(2), **settings))
    finally:
        for hook in hooks:
            hook.remove()
    assert read[0] == read[1] == read[2]
    text = [1, 2, 3]
    for r in rounds:
        whole = model(torch.tensor([text + r.draft.tokens[0].tolist()]))[0, len(text) - 1 :]
        tiny.same(r.target_logits[0], whole)
        text += r.emitted[0]


def test_an_exit_drafts_what_its_layers_say(model):
    """q is the head of the exit of the stream after E layers, from a plain forward without a cache."""
    target, drafter = by_exit(model)
    rounds = speculate(
        target,
        drafter,
        [[1, 2, 3]],
        k=3,
        verifier=verify_rejection,
        max_new_tokens=12,
        warp=Warp(),
        rng=SeededRng(5),
    )
    text = [1, 2, 3]
    for r in rounds:
        drafted = r.draft.tokens[0].tolist()
        for i in range(r.drafted(0)):
            tokens = torch.tensor([text + drafted[:i]])
            early = model.layers(model.embed_tokens(tokens), model.view(tokens.shape[1], None), 0, 2)
            tiny.same(r.draft.probs[0, i], Warp()(model.head(target.exit(early)))[0, -1])
        text += r.emitted[0]


def test_heads_read_the_state_before_the_pending_token(model):
    """q of head i is that head on the target's state of the last token but one, whatever was drawn."""
    _, drafter = by_heads(model)
    rounds = speculate(
        model,
        drafter,
        [[1, 2, 3], [5]],
        k=3,
        verifier=verify_rejection,
        max_new_tokens=12,
        warp=Warp(),
        rng=SeededRng(5),
    )
    texts = [[1, 2, 3], [5]]
    for index, r in enumerate(rounds):
        for row, text in enumerate(texts):
            if index == 0:
                assert r.drafted(row) == (3 if row == 0 else 0)
            for i in range(r.drafted(row)):
                state = model.hidden(torch.tensor([text[:-1]]))[:, -1]
                tiny.same(r.draft.probs[row, i], Warp()(drafter.heads(state)[0, i]))
            text += r.emitted[row]


def test_features_of_the_target_replace_predicted_ones(model):
    """q follows from the target's features of all committed tokens, and from the layer's own after them."""
    _, drafter = by_features(model)
    layer = drafter.layer
    rounds = speculate(
        model,
        drafter,
        [[1, 2, 3], [5]],
        k=3,
        verifier=verify_rejection,
        max_new_tokens=14,
        warp=Warp(),
        rng=SeededRng(5),
    )
    texts, accepted = [[1, 2, 3], [5]], 0
    for r in rounds:
        for row, text in enumerate(texts):
            tokens = torch.tensor([text])
            features = torch.cat([torch.zeros(1, 1, 16).double(), model.hidden(tokens)[:, :-1]], dim=1)
            for i in range(r.drafted(row)):
                out = layer(tokens, features, model)
                tiny.same(r.draft.probs[row, i], Warp()(model.head(out))[0, -1])
                tokens = torch.cat([tokens, r.draft.tokens[row, i].reshape(1, 1)], dim=1)
                features = torch.cat([features, out[:, -1:]], dim=1)
            text += r.emitted[row]
            accepted += r.accepted(row)
    assert accepted > 2


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (
            lambda model: EarlyExitGPT(model, Exit(20, 1)),
            "the exit reads a stream of 20, the target's has 16",
        ),
        (lambda model: EarlyExitGPT(model, Exit(16, 3)), "it must be from 1 to 2"),
        (lambda model: MedusaDrafter(Medusa(16, 12, 2), model), "the heads know 12 tokens, the target 11"),
        (
            lambda model: MedusaDrafter(Medusa(20, 11, 2), model).start([[1, 2]], torch.zeros(1, 1, 16)),
            "16 numbers, the heads read 20",
        ),
        (
            lambda model: FeatureDrafter(FeatureLayer(tiny.config(width=24)), model),
            "16 numbers, the heads read 24",
        ),
    ],
)
def test_heads_of_another_target_are_refused(model, make, said):
    """Each in one line."""
    with pytest.raises(ValueError, match=said):
        make(model)
