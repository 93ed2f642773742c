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

import tiny
import torch
from drafts import random_draft
from native_models import folder

from minispec import SeededRng, Warp, verify_greedy, verify_rejection
from minispec.core.draft import ModelDrafter
from minispec.core.rng import BlockRng, DraftingRng
from minispec.drafters.exit import EarlyExitGPT, Exit, ExitDrafter
from minispec.evidence.proof.models import with_normals
from minispec.native.decisions import NativeRng, NativeWarp, native_greedy, native_rejection
from minispec.native.drafter import DrawnDraft, NativeDrafter
from minispec.native.exit import NativeExitGPT
from minispec.native.model import NativeGPT

CPU = torch.device("cpu")
REAL = torch.float64
ODD_INTEGERS = (0, -1, 1, 3, 25, 10**9, 2**31, 2**63, -(2**63), 10**30, 1.5, math.nan, "2", None, True, [1])
ODD_REALS = (
    0,
    0.7,
    -0.5,
    -0.0,
    1e-320,
    1e300,
    1e309,
    math.nan,
    -math.inf,
    10**400,
    "1",
    None,
    [1.0],
    1j,
    True,
)


class World:
    """A target and a draft on both backends, and a model of the target's sizes with other weights."""

    def __init__(self):
        sizes = {"vocab_size": 11, "max_length": 24}
        self.plain = tiny.gpt(tiny.config(**sizes), 0, REAL)
        self.native = NativeGPT(self.plain, folder())
        self.small = NativeGPT(
            tiny.gpt(tiny.config(**sizes, layers=1, width=8, heads=2, kv_heads=1), 1, REAL), folder()
        )
        self.twin = NativeGPT(tiny.gpt(tiny.config(**sizes), 2, REAL), folder())
        self.single = NativeGPT(tiny.gpt(tiny.config(**sizes), 0, torch.float32), folder())
        self.exit = with_normals(Exit(self.plain.config.width, 1), 3)


def odd_tensor(dice, given):
    """Returns a tensor that is not quite the one given: of another type, shape, place or content."""
    wide = torch.cat([given, given], -1) if given.dim() else given
    integers = not given.is_floating_point()
    changed = given.clone()
    if changed.numel():
        value = dice.choice(
            (-1, 11, 2**62, 0) if integers else (math.nan, math.inf, -math.inf, -0.5, 1e30, 0.0)
        )
        changed.view(-1)[dice.randrange(changed.numel())] = value
    made = (
        lambda: changed,
        lambda: changed,
        lambda: given.to(
            dice.choice((torch.int32, torch.uint8, torch.bool, torch.float16, torch.float32, torch.long))
        ),
        lambda: given.to(dice.choice((torch.complex64, torch.bfloat16, torch.float64))),
        lambda: wide[..., ::2],  # with gaps
        lambda: wide,
        lambda: given[..., :-1],
        lambda: given[..., :0],
        lambda: given[:0],
        lambda: given[:-1],
        lambda: given[None],
        lambda: given.reshape(-1),
        lambda: given.sum(),
        lambda: given.t() if given.dim() == 2 else given.flip(0),
        lambda: given[:1].expand(given.shape),
        lambda: given.to("meta"),
        lambda: given.to_sparse(),
        lambda: given.clone().requires_grad_() if not integers else given.neg(),
        lambda: given.tolist(),
        lambda: given.numpy(),
        lambda: None,
        lambda: "tensor",
        lambda: torch.zeros(3, 4, 5, 6, dtype=given.dtype),
        lambda: given.repeat_interleave(30, -1),
        lambda: torch.nn.Parameter(given) if not integers else given.double(),
    )
    return dice.choice(made)()


def mutated(dice, arguments, odd):
    """Returns arguments of which none, one or two are odd; `odd` has a function of each that makes it so."""
    arguments = dict(arguments)
    for name in dice.sample(sorted(odd), min(len(odd), dice.choice((0, 1, 1, 1, 2)))):
        arguments[name] = odd[name](dice, arguments[name])
    return arguments


def integers(dice, _):
    return dice.choice(ODD_INTEGERS)


def reals(dice, _):
    return dice.choice(ODD_REALS)


