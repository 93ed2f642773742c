"""Misuse of the native backend, at random: so many calls as the first argument of this program says.

Each case takes a call that is right, changes nothing, one argument or two, and makes it. Either it raises
ValueError or TypeError with one line, or its answer is the torch backend's. The cases run in one process, so
that what a call writes where it should not has time to do harm; `test_misuse.py` starts it.
"""

import copy
import json
import math
import pickle
import random
import sys
import threading
from collections import Counter
from contextlib import suppress

import tiny
import torch
from drafts import random_draft
from native_models import folder

from minispec import SeededRng, Warp
from minispec.core.cache import KVCache
from minispec.core.rng import BlockRng, DraftingRng
from minispec.drafters.exit import EarlyExitGPT, Exit, ExitDrafter
from minispec.evidence.proof.models import with_normals
from minispec.native.backend import NATIVE, TORCH
from minispec.native.decisions import NativeRng, NativeWarp
from minispec.native.drafter import DrawnDraft
from minispec.native.exit import NativeExitGPT
from minispec.native.model import NativeGPT

CPU = torch.device("cpu")
REAL = torch.float64
TYPES = (torch.int32, torch.uint8, torch.bool, torch.float16, torch.float32, torch.long)
ODD_INTEGERS = (0, -1, 1, 3, 25, 10**9, 2**31, 2**63, -(2**63), 10**30, 1.5, math.nan, "2", None, True, [1])
ODD_REALS = (0, 0.7, -0.5, -0.0, 1e-320, 1e300, 1e309, math.nan, -math.inf, 10**400, "1", None, [1.0], 1j)
ODD_ROWS = (99, -1, "0", 1.5)
ODD_IDS = (-1, 11, 2**62, 0)
ODD_NUMBERS = (math.nan, math.inf, -math.inf, -0.5, 1e30, 0.0)
ODD_TENSORS = (  # what is made of a tensor: of another type, shape or place, or no tensor
    lambda x: x.to(torch.complex64),
    lambda x: x.to(torch.bfloat16),
    lambda x: torch.stack([x, x], -1).flatten(-2)[..., ::2] if x.dim() else x,  # with gaps
    lambda x: torch.cat([x, x], -1) if x.dim() else x,
    lambda x: x[..., :-1],
    lambda x: x[..., :0],
    lambda x: x[:0],
    lambda x: x[:-1],
    lambda x: x[None],
    lambda x: x.reshape(-1),
    lambda x: x.sum(),
    lambda x: x.t() if x.dim() == 2 else x.flip(0),
    lambda x: x[:1].expand(x.shape),
    lambda x: x.to("meta"),
    lambda x: x.to_sparse(),
    lambda x: x.clone().requires_grad_() if x.is_floating_point() else x.neg(),
    lambda x: x.tolist(),
    lambda x: x.numpy(),
    lambda x: None,
    lambda x: torch.zeros(3, 4, 5, 6, dtype=x.dtype),
    lambda x: x.repeat_interleave(30, -1),
)
SIZES = {"vocab_size": 11, "max_length": 24}


class World:
    """A target on both backends, and native models of other sizes, weights and types."""

    def __init__(self):
        self.plain = tiny.gpt(tiny.config(**SIZES), 0, REAL)
        self.native = NativeGPT(self.plain, folder())
        small = tiny.config(**SIZES, layers=1, width=8, heads=2, kv_heads=1)
        self.others = [
            NativeGPT(tiny.gpt(config, seed, dtype), folder())
            for config, seed, dtype in (
                (small, 1, REAL),
                (tiny.config(**SIZES), 2, REAL),
                (tiny.config(**SIZES), 0, torch.float32),
            )
        ]
        self.exit = with_normals(Exit(self.plain.config.width, 1), 3)


def seeded(dice):
    return torch.Generator().manual_seed(dice.randrange(10**6))


def ids(dice, *shape):
    return torch.randint(11, shape, generator=seeded(dice))


