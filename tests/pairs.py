"""Tiny pairs for tests: the smallest models that still do everything, made in a fraction of a second."""

from dataclasses import replace
from functools import cache

import torch

from minispec.cli.main import run
from minispec.core.model import GPT, GPTConfig
from minispec.io.checkpoint import save_model
from minispec.io.files import read_json, write_json
from minispec.io.tokenizer import train_tokenizer
from minispec.train.recipes import CurriculumStage, Recipe
from minispec.train.stories import draw_stories

MODELS = ("target", "draft-plain", "draft")


@cache
def tiny_tokenizer():
    """Returns a byte-pair tokenizer of 300 ids; words are pieces, so that any text gives several tokens."""
    return train_tokenizer((story.text for story in draw_stories(60, seed=1)), "bpe", 300)


def tiny_config(layers=2, max_length=96, **changes):
    """Returns sizes that a forward takes well under a millisecond with."""
    sizes = {"vocab_size": 300, "width": 16, "heads": 4, "kv_heads": 2, "ffn": 24} | changes
    return GPTConfig(layers=layers, max_length=max_length, **sizes)


def random_models(max_length=96, vocab_size=300, tied=False):
    """Returns a target of two layers and a draft that has the first of them, so that it is often right."""
    torch.manual_seed(5)
    config = tiny_config(2, max_length, vocab_size=vocab_size, tied=tied)
    target = GPT(config)
    draft = GPT(replace(config, layers=1))
    with torch.no_grad():
        for name, weight in target.named_parameters():
            if weight.dim() == 2:
                weight.normal_(std=0.25 if ".1." in name else 0.5)
    draft.load_state_dict({name: target.state_dict()[name] for name in draft.state_dict()})
    return target.eval(), draft.eval()


def build_pair(folder, target=None, draft=None, max_length=96, **info):
    """Writes a pair of random models as `publish` would lay it out, and returns its folder."""
    tokenizer = tiny_tokenizer()
    big, small = random_models(max_length, tokenizer.vocab_size)
    models = {"target": target or big, "draft-plain": draft or small, "draft": draft or small}
    for name, model in models.items():
        (folder / name).mkdir(parents=True)
        save_model(model, folder / name)
    tokenizer.save(folder / "tokenizer.json")
    write_json(folder / "pair.json", {"name": "tiny", "prompts": tiny_prompts(), "walkthrough": None} | info)
    return folder


def tiny_prompts(count=8):
    """Returns beginnings of stories, 32 tokens each."""
    texts = [story.text for story in draw_stories(count, seed=2)]
    return [ids[:32] for ids in tiny_tokenizer().encode_batch(texts)]


def tiny_recipe(**changes):
    """Returns a recipe of a few steps a model."""
    stages = (CurriculumStage(steps=7, rows=2, window=48),)
    recipe = Recipe(
        name="tiny",
        corpus="stories",
        seed=0,
        tokenizer="bpe",
        target=tiny_config(2, 256, tied=True),
        draft=tiny_config(1, 256),
        target_stages=stages,
        draft_stages=stages,
        distill_stages=stages,
        stories=40,
    )
    return replace(recipe, **changes)


def edit_json(path, **changes):
    """Changes fields of a JSON file; a field set to ... is removed."""
    data = read_json(path) | changes
    write_json(path, {name: value for name, value in data.items() if value is not ...})


def call(capsys, *arguments):
    """Runs a command in this process; returns its exit status, standard output and standard error."""
    capsys.readouterr()
    status = run([str(argument) for argument in arguments])
    return status, *capsys.readouterr()


def files_below(folder):
    """Returns the contents of all files below a folder, by their relative paths."""
    return {f.relative_to(folder).as_posix(): f.read_bytes() for f in folder.rglob("*") if f.is_file()}
