"""Damaged files: junk in any place of a JSON document, flipped bits, other ends; and copies with damage."""

import json
import os
import random
import shutil
import struct
from collections import Counter
from contextlib import contextmanager
from copy import deepcopy
from pathlib import Path

import psutil
import pytest
import torch
from safetensors.torch import load_file, save_file

JUNK = (None, True, -1, 0, 7, 10**30, 10**400, 1e-320, 0.5, -0.5, float("nan"), float("inf"))
JUNK += ("", "x", "\ud800", [], [[]], {}, [3, 2], [1, 2, 3])
HOSTILE = (0, 1, 2, 13, 255, 2**16, 2**31 - 1, 2**31, 2**32 - 1, 2**40, 2**63, 2**64 - 1)
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
    found += [place for place in found if len(place) == 1] * 9  # the top is small, and says most
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


def files_of(path, pattern="*"):
    """Returns the files below a folder, or the one file."""
    return sorted(p for p in path.rglob(pattern) if p.is_file()) if path.is_dir() else [path]


def edit(dice, path):
    """Damages a JSON document."""
    file = dice.choice(files_of(path, "*.json"))
    data = json.loads(file.read_text(encoding="utf-8"))
    damage(data, dice)
    file.write_text(json.dumps(data), encoding="utf-8", errors="surrogatepass")


def flip(dice, data):
    """Flips one to eight bits, often in the header: where a file says what it holds."""
    head = min(len(data), dice.choice((64, HEADER, len(data))))
    for _ in range(dice.choice((1, 1, 2, 8))):
        data[dice.randrange(head)] ^= 1 << dice.randrange(8)
    return data


def cut_or_extend(dice, data):
    """Leaves the beginning, or adds bytes to the end."""
    end = dice.choice((0, 1, 4, 8, 24, dice.randrange(len(data)), len(data) - 1))
    return data[:end] if dice.random() < 0.7 else data + dice.choice((b"\0", b"{}", b"\n", bytes(1000)))


def claim(dice, data):
    """Puts a hostile number in a place of the header, of four bytes or eight: a count, a length, a type."""
    code = dice.choice("IQ")
    place = dice.choice((8, 16, dice.randrange(min(len(data) - 8, HEADER))))
    struct.pack_into(f"<{code}", data, place, dice.choice(HOSTILE) % 2 ** (32 if code == "I" else 64))
    return data


def swap_parts(dice, data):
    """Copies a part of the file over another."""
    size = dice.choice((1, 8, 100))
    one, other = (dice.randrange(min(len(data) - size, HEADER)) for _ in range(2))
    data[one : one + size] = data[other : other + size]
    return data


def change_bytes(dice, path):
    """Damages the bytes of one file."""
    file = dice.choice(files_of(path))
    file.write_bytes(
        dice.choice((flip, cut_or_extend, claim, swap_parts))(dice, bytearray(file.read_bytes()))
    )


def change_tensors(dice, path):
    """One tensor of another shape or type, with another number, under another name, or missing."""
    file = dice.choice(files_of(path, "*.safetensors"))
    weights = load_file(file)
    name = dice.choice(sorted(weights))
    weight = weights.pop(name)
    others = [weight.flatten(), weight[:-1], weight[None], weight.to(torch.int8), weight.flip(0)]
    others += [torch.zeros(0), weight.clone()]
    others[-1].view(-1)[dice.randrange(weight.numel())] = dice.choice((-1, 3, 60))
    kind = dice.randrange(len(others) + 2)
    if kind < len(others):
        weights[name] = others[kind].contiguous()
    elif kind == len(others):
        weights[f"{name}.more"] = weight
    save_file(weights, file, metadata={"format": "pt"})


def swap_files(dice, path):
    """One file takes the place of another."""
    shutil.copyfile(*dice.sample(files_of(path), 2))


def replace_by_another_thing(dice, path):
    """A link, a folder, a pipe or nothing stands where a file was."""
    files = files_of(path)
    file = dice.choice(files)
    kind = dice.choice(("link", "folder", "pipe", "nothing"))
    file.unlink()
    if kind == "link":
        file.symlink_to(dice.choice((file, path, dice.choice(files), Path("/dev/zero"))))
    elif kind == "folder":
        file.mkdir()
    elif kind == "pipe" and hasattr(os, "mkfifo"):
        os.mkfifo(file)


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


def outcomes(copies, original, folder, kinds, outcome):
    """Counts what comes of damaged copies of a file or a folder, each with one kind of damage, or two.

    outcome: loads a copy, says what came of it, and raises if that is wrong.
    """
    seen = Counter()
    for number in range(copies):
        dice = random.Random(number)
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        copy = shutil.copytree if original.is_dir() else shutil.copyfile
        path = copy(original, folder / original.name)
        damages = dice.sample(kinds, dice.choice((1, 1, 1, min(2, len(kinds)))))
        damages.sort(key=lambda one: one is replace_by_another_thing)  # a pipe would block what comes after
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