def odd(world, dice, given):
    """Returns what is not quite the argument that is given."""
    if isinstance(given, torch.Tensor):
        return odd_tensor(dice, given)
    if isinstance(given, KVCache):
        return odd_cache(world, dice, given)
    if isinstance(given, list):
        n = len(given)
        return dice.choice(([], [1] * (n + 2), [-1] * n, [2**63] * n, [0.5] * n, None, 3, [2**40] * n, "12"))
    return dice.choice(ODD_REALS if isinstance(given, float) else ODD_INTEGERS)


def odd_tensor(dice, given):
    changed = given.long() if given.dtype is torch.bool else given.clone()
    if changed.numel():
        values = ODD_NUMBERS if changed.is_floating_point() else ODD_IDS
        changed.view(-1)[dice.randrange(changed.numel())] = dice.choice(values)
    if dice.random() < 0.15:
        return changed
    if dice.random() < 0.1 or given.dtype is torch.bool:
        return given.to(dice.choice(TYPES))
    return dice.choice(ODD_TENSORS)(given)


def odd_cache(world, dice, given):
    """Returns another cache, one that says something wrong of itself, or one that has refused something."""
    other = dice.choice((*world.others, world.plain)).new_cache(given.rows)
    lies = copy.copy(given)
    name, value = dice.choice((("rows", given.rows + 3), ("capacity", 10**6), ("owner", lambda: None)))
    setattr(lies, name, value)
    row = dice.choice(ODD_ROWS)
    asked = dice.choice(
        (
            lambda: given.gather([[0]] * given.rows),
            lambda: given.place(row, world.native.new_cache(1), 0),
            lambda: given.place(0, world.native.new_cache(1), row),
            lambda: given.place(0, other, 0),
            lambda: given.begin(2),
            lambda: given.append(0, torch.zeros(1), torch.zeros(1)),
        )
    )
    return dice.choice((lambda: other, lambda: lies, lambda: "cache", lambda: (asked(), given)[1]))()


def mutated(world, dice, arguments):
    """Returns arguments of which none, one or two are odd; those that are None stay."""
    arguments = dict(arguments)
    names = [name for name, value in arguments.items() if value is not None]
    for name in dice.sample(names, min(len(names), dice.choice((0, 1, 1, 1, 2)))):
        arguments[name] = odd(world, dice, arguments[name])
    return arguments


def caches(world, dice, rows):
    """Returns a native cache that has read some tokens, and the torch backend's that has read the same."""
    held = ids(dice, rows, dice.choice((1, 6, 20)))
    lengths = [dice.randrange(held.shape[1] + 1) for _ in range(rows)]
    row = dice.randrange(rows)
    what = dice.randrange(5)
    wrong = dice.choice(([99] * rows, [-1] * rows, [], 3, [math.nan]))
    pair = []
    for model in (world.native, world.plain):
        cache = model.new_cache(rows)
        other = model.new_cache(1)
        model(held, cache)
        model(held[:1], other)
        if what == 1:
            cache.truncate(lengths)
        elif what == 2:
            cache.place(row, other, 0)
        elif what == 3:
            with suppress(ValueError, TypeError):
                cache.truncate(wrong)
        pair.append(copy.deepcopy(cache) if what == 4 else cache)
    return pair


def forward(world, dice):
    """Logits or hidden states of a block of tokens, with a cache or without."""
    rows = dice.choice((1, 1, 2, 3))
    tokens = ids(dice, rows, dice.choice((1, 1, 4, 9)))
    cache, other = caches(world, dice, rows) if dice.random() < 0.7 else (None, None)
    call = mutated(world, dice, {"tokens": tokens, "cache": cache})
    if dice.random() < 0.1 and cache is not None:
        lies = copy.copy(cache)
        lies.rows = 3 * rows
        call = {"tokens": tokens.repeat(3, 1), "cache": lies}
    space = torch.tensor([24] * rows if cache is None else [24 - n for n in cache.row_lengths])
    hidden = dice.random() < 0.4
    found = (world.native.hidden if hidden else world.native)(**call)
    yield found
    assert call["cache"] is cache, "a strange cache was read"
    wanted = (world.plain.hidden if hidden else world.plain)(call["tokens"], other)
    if hidden:
        found = world.native.head(found)
        wanted = world.plain.head(wanted)
    # What lies past a row's end means nothing.
    real = ... if cache is None else torch.arange(wanted.shape[1]) < space[:, None]
    yield wanted[real], found[real]


