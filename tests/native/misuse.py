"""Misuse of the native backend, at random: so many calls as the first argument of this program says.

Each case takes a call that is right, changes nothing, one argument or two, and makes it. Either it raises
ValueError or TypeError with one line, or its answer is the torch backend's. The cases run in one process, so
that what a call writes where it should not has time to do harm; `test_misuse.py` starts it.
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

from minispec import SeededRng, Warp
from minispec.core.cache import KVCache
from minispec.core.rng import DraftingRng, RoundPlan, RoundRng
from minispec.drafters.exit import EarlyExitGPT, Exit, ExitDrafter
from minispec.evidence.proof.models import with_normals
from minispec.native.backend import NATIVE, TORCH
from minispec.native.decisions import NativeRng, NativeWarp
from minispec.native.drafter import DrawnDraft
from minispec.native.exit import NativeExitGPT
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
        others = (small, 1, REAL), (tiny.config(**SIZES), 2, REAL), (tiny.config(**SIZES), 0, torch.float32)
        self.others = [NativeGPT(tiny.gpt(*other)) for other in others]
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
        same_size = [[value] * len(given) for value in (-1, 2**40, 2**63, 0.5)]
        return dice.choice((*same_size, [], [1] * (len(given) + 2), None, 3, "12"))
    return dice.choice((REALS if isinstance(given, float) else WHOLE) + NO_NUMBERS)


def odd_tensor(dice, given):
    """Returns a tensor with one odd number in it, and then perhaps of another type, shape or place."""
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


def head(world, dice):
    """Logits of hidden states."""
    states = torch.randn(dice.choice((1, 3)), dice.choice((1, 4)), 16, generator=seeded(dice), dtype=REAL)
    return {"hidden": states}, world.native.head, lambda hidden: world.plain.head(hidden.detach())


def new_cache(world, dice):
    """An empty cache."""
    return (
        {"rows": 2},
        lambda rows: world.native.new_cache(rows).lengths,
        lambda rows: torch.zeros(int(rows)).long(),
    )


def lend(world, dice):
    """Numbers that are lent, some of them given back, and others."""

    def natively(count, back):
        rng = NativeRng(0)
        first = rng.lend(count)
        rng.give_back(back)
        return torch.cat([first, rng.lend(4)])

    def plainly(count, back):
        numbers = SeededRng(0)._numbers(count + 4)
        return torch.cat([numbers[:count], numbers[count - back :][:4]])

    return {"count": dice.choice((3, 300)), "back": 2}, natively, plainly


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


def drafter(world, dice):
    """A draft of K tokens a row, by a draft model or by an exit; for an exit its verification, too."""
    rows = dice.choice((1, 2))
    k = dice.choice((1, 4))
    seed = dice.randrange(100)
    held = ids(dice, rows, 20)
    lengths = [dice.choice((1, 5, 18)) for _ in range(rows)]
    prompts = [row[:n] for row, n in zip(held.tolist(), lengths, strict=True)]
    exits = dice.random() < 0.6
    begins = dice.random() < 0.93
    whole = dice.random() < 0.5
    top = dice.choice((None, None, 3))
    wrong = dice.random() < 0.15

    def run(backend, model, early, pending, k, temperature, budgets):
        target = early(model, world.exit) if exits else model
        made = ExitDrafter(target) if exits else backend.drafter(model)
        cache = target.new_cache(rows)
        target.hidden(held, cache)
        cache.truncate([n - 1 for n in lengths])
        if begins:
            tiny.begin(made, prompts)
        plan = RoundPlan(tuple(range(rows)), tuple(lengths), budgets, CPU)
        if whole:
            plan = RoundPlan.unlimited(rows, CPU)
        rng = DraftingRng(backend.rng(seed), plan)
        draft = made.propose(pending, k, backend.warp(temperature, top_k=top), rng)
        block = torch.cat([pending[:, None], draft.tokens], dim=1)
        logits = target.head(target.hidden(odd_tensor(dice, block) if wrong else block, cache))
        decided = torch.arange(k) < torch.tensor([k] * rows if whole else budgets)[:, None]
        real = torch.nn.functional.pad(decided, (1, 0), value=True)  # after what decided nothing, nothing
        real &= torch.arange(k + 1) < 25 - torch.tensor(lengths)[:, None]
        return None if wrong else (draft.tokens[decided], draft.probs[decided], logits[real], cache.lengths)

    arguments = {
        "pending": torch.tensor([prompt[-1] for prompt in prompts]),
        "k": k,
        "temperature": dice.choice((0.0, 1.0)),
        "budgets": [dice.randrange(k + 1) for _ in range(rows)],
    }
    sides = (NATIVE, world.native, NativeExitGPT), (TORCH, world.plain, EarlyExitGPT)
    return arguments, *(partial(run, *side) for side in sides)


COMMON = (forward, drafter, rule)
AREAS = (*COMMON, *COMMON, *COMMON, head, new_cache, categorical, lend, warp)


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
    except (ValueError, TypeError) as error:
        message = str(error)
        assert message and "\n" not in message and len(message) < 1000, f"{area.__name__}: {message!r}"
        return "refused"
    except Exception as error:
        raise AssertionError(f"{area.__name__}: {type(error).__name__}: {error}") from error
    if found is not None:
        several = found if isinstance(found, tuple) else (found,)
        close = 1e-4 if torch.float32 in (getattr(one, "dtype", None) for one in several) else 1e-9
        torch.testing.assert_close(found, plain(**arguments), rtol=0, atol=close, equal_nan=True)
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
