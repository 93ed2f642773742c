"""Misuse of the native backend, at random: so many calls as the first argument of this program says.

Each case takes a call that is right, changes nothing, one argument or two, and makes it. Either it raises
ValueError, TypeError or MemoryError with one line, or its answer is the torch backend's. The cases run in one
process, so that what a call writes where it should not has time to do harm; `test_misuse.py` starts it.
"""

import copy
import json
import math
import random
import sys
import threading
from collections import Counter
from functools import partial

import tiny
import torch
from drafts import random_draft
from native_models import trained

from minispec import SeededRng, Warp
from minispec.core.cache import KVCache
from minispec.core.model import Tree
from minispec.core.rng import RoundPlan, RoundRng
from minispec.drafters.entry import Parts
from minispec.drafters.registry import DRAFTERS
from minispec.native.backend import NATIVE, TORCH
from minispec.native.decisions import NativeRng, NativeWarp
from minispec.native.drafter import DrawnDraft
from minispec.native.model import NativeGPT

CPU = torch.device("cpu")
REAL = torch.float64
SIZES = {"vocab_size": 11, "max_length": 24}
NO_NUMBERS = ("2", None, [1], 1j)
WHOLE = (0, -1, 1, 3, 25, 10**9, 2**31, 2**63, -(2**63), 10**30, True, 1.5, math.nan)
REALS = (0, 0.7, -0.5, -0.0, 1e-320, 1e300, 10**400, math.inf, -math.inf, math.nan)
TYPES = (torch.int32, torch.uint8, torch.bool, torch.long, torch.float16, torch.bfloat16, torch.float32, REAL)
ODD_TENSORS = (  # what is made of a tensor: of another type, shape or place, or no tensor
    lambda x: x.to(torch.complex64),
    lambda x: torch.stack([x, x], -1).flatten(-2)[..., ::2],  # with gaps
    lambda x: x[:1].expand(x.shape),
    lambda x: torch.cat([x, x], -1),
    lambda x: x.repeat_interleave(30, -1),
    lambda x: x[..., :-1],
    lambda x: x[..., :0],
    lambda x: x[:0],
    lambda x: x[:-1],
    lambda x: x[None],
    lambda x: x.reshape(-1),
    lambda x: x.transpose(0, -1),
    torch.sum,
    lambda x: x.to("meta"),
    torch.Tensor.to_sparse,
    lambda x: x.double().requires_grad_(),
    torch.Tensor.tolist,
    torch.Tensor.numpy,
    lambda x: None,
)


class World:
    """A target on both backends, native models of other sizes, weights and types, and an exit."""

    def __init__(self):
        self.plain = tiny.gpt(tiny.config(**SIZES), 0, REAL)
        self.native = NativeGPT(self.plain)
        small = tiny.config(**SIZES, layers=1, width=8, heads=2, kv_heads=1)
        self.draft = tiny.gpt(tiny.config(**SIZES), 2, REAL)
        others = tiny.gpt(small, 1, REAL), self.draft, tiny.gpt(tiny.config(**SIZES), 0, torch.float32)
        self.others = [NativeGPT(other) for other in others]
        kinds = ("exit", "eagle", "eagle3", "parallel", "medusa")
        self.trained = {kind: trained(self.plain, kind) for kind in kinds}

    def drafter(self, backend, name):
        """Returns the target and a new drafter, on a backend."""
        model, draft = (self.native, self.others[1]) if backend is NATIVE else (self.plain, self.draft)
        parts = Parts(model, draft, self.plain, self.trained.get)
        made = backend.makers.get(name, DRAFTERS[name].make)(parts, 4)
        return (made.target if name in ("exit", "eagle3") else model), made


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
        same_size = [[value] * len(given) for value in (-1, 2**40, 2**63, 0.5)]
        return dice.choice((*same_size, [], [1] * (len(given) + 2), None, 3, "12"))
    return dice.choice((REALS if isinstance(given, float) else WHOLE) + NO_NUMBERS)


def odd_tensor(dice, given):
    """Returns a tensor with one odd number in it, and then perhaps of another type, shape or place."""
    if given.dtype is torch.bool and dice.random() < 0.6:
        flipped = given ^ (torch.rand(given.shape, generator=seeded(dice)) < 0.3)
        return dice.choice((flipped, *[make(given) for make in ODD_TENSORS[2:11]]))
    if dice.random() < 0.1 or given.dtype is torch.bool:
        return given.to(dice.choice(TYPES))
    changed = given.clone()
    if changed.numel():
        values = (
            (math.nan, math.inf, -math.inf, -0.5, 1e30, 0.0)
            if changed.is_floating_point()
            else (-1, 11, 2**62, 0)
        )
        changed.view(-1)[dice.randrange(changed.numel())] = dice.choice(values)
    return dice.choice((*ODD_TENSORS, *[lambda x: changed] * 3))(given)