def head(world, dice):
    """Logits of hidden states."""
    states = torch.randn(2, 3, world.native.config.width, generator=seeded(dice), dtype=REAL)
    call = mutated(world, dice, {"hidden": states})
    found = world.native.head(**call)
    yield found
    yield call["hidden"] @ world.native._head, found


def draw(world, dice):
    """K tokens a row, each drawn from the distribution that is reported."""
    rows = dice.choice((1, 2, 3))
    k = dice.choice((1, 3, 5))
    cache, other = caches(world, dice, rows)
    call = {
        "tokens": ids(dice, rows),
        "cache": cache,
        "k": k,
        "temperature": dice.choice((0.0, 1.0, 0.5)),
        "numbers": torch.rand(rows * k, generator=seeded(dice), dtype=REAL),
        "budgets": [dice.randrange(k + 1) for _ in range(rows)],
    }
    call = mutated(world, dice, call)
    found, probs, used = world.native.draw(**call)
    yield probs
    assert call["cache"] is cache, "a strange cache was read"
    numbers = call["numbers"]
    temperature = call["temperature"]
    assert not temperature or all(0 <= number < 1 for number in numbers.tolist()[: rows * call["k"]])
    rng = Given(numbers)
    token = call["tokens"]
    budgets = torch.tensor([call["k"]] * rows if call["budgets"] is None else call["budgets"])
    for step in range(call["k"]):
        q = Warp(temperature)(world.plain(token[:, None], other)[:, -1])
        token = rng.categorical(q, live=step < budgets)
        yield (q, token), (probs[:, step], found[:, step])
    assert used == rng.used and cache.row_lengths == other.row_lengths


class Given(SeededRng):
    """Numbers that are written down."""

    def __init__(self, numbers):
        super().__init__(0)
        self.numbers = numbers
        self.used = 0

    def _numbers(self, count):
        self.used += count
        return self.numbers[self.used - count : self.used]


def new_cache(world, dice):
    """An empty cache."""
    rows = dice.choice((*ODD_INTEGERS, 2, 4))
    lengths = world.native.new_cache(rows).lengths.double()
    yield lengths
    yield torch.zeros(int(rows), dtype=REAL), lengths


def are_distributions(dists):
    """Whether all rows of [..., V] are."""
    return bool((dists >= 0).all() & ((dists.double().sum(-1) - 1).abs() < 0.01).all())


def categorical(world, dice):
    """Ids from distributions."""
    rows = dice.choice((1, 3))
    vocab = dice.choice((1, 2, 11, 40))
    call = {
        "probs": torch.rand(rows, vocab, generator=seeded(dice), dtype=REAL).softmax(-1),
        "live": dice.choice((None, torch.arange(rows) % 2 == 0)),
    }
    call = mutated(world, dice, call)
    seed = dice.randrange(100)
    found = NativeRng(seed).categorical(**call)
    yield found
    real = call["probs"] if call["live"] is None else call["probs"][call["live"]]
    assert are_distributions(real), "drawn from what is no distribution"
    if not call["probs"].requires_grad:
        yield SeededRng(seed).categorical(**call), found


def lend(world, dice):
    """Numbers in [0, 1), never the same again unless they are given back."""
    rng = NativeRng(dice.randrange(100))
    lent = []
    for _ in range(4):
        count = dice.choice((1, 2, 300, *ODD_INTEGERS))
        if dice.random() < 0.3:
            rng.give_back(count)
            lent = lent[: len(lent) - count]
        else:
            numbers = rng.lend(count).tolist()
            assert len(numbers) == count and all(0 <= number < 1 for number in numbers)
            lent += numbers
    assert len(set(lent)) == len(lent)
    yield torch.tensor(lent, dtype=REAL)


