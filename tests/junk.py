"""Damaged files: junk in any place of a JSON document, flipped bits, other ends; and copies with damage."""

import random
import shutil
from collections import Counter
from copy import deepcopy

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
