"""The lists of requirements agree: pyproject.toml, constraints.txt, conda's, Binder's, and the reasons given.

conda itself is not run. Every check returns the faults that it finds, and is tested twice: the files of
this repository have none, and a copy with a planted fault has one.
"""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from rattler import MatchSpec

import minispec

ROOT = Path(__file__).resolve().parents[1]
LISTS = ("environment.yml", "binder/environment.yml", "pyproject.toml", "constraints.txt")
FILES = (*LISTS, "CONTRIBUTING.md")
CLASSROOM = (None, "notebooks", "test")  # the run-time dependencies, and those of two extras
BINDER = ("jupyterlab", "matplotlib", "ipykernel")  # of the notebooks' packages: the others build notebooks

# What conda-forge calls the packages that have another name there. The others keep theirs.
CONDA_NAMES = {"torch": "pytorch", "matplotlib": "matplotlib-base", "huggingface-hub": "huggingface_hub"}


def extras(pyproject):
    """Returns name -> specifier of the packages of each extra; None is the run-time dependencies."""
    project = tomllib.loads(pyproject)["project"]
    lists = project["optional-dependencies"] | {None: project["dependencies"]}
    return {
        extra: {canonicalize_name(one.name): str(one.specifier) for one in map(Requirement, lines)}
        for extra, lines in lists.items()
    }


def conda_faults(conda, packages, pyproject):
    """Returns how what stands for conda differs from lines for some packages, Python and pip.

    Each is a match spec; all come from conda-forge: other channels are gone or want a licence.
    """
    wanted = [f"{CONDA_NAMES.get(name, name)} {specifier}" for name, specifier in packages.items()]
    python = tomllib.loads(pyproject)["project"]["requires-python"]
    wanted = sorted([*wanted, f"python {python}", "pip"])
    given = sorted(line for line in conda["dependencies"] if isinstance(line, str))
    for line in given:
        MatchSpec(line, strict=True)  # raises for what is none
    faults = [] if given == wanted else [f"differ: {set(given) ^ set(wanted)}, or one stands there twice"]
    return faults if conda["channels"] == ["conda-forge"] else [*faults, f"channels: {conda['channels']}"]


def nested(conda):
    """Returns what stands among the dependencies and is no line: what pip installs."""
    return [item for item in conda["dependencies"] if not isinstance(item, str)]


def classroom_faults(files):
    """conda's list is what the package, the notebooks and the tests need; pip adds this project alone."""
    conda = yaml.safe_load(files["environment.yml"])
    known = extras(files["pyproject.toml"])
    packages = {name: specifier for extra in CLASSROOM for name, specifier in known[extra].items()}
    faults = conda_faults(conda, packages, files["pyproject.toml"])
    return faults if nested(conda) == [{"pip": ["--no-deps -e ."]}] else [*faults, "the pip part"]


def binder_faults(files):
    """Binder gets what the package needs, PyTorch for CPUs, JupyterLab, figures; postBuild adds minispec."""
    conda = yaml.safe_load(files["binder/environment.yml"].replace("pytorch-cpu", "pytorch"))
    known = extras(files["pyproject.toml"])
    packages = known[None] | {name: known["notebooks"][name] for name in BINDER}
    faults = conda_faults(conda, packages, files["pyproject.toml"]) + nested(conda)
    return faults if "pytorch-cpu" in files["binder/environment.yml"] else [*faults, "PyTorch is for GPUs"]


def reason_faults(files):
    """CONTRIBUTING.md says of every package why it is here, once, and of no other."""
    table = files["CONTRIBUTING.md"].split("| package | why |\n|---|---|\n")[1].split("\n\n")[0]
    rows = [re.fullmatch(r"\| (.+?) \| (.+) \|", line) for line in table.splitlines()]
    given = [canonicalize_name(name) for row in rows for name in row[1].split(", ")]
    wanted = {name for packages in extras(files["pyproject.toml"]).values() for name in packages}
    return [] if sorted(given) == sorted(wanted) else [set(given) ^ wanted]


def pin_faults(files):
    """Everything that is installed is pinned to one version, inside its range; torch to the CPU build's."""
    lines = [line.split("#")[0].strip() for line in files["constraints.txt"].splitlines()]
    pins = {canonicalize_name(one.name): one for one in map(Requirement, filter(None, lines))}
    faults = [pin for pin in pins.values() if not re.fullmatch(r"==[^*,]+", str(pin.specifier))]
    faults += [] if str(pins.get("torch")) == "torch==2.13.0" else ["torch is not pinned to 2.13.0"]
    for packages in extras(files["pyproject.toml"]).values():
        for name, specifier in packages.items():
            version = str(pins[name].specifier).removeprefix("==") if name in pins else "none"
            if name not in pins or not Requirement(f"{name}{specifier}").specifier.contains(version):
                faults.append(f"{name}{specifier}: pinned to {version}")
    return faults


def address_faults(files):
    """No list names an index or a host: where that is unreachable, an install would hang."""
    marks = ("://", "--index", "--extra-index", "--find-links")
    return [f"{name}: {mark}" for name in LISTS for mark in marks if mark in files[name]]


