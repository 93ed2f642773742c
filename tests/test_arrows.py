"""Which package may import which, and that random numbers come from one file. Both by reading the sources."""

import ast
from pathlib import Path

import pytest
from imports import imported

PACKAGE = Path(__file__).resolve().parents[1] / "minispec"
# What each package may import besides itself.
MAY_IMPORT = {
    "core": (),
    "drafters": ("core",),
    "rules": ("core",),
    "io": ("core", "drafters", "rules"),
}
for package in ("native", "train", "evidence", "show", "classroom", "cli"):
    MAY_IMPORT[package] = tuple(MAY_IMPORT)  # all that stand before it
WITHOUT_DRAWS = ("core", "drafters", "rules", "io", "native")

# Functions of torch and methods of its tensors that draw, unless they are methods of an `rng`.
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


def package_of(path):
    """Returns the package of a file, or None for the files at the front: they may import all."""
    parts = path.relative_to(PACKAGE).parts
    return parts[0] if len(parts) > 1 else None


def import_faults(package, source):
    """Returns what a source of a package imports that it may not."""
    allowed = (package, *MAY_IMPORT[package])
    faults = [name for name in imported(source) if name.startswith(".")]  # relative ones hide the package
    ours = [name.split(".")[1:] for name in imported(source) if name.split(".")[0] == "minispec"]
    if package == "cli":
        ours = [parts for parts in ours if parts not in ([], ["__version__"])]
    return faults + [".".join(["minispec", *parts]) for parts in ours if not parts or parts[0] not in allowed]


def draw_faults(source):
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


def test_every_package_is_known():
    """Each folder with Python in it is one that the order names."""
    assert {package_of(path) for path, _ in modules()} - {None} == set(MAY_IMPORT)


def test_the_order_is_the_one_that_is_meant():
    """core, then drafters and rules, which do not know each other, then io, native, … up to cli."""
    assert list(MAY_IMPORT)[:4] == ["core", "drafters", "rules", "io"]
    assert MAY_IMPORT["native"] == ("core", "drafters", "rules", "io")
    assert MAY_IMPORT["cli"] == tuple(MAY_IMPORT)[:-1] and len(MAY_IMPORT) == 10


def test_nothing_imports_what_comes_after_it():
    """Each package imports what stands before it in the order, and nothing else."""
    faults = {
        path.relative_to(PACKAGE).as_posix(): import_faults(package_of(path), source)
        for path, source in modules()
        if package_of(path)
    }
    assert {name: found for name, found in faults.items() if found} == {}


def test_random_numbers_come_from_one_file():
    """While decoding, nothing draws but `core/rng.py`; the native generator asks its parent."""
    sources = {
        path.relative_to(PACKAGE).as_posix(): source
        for path, source in modules()
        if package_of(path) in WITHOUT_DRAWS
    }
    assert {"native/rng.py", "rules/coupled.py", "drafters/stopping.py", "io/draws.py"} <= set(sources)
    assert draw_faults(sources.pop("core/rng.py"))  # this one does draw
    assert {name: draw_faults(source) for name, source in sources.items() if draw_faults(source)} == {}


@pytest.mark.parametrize(
    ("package", "source"),
    [
        ("core", "from minispec.rules.coupled import KeyedRng"),
        ("core", "from minispec import Warp"),
        ("core", "import minispec"),
        ("core", "import minispec.show.text"),
        ("core", "from minispec import io"),
        ("drafters", "from minispec.rules.coupled import verify_coupled"),
        ("rules", "from minispec.drafters.costs import Costs"),
        ("rules", "from minispec.io.trace import Trace"),
        ("io", "from minispec.native.backend import TORCH"),
        ("native", "def f():\n    from minispec.train import corpus"),
        ("native", "from . import library"),
        ("train", "from minispec.evidence.bench.settings import run"),
        ("train", "def f():\n    from minispec.evidence import bench"),
        ("evidence", "from minispec.show.text import legend"),
        ("evidence", "from ..show import text"),
        ("show", "if 0:\n    import minispec.cli.options as o"),
        ("show", "from minispec.classroom import predict"),
        ("cli", "from minispec import generate"),
    ],
)
def test_a_planted_import_is_found(package, source):
    """An import of what comes after, in whatever form and place, is a fault."""
    assert import_faults(package, source)


@pytest.mark.parametrize(
    ("package", "source"),
    [
        ("core", "import torch\nfrom minispec.core.cache import KVCache"),
        ("drafters", "from minispec.core.model import GPT\nfrom minispec.drafters import costs"),
        ("io", "from minispec.drafters.adaptive import AdaptiveDrafter\nfrom minispec.rules import coupled"),
        ("native", "from minispec.io.checkpoint import Pair"),
        ("show", "from minispec.evidence.bench.settings import run\nfrom minispec.train import corpus"),
        ("cli", "from minispec import __version__\nfrom minispec.show.text import legend"),
    ],
)
def test_imports_that_the_order_allows_are_no_fault(package, source):
    """What stands before may be imported."""
    assert import_faults(package, source) == []


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
    assert draw_faults(source)


def test_asking_an_rng_is_no_fault():
    """Rules ask `rng`, and may name its types."""
    source = (
        "from minispec.core.rng import Rng\nkept = rng.bernoulli(p, live=x)\ntoken = rng.categorical(law)"
    )
    assert draw_faults(source) == []
