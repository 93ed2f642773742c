"""Private tests of assignment 4, where drafting pays. `hand_out.py` puts a student's own seed into them.

What a forward takes is tested piece by piece. All else is tested against the student's own forward, so one
mistake costs its points once.
"""

from random import Random

from otter.test_files import test_case

from minispec.classroom.running import read_integer, read_number, value_of
from minispec.core.model import GPTConfig
from minispec.evidence.theory.formulas import Hardware, forward_cost, refined_speed_up

OK_FORMAT = False
SEED = "practice"
name = "surface"

ENDLESS = 1e40  # of bandwidth or arithmetic: then the other one decides
MOST = 8
CONTEXTS = [0, *(2**i for i in range(6, 18))]


def draw_model(rng, parameters, layers, heads):
    """Returns a model of about so many weights."""
    groups = rng.choice((1, 2, 4, 8))
    return {
        "parameters": parameters * rng.randrange(80, 121) // 100,
        "layers": layers + rng.randrange(5),
        "heads": heads,
        "kv_heads": heads // groups,
        "head_dim": rng.choice((64, 128)),
    }


def parameters(seed):
    """Returns a setting."""
    rng = Random(f"{seed} setting")
    return {
        "target": draw_model(rng, 8_000_000_000, 30, 32),
        "draft": draw_model(rng, 500_000_000, 12, 16),
        "bytes": rng.choice((1, 2)),
        "bandwidth": rng.randrange(10, 50) * 10**11,
        "arithmetic": rng.randrange(20, 110) * 10**13,
        "window": rng.choice((256, 512, 1024)),
        "alpha": rng.randrange(60, 91) / 100,
    }


RNG = Random(f"{SEED} tests")
SETTINGS = [parameters(f"{SEED} {number}") for number in range(3)]


def draw_size():
    """Returns rows, new tokens and a context."""
    return RNG.randrange(2, 65), RNG.randrange(2, 10), RNG.randrange(64, 4096)


def seconds(forward_seconds, setting, *size):
    """Returns what a student says that a forward takes."""
    return read_number(value_of(forward_seconds, setting, *size))


def near(found, expected):
    """Whether numbers are equal up to rounding."""
    return abs(found - expected) <= 1e-6 * abs(expected)


def at_most(setting, limit):
    """Returns a setting where only this limit, bandwidth or arithmetic, counts, and is 1 a second."""
    return setting | {"bandwidth": ENDLESS, "arithmetic": ENDLESS} | {limit: 1.0}


def costs(setting, rows, new, context):
    """Returns what forwards of the target cost: after empty caches, and after such a context."""
    sizes = setting["target"]
    width = sizes["heads"] * sizes["head_dim"]
    config = GPTConfig(2, sizes["layers"], width, sizes["heads"], sizes["kv_heads"], 1)
    known = sizes["parameters"], setting["bytes"], Hardware("", 1, 1), new, rows
    return [forward_cost(*known, length, config) for length in (0, context)]


@test_case(name="what a forward reads", points=3)
def reads(forward_seconds):
    """Weights once, and a cache for each row."""
    for setting in SETTINGS:
        rows, new, context = draw_size()
        short, long = costs(setting, rows, new, context)
        only = at_most(setting, "bandwidth")
        alone = seconds(forward_seconds, only, "target", rows, new, 0)
        assert near(alone, short.bytes), "With empty caches a forward reads each weight once, for all rows."
        more = seconds(forward_seconds, only, "target", rows, new, context) - alone
        assert more > 0, "It reads no more after a long context: keys and values in the caches are missing."
        one_row = (long.bytes - short.bytes) / rows
        assert not near(more, one_row), "It reads one cache; each row has a cache of its own."
        assert near(more, rows * one_row), f"It reads {more / rows:g} bytes of each cache, of {one_row:g}."


@test_case(name="what a forward computes", points=3)
def computes(forward_seconds):
    """Two operations a weight and token, and looking back."""
    for setting in SETTINGS:
        rows, new, context = draw_size()
        short, long = costs(setting, rows, new, context)
        only = at_most(setting, "arithmetic")
        alone = seconds(forward_seconds, only, "target", rows, new, 0)
        one_each = near(alone * new, short.operations)
        assert not one_each, "It computes for one new token of each row, and there are more."
        assert near(alone, short.operations), "It is two operations for each weight, row and new token."
        more = seconds(forward_seconds, only, "target", rows, new, context) - alone
        looks = long.operations - short.operations
        assert near(more, looks), "Each new token looks at each token of its row's context, with all heads."


@test_case(name="both at the same time", points=2)
def overlaps(forward_seconds):
    """The longer of both."""
    for setting in SETTINGS:
        size = ("target", *draw_size())
        both = seconds(forward_seconds, setting | {"bandwidth": 1e12, "arithmetic": 1e14}, *size)
        moving = seconds(forward_seconds, setting | {"bandwidth": 1e12, "arithmetic": ENDLESS}, *size)
        computing = seconds(forward_seconds, setting | {"bandwidth": ENDLESS, "arithmetic": 1e14}, *size)
        words = "Reading and computing go on at the same time: the longer one counts."
        assert near(both, max(moving, computing)), words


@test_case(name="the gain", points=3)
def gains(forward_seconds, gain):
    """Tokens over time, with the student's own forward."""
    for setting in SETTINGS:
        rows, k, context = draw_size()
        short = min(context, setting["window"])
        long = max(context, setting["window"] + 1)
        for length in (short, long):
            found = read_number(value_of(gain, setting, rows, length, k))
            expected = own_gain(forward_seconds, setting, rows, length, k)
            words = f"{found:.4f} is no gain of {rows} rows, context {length}, K = {k}"
            if length > short:
                words += ": with short contexts it is right, and the draft keeps no more than its window"
            assert near(found, expected), f"{words}."


def own_gain(forward_seconds, setting, rows, context, k):
    """Returns the gain that follows from what a forward takes."""
    draft = seconds(forward_seconds, setting, "draft", rows, 1, min(context, setting["window"]))
    alone = seconds(forward_seconds, setting, "target", rows, 1, context)

    def verify(new):
        return seconds(forward_seconds, setting, "target", rows, new, context)

    return refined_speed_up([setting["alpha"]] * k, alone, draft, verify)


@test_case(name="the best K", points=3)
def best(gain, best_k):
    """That of the student's own gains, and 0 where none is above 1."""
    for setting in SETTINGS:
        for rows in (1, 32, 512):
            for context in (0, 2048, 65_536):
                found = read_integer(value_of(best_k, setting, rows, context, MOST))
                gains = [read_number(value_of(gain, setting, rows, context, k)) for k in range(1, MOST + 1)]
                place = f"{rows} rows, context {context}"
                words = f"{place}: nothing gains there, and it drafts {found} tokens."
                assert found == 0 or max(gains) > 1, words
                expected = 1 + gains.index(max(gains)) if max(gains) > 1 else 0
                assert found == expected, f"{place}: {expected} tokens gain most, not {found}."


@test_case(name="the break-even", points=4)
def breaks_even(gain, break_even):
    """The first context at which the student's own gain is above 1."""
    for setting in SETTINGS:
        for rows in (1, 64, 256, 1024):
            k = RNG.randrange(2, MOST)
            found = read_integer(value_of(break_even, setting, rows, k, CONTEXTS))
            gains = [read_number(value_of(gain, setting, rows, context, k)) for context in CONTEXTS]
            expected = next((c for c, g in zip(CONTEXTS, gains, strict=True) if g > 1), -1)
            words = f"{rows} rows, K = {k}: the first context with a gain is {expected}, not {found}."
            assert found == expected, words