def warp(world, dice):
    """Distributions of logits."""
    setting = {
        "temperature": dice.choice((0.0, 1.0, 0.7)),
        "top_k": dice.choice((None, 3)),
        "top_p": dice.choice((None, 0.9)),
    }
    setting = mutated(world, dice, setting) if dice.random() < 0.4 else setting
    logits = 3 * torch.randn(2, 3, 11, generator=seeded(dice), dtype=dice.choice((REAL, torch.float32)))
    call = mutated(world, dice, {"logits": logits})
    dists = NativeWarp(**setting)(**call)
    yield dists
    wanted = Warp(**setting)(**call)
    yield wanted, dists.to(wanted.dtype)


def rule(world, dice):
    """What is accepted, and the next token."""
    rows = dice.choice((1, 3))
    k = dice.choice((0, 1, 4))
    vocab = dice.choice((2, 11))
    seed = dice.randrange(10**6)
    dtype = dice.choice((REAL, torch.float32))
    draft, p = random_draft(rows, k, vocab, seed, dice.random() < 0.5, dtype)
    call = {"p": p, "budgets": [k + 1] * rows, **vars(draft)}
    call = mutated(world, dice, {name: value for name, value in call.items() if value is not None})
    p = call.pop("p")
    budgets = call.pop("budgets")
    try:
        made = DrawnDraft(**call)
    except (ValueError, TypeError, AttributeError, IndexError):  # the core itself refuses it
        return
    made = dice.choice((made,) * 9 + ("draft", None))
    wrap = dice.choice((lambda rng: rng, lambda rng: BlockRng(rng, [3] * rows, budgets, CPU)))
    wrap = dice.choice((wrap,) * 9 + (lambda rng: "rng",))
    name = dice.choice(("greedy", "rejection"))
    found = NATIVE.rules[name](made, p, wrap(NativeRng(seed)))
    yield found.token
    inside = torch.arange(k) < made.lengths[:, None]
    read = [p[:, :k][inside], p[torch.arange(rows), made.lengths]]
    read += [made.probs[inside]] if name == "rejection" else []
    assert all(map(are_distributions, read)), "decided by what is no distribution"
    wanted = TORCH.rules[name](made, p, wrap(SeededRng(seed)))
    yield (wanted.accepted, wanted.token), (found.accepted, found.token)


def drafter(world, dice):
    """A draft of K tokens a row, by a draft model or by an exit; for an exit its verification, too."""
    rows = dice.choice((1, 2))
    k = dice.choice((1, 4))
    seed = dice.randrange(100)
    held = ids(dice, rows, 20)
    lengths = [dice.choice((1, 5, 18)) for _ in range(rows)]
    prompts = [row[:n] for row, n in zip(held.tolist(), lengths, strict=True)]
    call = {
        "pending": torch.tensor([prompt[-1] for prompt in prompts]),
        "k": k,
        "temperature": dice.choice((0.0, 1.0)),
        "budgets": [dice.randrange(k + 1) for _ in range(rows)],
    }
    call = mutated(world, dice, call)
    pending = call["pending"]
    k = call["k"]
    budgets = call["budgets"]
    exits = dice.random() < 0.6
    begins = dice.random() < 0.93
    whole = dice.random() < 0.5
    top = dice.choice((None, None, 3))
    strange = dice.choice((None,) * 9 + ("warp",))
    wrong = dice.random() < 0.15
    found = []
    for backend, model, early in (
        (NATIVE, world.native, NativeExitGPT),
        (TORCH, world.plain, EarlyExitGPT),
    ):
        target = early(model, world.exit) if exits else model
        made = ExitDrafter(target) if exits else backend.drafter(model)
        cache = target.new_cache(rows)
        target.hidden(held, cache)
        cache.truncate([n - 1 for n in lengths])
        if begins:
            made.start(prompts)
        rng = backend.rng(seed) if whole else DraftingRng(backend.rng(seed), lengths, budgets, CPU)
        draft = made.propose(pending, k, strange or backend.warp(call["temperature"], top_k=top), rng)
        block = torch.cat([pending[:, None], draft.tokens], dim=1)
        logits = target(odd_tensor(dice, block) if wrong else block, cache)
        decided = torch.arange(k) < torch.tensor([k] * rows if whole else budgets)[:, None]
        real = torch.nn.functional.pad(decided, (1, 0), value=True)  # after what decided nothing, nothing
        real &= torch.arange(k + 1) < 25 - torch.tensor(lengths)[:, None]
        found.append((draft.tokens[decided], draft.probs[decided], logits[real], cache.lengths.double()))
        if backend is NATIVE:
            yield logits
        if wrong:
            return
    yield found[1], found[0]


