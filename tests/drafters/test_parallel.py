"""The parallel drafter: one forward for all positions, tokens that fit each other, no mask in its cache."""

import pytest
import tiny
import torch
from tiny import PROMPTS, outcome

from minispec import (
    KeyedRng,
    SeededRng,
    Warp,
    generate,
    speculate,
    verify_coupled,
    verify_greedy,
    verify_rejection,
)
from minispec.drafters.parallel import ParallelDrafter, ParallelGPT, ParallelLayers
from minispec.evidence.proof.models import with_normals
from minispec.train.heads import make_parallel


@pytest.fixture(scope="module")
def model():
    """A GPT of three layers in float64."""
    return tiny.gpt(tiny.config(layers=3), seed=6).requires_grad_(False)


def parts_of(model, layers=2, seed=5):
    """Returns layers, mask and correction with random weights."""
    return with_normals(ParallelLayers(model.config, layers), seed)


def right_now_and_then(model):
    """Returns two of the target's own layers, and a correction with random weights."""
    torch.manual_seed(4)
    parts = make_parallel(model, 2).double()
    torch.nn.init.normal_(parts.change.weight, std=0.3)
    return parts.requires_grad_(False).eval()


def by_hand(parts, model, text, drafted):
    """Returns the logits at each position of a draft of these tokens after a text, without any cache.

    The text, then a mask for each drafted token but the last, all in one plain forward.
    """
    tokens = torch.tensor([text])
    n = len(text)
    x = torch.cat([model.embed_tokens(tokens), parts.mask.expand(1, len(drafted) - 1, -1)], dim=1)
    states = parts.norm(parts.layers(x, model.view(x.shape[1], None)))[0, n - 1 :]
    before = model.embed_tokens(torch.tensor([text[-1], *drafted[:-1]]))
    return model.head(states + before @ parts.before.weight.T @ parts.change.weight.T)


@pytest.mark.parametrize("at_once", [None, 2])
def test_q_is_one_forward_over_masks_corrected_by_the_token_before(model, at_once):
    """On ragged rows, whatever was accepted before, at the end of the budget, and for refilled rows."""
    parts, compared, kept = right_now_and_then(model), 0, set()
    texts = [list(prompt) for prompt in PROMPTS]
    settings = {"k": 4, "verifier": verify_rejection, "max_new_tokens": 14, "warp": Warp(0.8)}
    drafter = ParallelDrafter(parts, model)
    for r in speculate(model, drafter, PROMPTS, rng=SeededRng(5), at_once=at_once, **settings):
        for row, name in enumerate(r.names):
            drafted = r.draft.tokens[row].tolist()
            if r.live[row] and r.drafted(row):
                wanted = Warp(0.8)(by_hand(parts, model, texts[name], drafted))
                for i in range(r.drafted(row)):
                    tiny.same(r.draft.probs[row, i], wanted[i])
                    compared += 1
                kept.add(r.accepted(row))
            texts[name] += r.emitted[row]
    assert compared > 50 and {0, 1, 2} <= kept


def test_after_each_round_the_cache_holds_the_text(model):
    """As many tokens as the target's, and keys and values as if the text had been read alone, no mask."""
    drafter = ParallelDrafter(right_now_and_then(model), model)
    texts, accepted = [list(prompt) for prompt in PROMPTS], 0
    settings = {"k": 3, "verifier": verify_rejection, "max_new_tokens": 12, "warp": Warp(0.7), "eos": 4}
    for r in speculate(model, drafter, PROMPTS, rng=SeededRng(1), **settings):
        assert drafter.cache_lengths == r.lengths
        for row, text in enumerate(texts):
            text += r.emitted[row]
            accepted += r.accepted(row) * r.live[row]
            n = len(text) - 1
            alone = drafter.model.new_cache(1)
            if n:
                drafter.model.hidden(torch.tensor([text[:-1]]), alone)
            tiny.same(drafter.cache._keys[:, row, :, :n], alone._keys[:, 0, :, :n])
            tiny.same(drafter.cache._values[:, row, :, :n], alone._values[:, 0, :, :n])
    assert accepted > 5


