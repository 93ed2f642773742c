"""Every public name of the package says what it is, and the shape of every tensor that goes in or comes out.

The sources are parsed, not imported: what stands in a file is what is judged.
"""

import ast
import re
from pathlib import Path

import pytest

import minispec

PACKAGE = Path(minispec.__file__).parent
FILES = sorted(PACKAGE.rglob("*.py"))
# A dimension is B, n, K+1, head_dim, V^i, 2 or …; a shape is [], [B] or [B, K+1, V].
DIMENSION = r"(?:\.\.\.|…|\*?[\w()]+(?: ?[-+−·*/^] ?[\w()]+)*)"
SHAPE = re.compile(rf"\[(?:{DIMENSION}(?:, {DIMENSION})*)?\]")
TENSOR = re.compile(r"\bTensor\b")


def faults(source, name):
    """Returns a line for every docstring, and every shape, that is missing from a module."""
    tree = ast.parse(source)
    found = [] if ast.get_docstring(tree) else [f"{name}: no docstring"]
    return found + [fault for node in tree.body for fault in faults_of(node, name)]


def faults_of(node, name):
    if not isinstance(node, ast.FunctionDef | ast.ClassDef) or is_private(node.name):
        return []
    name = f"{name}.{node.name}"
    said = ast.get_docstring(node)
    found = []
    if said is None and not is_special(node.name):
        found.append(f"{name}: no docstring")
    elif said is not None and handles_tensors(node) and not SHAPE.search(said):
        found.append(f"{name}: tensors without a shape")
    if isinstance(node, ast.ClassDef):
        found += [fault for inner in node.body for fault in faults_of(inner, name)]
    return found


def is_private(name):
    return name.startswith("_") and not name.startswith("__")


def is_special(name):
    """Whether Python gives a name its meaning, such as __len__; __call__ means what its class makes of it."""
    return name.startswith("__") and name != "__call__"


def handles_tensors(node):
    """Whether a parameter, a result, or a field of a record is annotated with Tensor."""
    if isinstance(node, ast.ClassDef):
        annotations = [field.annotation for field in node.body if isinstance(field, ast.AnnAssign)]
    else:
        taken = node.args
        every = [*taken.posonlyargs, *taken.args, *taken.kwonlyargs, taken.vararg, taken.kwarg]
        annotations = [a.annotation for a in every if a is not None and a.annotation] + [node.returns]
    return any(TENSOR.search(ast.unparse(annotation)) for annotation in annotations if annotation)


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_everything_public_says_what_it_is(path):
    module = ".".join(("minispec", *path.relative_to(PACKAGE).with_suffix("").parts))
    assert faults(path.read_text(encoding="utf-8"), module) == []


GOOD = '''"""A module."""
from torch import Tensor


class Draft:
    """Tokens [B, K] with distributions [B, K, V]."""

    tokens: Tensor

    def row(self, at: int) -> Tensor:
        """Returns one row: [K]."""

    @property
    def width(self) -> int:
        """K."""

    def __len__(self) -> int:
        return 0

    def __call__(self, x: Tensor) -> Tensor:
        """Maps [..., D] to [V^(i+1), 2 · D]."""

    def _own(self, x: Tensor):
        pass
'''


def test_a_good_module_has_no_fault():
    assert faults(GOOD, "m") == []


@pytest.mark.parametrize(
    ("old", "new", "fault"),
    [
        ('"""A module."""', "", "m: no docstring"),
        ('    """Tokens [B, K] with distributions [B, K, V]."""\n', "", "m.Draft: no docstring"),
        ("[B, K] with distributions [B, K, V]", "with distributions", "m.Draft: tensors without a shape"),
        ("one row: [K]", "one row [of all rows]", "m.Draft.row: tensors without a shape"),
        ('"""K."""', "...", "m.Draft.width: no docstring"),
        ('"""Maps [..., D] to [V^(i+1), 2 · D]."""', "...", "m.Draft.__call__: no docstring"),
        ("Maps [..., D] to [V^(i+1), 2 · D]", "Maps", "m.Draft.__call__: tensors without a shape"),
    ],
)
def test_a_planted_fault_is_found(old, new, fault):
    assert old in GOOD
    assert faults(GOOD.replace(old, new), "m") == [fault]
