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
ENVIRONMENTS = ("environment.yml", "binder/environment.yml")
LISTS = (*ENVIRONMENTS, "pyproject.toml", "constraints.txt")
FILES = (*LISTS, "CONTRIBUTING.md")

# What conda-forge calls the packages that have another name there. The others keep theirs.
CONDA_NAMES = {"torch": "pytorch", "matplotlib": "matplotlib-base"}
CONDA_ONLY = {"python", "pip"}
PLAUSIBLE_NAME = re.compile(r"[a-z0-9](?:[a-z0-9._-]*[a-z0-9])?")


CLASSROOM = (None, "notebooks", "test")  # the run-time dependencies, and those of two extras


def requirements(pyproject, *extras):
    """Returns name -> specifier of the lists of these extras; None is the run-time dependencies."""
    project = tomllib.loads(pyproject)["project"]
    lists = project["optional-dependencies"] | {None: project["dependencies"]}
    parsed = [Requirement(line) for extra in extras for line in lists[extra]]
    return {canonicalize_name(item.name): item.specifier for item in parsed}


def for_conda(pyproject, *extras):
    """Returns the same under conda-forge's names, and Python itself."""
    named = {CONDA_NAMES.get(name, name): str(s) for name, s in requirements(pyproject, *extras).items()}
    return named | {"python": tomllib.loads(pyproject)["project"]["requires-python"]}


def conda_lines(environment):
    return [item for item in yaml.safe_load(environment)["dependencies"] if isinstance(item, str)]


def pins(constraints):
    """Returns name -> requirement of every line that is not a comment."""
    lines = [line.split("#")[0].strip() for line in constraints.splitlines()]
    parsed = [Requirement(line) for line in lines if line]
    return {canonicalize_name(item.name): item for item in parsed}


def match_spec_faults(files):
    """Every line for conda is a match spec with a plausible name, and none is there twice."""
    return [fault for name in ENVIRONMENTS for fault in spec_faults(conda_lines(files[name]))]


def spec_faults(lines):
    faults = []
    names = []
    for line in lines:
        try:
            name = MatchSpec(line, strict=True).name.normalized
        except Exception as error:  # rattler's own kinds of error differ between its versions
            faults.append(f"{line}: {error}")
            continue
        if not PLAUSIBLE_NAME.fullmatch(name) or name != line.split()[0]:
            faults.append(f"{line}: not a plausible name")
        if name in names:
            faults.append(f"{line}: a second time")
        names.append(name)
    return faults


def channel_faults(files):
    """Only conda-forge: the others are gone or want a licence."""
    faults = []
    for name in ENVIRONMENTS:
        channels = yaml.safe_load(files[name]).get("channels")
        faults += [line for line in conda_lines(files[name]) if "::" in line]
        faults += [] if channels == ["conda-forge"] else [f"channels: {channels}"]
    return faults


def pip_faults(files):
    """Pip installs this project and nothing else: conda has brought the rest."""
    items = yaml.safe_load(files["environment.yml"])["dependencies"]
    nested = [item for item in items if not isinstance(item, str)]
    faults = [] if nested == [{"pip": ["--no-deps -e ."]}] else [f"the pip part: {nested}"]
    return faults if "pip" in items else [*faults, "pip itself is not listed"]


def agreement_faults(files):
    """conda's list is what the package, the notebooks and the tests need, with the same ranges."""
    wanted = for_conda(files["pyproject.toml"], *CLASSROOM)
    given = dict((line.split(maxsplit=1) + [""])[:2] for line in conda_lines(files["environment.yml"]))
    faults = [f"{name}: not for conda" for name in wanted.keys() - given.keys()]
    faults += [f"{name}: for conda only" for name in given.keys() - wanted.keys() - CONDA_ONLY]
    shared = wanted.keys() & given.keys()
    return faults + [
        f"{name}: {wanted[name]} or {given[name]}?" for name in shared if wanted[name] != given[name]
    ]


def binder_faults(files):
    """Binder gets what the package needs, PyTorch for CPUs, JupyterLab, figures; postBuild adds minispec."""
    binder = yaml.safe_load(files["binder/environment.yml"])["dependencies"]
    notebooks = requirements(files["pyproject.toml"], "notebooks")
    wanted = {f"{name} {spec}" for name, spec in for_conda(files["pyproject.toml"], None).items()}
    wanted = {line.replace("pytorch ", "pytorch-cpu ") for line in wanted} | {"pip"}
    wanted |= {
        f"{CONDA_NAMES.get(name, name)} {notebooks[name]}"
        for name in ("jupyterlab", "matplotlib", "ipykernel")
    }
    given = {item for item in binder if isinstance(item, str)}
    faults = [f"not for Binder: {line}" for line in wanted - given]
    faults += [f"for Binder only: {line}" for line in given - wanted]
    return faults + [f"{item}: postBuild installs the rest" for item in binder if not isinstance(item, str)]


