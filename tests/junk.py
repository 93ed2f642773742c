"""Damaged files: junk in any place of a JSON document, flipped bits, other ends; and copies with damage."""

import random
import shutil
import struct
from collections import Counter
from contextlib import contextmanager
from copy import deepcopy

import psutil
import pytest
import torch
from safetensors.torch import load_file, save_file

JUNK = [
    None,
    True,
    -1,
    0,
    1,
    7,
    10**30,
    10**400,
    1e-320,
    0.5,
    -0.5,
    float("nan"),
    float("inf"),
    "",
    "x",
    "\ud800",
    [],
    [[]],
    {},
]

HOSTILE = (0, 1, 2, 5, 13, 255, 2**16, 2**21, 2**31 - 1, 2**31, 2**32 - 1, 2**40, 2**60, 2**63, 2**64 - 1)
HEADER = 6000  # bytes: about so long is the header of the small file

MEMORY = 2**29  # a thread's stacks and arenas are most of it


def places(data, here=()):
    """Yields the keys that lead to each value of a document."""
    for key in data if isinstance(data, dict) else range(len(data)):
        yield (*here, key)
        if isinstance(data[key], (dict, list)):
            yield from places(data[key], (*here, key))


def damage(data, choose):
    """Puts junk in one place of a document, takes it out, doubles it, or copies another place's value."""
    found = list(places(data))
    *way, last = choose.choice(found)
    holder = data
    for key in way:
        holder = holder[key]
    kind = choose.choice(["junk", "junk", "junk", "remove", "double", "copy"])
    if kind == "junk":
        holder[last] = deepcopy(choose.choice(JUNK))
    elif kind == "remove":
        del holder[last]
    elif kind == "double" and isinstance(holder, list):
        holder.insert(last, deepcopy(holder[last]))
    else:
        value = data
        for key in choose.choice(found):
            value = value[key]
        holder[last] = deepcopy(value)


def flip(dice, path, heads):
    """Flips one to eight bits of a file, often in its first so many bytes: where it says what it holds."""
    data = bytearray(path.read_bytes())
    head = min(len(data), dice.choice((*heads, len(data))))
    for _ in range(dice.choice((1, 1, 2, 8))):
        data[dice.randrange(head)] ^= 1 << dice.randrange(8)
    path.write_bytes(data)


def cut_or_extend(dice, path):
    """Leaves the beginning of a file, or adds bytes to its end."""
    data = path.read_bytes()
    end = dice.choice((0, 1, 4, 8, 24, dice.randrange(len(data)), len(data) - 1))
    longer = data + dice.choice((b"\0", b"{}", b"\n", data[:100], bytes(1000)))
    path.write_bytes(data[:end] if dice.random() < 0.7 else longer)


def bits(dice, path):
    """Flips bits, often in the header."""
    flip(dice, path, [64, HEADER])


def claim(dice, path):
    """Puts a hostile number in a place of the header, of four bytes or eight: a count, a length, a type."""
    data = bytearray(path.read_bytes())
    code = dice.choice("IQ")
    place = dice.choice((8, 16, dice.randrange(min(len(data) - 8, HEADER))))
    struct.pack_into(f"<{code}", data, place, dice.choice(HOSTILE) % 2 ** (32 if code == "I" else 64))
    path.write_bytes(data)


def swap_parts(dice, path):
    """Copies a part of the file over another."""
    data = bytearray(path.read_bytes())
    size = dice.choice((1, 8, 100))
    one, other = (dice.randrange(min(len(data) - size, HEADER)) for _ in range(2))
    data[one : one + size] = data[other : other + size]
    path.write_bytes(data)


def bytes_of_a_file(dice, folder):
    """Damages the bytes of one file of a folder."""
    dice.choice((bits, cut_or_extend, claim, swap_parts))(dice, dice.choice(sorted(folder.iterdir())))


def change_tensors(dice, folder):
    """One tensor of another shape or type, under another name, or missing."""
    path = dice.choice(sorted(folder.glob("*.safetensors")))
    weights = load_file(path)
    name = dice.choice(sorted(weights))
    weight = weights.pop(name)
    others = (weight.flatten(), weight[:-1], weight[None], weight.to(torch.int8), torch.zeros(0))
    kind = dice.randrange(len(others) + 2)
    if kind < len(others):
        weights[name] = others[kind].contiguous()
    elif kind == len(others):
        weights[f"{name}.more"] = weight
    save_file(weights, path, metadata={"format": "pt"})


def swap_files(dice, folder):
    """One file takes the place of another."""
    one, other = dice.sample(sorted(folder.iterdir()), 2)
    shutil.copyfile(one, other)


@contextmanager
def little_memory():
    """Lets this process have `MEMORY` more than it has, where the system can see to that."""
    resource = pytest.importorskip("resource")
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (psutil.Process().memory_info().vms + MEMORY, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def outcomes(copies, original, folder, kinds, outcome, last=None):
    """Counts what comes of damaged copies of a file or a folder, each with one kind of damage, or two.

    outcome: loads a copy, says what came of it, and raises if that is wrong; last: a kind that comes last.
    """
    seen = Counter()
    for number in range(copies):
        dice = random.Random(number)
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        copy = shutil.copytree if original.is_dir() else shutil.copyfile
        path = copy(original, folder / original.name)
        damages = sorted(dice.sample(kinds, dice.choice((1, 1, 1, 2))), key=lambda one: one is last)
        for one in damages:
            try:
                one(dice, path)
            except Exception:
                continue  # the first damage has left nothing for the second one
        try:
            seen[outcome(path)] += 1
        except BaseException as error:
            names = ", ".join(one.__name__ for one in damages)
            raise AssertionError(f"copy {number} ({names}): {error!r}") from error
    print(dict(seen))
    return seen
