"""The native backend where the system refuses memory; `test_refused.py` runs each part in its own process.

Of each call the first request for memory is refused, then the second, and so on to its last. It prints as
JSON how many calls ended in a MemoryError, and how many had the right result.
"""

import copy
import ctypes
import gc
import json
import sys
from collections import Counter
from pathlib import Path

import tiny
import torch
from drafts import random_draft

from minispec.core.model import Tree
from minispec.core.rng import RoundRng
from minispec.native import library, loop
from minispec.native.backend import NATIVE
from minispec.native.checks import OUT_OF_MEMORY
from minispec.native.decisions import NativeRng, NativeWarp, native_greedy, native_rejection
from minispec.native.drafter import Chain, NativeDrafter, NativeTreeDrafter, Shape
from minispec.native.model import NativeGPT

REAL = torch.float64
BLOCK = torch.tensor([[1, 2, 3], [4, 5, 6]])
STATES = torch.linspace(-1, 1, 2 * 3 * 16, dtype=REAL).view(2, 3, 16)
NUMBERS = torch.linspace(0, 0.99, 6, dtype=REAL)
THREADS = Path("/proc/self/task")


def same(one, other):
    """Whether two results are equal, number by number."""
    if isinstance(one, tuple | list):
        return len(one) == len(other) and all(map(same, one, other))
    return torch.equal(one, other) if isinstance(one, torch.Tensor) else one == other


class Refusals:
    """The library of `refusals.cpp`, which watches the native one."""

    def __init__(self, path):
        self.library = ctypes.CDLL(path)
        self.library.watch.argtypes = [ctypes.c_void_p] * 2
        native = library.find_library(library.SOURCE, library.FLAGS)
        maps = [line for line in Path("/proc/self/maps").read_text().splitlines() if str(native) in line]
        ends = [int(end, 16) for line in maps for end in line.split()[0].split("-")]
        self.library.watch(min(ends), max(ends))

    def each(self, call, state):
        """Makes a call with its first request refused, its second, and so on, until none is refused.

        Each time it ends in a MemoryError with the same state as before and nothing held, or with the result
        that it has otherwise. Yields "refused" or "answered".
        """
        wanted = call()
        gc.collect()
        gc.freeze()  # what there is now is not looked through again
        for request in range(1, 1000):
            gc.collect()
            before = state()
            held = self.library.blocks_held()
            self.library.refuse(request)
            try:
                found = call()
            except MemoryError as error:
                assert str(error) == OUT_OF_MEMORY, error
                found = None
            refused = self.library.times_refused()
            self.library.refuse(0)
            if not refused:
                return
            gc.collect()
            assert found is not None or self.library.blocks_held() == held, f"request {request}: a leak"
            assert found is None or same(wanted, found), f"request {request}: another result"
            assert same(before, state()), f"request {request}: another state"
            yield "refused" if found is None else "answered"


def calls_of(plain, model):
    """Returns calls of every function of the library, by name, and what says what they must leave as it was.

    That is how many tokens a cache holds, and what a copy of it makes of one more.
    """
    cache = model.new_cache(2)
    model(BLOCK, cache)
    draft, p = random_draft(2, 3, 11, seed=1, dtype=REAL)  # something is rejected in its first row
    tree = Tree.after(torch.tensor([3, 3]), torch.tensor([[0, 0], [0, 0]]))
    warp = NativeWarp(1.0)

    def read(what, *arguments):
        found = what(*arguments)
        cache.truncate([BLOCK.shape[1]] * 2)
        return found

    def decided(rule):
        verdict = rule(draft, p, RoundRng(NativeRng(1), tiny.round_plan([4, 4], [3, 3])))
        return verdict.accepted, verdict.token

    def drawn(shape=None):
        return Chain(model).draw(BLOCK[:, 0], cache, 3, warp, NUMBERS, None, None, shape)

    def played(target, made, **settings):
        given = {"k": 3, "verifier": native_rejection, "max_new_tokens": 3, "warp": warp, "rng": NativeRng(3)}
        rounds = list(loop.observe(target, made, BLOCK.tolist(), **given | settings))
        return [(r.emitted, r.draft.tokens, r.target_hidden) for r in rounds]

    parents = Shape([0, 0, 1], [9, 9])
    return {
        "head": lambda: model.head(STATES),
        "hidden": lambda: read(model.hidden, BLOCK, cache),
        "tree": lambda: read(model.hidden, BLOCK, cache, tree),
        "draw": lambda: read(drawn),
        "draw a tree": lambda: read(drawn, parents),
        "without a cache": lambda: model(BLOCK),
        "play": lambda: played(model, NativeDrafter(model)),
        "play alone": lambda: played(model, None, k=0),
        "play a tree": lambda: played(
            model, NativeTreeDrafter(model, [0, 0, 1]), verifier=NATIVE.verifier("rejection", trees=True)
        ),
        "warp": lambda: NativeWarp(0.7)(p[:, 0].log()),
        "choose": lambda: NativeRng(1).categorical(p[:, 0]),
        "greedy": lambda: decided(native_greedy),
        "rejection": lambda: decided(native_rejection),
        "model": lambda: NativeGPT(plain)(BLOCK),
    }, lambda: (cache.row_lengths, model(BLOCK[:, :1], copy.deepcopy(cache)))


def requests(path):
    """Refuses each request of each call, and those of a shared forward where no thread can start."""
    torch.set_num_threads(3)
    plain = tiny.gpt(tiny.config(), 0, REAL)
    model = NativeGPT(plain)
    calls, state = calls_of(plain, model)
    refusals = Refusals(path)
    ended = {name: Counter(refusals.each(call, state)) for name, call in calls.items()}

    refusals.library.refuse_threads(True)
    shared = NativeGPT(plain, threads=3)
    ended["no threads"] = Counter(refusals.each(lambda: shared.hidden(BLOCK), state))
    before = len(list(THREADS.iterdir()))
    for refused, more in ((True, 0), (False, 2)):
        refusals.library.refuse_threads(refused)
        assert same(shared(BLOCK), model(BLOCK)) and len(list(THREADS.iterdir())) == before + more
    return ended


if __name__ == "__main__":
    with torch.inference_mode():
        print(json.dumps(requests(sys.argv[1])))
