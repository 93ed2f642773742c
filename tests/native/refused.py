"""The native backend where the system refuses memory; `test_refused.py` runs each part in its own process.

`requests`: of each call the first request for memory is refused, then the second, and so on to its last.
`limit`: the address space ends at many sizes, while calls take hundreds of megabytes. Its process ends while
a thread is within a forward.
Each prints as JSON how many calls ended in a MemoryError, and how many had the right result.
"""

import copy
import ctypes
import gc
import io
import json
import resource
import sys
import threading
from collections import Counter
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path

import tiny
import torch
from drafts import random_draft

from minispec.cli.main import run
from minispec.core.rng import BlockRng
from minispec.drafters.exit import Exit
from minispec.evidence.proof.models import with_normals
from minispec.io.checkpoint import cache_folder
from minispec.native import library
from minispec.native.checks import REFUSED
from minispec.native.decisions import NativeRng, NativeWarp, native_greedy, native_rejection
from minispec.native.exit import NativeExitGPT
from minispec.native.model import NativeGPT

REAL = torch.float64
BLOCK = torch.tensor([[1, 2, 3], [4, 5, 6]])
NUMBERS = torch.linspace(0, 0.99, 6, dtype=REAL)
MEBIBYTE = 2**20
POINTS = (0, 1, 4, 8, 16, 32, 64, 96, 128, 400)  # mebibytes
ROWS = 32
PAGES = Path("/proc/self/statm")
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
        native = library.find_library(cache_folder() / "native", library.SOURCE, library.FLAGS)
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
                assert str(error) == REFUSED, error
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


class Calls:
    """Calls of every function of the library, and what they must leave as it was: a cache.

    Attributes:
        model: a native model.
        cache: what the calls read after and, but for refusals, into.
    """

    def __init__(self, plain, exit):
        self.plain = plain
        self.exit = exit
        self.model = NativeGPT(plain)
        self.cache = self.model.new_cache(2)
        self.model(BLOCK, self.cache)

    def state(self):
        """Returns how many tokens the cache holds, and what a copy of it makes of one more."""
        return self.cache.row_lengths, self.model(BLOCK[:, :1], copy.deepcopy(self.cache))

    def undone(self, result):
        """Takes back what a call has read."""
        self.cache.truncate([BLOCK.shape[1]] * 2)
        return result

    def decided(self, rule):
        """Decides a draft of which something is rejected in the first row."""
        draft, p = random_draft(2, 3, 11, seed=1, dtype=REAL)
        verdict = rule(draft, p, BlockRng(NativeRng(1), [3, 3], [4, 4], torch.device("cpu")))
        return verdict.accepted, verdict.token

    def early(self):
        """Drafts by an exit, and verifies the draft."""
        target = NativeExitGPT(self.model, self.exit)
        cache = target.new_cache(2)
        target.share()
        ids, probs, used = target.draw(BLOCK[:, 0], cache, 2, 1.0, NUMBERS)
        return ids, probs, used, cache.row_lengths, target(torch.cat([BLOCK[:, :1], ids], 1), cache)

    def named(self):
        """Returns the calls."""
        dists = torch.rand(2, 11, generator=torch.Generator().manual_seed(1), dtype=REAL).softmax(-1)
        return {
            "logits": lambda: self.undone(self.model(BLOCK, self.cache)),
            "hidden": lambda: self.undone(self.model.hidden(BLOCK, self.cache)),
            "draw": lambda: self.undone(self.model.draw(BLOCK[:, 0], self.cache, 3, 1.0, NUMBERS)),
            "without a cache": lambda: self.model(BLOCK),
            "warp": lambda: NativeWarp(0.7)(dists.log()),
            "choose": lambda: NativeRng(1).categorical(dists),
            "greedy": lambda: self.decided(native_greedy),
            "rejection": lambda: self.decided(native_rejection),
            "exit": self.early,
            "model": lambda: NativeGPT(self.plain)(BLOCK),
        }


def requests(path):
    """Refuses each request of each call, and those of a shared forward where no thread can start."""
    torch.set_num_threads(3)
    plain = tiny.gpt(tiny.config(), 0, REAL)
    calls = Calls(plain, with_normals(Exit(plain.config.width, 1), 3))
    refusals = Refusals(path)
    ended = {name: Counter(refusals.each(call, calls.state)) for name, call in calls.named().items()}

    refusals.library.refuse_threads(True)
    shared = NativeGPT(plain, threads=3)
    ended["no threads"] = Counter(refusals.each(lambda: shared(BLOCK), calls.state))
    before = len(list(THREADS.iterdir()))
    assert same(shared(BLOCK), calls.model(BLOCK)) and len(list(THREADS.iterdir())) == before
    refusals.library.refuse_threads(False)
    assert same(shared(BLOCK), calls.model(BLOCK)) and len(list(THREADS.iterdir())) == before + 2
    return ended


def limit():
    """Limits the address space, from nothing more to hundreds of megabytes more than is used."""
    plain = tiny.gpt(tiny.config(vocab_size=40_001, width=64, layers=1, max_length=2048), 0, torch.float32)
    model = NativeGPT(plain)
    cache = model.new_cache(ROWS)
    tokens = torch.arange(ROWS * 16).view(ROWS, 16)
    calls = {
        "logits": lambda: model(tokens, cache),
        "draw": lambda: model.draw(tokens[:, 0], cache, 8, 0.0, NUMBERS),
        "cache": lambda: model.new_cache(8 * ROWS).rows,
        "model": lambda: NativeGPT(plain)(BLOCK),
    }
    ended = {}
    for name, call in calls.items():
        wanted = call()
        cache.truncate([0] * ROWS)
        ended[name] = Counter(limited(more * MEBIBYTE, call, wanted, cache) for more in POINTS)
        assert same(wanted, call())
        cache.truncate([0] * ROWS)
    ended["command"] = [command(more * MEBIBYTE) for more in (1000, 0, 1, 2, 4, 1000)]
    leave_reading(model, tokens)
    return ended


def leave_reading(model, tokens):
    """Starts a thread that reads tokens for ever; when the process ends, it ends too, within a forward."""

    def read():
        while True:
            model(tokens)

    threading.Thread(target=read, daemon=True).start()


@contextmanager
def addresses(more):
    """Within it, the process gets no more than so many bytes of addresses beyond those that it has."""
    used = int(PAGES.read_text().split()[0]) * resource.getpagesize()
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (used + more, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)


def limited(more, call, wanted, cache):
    """Makes a call for which there are so many bytes; returns who was refused memory, or "answered"."""
    try:
        with addresses(more):
            found = call()
    except MemoryError as error:
        assert str(error) and "\n" not in str(error), error
        assert cache.row_lengths == (0,) * ROWS
        return "the library" if str(error) == REFUSED and error.__cause__ is None else "torch or numpy"
    assert same(wanted, found)
    cache.truncate([0] * ROWS)
    return "answered"


def command(more):
    """Runs `minispec generate`, for which there are so many bytes; returns its status and what it printed."""
    printed = io.StringIO(), io.StringIO()
    options = ("--prompt", "The cat", "--backend", "native", "--max-new-tokens", "10")
    with addresses(more), redirect_stdout(printed[0]), redirect_stderr(printed[1]):
        status = run(["generate", *options])
    return status, *(text.getvalue() for text in printed)


if __name__ == "__main__":
    with torch.inference_mode():
        print(json.dumps({"requests": requests, "limit": limit}[sys.argv[1]](*sys.argv[2:])))
