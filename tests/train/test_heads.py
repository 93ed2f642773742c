"""The training of heads: each loss is about the tokens that the drafter will draft; the target stays."""

from dataclasses import replace

import pytest
import tiny
import torch
import torch.nn.functional as F

from minispec.drafters.eagle import FeatureLayer
from minispec.drafters.exit import untrained_exit
from minispec.drafters.medusa import Medusa
from minispec.io.checkpoint import weights_hash
from minispec.train.heads import DECAY, RECIPES, UNROLLED, exit_loss, feature_loss, medusa_loss, train_heads


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


def test_an_exit_learns_what_follows_each_token(model, rows):
    """The loss is the mean over all texts, each cut anywhere."""
    exit, found = untrained_exit(model, 1), []
    for text in rows[:2, :-1].tolist():
        for n in range(1, len(text) + 1):
            tokens = torch.tensor([text[:n]])
            early = model.layers(model.embed_tokens(tokens), model.view(n, None), 0, 1)
            found.append(apart(says(model, text[:n]), model.head(exit(early))[0, -1]))
    torch.testing.assert_close(exit_loss(exit, model, rows[:2]), torch.stack(found).mean(), rtol=1e-4, atol=0)


def test_a_head_learns_what_follows_the_pending_token(model, rows):
    """Head i reads the state after text[:n] and learns what comes after text[:n + 1 + i]."""
    torch.manual_seed(0)
    heads, means = Medusa(16, 11, 3), []
    for i, head in enumerate(heads):
        found = []
        for text in rows[:2, :-1].tolist():
            for n in range(1, len(text) - i):
                state = model.hidden(torch.tensor([text[:n]]))[0, -1]
                found.append(apart(says(model, text[: n + 1 + i]), head(state)))
        means.append(DECAY**i * torch.stack(found).mean())
    wanted = sum(means) / sum(DECAY**i for i in range(3))
    torch.testing.assert_close(medusa_loss(heads, model, rows[:2]), wanted, rtol=1e-4, atol=0)


def test_a_feature_layer_learns_from_its_own_features_too(model, rows):
    """First on the features of the target before each token, then on what it has made of them."""
    torch.manual_seed(0)
    layer, means = FeatureLayer(model.config), []
    text = rows[0, :-1].tolist()
    tokens = torch.tensor([text])
    features = model.hidden(tokens)
    for depth in range(UNROLLED):
        before = torch.cat([torch.zeros(1, 1, 16), features[:, :-1]], dim=1)
        features = layer(tokens, before, model)
        found = [apart(says(model, text[: n + 1]), model.head(features)[0, n]) for n in range(len(text))]
        means.append(DECAY**depth * torch.stack(found).mean())
    wanted = sum(means) / sum(DECAY**i for i in range(UNROLLED))
    torch.testing.assert_close(feature_loss(layer, model, rows[:1]), wanted, rtol=1e-4, atol=0)


@pytest.mark.parametrize("kind", RECIPES)
def test_training_lowers_the_loss_and_leaves_the_target(model, rows, kind):
    """And two trainings of one seed end with the same weights."""
    recipe = replace(RECIPES[kind], steps=30)
    before, told = weights_hash(model), []
    ends = [train_heads(recipe, model, rows, 3, told.append) for _ in range(2)]
    made = recipe.make(model, recipe.number)
    with torch.no_grad():
        assert recipe.loss(ends[0], model, rows) < 0.9 * recipe.loss(made, model, rows)
    assert all(torch.equal(a, b) for a, b in zip(ends[0].parameters(), ends[1].parameters(), strict=True))
    assert weights_hash(model) == before
    assert [p.step for p in told] == [10, 20, 30] * 2
