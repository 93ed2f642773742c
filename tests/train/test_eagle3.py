"""The training of EAGLE-3: what the layer learns is what it will draft; texts are the target's own."""

from copy import deepcopy

import pytest
import tiny
import torch
from drafted_texts import drafts_along

from minispec import load_pair
from minispec.drafters.eagle3 import Eagle3Drafter, Eagle3GPT, Eagle3Layer, TappedGPT
from minispec.io.checkpoint import weights_hash
from minispec.io.files import write_json
from minispec.io.speculators import usual_taps
from minispec.io.tokenizer import END_OF_TEXT
from minispec.io.tokenizer_config import TokenizerConfig
from minispec.native.backend import on_backend
from minispec.train.eagle3 import (
    Eagle3Recipe,
    Text,
    batch_of,
    frequent_ids,
    grouped,
    guesses,
    make_eagle3,
    train_eagle3,
    write_prompts,
    write_texts,
)
from minispec.train.training import divergence

QUICK = Eagle3Recipe(tokens=200, steps=40, batch=60, vocab=8, ffn=20)


@pytest.fixture(scope="module")
def model():
    """A GPT of three layers."""
    return tiny.gpt(tiny.config(layers=3), seed=6, dtype=torch.float32).requires_grad_(False)


@pytest.fixture(scope="module")
def texts():
    """Texts of random ids, of different lengths."""
    generator = torch.Generator().manual_seed(1)
    return [Text(torch.randint(11, (9 + i % 4,), generator=generator).tolist(), 3) for i in range(40)]


def drawn_layer(model, normed=True):
    """Returns a layer with random weights, which knows some of the ids."""
    torch.manual_seed(0)
    layer = Eagle3Layer(model.config, (1, 2, 3), torch.tensor([0, 2, 3, 7, 9]), normed)
    for weight in layer.parameters():
        torch.nn.init.normal_(weight, 0.3)
    return layer.to(model.dtype).requires_grad_(False)


@pytest.mark.parametrize("normed", [True, False])
def test_it_learns_what_it_will_draft(model, normed):
    """Guess i at a position is what the drafter says there, i tokens into a draft of the text."""
    model = deepcopy(model).double()
    layer = drawn_layer(model, normed)
    text = Text([0, 2, 9, 0, 7, 2, 9, 3, 7, 3], 1)  # the layer knows these
    drafter = Eagle3Drafter(Eagle3GPT(layer, model))
    states = TappedGPT(model, layer.taps).hidden(torch.tensor([text.ids]))
    steps = [*guesses(layer, model, batch_of([text], states, 16), 3, 0.0)]
    compared = 0
    for place, probs in drafts_along(drafter, states, text.ids, 3):
        for i, dist in enumerate(probs):
            logits, learned = steps[i]
            positions = learned[0].nonzero()[:, 0].tolist()  # counted from the text's second token
            if place > 0 and place + i - 1 in positions:
                found = logits[positions.index(place + i - 1)].softmax(-1)
                tiny.same(dist[layer.ids], found)
                assert float(dist.sum()) == pytest.approx(float(found.sum()))
                compared += 1
    assert compared == 8 + 7 + 6


def test_only_answers_are_learned(model, texts):
    """From the last token of the prompt on, up to the one before the end; padding never."""
    states = [torch.zeros(len(text.ids), 32) for text in texts]
    batch = batch_of(texts, states, 16)
    for text, learned in zip(texts, batch.learned, strict=True):
        at = [i + 1 for i in learned.nonzero()[:, 0].tolist()]  # which token of the text
        assert at == [*range(text.begin - 1, len(text.ids) - 1)]


def test_each_text_is_read_once_before_any_twice(texts):
    """And no step reads more tokens than it may."""
    groups = grouped(texts, QUICK)
    assert len(groups) == QUICK.steps
    assert all(len(group) * max(len(texts[i].ids) for i in group) <= QUICK.batch for group in groups)
    seen = [i for group in groups for i in group]
    assert sorted(seen[: len(texts)]) == [*range(len(texts))]


def test_it_begins_with_the_targets_weights(model):
    """It reads the last stream, and its head is the target's."""
    ids = torch.tensor([1, 4, 6])
    layer = make_eagle3(model, ids, 20)
    assert torch.equal(layer.lm_head.weight, model.lm_head.weight[ids])
    assert torch.equal(
        layer.layers[0].self_attn.k_proj.weight[:, 16:], model.layers[-1].self_attn.k_proj.weight
    )
    assert torch.allclose(layer.fc.weight[:, -16:], torch.eye(16), atol=0.02)