def caches(world, rows, dice, held):
    """Returns a native cache that has read some tokens, and the torch backend's that has read the same."""
    pair = world.native.new_cache(rows), world.plain.new_cache(rows)
    for model, cache in zip((world.native, world.plain), pair, strict=True):
        model(held, cache)
    what = dice.randrange(5)
    lengths = [dice.randrange(held.shape[1] + 1) for _ in range(rows)]
    row, given = dice.randrange(rows), torch.randint(11, (1, dice.choice((1, 9))), generator=seeded(dice))
    for model, cache in zip((world.native, world.plain), pair, strict=True):
        if what == 1:
            cache.truncate(lengths)
        elif what == 2:
            other = model.new_cache(1)
            model(given, other)
            cache.place(row, other, 0)
        elif what == 3:
            refused(
                lambda cache=cache: cache.truncate(dice.choice(([99] * rows, [-1] * rows, [], 3, [math.nan])))
            )
    if what == 4:
        pair = copy.deepcopy(pair)
    return pair


def odd_cache(world):
    def make(dice, given):
        others = (
            lambda: world.small.new_cache(1),
            lambda: world.twin.new_cache(given.rows),
            lambda: world.single.new_cache(given.rows),
            lambda: world.native.new_cache(given.rows + 1),
            lambda: world.plain.new_cache(given.rows),
            lambda: "cache",
            lambda: changed(copy.copy(given), "rows", given.rows + 3),
            lambda: changed(copy.copy(given), "capacity", 10**6),
            lambda: changed(copy.copy(given), "owner", lambda: None),
            lambda: (given.gather([[0]] * given.rows), given)[1],
            lambda: (given.place(dice.choice((0, 99, -1, "0", 1.5)), world.twin.new_cache(1), 0), given)[1],
            lambda: (given.place(dice.choice((99, -1, "0", 1.5)), world.native.new_cache(1), 0), given)[1],
            lambda: (given.place(0, world.native.new_cache(1), dice.choice((99, -1, "0", 1.5))), given)[1],
            lambda: (given.begin(2), given)[1],
            lambda: (given.append(0, torch.zeros(1), torch.zeros(1)), given)[1],
        )
        return dice.choice(others)()

    return make


def changed(thing, name, value):
    setattr(thing, name, value)
    return thing


def refused(call):
    """Makes a call that may be refused."""
    try:
        call()
    except (ValueError, TypeError):
        pass


def forward(world, dice):
    """Logits or hidden states of a block of tokens, with a cache or without."""
    rows = dice.choice((1, 1, 2, 3))
    tokens = torch.randint(11, (rows, dice.choice((1, 1, 4, 9))), generator=seeded(dice))
    with_cache = dice.random() < 0.7
    held = torch.randint(11, (rows, dice.choice((1, 6, 20))), generator=seeded(dice))
    cache, other = caches(world, rows, dice, held) if with_cache else (None, None)
    odd = {"tokens": odd_tensor} | ({"cache": odd_cache(world)} if with_cache else {})
    call = mutated(dice, {"tokens": tokens, "cache": cache}, odd)
    if dice.random() < 0.03 and cache is not None:
        call = {"tokens": tokens.repeat(3, 1), "cache": changed(copy.copy(cache), "rows", 3 * rows)}
    hidden = dice.random() < 0.4
    space = None if cache is None else [24 - n for n in cache.row_lengths]
    found = (world.native.hidden if hidden else world.native)(**call)
    yield found
    assert call["cache"] is cache, "a strange cache was read"
    wanted = (world.plain.hidden if hidden else world.plain)(call["tokens"], other)
    if hidden:
        found, wanted = world.native.head(found), world.plain.head(wanted)
    if space is not None:  # what lies past a row's end means nothing
        real = torch.arange(wanted.shape[1]) < torch.tensor(space)[:, None]
        found, wanted = found[real], wanted[real]
    yield wanted, found


def head(world, dice):
    """Logits of hidden states."""
    states = torch.randn(2, 3, world.native.config.width, generator=seeded(dice), dtype=REAL)
    call = mutated(dice, {"hidden": states}, {"hidden": odd_tensor})
    found = world.native.head(**call)
    yield found
    yield call["hidden"] @ world.native._head, found


