"""The training of heads: each loss is about the tokens that the drafter will draft; the target stays."""

from contextlib import nullcontext
from copy import deepcopy
from dataclasses import replace

import pytest
import tiny
import torch
import torch.nn.functional as F
from drafted_texts import drafts_along

from minispec import Warp
from minispec.drafters.eagle import FeatureDrafter, FeatureLayer
from minispec.drafters.exit import untrained_exit
from minispec.drafters.medusa import Medusa
from minispec.drafters.parallel import ParallelDrafter, ParallelLayers
from minispec.io.checkpoint import weights_hash
from minispec.train.heads import (
    DECAY,
    PARALLEL_TOKENS,
    RECIPES,
    UNROLLED_STEPS,
    make_feature_layer,
    make_parallel,
    parallel_guesses,
    train_heads,
    unroll,
)


@pytest.fixture(scope="module")
def model():
    """A GPT of three layers."""
    return tiny.gpt(tiny.config(layers=3), seed=6, dtype=torch.float32).requires_grad_(False)


@pytest.fixture(scope="module")
def rows(model):
    """Sequences of ids."""
    return torch.randint(11, (40, 13), generator=torch.Generator().manual_seed(1))


def says(model, text):
    """Returns the target's log-probabilities after a text: [V]."""
    return model(torch.tensor([text]))[0, -1].log_softmax(-1)


def apart(target, draft):
    """Returns the divergence of a draft's logits from log-probabilities, [V] each."""
    return F.kl_div(draft.log_softmax(-1), target, log_target=True, reduction="sum")


def has_loss(kind, module, model, rows, positions):
    """Asserts that the loss is that of divergences at the positions of a draft, each a list over the text."""
    means = [DECAY**i * torch.stack(found).mean() for i, found in enumerate(positions)]
    wanted = sum(means) / sum(DECAY**i for i in range(len(means)))
    torch.testing.assert_close(RECIPES[kind].loss(module, model, rows), wanted, rtol=1e-4, atol=0)


def test_an_exit_learns_what_follows_each_token(model, rows):
    """The loss is the mean over all texts, each cut anywhere."""
    exit = untrained_exit(model, 1)
    found = []
    for text in rows[:2, :-1].tolist():
        for n in range(1, len(text) + 1):
            tokens = torch.tensor([text[:n]])
            early = model.layers[:1](model.embed_tokens(tokens), model.view(n, None))
            found.append(apart(says(model, text[:n]), model.head(exit(early))[0, -1]))
    has_loss("exit", exit, model, rows[:2], [found])


def test_a_head_learns_what_follows_the_pending_token(model, rows):
    """Head i reads the state after text[:n] and learns what comes after text[:n + 1 + i]."""
    torch.manual_seed(0)
    heads = Medusa(16, 11, 3)
    positions = [
        [
            apart(says(model, text[: n + 1 + i]), head(model.hidden(torch.tensor([text[:n]]))[0, -1]))
            for text in rows[:2, :-1].tolist()
            for n in range(1, len(text) - i)
        ]
        for i, head in enumerate(heads)
    ]
    has_loss("medusa", heads, model, rows[:2], positions)


def test_a_feature_layer_learns_what_it_will_draft(model, rows):
    """Training's step i at a position says what the drafter says there, i tokens into a draft of the text."""
    model = deepcopy(model).double()
    layer = drawn_layer(model).double()
    tokens = rows[:1, :-1]
    text = rows[0, :-1].tolist()
    hidden = model.hidden(tokens)
    steps = unroll(layer, model, tokens, hidden, 4)
    compared = 0
    for place, probs in drafts_along(FeatureDrafter(layer, model), hidden, text, 4):
        for i, dist in enumerate(probs):
            tiny.same(dist, Warp()(model.head(steps[i])[0, place + i]))
            compared += 1
    assert compared == 4 * len(text) - 6  # all of them, but where a draft would leave the text


def drawn_layer(model):
    """Returns a feature layer with random weights, also for the features."""
    torch.manual_seed(0)
    return FeatureLayer(model.config, 2).requires_grad_(False)


def drawn_parallel(model):
    """Returns what a parallel drafter learns, with random weights, also for the correction."""
    torch.manual_seed(0)
    parts = ParallelLayers(model.config, 2).requires_grad_(False)
    torch.nn.init.normal_(parts.change.weight, std=0.3)
    return parts