def mean_loss(model, layer, texts):
    """Returns how far the first tokens of drafts along texts are from what the target would say."""
    states = [TappedGPT(model, layer.taps).hidden(torch.tensor([text.ids]))[0] for text in texts]
    batch = batch_of(texts, states, 16)
    ((logits, learned),) = guesses(layer, model, batch, 1, 0.0)
    wanted = batch.hidden[learned] @ model.lm_head.weight[layer.ids].T
    return float(divergence(wanted[None], logits[None]))


def test_training_lowers_the_loss_and_goes_on_after_a_kill(model, texts, tmp_path):
    """The same weights come out, whether it was killed or not; the target stays."""
    before = weights_hash(model)
    tapped = TappedGPT(model, usual_taps(3))
    made = train_eagle3(model, tapped, texts, QUICK, tmp_path / "whole", lambda progress: None)
    assert mean_loss(model, made, texts) < mean_loss(model, make_eagle3(model, made.ids, 20), texts)
    assert weights_hash(model) == before

    class Killed(Exception):
        pass

    def kill(progress):
        if progress.model == "eagle3" and progress.step == 20:
            raise Killed

    with pytest.raises(Killed):
        train_eagle3(model, tapped, texts, QUICK, tmp_path / "killed", kill)
    again = train_eagle3(model, tapped, texts, QUICK, tmp_path / "killed", lambda progress: None)
    for name, weight in made.state_dict().items():
        assert torch.equal(weight, again.state_dict()[name])


@pytest.mark.evidence
def test_a_target_writes_texts_of_so_many_tokens(tmp_path):
    """Without a chat template each begins with a token, goes on as the target would, and is kept."""
    pair = load_pair("stories")
    models = on_backend(pair, "torch")
    recipe = Eagle3Recipe(tokens=50)
    texts = write_texts(models, pair.tokenizer, recipe, tmp_path, lambda progress: None)
    assert sum(len(text.ids) - text.begin for text in texts) >= recipe.tokens
    text = texts[0]
    logits = pair.target(torch.tensor([text.ids]))[0]
    assert logits[text.begin - 1 : -1].argmax(-1).tolist() == text.ids[text.begin :]

    (path,) = tmp_path.iterdir()
    write_json(path, {"texts": texts[:1] * 2})
    (kept,) = write_texts(models, pair.tokenizer, Eagle3Recipe(tokens=1), tmp_path, lambda progress: None)
    assert kept == text


def test_a_target_that_repeats_itself_writes_no_more(monkeypatch, tmp_path):
    """With a single text to write, it ends; it does not wait for tokens that never come."""
    pair = load_pair("stories")
    monkeypatch.setattr("minispec.train.eagle3.write_prompts", lambda *given: [[5]])
    recipe = Eagle3Recipe(tokens=10_000)
    models = on_backend(pair, "torch")
    texts = write_texts(models, pair.tokenizer, recipe, tmp_path, lambda progress: None)
    assert len(texts) == 1


def test_what_follows_a_message_is_whole(monkeypatch):
    """After a message comes all that the template has there, also where BOS stands before a prompt."""
    config = TokenizerConfig(
        {"bos_token": END_OF_TEXT}, add_bos=True, chat_template="U{{ messages[0].content }} and then"
    )
    tokenizer = load_pair("stories").tokenizer
    tokenizer.config = config
    message = [*tokenizer.encode_rendered(" the old cat sat down"), *tokenizer.ends]
    monkeypatch.setattr(
        "minispec.train.eagle3.decode", lambda models, prompts, *rest: [message] * len(prompts)
    )
    prompt, *_ = write_prompts(None, tokenizer, 0)
    assert tokenizer.decode(prompt).endswith(" down and then")


def test_the_most_frequent_ids_are_known():
    texts = [Text([0, 0, 0, 5, 5, 9], 3), Text([0, 9, 9, 9], 1)]
    assert frequent_ids(texts, 11, 2).tolist() == [5, 9]
    assert frequent_ids(texts, 11, 4).tolist() == [0, 1, 5, 9]
