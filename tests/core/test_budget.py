"""The core stays small and stands alone: its files, its lines, and its imports, counted by reading it."""

import ast
import sys
from pathlib import Path

import pytest
from imports import imported

CORE = Path(__file__).resolve().parents[2] / "minispec" / "core"
MOST_FILES, MOST_CODE, MOST_LINES = 13, 900, 1_650
MOST_OF_ALL = 25_000  # lines of the whole package
MOST_BASIC, MOST_FUNCTION = 75, 15
WITH_DOCSTRING = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def sources(folder=CORE):
    """Returns the text of every Python file, by its path from the folder on."""
    found = sorted(folder.rglob("*.py"))
    return {path.relative_to(folder).as_posix(): path.read_text(encoding="utf-8") for path in found}


def code_lines(source):
    """Counts the lines that are neither blank, nor a comment, nor part of a docstring."""
    docstrings = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, WITH_DOCSTRING) and ast.get_docstring(node, clean=False) is not None:
            docstrings.update(range(node.body[0].lineno, node.body[0].end_lineno + 1))
    lines = enumerate(source.splitlines(), 1)
    return sum(
        bool(line.strip()) and not line.strip().startswith("#") and number not in docstrings
        for number, line in lines
    )


def size_faults(core):
    """Returns which of the three budgets the files exceed together."""
    counts = {
        "files": (len(core), MOST_FILES),
        "lines of code": (sum(map(code_lines, core.values())), MOST_CODE),
        "lines": (sum(len(source.splitlines()) for source in core.values()), MOST_LINES),
    }
    return [f"{count} {name}, at most {most}" for name, (count, most) in counts.items() if count > most]


def import_faults(source, allowed=("minispec.core", "torch")):
    """Returns what a source imports that is neither allowed, nor in the standard library."""
    names = [name for name in imported(source) if not any(f"{name}.".startswith(f"{a}.") for a in allowed)]
    return [name for name in names if name.split(".")[0] not in sys.stdlib_module_names]


def closure(start, package=CORE.parent):
    """Returns the files of the package that importing one of them reads, but for `minispec/__init__.py`."""
    found, waiting = set(), [start]
    while waiting:
        path = waiting.pop()
        if path in found or not path.is_file():
            continue
        found.add(path)
        for name in imported(path.read_text(encoding="utf-8")):
            parts = name.split(".")
            if parts[0] == package.name and len(parts) > 1:
                below = package.joinpath(*parts[1:])
                waiting += [below.with_suffix(".py"), below / "__init__.py"]
    return {path.relative_to(package).as_posix() for path in found}


def basic_faults(source):
    """Returns what `basic.py` has too much of: lines, lines of a function, imports."""
    lines = len(source.splitlines())
    faults = [f"{lines} lines, at most {MOST_BASIC}"] if lines > MOST_BASIC else []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            length = node.end_lineno - node.lineno + 1
            faults += [f"{node.name} has {length} lines"] if length > MOST_FUNCTION else []
    return faults + [name for name in imported(source) if name.split(".")[0] != "torch"]


def test_the_core_is_within_its_budget():
    """At most 13 files, 900 lines of code, and 1,650 lines with comments and docstrings."""
    assert size_faults(sources()) == []


def test_the_core_imports_itself_torch_and_the_standard_library():
    """Nothing else, in no file, wherever in it."""
    faults = {name: import_faults(source) for name, source in sources().items()}
    assert {name: found for name, found in faults.items() if found} == {}


def test_the_loop_is_reached_without_leaving_the_core():
    """All that importing `minispec.core.loop` reads of the package lies in the core."""
    found = closure(CORE / "loop.py")
    assert {name.split("/")[0] for name in found} == {"core"}
    assert {"core/loop.py", "core/verify.py", "core/model.py", "core/cache.py"} <= found


def test_basic_is_one_screen():
    """At most 75 lines, no function longer than 15, and nothing is imported but torch."""
    assert basic_faults(sources()["basic.py"]) == []


# Each guard finds what it is there for.


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ({f"part_{n}.py": "" for n in range(MOST_FILES)}, "files"),
        ({"longer.py": "x = 1\n" * (MOST_CODE + 1)}, "lines of code"),
        ({"wordy.py": "# so it is\n" * (MOST_LINES + 1)}, "lines"),
    ],
)
def test_a_core_that_grows_is_found(more, says):
    """One file, one line of code, one line too many."""
    (fault,) = (fault for fault in size_faults(sources() | more) if f" {says}," in fault)
    assert f"at most {MOST_FILES if says == 'files' else ''}" in fault


def test_budgets_are_met_exactly():
    """What is allowed passes, and one more of it does not."""
    files = {f"{n}.py": "" for n in range(MOST_FILES)}
    assert size_faults(files) == [] and size_faults(files | {"more.py": ""}) == ["14 files, at most 13"]
    assert size_faults({"a.py": "x = 1\n" * 900}) == []
    assert size_faults({"a.py": "x = 1\n" * 901}) == ["901 lines of code, at most 900"]
    assert size_faults({"a.py": "\n" * 1_650}) == []
    assert size_faults({"a.py": "\n" * 1_651}) == ["1651 lines, at most 1650"]


def test_lines_of_code_are_counted():
    """Docstrings, comments and blank lines are none; a string that is used, and each line of a call, are."""
    head = '"""One.\n\nTwo."""\n\nimport torch  # used\n\n# no\nx = """a\nb"""\n\n\n'
    source = head + 'def f():\n    """No."""\n    return (\n        1\n    )\n'
    assert code_lines(source) == 7


@pytest.mark.parametrize(
    "source",
    [
        "import numpy",
        "import minispec",
        "from minispec import rules",
        "from minispec.rules.coupled import KeyedRng",
        "def f():\n    from minispec.native import model",
        "from minispec.corelike import x",
        "from . import warp",
        "import torchvision",
    ],
)
def test_an_import_from_outside_is_found(source):
    """Other packages and other parts of this one, in whatever form and place."""
    assert import_faults(source)


def test_imports_that_are_allowed_are_no_fault():
    """The core, torch and the standard library pass."""
    source = "import math\nimport torch.nn.functional as F\nfrom torch import nn\n"
    assert import_faults(source + "from minispec.core.warp import Warp") == []


def test_a_way_out_of_the_core_is_found(tmp_path):
    """A file of the core that imports another part, three imports away from where one begins."""
    for name, source in {
        "core/loop.py": "from minispec.core.verify import rule",
        "core/verify.py": "from minispec.core import helper",
        "core/helper.py": "def f():\n    import minispec.native.model",
        "native/model.py": "from minispec.core.loop import speculate",
        "native/other.py": "",
    }.items():
        path = tmp_path / "minispec" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(source)
    found = closure(tmp_path / "minispec/core/loop.py", tmp_path / "minispec")
    assert found == {"core/loop.py", "core/verify.py", "core/helper.py", "native/model.py"}


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ("\n" * 75, "lines, at most 75"),
        ("def longer():\n" + "    x = 1\n" * 15, "longer has 16 lines"),
        ("import math", "math"),
        ("from minispec.core.warp import Warp", "minispec.core.warp"),
    ],
)
def test_a_basic_that_grows_is_found(more, says):
    """A line, a line of a function, an import too many."""
    assert any(says in fault for fault in basic_faults(sources()["basic.py"] + more))
    assert basic_faults("import torch\n\n\ndef f():\n" + "    x = 1\n" * 14) == []


def test_the_package_stays_small():
    """All that stands around the core, too: who adds something looks for what can go."""
    assert sum(len(source.splitlines()) for source in sources(CORE.parent).values()) <= MOST_OF_ALL
