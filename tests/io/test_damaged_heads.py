"""Damaged EAGLE-3 heads: each is refused in one line, or is a head that fits the target.

Nothing but ValueError, and no more memory than `little_memory` lets it have, whatever a file claims. Every
copy hangs on its number alone.
"""

import json
from functools import partial

import pytest
import tiny
import torch
from junk import JUNK, bytes_of_a_file, change_tensors, damage, little_memory, outcomes, swap_files
from safetensors.torch import load_file, save_file

from minispec import SeededRng, speculate
from minispec.drafters.eagle3 import Eagle3Drafter, Eagle3GPT, Eagle3Layer
from minispec.io.files import read_json, write_json
from minispec.io.llama import WEIGHTS, config_to_json
from minispec.io.speculators import CONFIG, load_eagle3, save_eagle3

SIZES = {"vocab_size": 64, "layers": 5}
NUMBERS = (float("nan"), float("inf"), -1, 3, 2**31, 2**62)


def edit(dice, folder):
    """Changes something in the config: at its top, or anywhere."""
    data = read_json(folder / CONFIG)
    if dice.random() < 0.5:
        data[dice.choice(sorted(data))] = dice.choice(
            [*JUNK, [], [1], [3, 2], [2, 2], [2, 6], [1, 2, 3], [2, 3.5]]
        )
    else:
        damage(data, dice)
    write_json(folder / CONFIG, data)


def another_architecture(dice, folder):
    """The config is that of a model."""
    write_json(folder / CONFIG, config_to_json(tiny.config(**SIZES), torch.bfloat16))


def change_numbers(dice, folder):
    """One number of one tensor is another one, or all numbers of it are turned over."""
    weights = load_file(folder / WEIGHTS)
    weight = weights[dice.choice(("d2t", "t2d", *sorted(weights)))]
    if dice.random() < 0.3:
        weight.copy_(weight.flip(0).clone())
    else:
        number = dice.choice(NUMBERS if weight.is_floating_point() else NUMBERS[2:])
        weight.view(-1)[dice.randrange(weight.numel())] = number
    save_file(weights, folder / WEIGHTS)


def say_something_else(dice, folder):
    """The training in the header is junk, endless, or nested too deep."""
    texts = ("[" * 100_000, '{"a": ' * 100_000, "{", "[1]", '{"loss": Infinity}', "null", "x" * 10**6)
    training = dice.choice((*texts, *map(json.dumps, JUNK[:7])))
    save_file(load_file(folder / WEIGHTS), folder / WEIGHTS, {"minispec": training})


DAMAGE = (
    edit,
    edit,
    edit,
    another_architecture,
    bytes_of_a_file,
    bytes_of_a_file,
    change_tensors,
    change_numbers,
    say_something_else,
    swap_files,
)


@pytest.fixture(scope="module")
def target():
    """A GPT of five layers."""
    return tiny.gpt(tiny.config(**SIZES), seed=6, dtype=torch.float32).requires_grad_(False)


@pytest.fixture(scope="module")
def original(target, tmp_path_factory):
    """A folder of a head that knows half of the ids."""
    torch.manual_seed(0)
    folder = tmp_path_factory.mktemp("heads") / "head"
    save_eagle3(
        Eagle3Layer(target.config, (2, 3), torch.arange(0, 64, 2)), folder, "owner/name", 3, {"seed": 5}
    )
    return folder


def outcome(folder, target, wanted):
    """Loads a damaged copy, and drafts; returns what came of it, and asserts what that means."""
    try:
        with little_memory():
            layer, _ = load_eagle3(folder, target)
        drafter = Eagle3Drafter(Eagle3GPT(layer, target))
        rounds = speculate(
            drafter.target, drafter, [[1, 2, 3]], k=2, rng=SeededRng(0), max_new_tokens=6, **tiny.GREEDY
        )
        text = [token for r in rounds for token in r.emitted[0]]
    except ValueError as error:
        message = str(error)
        assert "\n" not in message and len(message) < 1000, message
        assert folder.name in message or "not finite" in message, message
        return "refused"
    assert text == wanted
    assert layer.ids.tolist() == [*range(0, 64, 2)] and len(layer.taps) == 2
    return "loaded"


@pytest.mark.parametrize("copies", [60, pytest.param(1000, marks=pytest.mark.evidence)])
def test_damaged_copies_are_refused_or_fit(copies, target, original, tmp_path):
    """One damage each, sometimes two; what loads drafts, and the text is the target's."""
    wanted, _ = tiny.greedy(target, [1, 2, 3], 6)
    seen = outcomes(
        copies, original, tmp_path / "copy", DAMAGE, partial(outcome, target=target, wanted=wanted)
    )
    assert seen["refused"] > copies / 2 and seen["loaded"] > 0