@pytest.mark.parametrize("k", [1, 3, 5])
def test_a_parallel_drafter_learns_what_it_will_draft(model, rows, k):
    """Every k tokens a draft begins, and training says at its places what the drafter says there."""
    model = deepcopy(model).double()
    layers = drawn_parallel(model).double()
    tokens = rows[:1, :-1]
    text = tokens[0].tolist()
    hidden = model.hidden(tokens)
    guesses = parallel_guesses(layers, model, tokens, hidden, k)
    compared = 0
    for start, probs in drafts_along(ParallelDrafter(layers, model), hidden, text, k):
        for i, dist in enumerate(probs if start % k == 0 else probs[:1]):
            logits, positions = guesses[i]
            tiny.same(dist, Warp()(logits[0, positions.tolist().index(start + i)]))
            compared += 1
    assert (
        compared
        == sum(len(positions) for _, positions in guesses)
        == len(text) + sum(n % k > 0 for n in range(len(text)))
    )


@pytest.mark.parametrize(
    ("kind", "make", "n", "k"),
    [
        ("eagle", drawn_layer, 12, UNROLLED_STEPS),
        ("parallel", drawn_parallel, 12, PARALLEL_TOKENS),
        ("parallel", drawn_parallel, 3, 3),  # a text shorter than a draft
    ],
)
def test_each_guess_counts_where_it_is_one_of_a_whole_draft(model, rows, kind, make, n, k):
    """It is compared with what the target says after the text up to there; no draft begins before it."""
    module = make(model)
    tokens = rows[:1, :n]
    guesses = RECIPES[kind].guesses(module, model, tokens, model.hidden(tokens))
    positions = [
        [
            apart(says(model, tokens[0, : i + 1].tolist()), logits)
            for i, logits in zip(torch.arange(n)[at].tolist(), guess[0], strict=True)
        ]
        for guess, at in guesses
    ]
    assert len(positions) == k and len(positions[-1]) == (n - k + 1 if kind == "eagle" else n // k)
    has_loss(kind, module, model, rows[:1, : n + 1], positions)


def test_layers_begin_as_an_early_exit(model, rows):
    """Of as many layers: a feature layer with any features, a parallel drafter at the pending token."""
    exit = untrained_exit(model, 2)
    tokens = rows[:2]
    early = model.layers[:2](model.embed_tokens(tokens), model.view(tokens.shape[1], None))
    states = make_feature_layer(model, 2)(tokens, torch.randn(2, tokens.shape[1], 16), model)
    torch.testing.assert_close(states, exit(early))
    logits, _ = parallel_guesses(make_parallel(model, 2), model, tokens, early, 3)[0]
    torch.testing.assert_close(logits, model.head(exit(early)))


@pytest.mark.parametrize("kind", RECIPES)
def test_training_lowers_the_loss_and_leaves_the_target(model, rows, kind):
    """And two trainings of one seed end with the same weights."""
    recipe = replace(RECIPES[kind], steps=30)
    before = weights_hash(model)
    reports = []
    ends = [train_heads(recipe, model, rows, 3, reports.append) for _ in range(2)]
    untrained = recipe.make(model, recipe.number(model))
    with torch.no_grad():
        assert recipe.loss(ends[0], model, rows) < 0.9 * recipe.loss(untrained, model, rows)
    assert all(torch.equal(a, b) for a, b in zip(ends[0].parameters(), ends[1].parameters(), strict=True))
    assert weights_hash(model) == before
    assert [p.step for p in reports] == [10, 20, 30] * 2


@pytest.mark.parametrize("kind", RECIPES)
def test_what_is_trained_is_moved_to_the_target(model, rows, kind, monkeypatch):
    """The module and each batch: the loss is handed nothing from elsewhere."""
    monkeypatch.setattr("minispec.train.heads.autocast", lambda device: nullcontext())
    devices = []
    make = RECIPES[kind].make
    target = deepcopy(model).to("meta")

    def guesses(head, target, tokens, hidden):
        devices.append({tokens.device.type, *(weight.device.type for weight in head.parameters())})
        raise KeyboardInterrupt  # meta tensors have no numbers to report

    with pytest.raises(KeyboardInterrupt):
        recipe = replace(RECIPES[kind], make=lambda _, number: make(model, number), guesses=guesses)
        train_heads(recipe, target, rows, 0, print)
    assert devices == [{"meta"}]