def model(world, dice):
    """A native model of a GPT that is not quite one, or a copy of one, for some number of threads."""
    plain = tiny.gpt(tiny.config(layers=2, max_length=8), 0, REAL)
    what = dice.randrange(9)
    if what == 0:
        plain.layers = plain.layers[:1]
    elif what == 1:
        plain.lm_head = torch.nn.Linear(plain.config.width, 99, bias=False, dtype=REAL)
    elif what == 2:
        plain = plain.to(dice.choice((torch.bfloat16, torch.float16, "meta")))
    elif what == 3:
        plain = dice.choice((None, "model", torch.nn.Linear(2, 2), world.native))
    elif what == 4:
        plain.norm.weight.data[0] = math.nan
    elif what == 5:
        plain = dice.choice((copy.copy, copy.deepcopy, pickle.dumps))(world.native)
    elif what == 6:
        plain.layers[0].mlp.up_proj.weight = torch.nn.Parameter(torch.zeros(1, 1, dtype=REAL))
    native = NativeGPT(plain, folder(), threads=dice.choice((*(None,) * 8, *ODD_INTEGERS)))
    text = torch.tensor([[1, 2, 3]])
    yield native(text)
    if plain.dtype == torch.bfloat16:  # its sums are of float32
        plain = plain.float()
    yield plain(text), native(text)


AREAS = {
    forward: 3,
    draw: 2,
    head: 1,
    new_cache: 1,
    categorical: 1,
    lend: 1,
    warp: 1,
    rule: 2,
    drafter: 3,
    model: 1,
}


def outcome(world, number):
    """Makes one call; returns what came of it, and raises AssertionError if that is wrong."""
    dice = random.Random(number)
    (area,) = dice.choices(list(AREAS), list(AREAS.values()))
    steps = area(world, dice)
    try:
        answer = next(steps, None)
    except (ValueError, TypeError) as error:
        message = str(error)
        assert message and "\n" not in message and len(message) < 1000, f"{area.__name__}: {message!r}"
        return "refused"
    except Exception as error:
        raise AssertionError(f"{area.__name__}: {type(error).__name__}: {error}") from error
    if answer is None:
        return "refused by the core"
    for wanted, found in steps:
        for one, other in zip(*(x if isinstance(x, tuple) else (x,) for x in (wanted, found)), strict=True):
            close = 1e-4 if one.dtype == torch.float32 else 1e-9
            torch.testing.assert_close(other, one, rtol=0, atol=close, equal_nan=True)
    return "answered"


def main(count, threads=1):
    """Prints as JSON how often what came of it; what was wrong goes after it. Returns the exit status.

    Several threads share the models, as a program may, and each has its own cases.
    """
    world = World()
    seen = Counter()
    wrong = []

    def make(numbers):
        with torch.no_grad():
            for number in numbers:
                try:
                    seen[outcome(world, number)] += 1
                except Exception as error:
                    seen["wrong"] += 1
                    wrong.append(f"case {number}: {type(error).__name__}: {str(error)[:300]}")

    workers = [threading.Thread(target=make, args=(range(i, count, threads),)) for i in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    print(json.dumps(seen))
    print("\n".join(wrong[:20]))
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])))