def draw(world, dice):
    """K tokens a row, each drawn from the distribution that is reported."""
    rows, k = dice.choice((1, 2, 3)), dice.choice((1, 3, 5))
    held = torch.randint(11, (rows, dice.choice((1, 6, 20))), generator=seeded(dice))
    cache, other = caches(world, rows, dice, held)
    call = {
        "tokens": torch.randint(11, (rows,), generator=seeded(dice)),
        "cache": cache,
        "k": k,
        "temperature": dice.choice((0.0, 1.0, 0.5)),
        "numbers": torch.rand(rows * k, generator=seeded(dice), dtype=REAL),
        "budgets": [dice.randrange(k + 1) for _ in range(rows)],
    }
    odd = {
        "tokens": odd_tensor,
        "cache": odd_cache(world),
        "k": integers,
        "temperature": reals,
        "numbers": odd_tensor,
        "budgets": odd_budgets,
    }
    call = mutated(dice, call, odd)
    ids, probs, used = world.native.draw(**call)
    yield probs
    assert call["cache"] is cache, "a strange cache was read"
    assert (
        all(0 <= number < 1 for number in call["numbers"].tolist()[: rows * call["k"]])
        or not call["temperature"]
    )
    rng = Given(call["numbers"])
    wanted = drafted(world.plain, other, call, rng)
    yield wanted, (ids, probs)
    assert used == rng.used and cache.row_lengths == other.row_lengths


def odd_budgets(dice, given):
    rows = len(given)
    return dice.choice(
        ([], [1] * (rows + 2), [-1] * rows, [2**63] * rows, [0.5] * rows, None, 3, [2**40] * rows, "12")
    )


class Given(SeededRng):
    """Numbers that are written down."""

    def __init__(self, numbers):
        super().__init__(0)
        self.numbers, self.used = numbers, 0

    def _numbers(self, count):
        self.used += count
        return self.numbers[self.used - count : self.used]


def drafted(model, cache, call, rng):
    """Drafts as the core does, with the arguments of `NativeGPT.draw`."""
    token, ids, dists, warp = call["tokens"], [], [], Warp(call["temperature"])
    budgets = call["budgets"] if call["budgets"] is not None else [call["k"]] * len(token)
    for step in range(call["k"]):
        q = warp(model(token[:, None], cache)[:, -1])
        token = rng.categorical(q, live=torch.tensor([step < budget for budget in budgets]))
        ids.append(token), dists.append(q)
    return torch.stack(ids, 1), torch.stack(dists, 1)


def new_cache(world, dice):
    """An empty cache."""
    rows = dice.choice((*ODD_INTEGERS, 2, 4))
    cache = world.native.new_cache(rows)
    yield cache.lengths.double()
    yield torch.zeros(int(rows), dtype=REAL), cache.lengths.double()


def categorical(world, dice):
    """Ids from distributions."""
    rows, vocab = dice.choice((1, 3)), dice.choice((1, 2, 11, 40))
    call = {"probs": torch.rand(rows, vocab, generator=seeded(dice), dtype=REAL).softmax(-1)}
    odd = {"probs": odd_tensor}
    if dice.random() < 0.5:
        call["live"], odd["live"] = torch.arange(rows) % 2 == 0, odd_mask
    call = mutated(dice, call, odd)
    seed = dice.randrange(100)
    ids = NativeRng(seed).categorical(**call)
    yield ids
    real = call["probs"] if call.get("live") is None else call["probs"][call["live"]]
    assert are_distributions(real), "drawn from what is no distribution"
    if not call["probs"].requires_grad:
        yield SeededRng(seed).categorical(**call), ids


def are_distributions(dists):
    """Whether all rows of [..., V] are."""
    return bool((dists >= 0).all() & ((dists.double().sum(-1) - 1).abs() < 0.01).all())


def odd_mask(dice, given):
    return dice.choice(
        (given.long(), given.double(), torch.ones(9).bool(), given[:0], given.tolist(), given[None], "x")
    )


def lend(world, dice):
    """Numbers in [0, 1), never the same again unless they are given back."""
    rng, lent = NativeRng(dice.randrange(100)), []
    for _ in range(4):
        count = dice.choice((1, 2, 300, *ODD_INTEGERS))
        if dice.random() < 0.3:
            rng.give_back(count)
            lent = lent[: len(lent) - count]
        else:
            numbers = rng.lend(count)
            assert len(numbers) == count and bool(((numbers >= 0) & (numbers < 1)).all())
            lent += numbers.tolist()
    assert len(set(lent)) == len(lent)
    yield torch.tensor(lent, dtype=REAL)


def warp(world, dice):
    """Distributions of logits."""
    setting = {"temperature": dice.choice((0.0, 1.0, 0.7)), "top_k": None, "top_p": None}
    odd = {"temperature": reals, "top_k": integers, "top_p": reals}
    setting = mutated(dice, setting, odd) if dice.random() < 0.4 else setting
    logits = 3 * torch.randn(2, 3, 11, generator=seeded(dice), dtype=dice.choice((REAL, torch.float32)))
    call = mutated(dice, {"logits": logits}, {"logits": odd_tensor})
    dists = NativeWarp(**setting)(**call)
    yield dists
    wanted = Warp(**setting)(**call)
    yield wanted, dists.to(wanted.dtype)


