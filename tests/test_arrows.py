"""Which package may import which, and that random numbers come from one file. Both by reading the sources."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest
from imports import imported

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "minispec"
LINT_IMPORTS = "from importlinter.cli import lint_imports; raise SystemExit(lint_imports())"

# Imports that the contracts in pyproject.toml forbid: each of what stands above, in whatever form and place.
PLANTED = {
    "core.a": "from minispec.verifiers import b",
    "core.b": "import minispec",
    "core.c": "from minispec import io",
    "drafters.a": "from minispec.verifiers import b",
    "verifiers.a": "from minispec.drafters import b",
    "io.a": "import minispec.native.b",
    "native.a": "def f():\n    from minispec.train import b",
    "native.c": "from .. import train",
    "train.a": "def f():\n    from minispec.evidence.bench import b",
    "evidence.bench.a": "from minispec.show import b",
    "evidence.theory.a": "from minispec.evidence.proof import b",
    "evidence.checker.a": "from ..zoo import b",
    "evidence.atlas.a": "from minispec.evidence.bench import b",
    "show.a": "if 0:\n    import minispec.cli.b as o",
    "classroom.a": "from minispec.cli import b",
}
WITHOUT_DRAWS = ("core", "drafters", "verifiers", "io", "native")

# Functions of torch and methods of its tensors that draw, unless they are methods of an `rng`.
DRAWS = set(
    "rand randn randint randperm rand_like randn_like randint_like normal multinomial bernoulli poisson "
    "dropout seed manual_seed default_generator Generator gumbel_softmax bernoulli_ cauchy_ exponential_ "
    "geometric_ log_normal_ normal_ random_ uniform_".split()
)
SOURCES = {"random", "secrets", "uuid", "torch.random", "numpy.random", "torch.distributions", "scipy.stats"}


def contracts(folder):
    """Runs the contracts of the pyproject.toml in a folder: exit status, and what was said."""
    said = subprocess.run([sys.executable, "-c", LINT_IMPORTS], cwd=folder, capture_output=True, text=True)
    return said.returncode, said.stdout


def is_in(name, packages):
    """Whether a module is one of some packages, or inside one."""
    return any(f"{name}.".startswith(f"{package}.") for package in packages)


def foreign_imports(source):
    """Returns what a source imports but the core, torch and the standard library."""
    allowed = ("minispec.core", "torch", *sys.stdlib_module_names)
    return [name for name in imported(source) if not is_in(name, allowed)]


def draw_faults(source):
    """Returns the names in a source that draw random numbers other than through an `rng` or its parent."""
    names = imported(source)
    faults = [name for name in names if is_in(name, SOURCES)]
    faults += [name for name in names if is_in(name, ["torch"]) and name.split(".")[-1] in DRAWS]
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Attribute):
            owner = ast.unparse(node.value)
            asks = owner.endswith(("rng", "super()"))
            whole = f"{owner}.{node.attr}"
            if (node.attr in DRAWS and not asks) or whole in ("torch.random", "np.random"):
                faults.append(whole)
    return faults


def test_imports_point_one_way():
    """Each package imports what stands below it, and no package is missing in the contracts."""
    status, said = contracts(ROOT)
    assert status == 0, said


def test_planted_imports_are_found(tmp_path):
    """One package with all the planted imports: each is named, and nothing else is a fault."""
    packages = {name.rpartition(".")[0] for name in PLANTED} | {"cli", "evidence.proof", "evidence.zoo"}
    files = {f"{package}.b": "" for package in packages} | {"cli.b": "from minispec.core import b\n"}
    files |= {"cli.c": "import minispec"} | PLANTED
    planted_package(tmp_path, files)
    status, said = contracts(tmp_path)
    assert status == 1
    assert [name for name in PLANTED if f"minispec.{name} ->" not in said] == []
    assert "minispec.cli." not in said.replace("-> minispec.cli.", "")
    # A package that no contract names.
    assert "helpers" not in said
    planted_package(tmp_path, {"helpers.a": ""})
    status, said = contracts(tmp_path)
    assert status == 1 and "helpers" in said


def planted_package(root, files):
    """Writes sources, by the names of their modules, into a package with the contracts of this project."""
    (root / "pyproject.toml").write_text((ROOT / "pyproject.toml").read_text())
    for name, source in files.items():
        path = root.joinpath("minispec", *name.split(".")).with_suffix(".py")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(source)
        for folder in path.relative_to(root).parents[:-1]:
            (root / folder / "__init__.py").touch()


def test_the_core_imports_itself_torch_and_the_standard_library():
    """Nothing else, in no file, wherever in it."""
    sources = [path.read_text(encoding="utf-8") for path in (PACKAGE / "core").glob("*.py")]
    assert sources
    assert [name for source in sources for name in foreign_imports(source)] == []


@pytest.mark.parametrize(
    "source",
    [
        "import numpy",
        "import minispec",
        "def f():\n    from minispec.native import model",
        "from minispec.corelike import x",
        "from . import warp",
        "import torchvision",
    ],
)
def test_a_foreign_import_is_found(source):
    """Other packages and other parts of this one, in whatever form and place; what is allowed passes."""
    good = "import math\nimport torch.nn.functional as F\nfrom minispec.core.warp import Warp\n"
    assert foreign_imports(good + source) == foreign_imports(source) != []


def test_random_numbers_come_from_one_file():
    """While decoding, nothing draws but `core/rng.py`; the native generator asks its parent."""
    sources = {
        path.relative_to(PACKAGE).as_posix(): path.read_text(encoding="utf-8")
        for package in WITHOUT_DRAWS
        for path in (PACKAGE / package).rglob("*.py")
    }
    assert {"native/decisions.py", "verifiers/coupled.py", "drafters/stopping.py"} <= sources.keys()
    assert draw_faults(sources.pop("core/rng.py"))  # this one does draw
    assert [fault for source in sources.values() for fault in draw_faults(source)] == []


@pytest.mark.parametrize(
    "source",
    [
        "from random import choice",
        "from numpy import random",
        "from torch import rand",
        "from torch.distributions import Categorical",
        "import torch as t\nt.bernoulli(p)",
        "p.exponential_()",
        "np.random.default_rng(0)",
    ],
)
def test_a_planted_draw_is_found(source):
    """Any other way to a random number is a fault; rules ask `rng`, and may name its types."""
    assert draw_faults(source)
    source = "from minispec.core.rng import Rng\nkept = rng.bernoulli(p, 0, x)\ntoken = rng.categorical(p)"
    assert draw_faults(source) == []
