"""The core stands alone, and all folders stay small: imports and tokens of code, counted by reading them."""

import ast
import io
import sys
import tokenize
from pathlib import Path

import pytest
from imports import imported

CORE = Path(__file__).resolve().parents[2] / "minispec" / "core"
ROOT = CORE.parents[1]
# Tokens of code (names, numbers, operators, strings), which packing lines cannot lower. A tenth is slack.
BUDGETS = {"minispec/core": 10_400, "minispec": 190_700, "tests": 262_000, "docs": 35_700}
SLACK = 1.1
MOST_BASIC, MOST_FUNCTION = 75, 15
NO_CODE = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
}


def sources(folder=CORE):
    """Returns the text of every Python file, by its path from the folder on."""
    found = sorted(folder.rglob("*.py"))
    return {path.relative_to(folder).as_posix(): path.read_text(encoding="utf-8") for path in found}


def docstring_lines(source):
    """Returns the numbers of the lines on which a string stands that nothing uses."""
    lines = set()
    for node in ast.walk(ast.parse(source)):
        if (
            isinstance(node, ast.Expr)
            and isinstance(node.value, ast.Constant)
            and isinstance(node.value.value, str)
        ):
            lines.update(range(node.lineno, node.end_lineno + 1))
    return lines


def code_tokens(source):
    """Counts the names, numbers, operators and strings that are neither comment nor docstring."""
    docstrings = docstring_lines(source)
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    return sum(token.type not in NO_CODE and token.start[0] not in docstrings for token in tokens)


def size_faults(sizes, budgets):
    """Returns which folders have more tokens of code than their budget and a tenth."""
    faults = []
    for folder, budget in budgets.items():
        most = int(budget * SLACK)
        if sizes[folder] > most:
            faults.append(
                f"{folder} has {sizes[folder]:,} tokens of code, at most {most:,}: "
                f"look for a file, a test or a function to delete, or for a library that has it"
            )
    return faults


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


@pytest.mark.parametrize("folder", BUDGETS)
def test_each_folder_is_within_its_budget(folder):
    """The core, the package, tests and the book: who adds something looks for what can go."""
    sizes = {folder: sum(map(code_tokens, sources(ROOT / folder).values()))}
    assert size_faults(sizes, {folder: BUDGETS[folder]}) == []


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


def test_a_folder_that_grows_is_found():
    """A tenth more than its budget passes, and a token more than that does not."""
    assert size_faults({"a": 110}, {"a": 100}) == []
    (fault,) = size_faults({"a": 111, "b": 1}, {"a": 100, "b": 1})
    assert fault.startswith("a has 111 tokens of code, at most 110: look for")


def test_tokens_of_code_are_counted():
    """Docstrings, comments and layout are none; the same code in fewer lines has as many."""
    head = '"""One.\n\nTwo."""\n\nimport torch  # used\n\n# no\nx = """a\nb"""\n\n\n'
    source = head + 'def f():\n    """No."""\n    return (\n        1\n    )\n'
    assert code_tokens(source) == 2 + 3 + 5 + 4
    assert code_tokens("x = 1\ny = 2\n") == 6 < code_tokens("x, y = 1, 2\n") == 7


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
