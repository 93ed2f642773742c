"""The parallel drafter: one forward for all positions, tokens that fit each other, no mask in its cache."""

import pytest
import tiny
import torch
from tiny import PROMPTS, decode, live_rows, with_texts

from minispec import KeyedRng, SeededRng, Warp, verify_coupled, verify_greedy, verify_rejection
from minispec.drafters.parallel import ParallelDrafter, ParallelGPT, ParallelLayers
from minispec.evidence.proof.models import with_normals
from minispec.train.heads import make_parallel


@pytest.fixture(scope="module")
def model():
    """A GPT of three layers in float64."""
    return tiny.gpt(tiny.config(layers=3), seed=6).requires_grad_(False)


@pytest.fixture
def parts(model):
    """Layers, mask and correction with random weights."""
    return with_normals(ParallelLayers(model.config, 2), 5)


def drafter_of(model):
    """Returns one that is right now and then: two of the target's own layers, and a random correction."""
    torch.manual_seed(4)
    parts = make_parallel(model, 2).double()
    torch.nn.init.normal_(parts.change.weight, std=0.3)
    return ParallelDrafter(parts.requires_grad_(False).eval(), model)


def by_hand(parts, model, text, drafted):
    """Returns the logits at each position of a draft of these tokens after a text, without any cache.

    The text, then a mask for each drafted token but the last, all in one plain forward.
    """
    tokens = torch.tensor([text])
    x = torch.cat([model.embed_tokens(tokens), parts.mask.expand(1, len(drafted) - 1, -1)], dim=1)
    states = parts.norm(parts.layers(x, model.view(x.shape[1], None)))[0, len(text) - 1 :]
    before = model.embed_tokens(torch.tensor([text[-1], *drafted[:-1]]))
    return model.head(states + before @ parts.before.weight.T @ parts.change.weight.T)


@pytest.mark.parametrize("batch_size", [None, 2])
def test_q_is_one_forward_over_masks_corrected_by_the_token_before(model, batch_size):
    """On ragged rows, whatever was accepted before, at the end of the budget, and for refilled rows."""
    drafter = drafter_of(model)
    compared = 0
    kept = set()
    rounds = decode(model, drafter, k=4, warp=Warp(0.8), rng=SeededRng(5), batch_size=batch_size)
    for r, row, text, drafted in live_rows(rounds):
        if drafted:
            wanted = Warp(0.8)(by_hand(drafter.model.parts, model, text, drafted))
            tiny.same(r.draft.probs[row, : len(drafted)], wanted)
            compared += len(drafted)
            kept.add(r.accepted(row))
    assert compared > 50 and {0, 1, 2} <= kept


def test_after_each_round_the_cache_holds_the_text(model):
    """As many tokens as the target's, and keys and values as if the text had been read alone, no mask."""
    drafter = drafter_of(model)
    rounds = []
    for r, texts in with_texts(decode(model, drafter, warp=Warp(0.7), rng=SeededRng(1), eos=4)):
        rounds.append(r)
        after = [[*text, *emitted] for text, emitted in zip(texts, r.emitted, strict=True)]
        tiny.holds_all_but_the_pending_token(drafter.model, drafter.cache, after)
    assert tiny.accepted(rounds) > 5


def test_shared_noise_gives_the_targets_own_draw(model):
    """The coupled rule, token for token; the drafter draws by the noise of the right positions."""
    settings = {"verifier": verify_coupled, "warp": Warp(), "rng": KeyedRng(3)}
    assert tiny.accepted(tiny.targets_own_text(model, drafter_of(model), **settings)) > 10


@pytest.mark.parametrize("verifier", [verify_greedy, verify_rejection])
def test_a_short_context_is_filled_to_its_end(verifier):
    """Masks never need more space than the row has; the last rounds draft less, or nothing."""
    model = tiny.gpt(tiny.config(layers=2, max_length=9), seed=6).requires_grad_(False)
    prompts = [[1], [2, 3, 4, 5, 6, 7, 8], [9, 8, 7, 6]]
    rounds = tiny.targets_own_text(model, drafter_of(model), prompts, k=5, verifier=verifier)
    assert rounds[-1].finish == ("context",) * 3
    assert {0, 5} <= {r.draft.k for r in rounds}


def test_a_draft_is_one_forward_whatever_k(model, parts):
    """The layers run once for a draft, and the pending token stays in the cache."""
    drafter = ParallelDrafter(parts, model)
    runs = []
    drafter.model.parts.layers[0].register_forward_hook(lambda _, inputs, __: runs.append(inputs[0].shape[1]))
    for k in (1, 4, 8):
        tiny.begin(drafter, [[1, 2, 3]])
        runs.clear()
        drafter.propose(torch.tensor([3]), k, Warp(), tiny.drafting(SeededRng(0), 1))
        assert runs == [k] and drafter.cache_lengths == (3,)


def test_without_the_correction_draws_are_independent(model, parts):
    """What was drawn before changes what is drawn next by the correction alone, and only one step far."""
    told = torch.tensor([[1, 2, 3, 4], [1, 7, 3, 4]])

    class Told(SeededRng):
        def categorical(self, probs, place):
            return told[:, int(place.positions[0])]

    def differences():
        drafter = ParallelDrafter(parts, model)
        tiny.begin(drafter, [[1, 2, 3]] * 2)
        first, second = drafter.propose(torch.tensor([3, 3]), 4, Warp(), tiny.drafting(Told(0), 2)).probs
        return [not torch.allclose(p, q) for p, q in zip(first, second, strict=True)]

    assert differences() == [False, False, True, False]
    torch.nn.init.zeros_(parts.change.weight)
    assert differences() == [False] * 4


def test_as_a_language_model_it_says_what_its_first_position_says(model, parts):
    """Without masks it is a draft model, whose every step is corrected by the token just read."""
    text = PROMPTS[1]
    layers = ParallelGPT(parts, model)
    tokens = torch.tensor([text])
    whole = layers.after(layers.hidden(tokens), tokens)[0]
    for n in range(1, len(text) + 1):
        tiny.same(whole[n - 1], by_hand(parts, model, text[:n], [0])[0])
