"""What a training starts from, and what is kept of its course."""

from dataclasses import replace

import torch

from minispec.io.tokenizer import train_tokenizer
from minispec.train import training
from minispec.train.dataset import gather
from minispec.train.recipes import QUICK, CurriculumStage, gpt

ONE = (CurriculumStage(steps=1, rows=2, window=16, friends=1),)
TINY = gpt(layers=1, width=16, heads=2, kv_heads=1, ffn=16, vocab_size=300)
RECIPE = replace(
    QUICK,
    target=TINY,
    draft=TINY,
    target_stages=ONE,
    draft_stages=ONE,
    distill_stages=ONE,
    stories=20,
    friends=1,
)


def test_a_tokenizer_can_be_handed_in_and_fewer_documents_held_out(tmp_path):
    """The tokenizer is used as it is, the models have its vocabulary, and losses are measured on 5."""
    tokenizer = train_tokenizer(["Once there was one friend."], "bpe", 280)
    dataset = gather(RECIPE, tokenizer, held_out=5)
    assert dataset.tokenizer is tokenizer
    assert len(dataset.held_out[0]) == 5
    found, trained = training.train_pair(RECIPE, tmp_path, lambda _: None, dataset=dataset)
    assert found is dataset
    assert trained["target"].model.vocab_size == tokenizer.vocab_size
    assert torch.isfinite(trained["draft"].model.head(torch.zeros(1, 1, 16))).all()