@pytest.fixture
def files():
    return {name: (ROOT / name).read_text(encoding="utf-8") for name in FILES}


CHECKS = [classroom_faults, binder_faults, reason_faults, pin_faults, address_faults]


@pytest.mark.parametrize("check", CHECKS)
def test_the_files_have_no_fault(check, files):
    assert check(files) == []


@pytest.mark.parametrize(
    ("check", "file", "old", "new"),
    [
        (classroom_faults, "environment.yml", "  - conda-forge\n", "  - conda-forge\n  - defaults\n"),
        (classroom_faults, "environment.yml", "- pytorch >=", "- pytorch::pytorch >="),
        (classroom_faults, "environment.yml", "--no-deps -e .", "-e ."),
        (classroom_faults, "environment.yml", "  - pip\n", "  - pip\n  - pip\n"),
        (classroom_faults, "environment.yml", "pytorch", "torch"),
        (classroom_faults, "environment.yml", "pytorch >=2.9", "pytorch >=2.8"),
        (classroom_faults, "environment.yml", "  - jupyterlab >=4.2\n", ""),
        (classroom_faults, "pyproject.toml", '    "rich>=13.8",\n', ""),
        (binder_faults, "binder/environment.yml", "  - conda-forge\n", "  - defaults\n"),
        (binder_faults, "binder/environment.yml", "pytorch-cpu", "pytorch"),
        (binder_faults, "binder/environment.yml", "  - pip\n", "  - pip\n  - pip:\n      - pandas\n"),
        (binder_faults, "binder/environment.yml", "  - matplotlib-base >=3.8\n", ""),
        (reason_faults, "CONTRIBUTING.md", "| numpy |", "| scipy, numpy |"),
        (reason_faults, "CONTRIBUTING.md", "| numpy |", "| pandas |"),
        (reason_faults, "pyproject.toml", '    "rich>=13.8",\n', '    "rich>=13.8",\n    "pandas",\n'),
        (pin_faults, "constraints.txt", "torch==2.13.0\n", "torch>=2.13.0\n"),
        (pin_faults, "constraints.txt", "torch==2.13.0\n", "torch==2.12.0\n"),
        (pin_faults, "constraints.txt", "pytest==", "pytest-not=="),
        (pin_faults, "pyproject.toml", "mypy>=", "mypy>=99"),
        (address_faults, "constraints.txt", "torch==", "--extra-index-url https://example.org\ntorch=="),
    ],
)
def test_a_planted_fault_is_found(check, file, old, new, files):
    assert old in files[file]
    assert check(files | {file: files[file].replace(old, new)}) != []


def test_a_line_that_is_no_match_spec_is_an_error(files):
    text = files["environment.yml"].replace("numpy >=", "numpy >=>")
    with pytest.raises(Exception, match=r".+"):
        classroom_faults(files | {"environment.yml": text})


def data_left_out(pyproject):
    """Returns what stands in the package, is no Python, and would not be installed."""
    package = ROOT / "minispec"
    patterns = tomllib.loads(pyproject)["tool"]["setuptools"]["package-data"]["minispec"]
    installed = {path for pattern in patterns for path in package.glob(pattern)}
    found = (path for path in package.rglob("*.*") if path.is_file() and not path.name.startswith("."))
    data = {path for path in found if path.suffix not in (".py", ".pyc", ".tmp")}
    return sorted(path.name for path in data - installed)


def test_all_data_of_the_package_is_installed():
    """Texts, style sheets, C++, weights; without its pattern, a file would be left out."""
    pyproject = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    assert data_left_out(pyproject) == []
    assert data_left_out(pyproject.replace('"show/*.css"', '"show/*.htm"')) == ["step.css"]
    assert "exercises.toml" in data_left_out(pyproject.replace('"classroom/**/*.toml"', '"classroom/*.toml"'))


def test_every_file_has_the_same_version():
    """The package, what pip reads, what is cited, and the newest released part of the changelog."""
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    changes = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    parts = re.findall(r"^## (?!.*, not released$)(.+)$", changes, re.MULTILINE)
    assert [project["version"], str(citation["version"]), parts[0]] == [minispec.__version__] * 3


# Every module but the figures, and the checks and `minispec check`, where matplotlib cannot be imported.
WITHOUT_FIGURES = """
import pkgutil, sys
from importlib import import_module

sys.modules["matplotlib"] = None  # as if it were not installed
import minispec
from minispec.cli.main import run

for module in pkgutil.walk_packages(minispec.__path__, "minispec.", onerror=lambda _: None):
    name = module.name
    if not name.startswith("minispec.show.plots") and not name.endswith("__main__"):
        import_module(name)
print("imported", {"gguf", "huggingface_hub"} & set(sys.modules))
try:
    import_module("minispec.show.plots")
except ImportError as error:
    print(error)
sys.exit(run(["check", "minispec.core.verify:verify_rejection"]))
"""


def test_only_figures_need_matplotlib():
    """Other projects install the checkers without it; who draws reads what to install."""
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_FIGURES], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "pip install -e '.[figures]'" in done.stdout and "passed" in done.stdout
    assert "imported set()" in done.stdout
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert not any("matplotlib" in line for line in project["dependencies"])