def reason_faults(files):
    """CONTRIBUTING.md says of every package why it is here, and of no other."""
    table = files["CONTRIBUTING.md"].split("| package | why |\n|---|---|\n")[1].split("\n\n")[0]
    rows = [re.fullmatch(r"\| (.+?) \| (.+) \|", line) for line in table.splitlines()]
    given = [canonicalize_name(name) for row in rows for name in row[1].split(", ")]
    project = tomllib.loads(files["pyproject.toml"])["project"]
    wanted = set(requirements(files["pyproject.toml"], None, *project["optional-dependencies"]))
    faults = [f"{name}: no reason" for name in wanted - set(given)]
    faults += [f"{name}: not needed" for name in set(given) - wanted]
    return faults + [f"{name}: twice" for name in set(given) if given.count(name) > 1]


def pin_faults(files):
    """Everything that is installed is pinned to one version, inside its range; torch to the CPU build's."""
    found = pins(files["constraints.txt"])
    faults = [
        f"{pin}: not a pin" for pin in found.values() if not re.fullmatch(r"==[^*,]+", str(pin.specifier))
    ]
    faults += [] if str(found.get("torch")) == "torch==2.13.0" else ["torch is not pinned to 2.13.0"]
    extras = tomllib.loads(files["pyproject.toml"])["project"]["optional-dependencies"]
    for extra in (None, *extras):
        for name, specifier in requirements(files["pyproject.toml"], extra).items():
            if name not in found or not specifier.contains(str(found[name].specifier).removeprefix("==")):
                faults.append(f"{name}{specifier}: pinned to {found.get(name)}")
    return faults


def address_faults(files):
    """No list names an index or a host: where that is unreachable, an install would hang."""
    marks = ("://", "--index", "--extra-index", "--find-links")
    return [f"{name}: {mark}" for name in LISTS for mark in marks if mark in files[name]]


@pytest.fixture
def files():
    return {name: (ROOT / name).read_text(encoding="utf-8") for name in FILES}


CHECKS = [
    match_spec_faults,
    channel_faults,
    pip_faults,
    agreement_faults,
    binder_faults,
    reason_faults,
    pin_faults,
    address_faults,
]


@pytest.mark.parametrize("check", CHECKS)
def test_the_files_have_no_fault(check, files):
    assert check(files) == []


@pytest.mark.parametrize(
    ("check", "file", "old", "new"),
    [
        (match_spec_faults, "environment.yml", "numpy >=", "numpy >=>"),
        (match_spec_faults, "environment.yml", "numpy >=", "num$py >="),
        (match_spec_faults, "environment.yml", "  - pip\n", "  - pip\n  - pip\n"),
        (channel_faults, "environment.yml", "  - conda-forge\n", "  - pytorch\n  - conda-forge\n"),
        (channel_faults, "environment.yml", "  - conda-forge\n", "  - conda-forge\n  - defaults\n"),
        (channel_faults, "environment.yml", "- pytorch >=", "- pytorch::pytorch >="),
        (pip_faults, "environment.yml", "--no-deps -e .", "-e ."),
        (pip_faults, "environment.yml", "  - pip\n", ""),
        (agreement_faults, "environment.yml", "pytorch", "torch"),
        (agreement_faults, "environment.yml", "  - rich ", "  - rich-cli "),
        (agreement_faults, "environment.yml", "  - pip\n", "  - pip\n  - pandas\n"),
        (agreement_faults, "environment.yml", "pytorch >=2.9", "pytorch >=2.8"),
        (agreement_faults, "environment.yml", "python >=3.11", "python >=3.10"),
        (agreement_faults, "environment.yml", "  - jupyterlab >=4.2\n", ""),
        (agreement_faults, "environment.yml", "nbval >=0.11", "nbval >=0.10"),
        (agreement_faults, "pyproject.toml", '    "rich>=13.8",\n', ""),
        (channel_faults, "binder/environment.yml", "  - conda-forge\n", "  - defaults\n"),
        (binder_faults, "binder/environment.yml", "pytorch-cpu", "pytorch"),
        (binder_faults, "binder/environment.yml", "  - numpy >=1.26\n", ""),
        (binder_faults, "binder/environment.yml", "jupyterlab >=4.2", "jupyterlab >=4"),
        (binder_faults, "binder/environment.yml", "  - pip\n", "  - pip\n  - pip:\n      - pandas\n"),
        (binder_faults, "binder/environment.yml", "rich >=13.8", "rich >=14"),
        (binder_faults, "binder/environment.yml", "  - matplotlib-base >=3.8\n", ""),
        (reason_faults, "CONTRIBUTING.md", "| numpy |", "| scipy, numpy |"),
        (reason_faults, "CONTRIBUTING.md", "| numpy |", "| pandas |"),
        (reason_faults, "pyproject.toml", '    "rich>=13.8",\n', '    "rich>=13.8",\n    "pandas",\n'),
        (pin_faults, "constraints.txt", "torch==2.13.0\n", ""),
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


@pytest.mark.parametrize("file", LISTS)
def test_a_file_that_does_not_parse_is_an_error(file, files):
    with pytest.raises(Exception, match=r".+"):
        [check(files | {file: "[[ not: of any format\n"}) for check in CHECKS]


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
    """The package, what pip reads, what is cited, and the newest part of the changelog."""
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    parts = re.findall(r"^## (.+)$", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)
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
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert not any("matplotlib" in line for line in project["dependencies"])