@pytest.mark.parametrize("k", [1, 2, 5])
def test_greedy_text_is_the_targets_own(model, k):
    """On ragged rows, one of them a single token, with rows that end early; and not by rejecting all."""
    settings = {"max_new_tokens": 20, "warp": Warp(temperature=0), "eos": 4, "rng": SeededRng(0)}
    drafter = ParallelDrafter(right_now_and_then(model), model)
    rounds = list(speculate(model, drafter, PROMPTS, k=k, verifier=verify_greedy, **settings))
    steps = list(generate(model, PROMPTS, **settings))
    texts, _ = outcome(rounds, len(PROMPTS))
    assert texts == [[s[row] for s in steps if s[row] is not None] for row in range(len(PROMPTS))]
    assert any(r.accepted(row) for r in rounds for row in range(len(PROMPTS)) if r.live[row])


def test_shared_noise_gives_the_targets_own_draw(model):
    """The coupled rule, token for token; the drafter draws by the noise of the right positions."""
    settings = {"max_new_tokens": 16, "warp": Warp(), "rng": KeyedRng(3)}
    rounds = list(
        speculate(
            model,
            ParallelDrafter(right_now_and_then(model), model),
            PROMPTS,
            k=3,
            verifier=verify_coupled,
            **settings,
        )
    )
    steps = list(generate(model, PROMPTS, **settings))
    assert outcome(rounds, len(PROMPTS))[0] == [list(row) for row in zip(*steps, strict=True)]
    assert sum(r.accepted(row) for r in rounds for row in range(len(PROMPTS)) if r.live[row]) > 10


@pytest.mark.parametrize("verifier", [verify_greedy, verify_rejection])
def test_a_short_context_is_filled_to_its_end(verifier):
    """Masks never need more space than the row has; the last rounds draft less, or nothing."""
    model = tiny.gpt(tiny.config(layers=2, max_length=9), seed=6).requires_grad_(False)
    prompts = [[1], [2, 3, 4, 5, 6, 7, 8], [9, 8, 7, 6]]
    settings = {"max_new_tokens": 50, "warp": Warp(temperature=0), "rng": SeededRng(2)}
    drafter = ParallelDrafter(right_now_and_then(model), model)
    rounds = list(speculate(model, drafter, prompts, k=5, verifier=verifier, **settings))
    steps = list(generate(model, prompts, **settings))
    texts, ends = outcome(rounds, 3)
    assert texts == [[s[row] for s in steps if s[row] is not None] for row in range(3)]
    assert set(ends) == {"context"} and [len(text) for text in texts] == [8, 2, 5]
    assert {0, 5} <= {r.draft.k for r in rounds}


def test_a_draft_is_one_forward_whatever_k(model):
    """The layers run once for a draft, and once to read what was accepted."""
    drafter, runs = ParallelDrafter(parts_of(model), model), []
    drafter.model.parts.layers[0].register_forward_hook(lambda _, inputs, __: runs.append(inputs[0].shape[1]))
    for k in (1, 4, 8):
        drafter.start([[1, 2, 3]])
        runs.clear()
        drafter.propose(torch.tensor([3]), k, Warp(), SeededRng(0))
        assert runs == [k] and drafter.cache_lengths == (3,)


def test_without_the_correction_draws_are_independent(model):
    """What was drawn before changes what is drawn next by the correction alone, and only one step far."""
    parts = parts_of(model)
    asked = torch.tensor([[1, 2, 3, 4], [1, 7, 3, 4]])

    def dists(parts):
        drafter = ParallelDrafter(parts, model)
        drafter.start([[1, 2, 3]] * 2)
        return drafter.propose(torch.tensor([3, 3]), 4, Warp(), Says(asked)).probs

    found = dists(parts)
    differ = [not torch.allclose(found[0, i], found[1, i]) for i in range(4)]
    assert differ == [False, False, True, False]
    torch.nn.init.zeros_(parts.change.weight)
    found = dists(parts)
    assert torch.equal(found[0], found[1])


class Says(SeededRng):
    """Draws the tokens [B, K] that it was told."""

    def __init__(self, tokens):
        self.tokens = tokens

    def categorical(self, probs, *, positions=0, **names):
        return self.tokens[:, positions]


def test_as_a_language_model_it_says_what_its_first_position_says(model):
    """Read token by token it is a draft model, whose every step is corrected by the token just read."""
    gpt, text = ParallelGPT(parts_of(model), model), [1, 2, 3, 4]
    whole = gpt(torch.tensor([text]))[0]
    for n in range(1, 5):
        tiny.same(whole[n - 1], by_hand(gpt.parts, model, text[:n], [0])[0])


def test_layers_of_another_target_are_refused(model):
    """In one line."""
    with pytest.raises(ValueError, match="16 numbers, the heads read 24"):
        ParallelDrafter(ParallelLayers(tiny.config(width=24)), model)