def rule(world, dice):
    """What is accepted, and the next token."""
    rows, k, vocab = dice.choice((1, 3)), dice.choice((0, 1, 4)), dice.choice((2, 11))
    draft, p = random_draft(
        rows, k, vocab, dice.randrange(10**6), dice.random() < 0.5, dice.choice((REAL, torch.float32))
    )
    call = {
        "tokens": draft.tokens,
        "probs": draft.probs,
        "lengths": draft.lengths,
        "p": p,
        "budgets": [k + 1] * rows,
    }
    odd = {name: odd_tensor for name in ("tokens", "probs", "lengths", "p")} | {"budgets": odd_budgets}
    call = mutated(dice, call, odd)
    pairs = ((native_greedy, verify_greedy), (native_rejection, verify_rejection))
    ours, cores = dice.choice(pairs)
    made = refusing(lambda: DrawnDraft(call["tokens"], call["probs"], call["lengths"]))
    if made is None:
        return
    made = dice.choice((made,) * 9 + ("draft", None, (made.tokens, made.probs)))
    wraps = dice.choice((lambda rng: rng, lambda rng: BlockRng(rng, [3] * rows, call["budgets"], CPU)))
    wraps = dice.choice((wraps,) * 9 + (lambda rng: None, lambda rng: "rng"))
    seed = dice.randrange(100)
    found = ours(made, call["p"], wraps(NativeRng(seed)))
    yield found.token
    inside = torch.arange(k) < made.lengths[:, None]
    read = [call["p"][:, :k][inside], call["p"][torch.arange(rows), made.lengths]]
    read += [made.probs[inside]] if ours is native_rejection else []
    assert all(map(are_distributions, read)), "decided by what is no distribution"
    wanted = cores(made, call["p"], wraps(SeededRng(seed)))
    yield (wanted.accepted, wanted.token), (found.accepted, found.token)


def refusing(make):
    """Returns what is made, or None where the core itself refuses to make it."""
    try:
        return make()
    except (ValueError, TypeError, AttributeError, IndexError):
        return None


def drafter(world, dice):
    """A draft of K tokens a row."""
    rows = dice.choice((1, 2))
    prompts = [[dice.randrange(11) for _ in range(dice.choice((1, 5, 18)))] for _ in range(rows)]
    k, seed = dice.choice((1, 4)), dice.randrange(100)
    call = {
        "pending": torch.tensor([prompt[-1] for prompt in prompts]),
        "k": k,
        "warp": dice.choice((0.0, 1.0)),
        "budgets": [dice.randrange(k + 1) for _ in range(rows)],
    }
    call = mutated(dice, call, {"pending": odd_tensor, "k": integers, "warp": reals, "budgets": odd_budgets})
    ours, cores = NativeDrafter(world.native), ModelDrafter(world.plain)
    if dice.random() < 0.95:
        ours.start(prompts)
    wraps, inside = by_budgets(dice, [*map(len, prompts)], call)
    setting = dice.choice((NativeWarp(call["warp"]),) * 9 + ("warp", None))
    made = ours.propose(call["pending"], call["k"], setting, wraps(NativeRng(seed)))
    yield made.probs
    cores.start(prompts)
    wanted = cores.propose(call["pending"], call["k"], Warp(call["warp"]), wraps(SeededRng(seed)))
    decided = inside()
    yield tuple((draft.tokens[decided], draft.probs[decided]) for draft in (wanted, made))


def by_budgets(dice, starts, call):
    """Returns what narrows a generator to the budgets of a call, or leaves it; and what is then decided.

    The latter returns which of the call's k tokens a row has budget for, [B, K]: the others decide nothing.
    """
    whole = dice.choice((True, False))

    def wraps(rng):
        return rng if whole else DraftingRng(rng, starts, call["budgets"], CPU)

    def inside():
        budgets = [call["k"]] * len(starts) if whole else call["budgets"]
        return torch.arange(call["k"]) < torch.tensor(budgets)[:, None]

    return wraps, inside