def odd_cache(world, dice, given):
    """Returns another model's cache, one that says something wrong of itself, or none."""
    other = dice.choice((*world.others, world.plain)).new_cache(given.rows)
    lies = copy.copy(given)
    name, value = dice.choice((("rows", given.rows + 3), ("capacity", 10**6), ("owner", lambda: None)))
    setattr(lies, name, value)
    return dice.choice((other, lies, "cache"))


def caches(world, dice, rows):
    """Returns a native cache that has read some tokens, and the torch backend's that has read the same."""
    held = ids(dice, rows, dice.choice((1, 6, 20)))
    lengths = [dice.randrange(held.shape[1] + 1) for _ in range(rows)]
    what = dice.choice(("as it is", "truncated", "refilled", "copied"))
    pair = []
    for model in (world.native, world.plain):
        cache = model.new_cache(rows)
        model(held, cache)
        if what == "truncated":
            cache.truncate(lengths)
        elif what == "refilled":
            other = model.new_cache(1)
            model(held[:1], other)
            cache.place(rows - 1, other, 0)
        pair.append(copy.deepcopy(cache) if what == "copied" else cache)
    return pair


# Each of these returns a right call: its arguments, and what makes it on either backend.


def forward(world, dice):
    """Logits, or hidden states, of a block of tokens, with a cache or without."""
    rows = dice.choice((1, 1, 2, 3))
    mine, theirs = caches(world, dice, rows) if dice.random() < 0.7 else (None, None)
    space = None if mine is None else 24 - mine.lengths[:, None]
    hidden = dice.random() < 0.4

    def read(model, tokens, cache):
        logits = model.head(model.hidden(tokens, cache)) if hidden else model(tokens, cache)
        # What lies past a row's end means nothing.
        return logits if space is None else logits[torch.arange(logits.shape[1]) < space]

    def plainly(tokens, cache):
        assert cache is mine, "a strange cache was read"
        return read(world.plain, tokens, theirs)

    arguments = {"tokens": ids(dice, rows, dice.choice((1, 1, 4, 9))), "cache": mine}
    return arguments, partial(read, world.native), plainly


def are_distributions(dists):
    """Whether all rows of [..., V] are."""
    return bool((dists >= 0).all() & ((dists.double().sum(-1) - 1).abs() < 0.01).all())


def categorical(world, dice):
    """Ids from distributions."""
    rows = dice.choice((1, 3))
    seed = dice.randrange(100)

    def plainly(probs, live):
        assert are_distributions(probs if live is None else probs[live]), "drawn from what is no distribution"
        return SeededRng(seed).categorical(probs.detach(), tiny.place(range(rows), live=live))

    def natively(probs, live):
        return NativeRng(seed).categorical(probs, tiny.place(range(rows), live=live))

    arguments = {
        "probs": torch.rand(rows, dice.choice((1, 2, 11, 40)), generator=seeded(dice), dtype=REAL).softmax(
            -1
        ),
        "live": dice.choice((None, torch.arange(rows) % 2 == 0)),
    }
    return arguments, natively, plainly


def warp(world, dice):
    """Distributions of logits."""
    arguments = {
        "logits": 3 * torch.randn(2, 3, 11, generator=seeded(dice), dtype=dice.choice((REAL, torch.float32))),
        "temperature": dice.choice((0.0, 1.0, 0.7)),
        "top_k": dice.choice((None, 3)),
        "top_p": dice.choice((None, 0.9)),
    }
    return arguments, *(lambda logits, make=make, **how: make(**how)(logits) for make in (NativeWarp, Warp))


