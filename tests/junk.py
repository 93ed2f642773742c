"""Damaged JSON: junk in any place of a document."""

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