def early(world, dice):
    """A draft by an exit, and its verification; now and then not in their order."""
    rows, k, seed = dice.choice((1, 2)), dice.choice((1, 4)), dice.randrange(100)
    ours, plain = NativeExitGPT(world.native, world.exit), EarlyExitGPT(world.plain, world.exit)
    held = torch.randint(11, (rows, dice.choice((1, 6, 20))), generator=seeded(dice))
    lengths = [dice.randrange(held.shape[1] + 1) for _ in range(rows)]
    call = {
        "pending": torch.randint(11, (rows,), generator=seeded(dice)),
        "k": k,
        "warp": dice.choice((0.0, 1.0)),
        "budgets": [dice.randrange(k + 1) for _ in range(rows)],
    }
    call = mutated(dice, call, {"pending": odd_tensor, "k": integers, "warp": reals, "budgets": odd_budgets})
    top, begins, ahead = dice.choice((None, None, 3)), dice.random() < 0.9, dice.choice((0, 0, 0, 1))
    wraps, inside = by_budgets(dice, [9] * rows, call)
    odd, new, found = dice.choice((False,) * 4 + (True,)), dice.choice((0, 0, 0, 1, 2)), []
    more = torch.randint(11, (rows, new), generator=seeded(dice))
    for target, make, rng in ((ours, NativeWarp, NativeRng), (plain, Warp, SeededRng)):
        cache = target.new_cache(rows)
        target.hidden(held, cache)
        cache.truncate(lengths)
        drafter = ExitDrafter(target)
        if begins:
            drafter.start([[1]] * rows)
        if ahead:
            token = torch.zeros(rows, dtype=torch.long)
            target.read_ahead(cache, odd_tensor(dice, token) if odd else token)
            cache.truncate(lengths)
            target._ahead[cache].clear()
        draft = drafter.propose(call["pending"], call["k"], make(call["warp"], top_k=top), wraps(rng(seed)))
        block = torch.cat([call["pending"][:, None], draft.tokens, more], dim=1)
        logits = target(odd_tensor(dice, block) if odd and target is ours else block, cache)
        found.append((draft.tokens, draft.probs, logits, cache.lengths.double()))
        if target is ours:
            yield logits
        if odd:
            return
    decided = inside()
    real = torch.arange(block.shape[1]) < 24 - torch.tensor(lengths)[:, None]
    before = torch.cat([torch.ones(rows, 1, dtype=torch.bool), decided], dim=1)  # of what decided nothing
    before = torch.cat([before, before[:, -1:].expand(rows, new)], dim=1)
    real &= before
    yield tuple((made[0][decided], made[1][decided], made[2][real], made[3]) for made in found)[::-1]


def model(world, dice):
    """A native model of a GPT that is not quite one, or a copy of one, for some number of threads."""
    plain = tiny.gpt(tiny.config(layers=2, max_length=8), 0, REAL)
    what = dice.randrange(9)
    if what == 0:
        plain.layers = plain.layers[:1]
    elif what == 1:
        plain.lm_head = torch.nn.Linear(plain.config.width, 99, bias=False, dtype=REAL)
    elif what == 2:
        plain = plain.to(dice.choice((torch.bfloat16, torch.float16)))
    elif what == 3:
        plain = plain.to("meta")
    elif what == 4:
        plain = dice.choice((None, "model", torch.nn.Linear(2, 2), world.native))
    elif what == 5:
        plain.norm.weight.data[0] = math.nan
    elif what == 6:
        plain = dice.choice((copy.copy, copy.deepcopy, pickle.dumps))(world.native)
    elif what == 7:
        plain.layers[0].mlp.up_proj.weight = torch.nn.Parameter(torch.zeros(1, 1, dtype=REAL))
    native = NativeGPT(plain, folder(), threads=dice.choice((*(None,) * 8, *ODD_INTEGERS)))
    text = torch.tensor([[1, 2, 3]])
    yield native(text)
    if plain.dtype == torch.bfloat16:  # its sums are of float32
        plain = plain.float()
    yield plain(text), native(text)


AREAS = (
    forward,
    forward,
    forward,
    draw,
    draw,
    head,
    new_cache,
    categorical,
    lend,
    warp,
    rule,
    rule,
    drafter,
    early,
    early,
    model,
)


def seeded(dice):
    return torch.Generator().manual_seed(dice.randrange(10**6))


def outcome(world, number):
    """Makes one call; returns what came of it, and raises AssertionError if that is wrong."""
    dice = random.Random(number)
    area = dice.choice(AREAS)
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
    world, seen, wrong = World(), Counter(), []

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