def rule(world, dice):
    """What is accepted, and the next token."""
    rows = dice.choice((1, 3))
    k = dice.choice((0, 1, 4))
    seed = dice.randrange(10**6)
    types = REAL, torch.float32
    draft, p = random_draft(rows, k, dice.choice((2, 11)), seed, dice.random() < 0.5, dice.choice(types))
    name = dice.choice(("greedy", "rejection"))

    def decide(backend, p, budgets, **draft):
        try:
            made = DrawnDraft(**draft)
        except (AttributeError, IndexError) as error:
            raise TypeError("the core itself refuses it") from error
        plan = RoundPlan(tuple(range(rows)), (3,) * rows, budgets, CPU)
        verdict = backend.verifiers[name](made, p, RoundRng(backend.rng(seed), plan))
        return verdict.accepted, verdict.token

    def plainly(p, budgets, **draft):
        lengths = DrawnDraft(**draft).lengths
        inside = torch.arange(k) < lengths[:, None]
        draft["tokens"] = draft["tokens"].where(inside, 0)  # what lies after the length is not looked at
        read = [p[:, :k][inside], p[torch.arange(rows), lengths]]
        read += [draft["probs"][inside]] if name == "rejection" else []
        assert all(map(are_distributions, read)), "decided by what is no distribution"
        return decide(TORCH, p, budgets, **draft)

    arguments = {"p": p, "budgets": [k + 1] * rows, **vars(draft)}
    return arguments, partial(decide, NATIVE), plainly


def real(lengths, width):
    """Which of so many tokens that follow rows of these lengths lie within the context: [B, width]."""
    return torch.arange(width) < 24 - torch.tensor(lengths)[:, None]


def tree(world, dice):
    """Hidden states of a tree after what a cache holds."""
    rows = dice.choice((1, 2, 3))
    mine, theirs = caches(world, dice, rows)
    before = mine.row_lengths
    parents = [0]
    for i in range(1, dice.choice((1, 3, 6))):
        parents.append(dice.randrange(parents[-1], i + 1))
    right = Tree.after(torch.tensor(before), torch.tensor([parents]).expand(rows, -1))

    def read(model, cache, tokens, positions, mask):
        states = model.hidden(tokens, cache, Tree(positions, mask))
        seen = mask.shape[2] <= min(before) + tokens.shape[1]  # a wider one speaks of what is not there
        return states[real(before, tokens.shape[1])] if seen else None

    def plainly(cache, **others):
        assert cache is mine, "a strange cache was read"
        return read(world.plain, theirs, **others)

    arguments = {"cache": mine, "tokens": ids(dice, rows, len(parents) + 1), **right._asdict()}
    return arguments, partial(read, world.native), plainly


def loop(world, dice):
    """All texts of a run."""
    names = ("model", "exit", "eagle", "eagle3", "parallel", "medusa", "tree", "medusa-tree", "ngram")
    name = dice.choice(names)
    trees = DRAFTERS[name].proposes_trees
    rule = dice.choice(("rejection",) if trees else ("rejection", "block", "coupled"))
    seed = dice.randrange(100)

    def run(backend, temperature, top_k, **settings):
        target, made = world.drafter(backend, name)
        prompts = settings.pop("prompts")
        warp = backend.warp(temperature, top_k=top_k)
        given = {"verifier": backend.verifier(rule, trees), "warp": warp, "rng": backend.rng(seed)}
        rounds = list(backend.observe(target, made, prompts, **given, **settings))
        return tuple(torch.tensor([token for row in r.emitted for token in row]).long() for r in rounds)

    arguments = {
        "prompts": [row.tolist() for row in ids(dice, 3, dice.choice((1, 5, 20)))][: dice.choice((1, 3))],
        "k": dice.choice((1, 3)),
        "max_new_tokens": dice.choice((1, 9)),
        "temperature": dice.choice((0.0, 1.0)),
        "top_k": dice.choice((None, 3)),
        "eos": dice.choice((None, [4])),
        "batch_size": dice.choice((None, 2)),
    }
    return arguments, *(partial(run, backend) for backend in (NATIVE, TORCH))


AREAS = (forward, rule, loop, tree, categorical, warp)


def outcome(world, number):
    """Makes one call; returns what came of it, and raises AssertionError if that is wrong."""
    dice = random.Random(number)
    area = dice.choice(AREAS)
    arguments, ours, plain = area(world, dice)
    names = [name for name, value in arguments.items() if value is not None]
    for name in dice.sample(names, min(len(names), dice.choice((0, 1, 1, 1, 2)))):
        arguments[name] = odd(world, dice, arguments[name])
    try:
        found = ours(**arguments)
    except (ValueError, TypeError, MemoryError) as error:
        message = str(error)
        assert message and "\n" not in message and len(message) < 1000, f"{area.__name__}: {message!r}"
        return "refused"
    except Exception as error:
        raise AssertionError(f"{area.__name__}: {type(error).__name__}: {error}") from error
    if found is not None:
        several = found if isinstance(found, tuple) else (found,)
        close = 1e-4 if torch.float32 in (getattr(one, "dtype", None) for one in several) else 1e-9
        torch.testing.assert_close(found, plain(**arguments), rtol=1e-12, atol=close, equal_nan=True)
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
