"""Every public name of the package says the shape of every tensor that goes in or comes out.

That it says what it is, ruff asks (rules D). For this the sources are parsed, not imported: what stands in a
file is what is judged. Signatures are judged as the book prints them.
"""

import ast
import re
from pathlib import Path

import pytest
from api_pages import without_options
from sphinx.util.inspect import signature, stringify_signature

import minispec
from minispec.cli.main import app

PACKAGE = Path(minispec.__file__).parent
FILES = sorted(PACKAGE.rglob("*.py"))
# A dimension is B, n, K+1, head_dim, V^i, 2 or …; a shape is [], [B] or [B, K+1, V].
DIMENSION = r"(?:\.\.\.|…|\*?[\w()]+(?: ?[-+−·*/^] ?[\w()]+)*)"
SHAPE = re.compile(rf"\[(?:{DIMENSION}(?:, {DIMENSION})*)?\]")
TENSOR = re.compile(r"\bTensor\b")


def shapeless(source):
    """Returns the public names of a module that have to do with tensors, and say nothing of a shape."""
    nodes = public(ast.parse(source))
    return [n.name for n in nodes if handles_tensors(n) and not SHAPE.search(ast.get_docstring(n) or "[]")]


def public(node):
    """Yields the public functions and classes of a module, and those of its public classes."""
    for inner in node.body:
        if isinstance(inner, ast.FunctionDef | ast.ClassDef) and not re.match("_(?!_)", inner.name):
            yield inner
            if isinstance(inner, ast.ClassDef):
                yield from public(inner)


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
def test_tensors_have_shapes(path):
    assert shapeless(path.read_text(encoding="utf-8")) == []


GOOD = '''"""A module."""
from torch import Tensor


class Draft:
    """Tokens [B, K] with distributions [B, K, V]."""

    tokens: Tensor

    def row(self, at: int) -> Tensor:
        """Returns one row: [K]."""

    def __call__(self, x: Tensor) -> Tensor:
        """Maps [..., D] to [V^(i+1), 2 · D]."""

    def _own(self, x: Tensor):
        """Its own."""
'''


@pytest.mark.parametrize(
    ("old", "new", "name"),
    [
        ("[B, K] with distributions [B, K, V]", "with distributions", "Draft"),
        ("one row: [K]", "one row [of all rows]", "row"),
        ("Maps [..., D] to [V^(i+1), 2 · D]", "Maps", "__call__"),
    ],
)
def test_a_planted_fault_is_found(old, new, name):
    assert shapeless(GOOD) == []
    assert shapeless(GOOD.replace(old, new)) == [name]


def test_signatures_of_commands_hold_no_addresses():
    """What Typer says of an argument is an object, which another build of the book would print otherwise."""
    written = [stringify_signature(signature(command.callback)) for command in app.registered_commands]
    shown = [without_options(*[None] * 5, text, None)[0] for text in written]
    assert "<typer" in "".join(written) and "<typer" not in "".join(shown)
