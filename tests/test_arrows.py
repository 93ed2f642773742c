"""The rooms: imports point inwards, and chance comes in by one door. Both by reading the sources."""

import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[1] / "minispec"
ROOMS = [
    "lm",
    "decoding",
    "evidence",
    "show",
    "classroom",
    "cli",
]  # each may import itself and what stands before it

# Functions of torch and methods of its tensors that draw. `rng.bernoulli` and `rng.categorical` are the door.
DRAWS = {
    *(
        "rand",
        "randn",
        "randint",
        "randperm",
        "rand_like",
        "randn_like",
        "randint_like",
        "normal",
        "multinomial",
    ),
    *(
        "bernoulli",
        "poisson",
        "dropout",
        "seed",
        "manual_seed",
        "default_generator",
        "Generator",
        "gumbel_softmax",
    ),
    *("bernoulli_", "cauchy_", "exponential_", "geometric_", "log_normal_", "normal_", "random_", "uniform_"),
}
SOURCES = {"random", "secrets", "uuid", "torch.random", "numpy.random", "torch.distributions", "scipy.stats"}


def modules():
    return [(path, path.read_text(encoding="utf-8")) for path in sorted(PACKAGE.rglob("*.py"))]


def room_of(path):
    """Returns the room of a file, or None for the files at the front: they may import all."""
    first = path.relative_to(PACKAGE).parts[0]
    return (
        first.removesuffix(".py") if len(path.relative_to(PACKAGE).parts) > 1 or first == "cli.py" else None
    )


def imported(source):
    """Returns the full names of all that a source imports, wherever in it: `from a import b` is a and a.b."""
    names = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            stem = "." * node.level + (node.module or "")
            names += [stem, *(f"{stem}.{alias.name}" for alias in node.names)]
    return names


def arrow_faults(room, source):
    """Returns what a source of a room imports that it may not."""
    allowed = ROOMS[: ROOMS.index(room) + 1]
    faults = [name for name in imported(source) if name.startswith(".")]  # relative ones hide the room
    ours = [name.split(".")[1:] for name in imported(source) if name.split(".")[0] == "minispec"]
    if room == "cli":
        ours = [parts for parts in ours if parts not in ([], ["__version__"])]
    return faults + [".".join(["minispec", *parts]) for parts in ours if not parts or parts[0] not in allowed]


def chance_faults(source):
    """Returns the names in a source that draw random numbers other than through an `rng`."""
    faults = [name for name in imported(source) if any(f"{name}.".startswith(f"{s}.") for s in SOURCES)]
    faults += [
        name for name in imported(source) if name.split(".")[0] == "torch" and name.split(".")[-1] in DRAWS
    ]
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Attribute):
            owner = ast.unparse(node.value)
            if (node.attr in DRAWS and not owner.endswith("rng")) or f"{owner}.{node.attr}" in {
                "torch.random",
                "np.random",
            }:
                faults.append(f"{owner}.{node.attr}")
    return faults


def test_every_room_is_known():
    """Each folder of the package with Python in it is a room that the order names."""
    assert {room_of(path) for path, _ in modules()} - {None} == set(ROOMS)


def test_arrows_point_inwards():
    """cli → classroom → show → evidence → decoding → lm, and nothing points back."""
    faults = {path.name: arrow_faults(room_of(path), source) for path, source in modules() if room_of(path)}
    assert {name: found for name, found in faults.items() if found} == {}


def test_chance_comes_in_by_one_door():
    """While decoding, no module but `rng` draws."""
    sources = {path.name: source for path, source in modules() if room_of(path) == "decoding"}
    for door in ("rng.py", "rng_lean.py"):
        assert chance_faults(sources.pop(door))  # the door itself does draw
    assert {name: chance_faults(source) for name, source in sources.items() if chance_faults(source)} == {}


@pytest.mark.parametrize(
    ("room", "source"),
    [
        ("lm", "from minispec.core.warp import Warp"),
        ("lm", "from minispec import Warp"),
        ("lm", "import minispec"),
        ("lm", "import minispec.show.text"),
        ("lm", "from minispec import decoding"),
        ("decoding", "def f():\n    from minispec.evidence import bench"),
        ("decoding", "from ..show import text"),
        ("decoding", "from . import warp"),
        ("evidence", "from minispec.show.text import legend"),
        ("show", "if 0:\n    import minispec.cli.options as o"),
        ("cli", "from minispec import generate"),
    ],
)
def test_a_planted_arrow_is_found(room, source):
    """An import that points back, in whatever form and place, is a fault."""
    assert arrow_faults(room, source)


@pytest.mark.parametrize(
    ("room", "source"),
    [
        ("lm", "import torch\nfrom minispec.core.cache import KVCache"),
        ("decoding", "from minispec.core.model import GPT\nfrom minispec.decoding import warp"),
        ("show", "from minispec.evidence.bench import run\nfrom minispec.lm import corpus"),
        ("cli", "from minispec import __version__\nfrom minispec.show.text import legend"),
    ],
)
def test_arrows_that_point_inwards_are_no_fault(room, source):
    """What the order allows passes."""
    assert arrow_faults(room, source) == []


@pytest.mark.parametrize(
    "source",
    [
        "import random",
        "from random import choice",
        "import numpy.random",
        "from numpy import random",
        "from torch import rand",
        "from torch.distributions import Categorical",
        "import torch\ntorch.rand(3)",
        "import torch\ntorch.multinomial(p, 1)",
        "import torch as t\nt.bernoulli(p)",
        "p.exponential_()",
        "torch.random.manual_seed(0)",
        "np.random.default_rng(0)",
        "torch.nn.functional.gumbel_softmax(x)",
    ],
)
def test_a_planted_draw_is_found(source):
    """Any other way to a random number is a fault."""
    assert chance_faults(source)


def test_the_door_itself_is_no_fault():
    """Rules ask `rng`, and may name its types."""
    source = (
        "from minispec.core.rng import Rng\nkept = rng.bernoulli(p, live=x)\ntoken = rng.categorical(law)"
    )
    assert chance_faults(source) == []
