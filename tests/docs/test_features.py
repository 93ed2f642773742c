"""The ablation of what a drafter reads: each input is what it is called, and nothing else differs."""

import json

import pytest
import tiny
import torch
from book import features
from book.features import READS, Reader, WithTokens, acceptance, kinds, record_features
from drafted_texts import drafts_along
from pairs import build_pair, tiny_recipe

from minispec import load_pair
from minispec.drafters.eagle import FeatureDrafter


@pytest.fixture(scope="module")
def target():
    model = tiny.gpt(tiny.config(layers=2), seed=6, dtype=torch.float32).requires_grad_(False)
    return WithTokens(model)


def layer_of(kind, target):
    """Returns a layer with weights of a seed; its parts add something, as after some training."""
    torch.manual_seed(3)
    layer = Reader(target.config, kind)
    for weight in layer.parameters():
        torch.nn.init.normal_(weight, std=0.5)
    return layer.requires_grad_(False)


@pytest.mark.parametrize(
    ("kind", "by_token", "by_feature"),
    [("token", 4, None), ("feature", None, 5), ("both", 5, 5), ("shifted", 4, 5)],
)
def test_a_guess_depends_on_what_its_name_says(target, kind, by_token, by_feature):
    """The first guess that changes with token 4, and with the feature after it; None: no guess does."""
    layer = layer_of(kind, target)
    tokens = torch.randint(11, (1, 8), generator=torch.Generator().manual_seed(1))
    hidden = target.hidden(tokens)

    def guesses(tokens, features, embedded):
        carried = torch.cat([features, embedded], dim=-1)
        before = torch.nn.functional.pad(carried[:, :-1], (0, 0, 1, 0))
        return layer(tokens, before, target)[0]

    def first_change(tokens, features):
        changed = guesses(tokens, features, target.embed_tokens(tokens)) != plain
        places = changed[:, : features.shape[-1]].any(-1).nonzero()
        return int(places[0]) if len(places) else None

    feature, embedded = hidden.chunk(2, dim=-1)
    plain = guesses(tokens, feature, embedded)
    other = tokens.clone()
    other[0, 4] = (tokens[0, 4] + 1) % 11
    assert first_change(other, feature) == by_token
    assert first_change(tokens, feature + (torch.arange(8) == 4)[None, :, None]) == by_feature


def test_nothing_else_differs():
    """One size and one beginning for all four; one size for both kinds of masks; as many steps."""
    model = tiny.gpt(tiny.config(layers=2), seed=6)
    made = []
    for kind in kinds():
        torch.manual_seed(0)
        made.append([*kind.recipe.make(WithTokens(model), 1).parameters()])
    for group in (made[: len(READS)], made[len(READS) :]):
        assert all(all(map(torch.equal, group[0], other)) for other in group[1:])
    recipes = [kind.recipe for kind in kinds()]
    for group in (recipes[: len(READS)], recipes[len(READS) :]):
        assert len({(recipe.steps, recipe.rows, recipe.rate) for recipe in group}) == 1


def test_acceptance_is_what_drafts_along_the_text_share_with_the_target(target, monkeypatch):
    """Σ min(p, q) of guess i, from drafts that begin at every place; the first positions are left out."""
    monkeypatch.setattr(features, "OPENING", 4)
    layer = layer_of("both", target)
    text = torch.randint(11, (12,), generator=torch.Generator().manual_seed(2)).tolist()
    hidden = target.hidden(torch.tensor([text]))
    p = target.head(hidden)[0].softmax(-1)
    shared = [[] for _ in range(features.K)]
    for place, q in drafts_along(FeatureDrafter(layer, target), hidden, text, features.K):
        for i, dist in enumerate(q):
            if place + i >= 4:
                shared[i].append(float(torch.minimum(p[place + i], dist).sum()))
    wanted = [sum(found) / len(found) for found in shared]
    assert acceptance(layer, target, torch.tensor([text])) == pytest.approx(wanted, abs=1e-3)


def test_each_kind_is_trained_with_each_seed(tmp_path, monkeypatch):
    """On a tiny pair: a line for each, with a share for each guess, and tokens at both temperatures.

    A run that ends after three of them, and another one, together train each once.
    """
    short = {"STEPS": 2, "SEEDS": (5,), "TEXTS": 2, "WIDTH": 40, "NEW_TOKENS": 5, "FOLDER": tmp_path}
    for name, value in short.items():
        monkeypatch.setattr(features, name, value)
    pair = load_pair(build_pair(tmp_path / "tiny", max_length=256, recipe=tiny_recipe().to_json()))
    told = []

    def tell(line):
        told.append(line)
        if len(told) == 4:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        record_features(pair, tell)
    assert not (tmp_path / "features-tiny.json").exists()
    del told[3:]
    record_features(pair, told.append)
    document = json.loads((tmp_path / "features-tiny.json").read_text())
    found = document["drafters"]
    assert told == [str(one) for one in found]
    names = [*READS, "masks", "masks, corrected"]
    assert [(one["reads"], one["seed"]) for one in found] == [(name, 5) for name in names]
    for one in found:
        assert set(one["tokens_per_target_call"]) == {"0", "1"}
        shares = one["acceptance"]
        assert (shares is None) == ("masks" in one["reads"])
        assert shares is None or (len(shares) == document["k"] and all(0 < x < 1 for x in shares))
